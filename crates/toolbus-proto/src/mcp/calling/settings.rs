//! What can be set about the calling end, and how it introduces itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Memory;
use crate::json::Json;
use crate::mcp::wire;

/// What can be set about the calling end.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the config calls the server; for messages.
    pub name: String,
    /// Our version, as servers are told.
    pub version: String,
    /// How we introduce ourselves in a handshake.
    pub introduction: Introduction,
    /// What is known of the server's eras; one that was made by [`Memory::of`] tries no other.
    pub memory: Memory,
    /// The longest line of a server.
    pub line_bytes_max: usize,
    /// How many calls run at a time; as many more may wait.
    pub calls_max: usize,
    /// How long silence to `server/discover` is no answer.
    pub probe_timeout: Duration,
    /// How long a question to a caller may stay open.
    pub input_timeout: Duration,
    /// By what modern callers find a call again that waits for their answers; without it such
    /// callers cannot be asked.
    pub tokens: Option<Tokens>,
    /// How long a call may last whatever progress it makes; else ten times its timeout.
    pub timeout_total: Option<Duration>,
}

impl Settings {
    /// The defaults, for a server of this name.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Settings {
        Settings {
            name: name.into(),
            version: version.into(),
            introduction: Introduction::default(),
            memory: Memory::default(),
            line_bytes_max: wire::REPLY_BYTES_MAX,
            calls_max: 1024,
            probe_timeout: Duration::from_secs(2),
            input_timeout: Duration::from_secs(300),
            tokens: None,
            timeout_total: None,
        }
    }
}

/// How we introduce ourselves in a handshake (`docs/protocols/mcp.md` 2.3.5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Introduction {
    /// As the legacy client that calls first; as ourselves, able to do nothing, for others.
    #[default]
    AsCaller,
    /// As ourselves, for a user of the command line: the one call that is under way is asked.
    AsUser(User),
    /// As ourselves, with these capabilities: several clients share the server.
    AsOurselves(Json),
}

/// What servers may ask a user of the command line for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Forms can be filled in.
    pub forms: bool,
    /// A model can be asked.
    pub sampling: bool,
    /// The folders to work in, as the result of `roots/list`. They are no question: we tell them.
    pub roots: Option<Json>,
}

impl User {
    /// What is declared.
    pub(super) fn capabilities(&self) -> Json {
        let mut declared = vec![b'{'];
        if self.roots.is_some() {
            wire::put_member(&mut declared, "roots", "{}");
        }
        if self.sampling {
            wire::put_member(&mut declared, "sampling", "{}");
        }
        if self.forms {
            wire::put_member(&mut declared, "elicitation", r#"{"form":{}}"#);
        }
        declared.push(b'}');
        Json::from_trusted(declared)
    }
}

/// What we can do for servers on behalf of clients that may each do something else: who cannot is
/// not asked.
pub const EVERYTHING: &str = r#"{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}"#;

/// Makes texts that cannot be guessed. Chance is the hands', so they give it.
#[derive(Clone)]
pub struct Tokens(Arc<dyn Fn() -> String + Send + Sync>);

impl Tokens {
    /// `fresh` gives another text of at least 128 random bits each time.
    pub fn new(fresh: impl Fn() -> String + Send + Sync + 'static) -> Tokens {
        Tokens(Arc::new(fresh))
    }

    pub(super) fn fresh(&self) -> String {
        (self.0)()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}
