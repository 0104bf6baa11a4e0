//! What can be set about MCP, on either side of the bus, and by which keys of the config.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolbus_proto::json::Json;
use toolbus_proto::mcp::Memory;
use toolbus_proto::mcp::calling::{EVERYTHING, Introduction, User};
use toolbus_proto::mcp::wire::Era;

use crate::bus::config::{Key, KeyKind, Values};
use crate::peer::access::{self, AccessSettings};
#[cfg(feature = "http")]
use crate::peer::settings::Credentials;
use crate::peer::settings::{Askable, Clients, Generation, Secret, Settings};
use crate::peer::tls_files::TlsFiles;

const OURS: &str = "MCP backs";
const HTTP: &str = "MCP over HTTP";
const HTTPS: &str = "MCP over HTTPS";

pub(super) const BACK_KEYS: &[Key] = &[
    Key::new("timeout_total", KeyKind::Duration, OURS, "How long a call may take in all"),
    Key::new(
        "probe_timeout",
        KeyKind::Duration,
        OURS,
        "How long to wait for an answer to the question which era it speaks",
    ),
    Key::new(
        "input_timeout",
        KeyKind::Duration,
        OURS,
        "How long a question to the caller may stay open",
    ),
    Key::new(
        "reply_bytes_max",
        KeyKind::HeldSize,
        OURS,
        "The largest line, body or event it may answer",
    ),
    Key::new(
        "share",
        KeyKind::Choice { words: &["all", "session"], expected: "\"all\" or \"session\"" },
        OURS,
        "Whether all sessions share one process, or each has its own",
    )
    .default("all"),
    Key::new(
        "era",
        KeyKind::Choice {
            words: &["auto", "legacy", "modern"],
            expected: "\"auto\", \"legacy\" or \"modern\"",
        },
        OURS,
        "The era that it is spoken to in: that of `initialize`, that of `server/discover`, or what \
         it turns out to know",
    )
    .default("auto"),
    Key::new("headers", KeyKind::Secrets, HTTP, "Sent with every request").needs_url(),
    Key::new("token", KeyKind::Secret, HTTP, "The bearer token, as `${NAME}` or `${file:PATH}`")
        .needs_url(),
    Key::new(
        "token_env",
        KeyKind::Text,
        HTTP,
        "The environment variable that holds the bearer token",
    )
    .needs_url(),
    Key::new("insecure", KeyKind::Bool, HTTP, "Send the token in clear to other machines")
        .needs_url()
        .default("false"),
    #[cfg(feature = "oauth")]
    Key::new(
        "oauth",
        KeyKind::Table(crate::oauth::config::KEYS),
        HTTP,
        "How to sign in, where the server itself does not say it all",
    )
    .needs_url(),
    Key::new(
        "ca",
        KeyKind::Text,
        HTTPS,
        "The file of the authority whose certificates are believed, in place of the public ones",
    )
    .needs_https(),
    Key::new("client_cert", KeyKind::Text, HTTPS, "The file of the certificate that we show")
        .needs_https(),
    Key::new("client_key", KeyKind::Text, HTTPS, "The file of its private key").needs_https(),
];

pub(super) const FRONT_KEYS: &[Key] = &[
    access::TOKEN,
    access::TOKEN_ENV,
    access::INSECURE,
    access::ORIGINS,
    access::HOSTS,
    #[cfg(feature = "oauth")]
    crate::oauth::tokens::KEY,
    Key::new(
        "sse",
        KeyKind::Bool,
        HTTP,
        "Serve the old HTTP+SSE of 2024-11-05 as well, at `/sse` and `/messages`",
    )
    .needs_http()
    .default("false"),
    Key::new(
        "sessions_over",
        KeyKind::Text,
        HTTP,
        "The front by which sessions of the older era are shared with other machines",
    )
    .needs_http(),
    Key::new("session_key", KeyKind::Secret, HTTP, "Seals the ids of shared sessions: 32 bytes")
        .needs_http(),
    Key::new("session_key_old", KeyKind::Secret, HTTP, "The key before it, still accepted")
        .needs_http(),
    Key::new(
        "sessions_max",
        KeyKind::Count,
        HTTP,
        "How many sessions there may be; the one that was idle longest makes room",
    )
    .needs_http()
    .default("16384"),
    Key::new(
        "connections_max",
        KeyKind::Count,
        HTTP,
        "How many connections there may be at once; the one that was silent longest makes room",
    )
    .needs_http()
    .default("4096"),
];

