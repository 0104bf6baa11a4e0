//! What can be set about a back besides where it is: by the config, or by flags.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toolbus_proto::json::Json;
use toolbus_proto::mcp::calling::Introduction;
use toolbus_proto::mediocre::{Reading, decode};

pub use crate::child::supervisor::Restart;

/// All that can be set about a back. What is `None` is as the wire's spec says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// What the log calls it; else what [`peer_name`] says.
    ///
    /// [`peer_name`]: crate::address::Address::peer_name
    pub name: Option<String>,
    /// How long a call may be quiet.
    pub timeout: Option<Duration>,
    /// How long until it must be ready.
    pub start_timeout: Option<Duration>,
    /// How long from the goodbye to SIGTERM.
    pub stop_timeout: Option<Duration>,
    /// May it be started again once it has died?
    pub restart: Option<Restart>,
    /// For programs.
    pub program: ProgramSettings,
    /// For oracles.
    pub oracle: OracleSettings,
    /// May `shell:` be opened?
    pub allow_shell: bool,
    /// For mediocre servers.
    pub mediocre: MediocreSettings,
    /// For Orchard providers.
    pub orchard: OrchardSettings,
    /// For MCP servers.
    pub mcp: McpSettings,
}

/// The surroundings of a program that is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramSettings {
    /// Set in its environment.
    pub env: Vec<(String, Secret<String>)>,
    /// Forwarded on from ours where the environment is otherwise clean.
    pub env_pass: Vec<String>,
    /// Where it runs.
    pub cwd: Option<PathBuf>,
}

/// What only an oracle has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OracleSettings {
    /// Signatures of its functions; they win over those it offers.
    pub functions: Vec<String>,
    /// Reduce felts beyond the prime instead of refusing them.
    pub lenient_felts: bool,
    /// Skip lines longer than this.
    pub line_bytes_max: Option<usize>,
}

/// What only a mediocre wire has, on either side of the bus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MediocreSettings {
    /// The tools; else what `toolbus.tools` says.
    pub methods: Option<Vec<String>>,
    /// Is the length of a blob more than a hint?
    pub blob_len: BlobLen,
    /// Refuse what is only tolerated.
    pub strict: bool,
    /// The largest object.
    pub object_bytes_max: Option<usize>,
    /// The deepest object.
    pub depth_max: Option<usize>,
}

impl MediocreSettings {
    /// How a peer's bytes are read because of it.
    pub fn reading(&self) -> Reading {
        let usual = Reading::default();
        Reading {
            blob_len: match self.blob_len {
                BlobLen::Exact => decode::BlobLen::Exact,
                BlobLen::Hint => decode::BlobLen::Hint,
            },
            is_strict: self.strict,
            object_bytes_max: self.object_bytes_max.unwrap_or(usual.object_bytes_max),
            depth_max: self.depth_max.unwrap_or(usual.depth_max),
        }
    }
}

/// How the length of a blob is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BlobLen {
    #[default]
    Exact,
    Hint,
}

/// What only an Orchard provider has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrchardSettings {
    /// What `configure` gets: an object.
    pub config: Option<Secret<Json>>,
    /// How long `configure` may take.
    pub configure_timeout: Option<Duration>,
    /// The largest message.
    pub frame_bytes_max: Option<usize>,
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
    /// How many clients there may be before it at a time.
    pub clients: Clients,
    /// Sent with every request.
    pub headers: Vec<(String, Secret<String>)>,
    /// The environment variable that holds the bearer token.
    pub token_env: Option<String>,
    /// Do without a token where one is asked for.
    pub insecure: bool,
}

impl McpSettings {
    /// As whom we come to it, where that is said once for all (`specs/mcp.md` 2.3.5).
    pub(super) fn introduction(&self) -> Introduction {
        match (self.clients, self.share) {
            (Clients::Many, Share::All) => Introduction::AsOurselves(Json::from_trusted(ALL_OF_US)),
            (Clients::One, _) | (_, Share::Session) => Introduction::AsCaller,
        }
    }
}

/// What one or the other client can do: who cannot is not asked.
const ALL_OF_US: &str = r#"{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}"#;

/// How many clients there may be before an MCP server at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clients {
    /// One on a pipe, or nobody who speaks MCP.
    #[default]
    One,
    /// Whoever comes to a port of ours.
    Many,
}

/// Who shares one process of an MCP server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Share {
    /// Everybody.
    #[default]
    All,
    /// Nobody: each legacy session has its own.
    Session,
}

/// Something that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// From now on it is not shown.
    pub fn new(value: T) -> Secret<T> {
        Secret(value)
    }

    /// For whoever has to hand it on.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
