//! What can be set about a NATS wire, on either side of the bus: by keys of the config and by
//! parameters of the address, which together say how its servers are reached.

use std::env;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toolbus_proto::nats::credentials::{Credentials, CredentialsError, Seed};
use toolbus_proto::nats::{Retry, subject};

use super::reach::Servers;
use crate::address::{Transport, Url};
use crate::bus::config::{Key, KeyKind, Values};
use crate::peer::settings::Secret;
use crate::secrets;
use crate::transport::tls::{ClientTls, Identity, Inside};

const OURS: &str = "the NATS wire";

const USER: Key = Key::new("user", KeyKind::Text, OURS, "The user that we are to the server");
const PASSWORD: Key = Key::new("password", KeyKind::Secret, OURS, "The user's password");
const TOKEN: Key = Key::new("token", KeyKind::Secret, OURS, "The token that the server asks for");
const TOKEN_ENV: Key =
    Key::new("token_env", KeyKind::Text, OURS, "The environment variable that holds the token");
const NKEY: Key = Key::new(
    "nkey",
    KeyKind::SecretOrFile,
    OURS,
    "An NKey seed (`SU…`), or the file that holds it",
);
const CREDS: Key =
    Key::new("creds", KeyKind::SecretOrFile, OURS, "A credentials file: JWT and seed");
const INBOX: Key =
    Key::new("inbox", KeyKind::Text, OURS, "What the subjects begin with on which we take answers")
        .default("_INBOX");
const INSECURE: Key = Key::new(
    "insecure",
    KeyKind::Bool,
    OURS,
    "Use a server on another machine without TLS or credentials",
)
.default("false");

pub(super) const BACK_KEYS: &[Key] = &[
    USER,
    PASSWORD,
    TOKEN,
    TOKEN_ENV,
    NKEY,
    CREDS,
    INBOX,
    INSECURE,
    Key::new(
        "retry",
        KeyKind::Choice {
            words: &["never", "idempotent"],
            expected: "\"never\" or \"idempotent\"",
        },
        "NATS backs",
        "Send a call once more whose node is gone, if its tool says that this does no harm",
    )
    .default("never"),
];

pub(super) const FRONT_KEYS: &[Key] = &[
    USER,
    PASSWORD,
    TOKEN,
    TOKEN_ENV,
    NKEY,
    CREDS,
    INBOX,
    INSECURE,
    Key::new("prefix", KeyKind::Text, "NATS fronts", "What our subjects begin with; else the name"),
    Key::new(
        "trust_callers",
        KeyKind::Bool,
        "NATS fronts",
        "Believe which caller of ours a message says it is from",
    )
    .default("false"),
    Key::new("transit", KeyKind::Bool, "NATS fronts", "Serve the tools of NATS backs as well")
        .default("false"),
];

/// The parameters of addresses.
pub(super) const TO_CALL: &[&str] = &[
    "ca",
    "cert",
    "key",
    "server_name",
    "handshake_first",
    "user",
    "password_env",
    "token_env",
    "nkey",
    "creds",
    "inbox",
    "insecure",
    "id",
];
pub(super) const TO_SERVE: &[&str] = &[
    "ca",
    "cert",
    "key",
    "server_name",
    "handshake_first",
    "user",
    "password_env",
    "token_env",
    "nkey",
    "creds",
    "inbox",
    "insecure",
];

/// What can be set by keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NatsSettings {
    user: Option<String>,
    password: Option<Secret<String>>,
    token: Option<Secret<String>>,
    token_env: Option<String>,
    nkey: Option<Secret<String>>,
    creds: Option<Secret<String>>,
    inbox: Option<String>,
    insecure: bool,
    /// What the paths of files are relative to.
    folder: PathBuf,
    /// What the files hold that keys name, so that other credentials are other settings.
    held: Vec<Option<Secret<String>>>,
    /// When a call is sent again.
    pub retry: Retry,
    /// What the subjects of a front begin with.
    pub prefix: Option<String>,
    /// Serve the tools of NATS backs as well.
    pub transit: bool,
    /// Believe which caller a message is from.
    pub(super) trust_callers: bool,
}