/// What is wrong with values that are well written.
#[cfg(feature = "oauth")]
pub(super) fn mistakes(table: &str, values: &Values) -> Vec<crate::bus::config::BadValue> {
    use crate::bus::config::BadValue;
    let Some(oauth) = values.table("oauth") else { return Vec::new() };
    let mut found = crate::oauth::config::mistakes(table, &oauth);
    let headers = values.secrets("headers").unwrap_or_default();
    let is_token = |name: &String| name.eq_ignore_ascii_case("authorization");
    let has_header = headers.iter().any(|(name, _)| is_token(name));
    let fixed = [
        ("token", values.has("token")),
        ("token_env", values.has("token_env")),
        ("headers", has_header),
    ];
    if let Some((key, _)) = fixed.into_iter().find(|(_, is_there)| *is_there) {
        let message = format!("{table} has a fixed token (`{key}`) and `oauth`: keep one");
        found.push(BadValue::new("oauth", message));
    }
    found
}

/// What only an MCP front has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpFrontSettings {
    /// Who may come in.
    pub access: AccessSettings,
    /// Is the old pair of HTTP+SSE there as well?
    pub sse: bool,
    /// The front by which sessions are shared.
    pub sessions_over: Option<String>,
    /// What seals their ids, and what did before.
    pub session_key: Option<Secret<String>>,
    /// The same.
    pub session_key_old: Option<Secret<String>>,
    /// How many sessions there may be.
    pub sessions_max: Option<usize>,
    /// How many connections there may be at once.
    pub connections_max: Option<usize>,
}

impl McpFrontSettings {
    pub(super) fn read(values: &Values) -> McpFrontSettings {
        let access = AccessSettings::read(values);
        McpFrontSettings {
            access,
            sse: values.bool("sse").unwrap_or_default(),
            sessions_over: values.text("sessions_over"),
            session_key: values.secret("session_key"),
            session_key_old: values.secret("session_key_old"),
            sessions_max: values.number("sessions_max"),
            connections_max: values.number("connections_max"),
        }
    }
}

/// What only an MCP server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpSettings {
    /// How long a call may take in all.
    pub timeout_total: Option<Duration>,
    /// How long to wait for an answer to the question which era it speaks.
    pub probe_timeout: Option<Duration>,
    /// How long a question to the caller may stay open.
    pub input_timeout: Option<Duration>,
    /// The largest line, body or event it may answer.
    pub reply_bytes_max: Option<usize>,
    /// Who shares one process.
    pub share: Share,
    /// The only era that it is spoken to in; else it is found out.
    pub era: Option<Generation>,
    /// Sent with every request.
    pub headers: Vec<(String, Secret<String>)>,
    /// The bearer token.
    pub token: Option<Secret<String>>,
    /// The environment variable that holds it.
    pub token_env: Option<String>,
    /// Do without a token where one is asked for.
    pub insecure: bool,
    /// The back of the config whose settings they are.
    pub back: Option<String>,
    /// How to sign in.
    #[cfg(feature = "oauth")]
    pub oauth: Option<std::sync::Arc<toolbus_proto::oauth::settings::SignInSettings>>,
    /// Whom we believe over TLS, and what we show there.
    pub tls: TlsFiles,
}

