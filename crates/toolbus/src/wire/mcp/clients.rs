//! The configs of MCP clients: `mcpServers` of Claude Code, Claude Desktop, Cursor and Gemini CLI,
//! `servers` of VS Code, and `mcp_servers` of Codex.

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use crate::child::words;
use crate::did_you_mean::nearest;
use crate::wire::clients::{
    ClientConfigError, ClientConfigs, ClientPeer, ClientPlace, Surroundings, back_name,
};

/// The configs of MCP clients, for the registry.
pub(super) struct McpClients;

impl ClientConfigs for McpClients {
    fn places(&self, surroundings: &Surroundings<'_>) -> Vec<ClientPlace> {
        let here = [
            ("Claude Code", ".mcp.json"),
            ("Cursor", ".cursor/mcp.json"),
            ("VS Code", ".vscode/mcp.json"),
            ("Gemini CLI", ".gemini/settings.json"),
        ];
        let home = [
            ("Claude Code", ".claude.json"),
            ("Claude Desktop", ".config/Claude/claude_desktop_config.json"),
            ("Claude Desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
            ("Cursor", ".cursor/mcp.json"),
            ("VS Code", ".config/Code/User/mcp.json"),
            ("VS Code", "Library/Application Support/Code/User/mcp.json"),
            ("Codex", ".codex/config.toml"),
            ("Gemini CLI", ".gemini/settings.json"),
        ];
        let at = |folder: &std::path::Path, places: &[(&'static str, &str)]| -> Vec<ClientPlace> {
            let place = |(client, path): &(&'static str, &str)| ClientPlace {
                client,
                path: folder.join(path),
            };
            places.iter().map(place).collect()
        };
        let mut places = at(surroundings.here, &here);
        if let Some(folder) = surroundings.home.filter(|home| *home != surroundings.here) {
            places.extend(at(folder, &home));
        }
        places
    }

    fn hint(&self) -> &'static str {
        "they stand in `mcpServers`, in `servers`, or in `[mcp_servers.NAME]`"
    }

    fn read(
        &self,
        text: &str,
        surroundings: &Surroundings<'_>,
    ) -> Result<Option<Vec<ClientPeer>>, ClientConfigError> {
        let config = match text.trim_start().starts_with('{') {
            true => json(text)?,
            false => toml(text)?,
        };
        let mut servers = Vec::new();
        for at in ["/mcpServers", "/servers", "/mcp/servers", "/mcp_servers"] {
            if let Some(Value::Object(found)) = config.pointer(at) {
                servers.push(found);
            }
        }
        // What Claude Code has for one folder alone.
        let here = surroundings.here.to_string_lossy();
        let project = config.get("projects").and_then(|projects| projects.get(here.as_ref()));
        if let Some(Value::Object(found)) = project.and_then(|project| project.get("mcpServers")) {
            servers.push(found);
        }
        if servers.is_empty() {
            return Ok(None);
        }
        let mut taken = Vec::new();
        let mut peers = Vec::new();
        for (name, server) in servers.into_iter().flatten() {
            let name = back_name(name, &taken);
            taken.push(name.clone());
            if let Value::Object(server) = server {
                peers.push(Server { server, surroundings }.peer(name).checked());
            }
        }
        Ok(Some(peers))
    }
}

/// What a config says about one server.
struct Server<'a> {
    server: &'a Map<String, Value>,
    surroundings: &'a Surroundings<'a>,
}

