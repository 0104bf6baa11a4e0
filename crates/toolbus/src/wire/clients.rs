//! What the configs of other programs say about peers: for those who come from an editor or agent
//! that has its servers set up already.
//!
//! A wire whose clients have such configs reads them ([`ClientConfigs`]); what it finds there is
//! written as a back of our own config, so that there is one reader of settings.

use std::path::{Path, PathBuf};

use thiserror::Error;
use toolbus_proto::json::Json;

use crate::address::Address;

/// The configs that the clients of a wire have.
pub trait ClientConfigs: Sync {
    /// Where they usually are, whether or not there is one.
    fn places(&self, surroundings: &Surroundings<'_>) -> Vec<ClientPlace>;

    /// Where in a config they stand: `they stand in …`.
    fn hint(&self) -> &'static str;

    /// The peers that a config names, in the order of their names. `None` if it is no config of
    /// such a client.
    fn read(
        &self,
        text: &str,
        surroundings: &Surroundings<'_>,
    ) -> Result<Option<Vec<ClientPeer>>, ClientConfigError>;
}

/// What a config may refer to.
pub struct Surroundings<'a> {
    /// The user's home.
    pub home: Option<&'a Path>,
    /// The folder that is worked in.
    pub here: &'a Path,
    /// The value of an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// Where a client usually has its config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPlace {
    /// What the client is called.
    pub client: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// A peer that the config of a client names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientPeer {
    /// A name that a back can have.
    pub name: String,
    /// Its address.
    pub connect: String,
    /// Set in its environment.
    pub env: Vec<(String, String)>,
    /// Passed on to it from our environment.
    pub env_pass: Vec<String>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
    /// The variable that holds its token.
    pub token_env: Option<String>,
    /// What the user should know about it.
    pub notes: Vec<String>,
    /// Why it cannot be used, or is not wanted.
    pub left_out: Option<String>,
}

impl ClientPeer {
    /// Leaves it out if its address is none.
    #[must_use]
    pub fn checked(mut self) -> ClientPeer {
        if self.left_out.is_none()
            && let Err(error) = Address::parse(&self.connect)
        {
            self.left_out = Some(error.to_string());
        }
        self
    }

    /// Does it hold what may be a secret?
    pub fn has_secrets(&self) -> bool {
        !self.env.is_empty() || !self.headers.is_empty()
    }

    /// Its table in our config. One that is left out is a comment.
    pub fn to_toml(&self) -> String {
        let mut text = format!("[back.{}]\nconnect = {}\n", self.name, quoted(&self.connect));
        let mut line = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{key} = {value}\n"));
            }
        };
        line("env", table(&self.env));
        line("env_pass", array(&self.env_pass));
        line("cwd", self.cwd.as_deref().map(quoted));
        line("headers", table(&self.headers));
        line("token_env", self.token_env.as_deref().map(quoted));
        let note = |note: &String| format!("# {}\n", note.replace('\n', " "));
        let notes: String = self.notes.iter().map(note).collect();
        match &self.left_out {
            None => notes + &text,
            Some(why) => {
                let lines = text.lines().map(|line| format!("# {line}\n"));
                let why = why.replace('\n', " ");
                format!("{notes}# Left out: {why}\n{}", lines.collect::<String>())
            }
        }
    }
}

/// A name for a back, made of whatever a client calls it; none of `taken`.
pub fn back_name(name: &str, taken: &[String]) -> String {
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
pub fn quoted(text: &str) -> String {
    Json::of(&text).to_string().replace('\x7f', "\\u007f")
}

fn table(pairs: &[(String, String)]) -> Option<String> {
    let pair = |(name, value): &(String, String)| format!("{} = {}", key(name), quoted(value));
    let pairs: Vec<_> = pairs.iter().map(pair).collect();
    (!pairs.is_empty()).then(|| format!("{{ {} }}", pairs.join(", ")))
}

fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

fn array(texts: &[String]) -> Option<String> {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    (!texts.is_empty()).then(|| format!("[{}]", texts.join(", ")))
}

/// Why the config of a client cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientConfigError {
    /// It is not in the form that such configs have.
    #[error("is not {form}: {why}")]
    Syntax {
        /// JSON or TOML.
        form: &'static str,
        /// What is wrong.
        why: String,
    },
}