impl NatsSettings {
    pub(super) fn read(values: &Values) -> NatsSettings {
        let folder = values.folder().to_owned();
        let held = ["nkey", "creds"].map(|key| {
            let secret = values.secret(key)?;
            let text = secret.reveal();
            match is_seed(text) || is_creds(text) {
                true => {
                    secrets::hide(text);
                    None
                }
                false => std::fs::read_to_string(folder.join(text)).ok().map(Secret::new),
            }
        });
        NatsSettings {
            folder,
            held: held.into(),
            user: values.text("user"),
            password: values.secret("password"),
            token: values.secret("token"),
            token_env: values.text("token_env"),
            nkey: values.secret("nkey"),
            creds: values.secret("creds"),
            inbox: values.text("inbox"),
            insecure: values.bool("insecure").unwrap_or_default(),
            retry: match values.text("retry").as_deref() {
                Some("idempotent") => Retry::Idempotent,
                _ => Retry::Never,
            },
            prefix: values.text("prefix"),
            transit: values.bool("transit").unwrap_or_default(),
            trust_callers: values.bool("trust_callers").unwrap_or_default(),
        }
    }

    /// Those of a front without a config.
    pub fn of_prefix(prefix: Option<String>) -> NatsSettings {
        NatsSettings { prefix, ..NatsSettings::default() }
    }

    /// How the servers of an address are reached.
    pub(super) fn servers(&self, url: &Url, name: Option<&str>) -> Result<Servers, Unfit> {
        let credentials = self.credentials(url)?;
        let is_tls = url.carrier == Transport::Tls;
        for name in ["insecure", "handshake_first"] {
            if let Some(said) = url.parameter(name)
                && !["true", "false"].contains(&said)
            {
                return Err(Unfit::new(format!("`{name}` is `true` or `false`, not `{said}`")));
            }
        }
        let is_set = |name| url.parameter(name) == Some("true");
        let of_tls = ["ca", "cert", "key", "server_name", "handshake_first"];
        if let Some(name) = of_tls.into_iter().find(|name| url.parameter(name).is_some())
            && !is_tls
        {
            return Err(Unfit::new(format!("`{name}` is only for `nats+tls://`")));
        }
        let hosts: Vec<(String, u16)> = std::iter::once((url.host.clone(), url.port))
            .chain(url.others.iter().cloned())
            .collect();
        let insecure = self.insecure || is_set("insecure");
        let is_known = !credentials.is_none() || url.parameter("cert").is_some();
        let is_safe = is_tls && is_known;
        let far = hosts.iter().find(|(host, _)| !is_loopback(host));
        if let Some((host, port)) = far.filter(|_| !is_safe) {
            let at = shown(host, *port);
            if !insecure {
                return Err(Unfit {
                    message: format!(
                        "will not use {at} without TLS and credentials: other machines could read \
                         and forge what passes"
                    ),
                    hint: Some(
                        "use `nats+tls://` and credentials, or allow it by `insecure = true` in \
                         the config or `?insecure=true`"
                            .to_owned(),
                    ),
                });
            }
            tracing::warn!("whoever can reach {at} can read and forge what passes");
        }
        let inbox = url.parameter("inbox").or(self.inbox.as_deref()).unwrap_or("_INBOX");
        if !subject::is_literal(inbox) {
            return Err(Unfit::new(format!("`inbox`: `{inbox}` cannot begin a subject")));
        }
        Ok(Servers {
            hosts,
            tls: if is_tls { Some(tls(url, &self.folder)?) } else { None },
            server_name: url.parameter("server_name").map(str::to_owned),
            handshake_first: is_set("handshake_first"),
            may_leave_loopback: insecure || is_safe,
            credentials,
            inbox: inbox.to_owned(),
            name: name.map_or_else(|| "toolbus".to_owned(), |name| format!("toolbus {name}")),
        })
    }

