//! What the configs of other programs say about peers: for those who come from an editor or agent
//! that has its servers set up already.
//!
//! A wire whose clients have such configs reads them ([`ClientConfigs`]); what it finds there is
//! written as a back of our own config, so that there is one reader of settings.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;
use toolbus_proto::json::Json;

use toolbus::address::Address;

/// The configs that the clients of a wire have.
pub(crate) trait ClientConfigs: Sync {
    /// Where they usually are, whether or not there is one.
    fn places(&self, surroundings: &Surroundings<'_>) -> Vec<ClientPlace>;

    /// Where in a config they stand: `they stand in …`.
    fn hint(&self) -> &'static str;

    /// The clients that can be given a server of ours, in the order in which they are listed.
    fn linked(&self, surroundings: &Surroundings<'_>) -> Vec<Linkable>;

    /// The peers that a config at this path names, in the order of the file. `None` if it is no
    /// config of such a client.
    fn read(
        &self,
        path: &Path,
        text: &str,
        surroundings: &Surroundings<'_>,
    ) -> Result<Option<Vec<ClientPeer>>, ClientConfigError>;
}

/// What a config may refer to.
pub(crate) struct Surroundings<'a> {
    /// The user's home.
    pub(crate) home: Option<&'a Path>,
    /// The folder that is worked in.
    pub(crate) here: &'a Path,
    /// The value of an environment variable.
    pub(crate) env: &'a dyn Fn(&str) -> Option<String>,
}

/// Where a client usually has its config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientPlace {
    /// What the client is called.
    pub(crate) client: &'static str,
    /// The file.
    pub(crate) path: PathBuf,
}

/// A client in whose config a server of ours can stand.
pub(crate) struct Linkable {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What else it is called.
    pub(crate) alias: Option<&'static str>,
    /// Its config.
    pub(crate) file: PathBuf,
    /// The folder that shows that it is there.
    pub(crate) shown_by: PathBuf,
    /// Where in the config servers stand.
    pub(crate) format: LinkFormat,
    /// A server as this client writes it.
    pub(crate) entry: Box<dyn Fn(&LinkForm) -> Value>,
}

/// Where in a config servers stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkFormat {
    /// As members of this object; or of this one in it, if it is there.
    Json {
        /// Its name.
        object: &'static str,
        /// The name of the one in it.
        inner: Option<&'static str>,
    },
    /// As tables `[family.NAME]`.
    Toml {
        /// The name of the family.
        family: &'static str,
    },
}

/// How a client is to reach us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkForm {
    /// It starts a program.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// It calls a URL, or has this program call it.
    Url {
        /// The program.
        program: String,
        /// The URL.
        url: String,
    },
}

impl Linkable {
    /// Is it called so?
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }
}

/// A peer that the config of a client names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClientPeer {
    /// A name that a back can have.
    pub(crate) name: String,
    /// What the client calls it.
    pub(crate) called: String,
    /// Its address.
    pub(crate) connect: String,
    /// Set in its environment.
    pub(crate) env: Vec<(String, String)>,
    /// Passed on to it from our environment.
    pub(crate) env_pass: Vec<String>,
    /// Where it runs.
    pub(crate) cwd: Option<String>,
    /// Sent with every request.
    pub(crate) headers: Vec<(String, String)>,
    /// The variable that holds its token.
    pub(crate) token_env: Option<String>,
    /// Its tools that may be called; `None` for all.
    pub(crate) allow: Option<Vec<String>>,
    /// Its tools that must not be called, where the others may.
    pub(crate) hidden: Vec<String>,
    /// How long a call may be quiet.
    pub(crate) timeout: Option<Duration>,
    /// How long until it must be ready.
    pub(crate) start_timeout: Option<Duration>,
    /// What the client asks its user for; a variable has to be set to it now.
    pub(crate) asks: Vec<Ask>,
    /// What the client says of it that has no place in our config.
    pub(crate) not_taken: Vec<NotTaken>,
    /// What else the user should know about it.
    pub(crate) notes: Vec<String>,
    /// Why it cannot be used, or is not wanted.
    pub(crate) left_out: Option<String>,
}

/// Something that a client asks its user for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The variable that it is in our config.
    pub(crate) name: String,
    /// How the client puts it.
    pub(crate) title: Option<String>,
}

/// A key that our config has no place for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotTaken {
    /// Its name. Its value may be a secret.
    pub(crate) key: String,
    /// What follows from that.
    pub(crate) why: Option<&'static str>,
    /// It keeps tools from being called.
    pub(crate) is_limit: bool,
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.key)?;
        self.why.map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

