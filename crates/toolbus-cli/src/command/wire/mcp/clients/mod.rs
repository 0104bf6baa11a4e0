//! The configs of MCP clients: `mcpServers` of Claude Code, Claude Desktop, Cursor, Gemini CLI,
//! Windsurf, Cline, Continue and Junie, `servers` of VS Code, `context_servers` of Zed, `mcp` of
//! opencode, and `mcp_servers` of Codex.

mod linked;
mod server;
mod text;
mod yaml;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use self::server::{Dialect, Server};
use crate::clients::{
    ClientConfigError, ClientConfigs, ClientPeer, ClientPlace, Linkable, Surroundings, back_name,
};

/// The configs of MCP clients, for the registry.
pub(super) struct McpClients;

const HERE: [(&str, &str); 6] = [
    ("Claude Code", ".mcp.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".vscode/mcp.json"),
    ("Gemini CLI", ".gemini/settings.json"),
    ("Junie", ".junie/mcp/mcp.json"),
    ("opencode", "opencode.json"),
];

const HOME: [(&str, &str); 15] = [
    ("Claude Code", ".claude.json"),
    ("Claude Desktop", ".config/Claude/claude_desktop_config.json"),
    ("Claude Desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".config/Code/User/mcp.json"),
    ("VS Code", "Library/Application Support/Code/User/mcp.json"),
    ("Codex", ".codex/config.toml"),
    ("Gemini CLI", ".gemini/settings.json"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json"),
    ("Zed", ".config/zed/settings.json"),
    (
        "Cline",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    ),
    (
        "Cline",
        "Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    ),
    ("opencode", ".config/opencode/opencode.json"),
    ("Junie", ".junie/mcp/mcp.json"),
    ("Continue", ".continue/config.yaml"),
];

/// Continue reads every file here.
const CONTINUE: &str = ".continue/mcpServers";

impl ClientConfigs for McpClients {
    fn places(&self, surroundings: &Surroundings<'_>) -> Vec<ClientPlace> {
        let at = |folder: &Path, places: &[(&'static str, &str)]| -> Vec<ClientPlace> {
            let place = |(client, path): &(&'static str, &str)| ClientPlace {
                client,
                path: found_at(folder, path, surroundings),
            };
            let several = all_in(&folder.join(CONTINUE)).into_iter();
            let several = several.map(|path| ClientPlace { client: "Continue", path });
            places.iter().map(place).chain(several).collect()
        };
        let mut places = at(surroundings.here, &HERE);
        if let Some(folder) = surroundings.home.filter(|home| *home != surroundings.here) {
            places.extend(at(folder, &HOME));
        }
        places
    }

    fn linked(&self, surroundings: &Surroundings<'_>) -> Vec<Linkable> {
        linked::all(surroundings)
    }

    fn hint(&self) -> &'static str {
        "they stand in `mcpServers`, in `servers`, in `context_servers`, in `mcp`, or in \
         `[mcp_servers.NAME]`"
    }

    fn read(
        &self,
        path: &Path,
        text: &str,
        surroundings: &Surroundings<'_>,
    ) -> Result<Option<Vec<ClientPeer>>, ClientConfigError> {
        let is_json = text.trim_start().starts_with(['{', '/']);
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let config = match (is_json, is_yaml) {
            (true, _) => text::json(text)?,
            (false, true) => yaml::config(text)?,
            (false, false) => text::toml(text)?,
        };
        let mut servers = Vec::new();
        for at in ["/mcpServers", "/servers", "/mcp/servers", "/mcp_servers", "/context_servers"] {
            if let Some(Value::Object(found)) = config.pointer(at) {
                servers.push(found);
            }
        }
        // Other clients have settings there.
        if let Some(Value::Object(found)) = config.get("mcp")
            && !found.get("servers").is_some_and(Value::is_object)
            && found.values().any(is_server)
        {
            servers.push(found);
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
        let inputs = config.get("inputs").or_else(|| config.pointer("/mcp/inputs"));
        let inputs = inputs.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let dialect = Dialect::of(path, is_json || is_yaml);
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut taken = Vec::new();
        let mut peers = Vec::new();
        for (called, server) in servers.into_iter().flatten() {
            let name = back_name(called, &taken);
            taken.push(name.clone());
            if let Value::Object(server) = server {
                let server = Server { server, inputs, dialect, folder, surroundings };
                peers.push(server.peer(name, called).checked());
            }
        }
        Ok(Some(peers))
    }
}

/// Does a value of opencode's `mcp` tell of a server?
fn is_server(value: &Value) -> bool {
    value.get("command").or_else(|| value.get("url")).is_some()
}

/// Where a client has its file: `.config` may be elsewhere, and opencode has two names for its own.
fn found_at(folder: &Path, path: &str, surroundings: &Surroundings<'_>) -> PathBuf {
    let elsewhere = path.strip_prefix(".config/").and_then(|below| {
        let folder = (surroundings.env)("XDG_CONFIG_HOME").map(PathBuf::from)?;
        folder.is_absolute().then(|| folder.join(below))
    });
    let found = elsewhere.unwrap_or_else(|| folder.join(path));
    let with_comments = found.with_extension("jsonc");
    match path.ends_with("opencode.json") && !found.exists() && with_comments.exists() {
        true => with_comments,
        false => found,
    }
}

/// The JSON files in a folder, by name.
fn all_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expect: Expect) {
        check_at("mcp.json", text, expect);
    }

    /// The same of a config of this name.
    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check_at(path: &str, text: &str, expect: Expect) {
        let surroundings = Surroundings {
            home: Some(Path::new("/home/u")),
            here: Path::new("/work"),
            env: &|name| (name == "SET").then(|| "its value".to_owned()),
        };
        let read = McpClients.read(Path::new(path), text, &surroundings);
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
            expect![[r##"
                # its client calls it `every thing`
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
                timeout = "5s"
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
            "##]],
        );
    }

    #[test]
    fn what_clients_limit_is_kept_or_told() {
        check_at(
            "home/.gemini/settings.json",
            r#"{"mcp": {"allowed": ["a"]}, "mcpServers": {
                "file system": {"command": "s", "includeTools": ["read", "write(x)", "list"], "excludeTools": ["list"], "timeout": 120000, "trust": true},
                "all": {"command": "s", "excludeTools": ["drop"], "timeout": 1500, "description": "its secret",
                    "env": {"A": "$KEY/x", "B": "${KEY}$", "C": "$5"}},
                "none": {"url": "http://h/mcp", "includeTools": [], "excludeTools": [], "timeout": 0, "trust": false}
            }}"#,
            expect![[r##"
                # its client calls it `file system`
                # Not taken over: `trust`: toolbus asks nobody before a call
                [back.file-system]
                connect = "mcp+stdio:s"
                allow = ["read", "write"]
                timeout = "2m"
                # Not taken over: `excludeTools`: name by `allow` what may be called, which is all now
                # Not taken over: `description`
                [back.all]
                connect = "mcp+stdio:s"
                timeout = "1500ms"
                env = { A = "${KEY}/x", B = "${KEY}$", C = "$5" }
                # Not taken over: `timeout`
                # Not taken over: `trust`: toolbus asks nobody before a call
                [back.none]
                connect = "http://h/mcp"
                allow = []
            "##]],
        );
        check_at(
            "a/cline_mcp_settings.json",
            r#"{"mcpServers": {"a": {"type": "streamableHttp", "url": "http://h/mcp", "timeout": 60, "autoApprove": ["x"], "disabled": false, "disabledTools": ["y"]}}}"#,
            expect![[r##"
                # Not taken over: `autoApprove`: toolbus asks nobody before a call
                # Not taken over: `disabledTools`: name by `allow` what may be called, which is all now
                [back.a]
                connect = "http://h/mcp"
                timeout = "1m"
            "##]],
        );
        check(
            "[mcp_servers.a]\ncommand = \"s\"\nstartup_timeout_sec = 2.5\ntool_timeout_sec = 90\n\
             enabled_tools = [\"x\", \"y\"]\ndisabled_tools = [\"y\"]\nrequired = true\ntimeout = 3\n\
             [mcp_servers.b]\ncommand = \"s\"\nstartup_timeout_ms = 30000\ndisabled_tools = [\"y\"]\ntool_timeout_sec = 1e300\n",
            expect![[r##"
                # Not taken over: `required`
                # Not taken over: `timeout`
                [back.a]
                connect = "mcp+stdio:s"
                allow = ["x"]
                timeout = "90s"
                start_timeout = "2500ms"
                # Not taken over: `disabled_tools`: name by `allow` what may be called, which is all now
                # Not taken over: `tool_timeout_sec`
                [back.b]
                connect = "mcp+stdio:s"
                start_timeout = "30s"
            "##]],
        );
    }

    #[test]
    fn servers_of_continue() {
        check_at(
            ".continue/config.yaml",
            "name: mine\nmcpServers:\n  - name: my files\n    command: npx\n    args: [\"-y\", files, 7]\n    env: &env\n      KEY: ${{ secrets.KEY }}/x\n      N: 1\n  - name: far\n    type: sse\n    url: https://h/sse # c\n  - name: again\n    command: s\n    env: *env\n    connectionTimeout: 5\n  - {command: nameless}\nmodels: []\n",
            expect![[r#"
                # its client calls it `my files`
                [back.my-files]
                connect = "mcp+stdio:npx -y files 7"
                env = { KEY = "${KEY}/x", N = "1" }
                [back.far]
                connect = "mcp+sses://h/sse"
                # Not taken over: `connectionTimeout`
                [back.again]
                connect = "mcp+stdio:s"
                env = { KEY = "${KEY}/x", N = "1" }
            "#]],
        );
        check_at(
            "config.yaml",
            "mcpServers: [",
            expect![[r#"
                it is not YAML: line 2: while parsing a node, did not find expected node content
            "#]],
        );
        check_at(
            "config.yaml",
            "models: []\n",
            expect![[r#"
            no config of a client
        "#]],
        );
    }

    #[test]
    fn servers_of_zed_and_opencode() {
        check(
            r#"// Zed
            {"context_servers": {
                "new": {"source": "custom", "command": "s", "args": ["1"], "env": {"A": "b"}},
                "old": {"command": {"path": "s", "args": ["2"], "env": {"A": "c"}}, "settings": {}},
                "far": {"url": "https://h/mcp", "headers": {"A": "b"}},
                "extension": {"source": "extension", "settings": {"key": "k"}}
            }}"#,
            expect![[r#"
                [back.new]
                connect = "mcp+stdio:s 1"
                env = { A = "b" }
                # Not taken over: `settings`
                [back.old]
                connect = "mcp+stdio:s 2"
                env = { A = "c" }
                [back.far]
                connect = "https://h/mcp"
                headers = { A = "b" }
                # Left out: it comes with an extension of its client
                # [back.extension]
                # connect = ""
            "#]],
        );
        check_at(
            "conf/opencode.jsonc",
            r#"{"mcp": {
                "near": {"type": "local", "command": ["npx", "-y", "s"], "environment": {"A": "{env:KEY}", "B": "{file:~/key}", "C": "{file:key}{x}"}, "enabled": true, "timeout": 5000},
                "far": {"type": "remote", "url": "https://h/mcp", "headers": {"Authorization": "Bearer {env:KEY}"}, "oauth": {}},
                "off": {"type": "local", "command": ["s"], "enabled": false},
                "empty": {"type": "local", "command": []}
            }}"#,
            expect![[r#"
                [back.near]
                connect = "mcp+stdio:npx -y s"
                start_timeout = "5s"
                env = { A = "${KEY}", B = "${file:/home/u/key}", C = "${file:/work/conf/key}{x}" }
                # Not taken over: `oauth`
                [back.far]
                connect = "https://h/mcp"
                headers = { Authorization = "Bearer ${KEY}" }
                # Left out: it is switched off where it comes from
                # [back.off]
                # connect = "mcp+stdio:s"
                # Left out: it has neither a command nor a URL; did you mean `command` where it says `command`?
                # [back.empty]
                # connect = ""
            "#]],
        );
        check(
            r#"{"mcp": {"servers": {"a": {"type": "local", "command": ["s"], "cwd": "."}}}}"#,
            expect![[r#"
                [back.a]
                connect = "mcp+stdio:s"
                cwd = "."
            "#]],
        );
        check(
            r#"{"mcp": {"allowed": ["a"], "serverCommand": "s"}}"#,
            expect![[r#"
            no config of a client
        "#]],
        );
    }

    #[test]
    fn servers_of_vs_code_with_comments() {
        check(
            r#"{
                // Asked for once.
                "inputs": [{"id": "api-key", "type": "promptString", "description": "API Key",}, {"id": "unused"}, {"id": "b"}],
                "servers": {
                    "b": {"command": "s", "args": ["${input:b}"], "envFile": ".env"},
                    "a": {"command": "s", "args": ["//no comment", "\"/*"], "env": {"K": "${input:api-key}", "L": "${env:L}"}}, /* the last */
                }
            }"#,
            expect![[r##"
                # VS Code asked you for `B`; it is ${B} now
                # Not taken over: `envFile`: put its variables here
                # what stands in `${…}` is not known here: write what it should be
                [back.b]
                connect = "mcp+stdio:s '${B}'"
                # VS Code asked you for `API Key`; it is ${API_KEY} now
                [back.a]
                connect = "mcp+stdio:s '//no comment' '\"/*'"
                env = { K = "${API_KEY}", L = "${L}" }
            "##]],
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
                start_timeout = "20s"
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