impl McpSettings {
    /// Those of the back of this name.
    pub(super) fn read(back: Option<&str>, values: &Values) -> McpSettings {
        McpSettings {
            back: back.map(str::to_owned),
            #[cfg(feature = "oauth")]
            oauth: values.table("oauth").map(|table| crate::oauth::config::read(&table).into()),
            timeout_total: values.duration("timeout_total"),
            probe_timeout: values.duration("probe_timeout"),
            input_timeout: values.duration("input_timeout"),
            reply_bytes_max: values.number("reply_bytes_max"),
            share: match values.text("share").as_deref() {
                Some("session") => Share::Session,
                _ => Share::All,
            },
            era: match values.text("era").as_deref() {
                Some("legacy") => Some(Generation::Legacy),
                Some("modern") => Some(Generation::Modern),
                _ => None,
            },
            headers: values.secrets("headers").unwrap_or_default(),
            token: values.secret("token"),
            token_env: values.text("token_env"),
            insecure: values.bool("insecure").unwrap_or_default(),
            tls: {
                let file = |key| values.text(key).map(|path| values.folder().join(path));
                TlsFiles { ca: file("ca"), cert: file("client_cert"), key: file("client_key") }
            },
        }
    }

    /// What one line, body or event of the server may weigh, if that was said.
    pub(in crate::wire::mcp) fn reply_bytes_max_of(&self, settings: &Settings) -> Option<usize> {
        settings.reply_bytes_max.or(self.reply_bytes_max)
    }

    /// What goes with every request.
    #[cfg(feature = "http")]
    pub(super) fn credentials(&self) -> Credentials {
        Credentials {
            headers: self.headers.clone(),
            token: self.token.clone(),
            token_env: self.token_env.clone(),
            insecure: self.insecure,
            tls: self.tls.clone(),
        }
    }

    /// As whom we come to it, where that is said once for all (`docs/protocols/mcp.md` 2.3.5).
    pub(super) fn introduction(&self, clients: &Clients) -> Introduction {
        match (clients, self.share) {
            (Clients::Many, Share::All) => {
                Introduction::AsOurselves(Json::from_trusted(EVERYTHING))
            }
            (Clients::User(askable), _) => Introduction::AsUser(user(askable)),
            (Clients::One, _) | (_, Share::Session) => Introduction::AsCaller,
        }
    }
}

impl McpSettings {
    /// What is known of the server's eras before it was ever asked. What a command line says comes
    /// before what the config does.
    pub(super) fn memory(&self, settings: &Settings) -> Memory {
        match settings.era.or(self.era) {
            Some(Generation::Legacy) => Memory::of(Era::Legacy),
            Some(Generation::Modern) => Memory::of(Era::Modern),
            None => Memory::default(),
        }
    }
}

/// What a server may ask of the user.
fn user(askable: &Askable) -> User {
    let root = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let uri = Json::of(&file_url(path));
        let name = name.map(|name| format!(",\"name\":{}", Json::of(&name))).unwrap_or_default();
        format!("{{\"uri\":{uri}{name}}}")
    };
    let roots: Vec<_> = askable.roots.iter().map(root).collect();
    let listed = format!("{{\"roots\":[{}]}}", roots.join(","));
    User {
        forms: askable.forms,
        sampling: askable.model,
        roots: (!roots.is_empty()).then(|| Json::from_trusted(listed)),
    }
}

/// A path as a URL: what may not stand in one is written by its bytes.
fn file_url(path: &Path) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte);
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match is_plain(*byte) {
            true => url.push(char::from(*byte)),
            false => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// Who shares one process of an MCP server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Share {
    /// All sessions.
    #[default]
    All,
    /// None: each legacy session has its own.
    Session,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_told_as_urls() {
        let roots = vec![PathBuf::from("/home/ada/my notes"), PathBuf::from("/")];
        let told = user(&Askable { roots, ..Askable::default() }).roots.unwrap();
        let expected = r#"{"roots":[{"uri":"file:///home/ada/my%20notes","name":"my notes"},{"uri":"file:///"}]}"#;
        assert_eq!(told.as_str(), expected);
        assert_eq!(user(&Askable::default()).roots, None);
    }
}