impl Server<'_> {
    fn peer(&self, name: String) -> ClientPeer {
        let mut peer = ClientPeer { name, ..ClientPeer::default() };
        let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|key| self.text(key));
        match (self.text("command"), url) {
            (Some(command), _) => {
                let args = self.texts("args");
                let words = std::iter::once(&command).chain(&args);
                let words: Vec<_> = words.map(|word| words::quoted(&self.resolved(word))).collect();
                peer.connect = format!("mcp+stdio:{}", words.join(" "));
                peer.env = self.pairs("env");
                peer.env_pass = self.texts("env_vars");
                peer.cwd = self.text("cwd").map(|cwd| self.resolved(&cwd));
                if command.rsplit('/').next() == Some("toolbus") {
                    peer.left_out = Some("it is toolbus itself".to_owned());
                }
                if let Some(file) = self.text("envFile") {
                    peer.notes
                        .push(format!("its variables of `{file}` are not read: put them here"));
                }
            }
            (None, Some(url)) => {
                peer.connect = self.resolved(&url);
                peer.headers = [self.pairs("headers"), self.pairs("http_headers")].concat();
                let from_env = self.pairs("env_http_headers").into_iter();
                let from_env = from_env.map(|(name, variable)| (name, format!("${{{variable}}}")));
                peer.headers.extend(from_env);
                peer.token_env = self.text("bearer_token_env_var");
                if self.text("type").or_else(|| self.text("transport")).as_deref() == Some("sse") {
                    peer.connect = as_pair(&peer.connect);
                }
            }
            (None, None) => peer.left_out = Some(self.unreachable()),
        }
        let is = |key: &str, value: bool| self.server.get(key) == Some(&Value::Bool(value));
        if is("disabled", true) || is("enabled", false) {
            peer.left_out = Some("it is switched off where it comes from".to_owned());
        }
        if peer.connect.contains("${") {
            let note = "what stands in `${…}` is not known here: write what it should be";
            peer.notes.push(note.to_owned());
        }
        peer
    }

    /// Why it cannot be reached that has neither a command nor a URL.
    fn unreachable(&self) -> String {
        let why = "it has neither a command nor a URL";
        let meant = |key: &String| {
            let meant = nearest(key, ["command", "url"])?;
            Some(format!("{why}; did you mean `{meant}` where it says `{key}`?"))
        };
        self.server.keys().find_map(meant).unwrap_or_else(|| why.to_owned())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.server.get(key)?.as_str().map(str::to_owned)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let texts = self.server.get(key).and_then(Value::as_array);
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        texts.into_iter().flatten().filter_map(text).collect()
    }

    /// Names and values, in which `${NAME}` stays: our own config knows it too.
    fn pairs(&self, key: &str) -> Vec<(String, String)> {
        let pairs = self.server.get(key).and_then(Value::as_object);
        let pair = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::String(text) => self.renamed(text),
                Value::Null => return None,
                other => other.to_string(),
            };
            Some((name.clone(), value))
        };
        pairs.into_iter().flatten().filter_map(pair).collect()
    }

    /// With the variables as our own config writes them.
    fn renamed(&self, text: &str) -> String {
        replaced(text, |name| match name.split_once(":-") {
            Some((name, default)) => Some(match (self.surroundings.env)(name) {
                Some(_) => format!("${{{name}}}"),
                None => default.to_owned(),
            }),
            None => self.place(name).or_else(|| match name.split_once(':') {
                Some(("env", name)) => Some(format!("${{{name}}}")),
                // What an editor asks its user for.
                Some(("input", id)) => Some(format!("${{{}}}", variable_name(id))),
                _ => None,
            }),
        })
    }

    /// With the values of the variables, as far as they are known.
    fn resolved(&self, text: &str) -> String {
        let text = self.renamed(text);
        replaced(&text, |name| (self.surroundings.env)(name))
    }

    /// The folders that editors have names for.
    fn place(&self, name: &str) -> Option<String> {
        let folder = match name {
            "workspaceFolder" | "workspaceRoot" => Some(self.surroundings.here),
            "userHome" => self.surroundings.home,
            _ => None,
        };
        folder.map(|folder| folder.display().to_string())
    }
}

/// With each `${…}` that `replace` knows replaced.
fn replaced(text: &str, replace: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        out.push_str(before);
        let Some((name, behind)) = behind.split_once('}') else {
            rest = &rest[before.len()..];
            break;
        };
        match replace(name) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&format!("${{{name}}}")),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// The URL of a server of the old HTTP+SSE as our addresses have it.
fn as_pair(url: &str) -> String {
    match url.split_once("://") {
        Some(("https", rest)) => format!("mcp+sses://{rest}"),
        Some(("http", rest)) => format!("mcp+sse://{rest}"),
        _ => url.to_owned(),
    }
}

/// `api-key` as a variable is called.
fn variable_name(id: &str) -> String {
    let spelled = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    id.chars().map(spelled).collect()
}

/// JSON, in which editors allow comments and a comma too many.
fn json(text: &str) -> Result<Value, ClientConfigError> {
    serde_json::from_str(text).or_else(|error| {
        let wrong = |_| ClientConfigError::Syntax { form: "JSON", why: error.to_string() };
        serde_json::from_str(&without_comments(text)).map_err(wrong)
    })
}

/// The text without what editors allow besides JSON.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
                continue;
            }
            '}' | ']' => {
                let kept = out.trim_end();
                if let Some(before) = kept.strip_suffix(',') {
                    out.truncate(before.len());
                }
                1
            }
            other => other.len_utf8(),
        };
        let (taken, behind) = rest.split_at(length);
        out.push_str(taken);
        rest = behind;
    }
    out
}

/// How long the string is that the text begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return at + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// TOML as a JSON value, as far as configs of servers need it.
fn toml(text: &str) -> Result<Value, ClientConfigError> {
    let table = DeTable::parse(text).map_err(|error| ClientConfigError::Syntax {
        form: "TOML",
        why: error.message().to_owned(),
    })?;
    Ok(of_table(table.get_ref()))
}

fn of_table(table: &DeTable<'_>) -> Value {
    let member = |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &_)| {
        let value: &toml::Spanned<DeValue<'_>> = value;
        (key.get_ref().to_string(), of_value(value.get_ref()))
    };
    Value::Object(table.iter().map(member).collect())
}

