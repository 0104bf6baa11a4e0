//! What the config of a client says about one server, as a peer of ours. What has no place here is
//! named, so that no limit is lost without a word.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::clients::{Ask, ClientPeer, NotTaken, Surroundings};
use toolbus_engine::child::words;
use toolbus_proto::did_you_mean::nearest;

/// Keys by which clients offer only some tools of a server.
const INCLUDES: [&str; 3] = ["includeTools", "enabled_tools", "enabledTools"];
/// Keys by which they offer all but some.
const EXCLUDES: [&str; 3] = ["excludeTools", "disabled_tools", "disabledTools"];
/// Keys that say which calls a client makes without asking its user.
const UNASKED: [&str; 3] = ["trust", "alwaysAllow", "autoApprove"];
/// Keys that are read, or say nothing that our config would have to say.
const READ: [&str; 18] = [
    "command",
    "args",
    "env",
    "environment",
    "env_vars",
    "cwd",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "type",
    "transport",
    "source",
    "disabled",
    "enabled",
];

/// Whose config it is, as far as its keys mean something else elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// JSON as most clients have it.
    Json,
    /// Cline: times are seconds.
    Cline,
    /// Gemini CLI: `$NAME` is a variable, too.
    Gemini,
    /// Codex: TOML, whose keys have their unit in their names.
    Toml,
}

impl Dialect {
    pub(super) fn of(path: &Path, is_json: bool) -> Dialect {
        match is_json {
            false => Dialect::Toml,
            true if path.ends_with("cline_mcp_settings.json") => Dialect::Cline,
            true if path.ends_with(".gemini/settings.json") => Dialect::Gemini,
            true => Dialect::Json,
        }
    }
}

/// What a config says about one server.
pub(super) struct Server<'a> {
    pub(super) server: &'a Map<String, Value>,
    /// What the client asks its user for.
    pub(super) inputs: &'a [Value],
    pub(super) dialect: Dialect,
    /// The folder of the config.
    pub(super) folder: &'a Path,
    pub(super) surroundings: &'a Surroundings<'a>,
}