    fn credentials(&self, url: &Url) -> Result<Credentials, Unfit> {
        let by_key = [
            ("user", self.user.is_some()),
            ("token", self.token.is_some()),
            ("token_env", self.token_env.is_some()),
            ("nkey", self.nkey.is_some()),
            ("creds", self.creds.is_some()),
        ];
        let by_parameter = ["user", "token_env", "nkey", "creds"];
        let by_parameter = by_parameter.map(|name| (name, url.parameter(name).is_some()));
        let given: Vec<&str> = by_key
            .into_iter()
            .chain(by_parameter)
            .filter_map(|(name, is_set)| is_set.then_some(name))
            .collect();
        if let [one, other, ..] = given[..] {
            return Err(Unfit::new(format!("`{one}` and `{other}` are both set: one is enough")));
        }
        let of_env = |name: &str| match env::var(name) {
            Ok(value) if !value.is_empty() => {
                secrets::hide(&value);
                Ok(value)
            }
            _ => Err(Unfit::new(format!("the environment variable `{name}` is not set"))),
        };
        let password = match (&self.password, url.parameter("password_env")) {
            (Some(_), Some(_)) => {
                let what = "`password` and `password_env` are both set: one is enough";
                return Err(Unfit::new(what));
            }
            (Some(password), None) => Some(password.reveal().clone()),
            (None, Some(name)) => Some(of_env(name)?),
            (None, None) => None,
        };
        let user = self.user.as_deref().or(url.parameter("user"));
        match (user, password) {
            (Some(user), Some(password)) => {
                secrets::hide(&password);
                return Ok(Credentials::User { user: user.to_owned(), password });
            }
            (Some(_), None) => return Err(Unfit::new("`user` is set without `password`")),
            (None, Some(_)) => return Err(Unfit::new("`password` is set without `user`")),
            (None, None) => {}
        }
        if let Some(token) = &self.token {
            secrets::hide(token.reveal());
            return Ok(Credentials::Token(token.reveal().clone()));
        }
        if let Some(name) = self.token_env.as_deref().or(url.parameter("token_env")) {
            return of_env(name).map(Credentials::Token);
        }
        let nkey = self.nkey.as_ref().map(|nkey| nkey.reveal().as_str());
        if let Some(text) = nkey.filter(|text| is_seed(text)) {
            secrets::hide(text.trim());
            return Ok(Credentials::Nkey(Seed::read(text).map_err(|why| of("nkey", why))?));
        }
        if let Some(path) = nkey.or(url.parameter("nkey")) {
            let seed = Seed::read(&self.file(path)?).map_err(|why| of_file(path, why))?;
            return Ok(Credentials::Nkey(seed));
        }
        let creds = self.creds.as_ref().map(|creds| creds.reveal().as_str());
        if let Some(text) = creds.filter(|text| is_creds(text)) {
            secrets::hide(text);
            return Credentials::read_creds(text).map_err(|why| of("creds", why));
        }
        if let Some(path) = creds.or(url.parameter("creds")) {
            return Credentials::read_creds(&self.file(path)?).map_err(|why| of_file(path, why));
        }
        Ok(Credentials::None)
    }

    /// What a file holds that the config names, or an address.
    fn file(&self, path: &str) -> Result<String, Unfit> {
        let text = std::fs::read_to_string(self.folder.join(path))
            .map_err(|error| Unfit::new(format!("cannot read `{path}`: {error}")))?;
        secrets::hide(text.trim());
        Ok(text)
    }
}

/// The name of the service that an address names, if it names one.
pub(super) fn name(url: &Url) -> Result<Option<&str>, Unfit> {
    let name = url.path.strip_prefix('/').unwrap_or(&url.path);
    match name {
        "" => Ok(None),
        name if subject::is_name(name) => Ok(Some(name)),
        name => Err(Unfit::new(format!(
            "`{name}` is no name of a service: letters, digits, `_` and `-`, 64 at most, and not \
             `toolbus`"
        ))),
    }
}

/// `HOST:PORT`, an IPv6 address in brackets.
pub(super) fn shown(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn tls(url: &Url, folder: &Path) -> Result<ClientTls, Unfit> {
    let path = |name| url.parameter(name).map(|file| folder.join(file));
    let (ca, cert, key) = (path("ca"), path("cert"), path("key"));
    let identity = match (&cert, &key) {
        (Some(cert), Some(key)) => Some(Identity { cert, key }),
        (None, None) => None,
        _ => return Err(Unfit::new("`cert` and `key` are only of use together")),
    };
    ClientTls::load(ca.as_deref(), identity, Inside::Bytes).map_err(|error| {
        let hint = error.hint();
        Unfit { message: crate::bus::back::causes(&error), hint }
    })
}

fn is_seed(text: &str) -> bool {
    text.trim().starts_with("SU")
}

fn is_creds(text: &str) -> bool {
    text.contains("BEGIN")
}

fn of_file(path: &str, why: CredentialsError) -> Unfit {
    Unfit::new(format!("`{path}`: {why}"))
}

fn of(key: &str, why: CredentialsError) -> Unfit {
    Unfit::new(format!("`{key}`: {why}"))
}

/// Why an address and its settings do not fit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Unfit {
    /// What is wrong.
    pub message: String,
    /// What the reader can do about it.
    pub hint: Option<String>,
}

impl Unfit {
    pub(super) fn new(message: impl Into<String>) -> Unfit {
        Unfit { message: message.into(), hint: None }
    }
}