fn of_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(value) => Value::from(*value),
        DeValue::Array(array) => array.iter().map(|value| of_value(value.get_ref())).collect(),
        DeValue::Table(table) => of_table(table),
        // Numbers and times are settings of the client's own.
        DeValue::Integer(number) => Value::from(number.as_str()),
        DeValue::Float(number) => Value::from(number.as_str()),
        DeValue::Datetime(time) => Value::from(time.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check(text: &str, expect: Expect) {
        let surroundings = Surroundings {
            home: Some(Path::new("/home/u")),
            here: Path::new("/work"),
            env: &|name| (name == "SET").then(|| "its value".to_owned()),
        };
        let read = McpClients.read(text, &surroundings);
        let text = match read {
            Ok(None) => "no config of a client\n".to_owned(),
            Ok(Some(peers)) => peers.iter().map(ClientPeer::to_toml).collect(),
            Err(error) => format!("it {error}\n"),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn servers_of_claude_cursor_and_gemini() {
        check(
            r#"{"theme": "dark", "mcpServers": {
                "every thing": {"command": "npx", "args": ["-y", "@scope/server", "a b", "it's", ""]},
                "env": {"command": "s", "env": {"A": "${SET}", "B-C": "x\"y"}, "cwd": "${workspaceFolder}/x"},
                "far": {"type": "http", "url": "https://h.example/mcp?key=${SET}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                "gemini": {"httpUrl": "http://h/mcp", "timeout": 5000},
                "off": {"command": "s", "disabled": true},
                "old": {"type": "sse", "url": "https://h/sse"},
                "wrong": {"url": "ftp://h"},
                "toolbus": {"command": "/usr/bin/toolbus", "args": ["mcp"]},
                "default": {"command": "${SET:-a}", "args": ["${UNSET:-b c}", "${UNSET}"]}
            }}"#,
            expect![[r#"
                [back.every-thing]
                connect = "mcp+stdio:npx -y @scope/server 'a b' 'it'\\''s' ''"
                [back.env]
                connect = "mcp+stdio:s"
                env = { A = "${SET}", B-C = "x\"y" }
                cwd = "/work/x"
                # Left out: `https://h.example/mcp?key=***` is no address: blanks cannot stand in it; write them as `%20`
                # [back.far]
                # connect = "https://h.example/mcp?key=its value"
                # headers = { Authorization = "Bearer ${TOKEN}" }
                [back.gemini]
                connect = "http://h/mcp"
                # Left out: it is switched off where it comes from
                # [back.off]
                # connect = "mcp+stdio:s"
                [back.old]
                connect = "mcp+sses://h/sse"
                # Left out: unsupported connection scheme: "ftp://h"
                # [back.wrong]
                # connect = "ftp://h"
                # Left out: it is toolbus itself
                # [back.server]
                # connect = "mcp+stdio:/usr/bin/toolbus mcp"
                # what stands in `${…}` is not known here: write what it should be
                [back.default]
                connect = "mcp+stdio:'its value' 'b c' '${UNSET}'"
            "#]],
        );
    }

    #[test]
    fn servers_of_vs_code_with_comments() {
        check(
            r#"{
                // Asked for once.
                "inputs": [{"id": "api-key", "type": "promptString",},],
                "servers": {
                    "a": {"command": "s", "args": ["//no comment", "\"/*"], "env": {"K": "${input:api-key}", "L": "${env:L}"}}, /* the last */
                }
            }"#,
            expect![[r#"
                [back.a]
                connect = "mcp+stdio:s '//no comment' '\"/*'"
                env = { K = "${API_KEY}", L = "${L}" }
            "#]],
        );
    }

    #[test]
    fn servers_of_codex() {
        check(
            "model = \"x\"\n[mcp_servers.a]\ncommand = \"s\"\nargs = [\"1\"]\nenv_vars = [\"K\"]\nstartup_timeout_sec = 20\n\
             [mcp_servers.b]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"T\"\nenv_http_headers = { X = \"Y\" }\n\
             [mcp_servers.c]\ncommand = \"s\"\nenabled = false\n",
            expect![[r#"
                [back.a]
                connect = "mcp+stdio:s 1"
                env_pass = ["K"]
                [back.b]
                connect = "https://h/mcp"
                headers = { X = "${Y}" }
                token_env = "T"
                # Left out: it is switched off where it comes from
                # [back.c]
                # connect = "mcp+stdio:s"
            "#]],
        );
    }

    #[test]
    fn what_is_no_config_of_a_client() {
        check(
            "{}",
            expect![[r#"
            no config of a client
        "#]],
        );
        check(
            "[back.x]\nconnect = \"builtin:\"",
            expect![[r#"
            no config of a client
        "#]],
        );
        check(
            "{,",
            expect![[r#"
            it is not JSON: key must be a string at line 1 column 2
        "#]],
        );
        check(
            "a = ",
            expect![[r#"
            it is not TOML: string values must be quoted, expected literal string
        "#]],
        );
    }
}