impl Server<'_> {
    pub(super) fn peer(&self, name: String, called: &str) -> ClientPeer {
        let mut peer = ClientPeer { name, called: called.to_owned(), ..ClientPeer::default() };
        let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|key| self.text(key));
        match (self.command(), url) {
            (Some(command), _) => {
                let words = command.iter().map(|word| words::quoted(&self.resolved(word)));
                peer.connect = format!("mcp+stdio:{}", words.collect::<Vec<_>>().join(" "));
                let program = self.server.get("command").and_then(|command| command.get("env"));
                let own = program.map(|env| self.pairs_of(env)).unwrap_or_default();
                peer.env = [self.pairs("env"), self.pairs("environment"), own].concat();
                peer.env_pass = self.texts("env_vars");
                peer.cwd = self.text("cwd").map(|cwd| self.resolved(&cwd));
                if command.first().and_then(|word| word.rsplit('/').next()) == Some("toolbus") {
                    peer.left_out = Some("it is toolbus itself".to_owned());
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
        peer.asks = self.asks();
        self.limit(&mut peer);
        peer
    }

    /// The program and its arguments. Most write them apart, opencode as one list, and Zed had both
    /// in an object.
    fn command(&self) -> Option<Vec<String>> {
        match self.server.get("command")? {
            Value::String(program) => Some([vec![program.clone()], self.texts("args")].concat()),
            Value::Array(words) => {
                let words = texts_of(words);
                (!words.is_empty()).then_some(words)
            }
            Value::Object(command) => {
                let program = command.get("path")?.as_str()?.to_owned();
                let args = command.get("args").and_then(Value::as_array);
                Some([vec![program], args.map(|args| texts_of(args)).unwrap_or_default()].concat())
            }
            _ => None,
        }
    }

    /// Why it cannot be reached that has neither a command nor a URL.
    fn unreachable(&self) -> String {
        if self.text("source").as_deref() == Some("extension") {
            return "it comes with an extension of its client".to_owned();
        }
        let why = "it has neither a command nor a URL";
        let meant = |key: &String| {
            let meant = nearest(key, ["command", "url"])?;
            Some(format!("{why}; did you mean `{meant}` where it says `{key}`?"))
        };
        self.server.keys().find_map(meant).unwrap_or_else(|| why.to_owned())
    }

    /// What the client limits; and what is not taken over.
    fn limit(&self, peer: &mut ClientPeer) {
        let listed = |keys: [&'static str; 3]| {
            let is_there = |key: &&str| self.server.get(*key).is_some_and(Value::is_array);
            keys.into_iter().find(is_there)
        };
        let excluded: Vec<_> = EXCLUDES.iter().flat_map(|key| self.texts(key)).collect();
        peer.allow = listed(INCLUDES).map(|key| {
            // Gemini CLI lets arguments stand behind a name.
            let name = |tool: String| tool.split('(').next().unwrap_or_default().to_owned();
            let included = self.texts(key).into_iter().map(name);
            included.filter(|tool| !excluded.contains(tool)).collect()
        });
        if peer.allow.is_none() {
            peer.hidden = excluded.clone();
        }
        for key in self.server.keys() {
            let key = key.as_str();
            let taken = match key {
                _ if READ.contains(&key) || INCLUDES.contains(&key) => true,
                _ if EXCLUDES.contains(&key) => excluded.is_empty() || peer.allow.is_some(),
                "tool_timeout_sec" => self.time(key, 1000, &mut peer.timeout),
                "startup_timeout_sec" => self.time(key, 1000, &mut peer.start_timeout),
                "startup_timeout_ms" => self.time(key, 1, &mut peer.start_timeout),
                "timeout" if self.is_opencode() => self.time(key, 1, &mut peer.start_timeout),
                "timeout" => match self.dialect {
                    Dialect::Json | Dialect::Gemini => self.time(key, 1, &mut peer.timeout),
                    Dialect::Cline => self.time(key, 1000, &mut peer.timeout),
                    Dialect::Toml => false,
                },
                _ => false,
            };
            if taken {
                continue;
            }
            let is_limit = EXCLUDES.contains(&key);
            let why = match key {
                _ if is_limit => Some("name by `allow` what may be called, which is all now"),
                _ if UNASKED.contains(&key) => Some("toolbus asks nobody before a call"),
                "envFile" => Some("put its variables here"),
                _ => None,
            };
            peer.not_taken.push(NotTaken { key: key.to_owned(), why, is_limit });
        }
    }

    /// Is it written as opencode has it?
    fn is_opencode(&self) -> bool {
        matches!(self.text("type").as_deref(), Some("local" | "remote"))
    }

    /// Reads a number of so many milliseconds; `false` if it is none that we could have.
    fn time(&self, key: &str, milliseconds: u32, to: &mut Option<Duration>) -> bool {
        let number = match self.server.get(key) {
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) if self.dialect == Dialect::Toml => text.parse().ok(),
            _ => None,
        };
        // Longer than a year is no limit.
        let in_milliseconds = number.map(|number| (number * f64::from(milliseconds)).round());
        let is_time = |time: &f64| 1.0 <= *time && *time <= 365.0 * 24.0 * 3_600_000.0;
        let Some(time) = in_milliseconds.filter(is_time) else { return false };
        *to = Some(Duration::from_secs_f64(time / 1000.0));
        true
    }

    /// What of it the client asks its user for.
    fn asks(&self) -> Vec<Ask> {
        let text = Value::Object(self.server.clone()).to_string();
        let ask = |input: &Value| {
            let id = input.get("id")?.as_str()?;
            let title = input.get("description").and_then(Value::as_str).map(str::to_owned);
            let is_used = text.contains(&format!("${{input:{id}}}"));
            is_used.then(|| Ask { name: variable_name(id), title })
        };
        self.inputs.iter().filter_map(ask).collect()
    }

    fn text(&self, key: &str) -> Option<String> {
        self.server.get(key)?.as_str().map(str::to_owned)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let texts = self.server.get(key).and_then(Value::as_array);
        texts.map(|texts| texts_of(texts)).unwrap_or_default()
    }

    /// Names and values, in which `${NAME}` stays: our own config knows it too.
    fn pairs(&self, key: &str) -> Vec<(String, String)> {
        self.server.get(key).map(|pairs| self.pairs_of(pairs)).unwrap_or_default()
    }

    fn pairs_of(&self, pairs: &Value) -> Vec<(String, String)> {
        let pair = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::String(text) => self.renamed(text),
                Value::Null => return None,
                other => other.to_string(),
            };
            Some((name.clone(), value))
        };
        pairs.as_object().into_iter().flatten().filter_map(pair).collect()
    }

    /// With the variables as our own config writes them.
    fn renamed(&self, text: &str) -> String {
        let text = match self.dialect {
            Dialect::Gemini => braced(text),
            _ => text.to_owned(),
        };
        let text = match self.is_opencode() {
            true => replaced(&text, "{", |name| match name.split_once(':')? {
                ("env", name) => Some(format!("${{{name}}}")),
                ("file", path) => Some(format!("${{file:{}}}", self.file(path))),
                _ => None,
            }),
            false => text,
        };
        replaced(&text, "${", |name| match name.split_once(":-") {
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
        replaced(&text, "${", |name| (self.surroundings.env)(name))
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

    /// A path that the config names, wherever our own config will be.
    fn file(&self, path: &str) -> String {
        let path = match (path.strip_prefix("~/"), self.surroundings.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => self.surroundings.here.join(self.folder).join(path),
        };
        path.display().to_string()
    }
}

fn texts_of(values: &[Value]) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    values.iter().filter_map(text).collect()
}

/// With what stands between `open` and `}` replaced, wherever `replace` knows it.
fn replaced(text: &str, open: &str, replace: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(open) {
        out.push_str(before);
        let Some((name, behind)) = behind.split_once('}') else {
            rest = &rest[before.len()..];
            break;
        };
        match replace(name) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&format!("{open}{name}}}")),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// `$NAME` as `${NAME}`.
fn braced(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = behind.find(|c| !is_part(c)).unwrap_or(behind.len());
        let (name, after) = behind.split_at(length);
        out.push_str(before);
        match name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            true => out.push_str(&format!("${name}")),
            false => out.push_str(&format!("${{{name}}}")),
        }
        rest = after;
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