impl ClientPeer {
    /// Has it another name here than the client calls it by?
    pub(crate) fn is_renamed(&self) -> bool {
        !self.called.is_empty() && self.called != self.name
    }

    /// Is it the same but for its name?
    pub(crate) fn is_same_as(&self, other: &ClientPeer) -> bool {
        let (name, called) = (other.name.clone(), other.called.clone());
        ClientPeer { name, called, ..self.clone() } == *other
    }

    /// Leaves it out if its address is none.
    #[must_use]
    pub(crate) fn checked(mut self) -> ClientPeer {
        if self.left_out.is_none()
            && let Err(error) = Address::parse(&self.connect)
        {
            self.left_out = Some(error.to_string());
        }
        self
    }

    /// Does it hold what may be a secret?
    pub(crate) fn has_secrets(&self) -> bool {
        !self.env.is_empty() || !self.headers.is_empty()
    }

    /// Its table in our config. One that is left out is a comment.
    pub(crate) fn to_toml(&self) -> String {
        let mut text = format!("[back.{}]\nconnect = {}\n", self.name, quoted(&self.connect));
        let mut line = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{key} = {value}\n"));
            }
        };
        line("allow", self.allow.as_ref().map(|tools| array(tools)));
        line("timeout", self.timeout.map(time));
        line("start_timeout", self.start_timeout.map(time));
        line("env", table(&self.env));
        line("env_pass", (!self.env_pass.is_empty()).then(|| array(&self.env_pass)));
        line("cwd", self.cwd.as_deref().map(quoted));
        line("headers", table(&self.headers));
        line("token_env", self.token_env.as_deref().map(quoted));
        match &self.left_out {
            None => self.comments() + &text,
            Some(why) => {
                let lines = text.lines().map(|line| format!("# {line}\n"));
                let lines: String = lines.collect();
                format!("{}{}{lines}", comments(&self.notes), comment(&format!("Left out: {why}")))
            }
        }
    }

    /// What the reader of the config should know that it does not say.
    fn comments(&self) -> String {
        let renamed = self.is_renamed().then(|| format!("its client calls it `{}`", self.called));
        let ask = |Ask { name, title }: &Ask| {
            let title = title.as_ref().unwrap_or(name);
            format!("VS Code asked you for `{title}`; it is ${{{name}}} now")
        };
        let not_taken = self.not_taken.iter().map(|not| format!("Not taken over: {not}"));
        let all = renamed.into_iter().chain(self.asks.iter().map(ask)).chain(not_taken);
        comments(&all.collect::<Vec<_>>()) + &comments(&self.notes)
    }
}

/// A name for a back, made of whatever a client calls it; none of `taken`.
pub(crate) fn back_name(name: &str, taken: &[String]) -> String {
    let spelled = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.chars().map(spelled).collect();
    let name = match name.trim_matches('-') {
        "" | "toolbus" => "server".to_owned(),
        name => name.to_owned(),
    };
    let is_free = |name: &String| !taken.contains(name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or(name)
}

/// A text as TOML writes it, which is as JSON does but for DEL.
pub(crate) fn quoted(text: &str) -> String {
    Json::of(&text).to_string().replace('\x7f', "\\u007f")
}

fn table(pairs: &[(String, String)]) -> Option<String> {
    let pair = |(name, value): &(String, String)| format!("{} = {}", key(name), quoted(value));
    let pairs: Vec<_> = pairs.iter().map(pair).collect();
    (!pairs.is_empty()).then(|| format!("{{ {} }}", pairs.join(", ")))
}

/// A name as a key of TOML.
pub(crate) fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// Texts as an array of TOML.
pub(crate) fn array(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// A time in the largest unit that divides it.
fn time(time: Duration) -> String {
    let milliseconds = time.as_millis();
    match (milliseconds % 60_000, milliseconds % 1000) {
        (0, _) => format!("\"{}m\"", milliseconds / 60_000),
        (_, 0) => format!("\"{}s\"", milliseconds / 1000),
        _ => format!("\"{milliseconds}ms\""),
    }
}

fn comments(texts: &[String]) -> String {
    texts.iter().map(|text| comment(text)).collect()
}

/// Of one line, whatever it says.
fn comment(text: &str) -> String {
    let in_line = |c: char| if c.is_control() { ' ' } else { c };
    format!("# {}\n", text.chars().map(in_line).collect::<String>())
}

/// Why the config of a client cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ClientConfigError {
    /// It is not in the form that such configs have.
    #[error("is not {form}: {why}")]
    Syntax {
        /// JSON or TOML.
        form: &'static str,
        /// What is wrong.
        why: String,
    },
}
