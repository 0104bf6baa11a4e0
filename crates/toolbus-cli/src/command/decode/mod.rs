//! `toolbus decode`: what a capture of a wire says, event by event.

mod lines;
mod mediocre;

use toolbus_proto::capture;
use toolbus_proto::mediocre::decode::{BlobLen, Direction};

pub(crate) use lines::{mcp, oracle};
pub(crate) use mediocre::{Blob, mediocre};

/// Show what the bytes of a capture say, event by event
///
/// Bytes go in on standard input, for each event one line of JSON comes out, as soon as it is
/// known. Where the capture breaks the rules of its wire, the last line says which and where,
/// and the exit code is 3.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DecodeCommand {
    Oracle(OracleArgs),
    Mediocre(MediocreArgs),
    Mcp(McpArgs),
}

/// Show what one side of an oracle's conversation says
///
/// Standard input is what one side wrote, a message a line. What is no message of the protocol
/// is told as `{"event":"other","line":…}`; ids stand as they were sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus decode oracle --as call < what-the-executor-wrote
  ./my-oracle < calls | toolbus decode oracle --as response")]
pub(crate) struct OracleArgs {
    /// Who wrote it: `call` for the executor, `response` for the oracle
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
}

/// Show what one direction of a mediocre-rpc connection says
///
/// Standard input is what one side wrote, from the first byte of the connection or body on:
/// `--as call` for the side that calls, `--as response` for the side that answers.
///
/// A blob is printed when it is complete, in base64; one over 16 MiB by its length and hash.
/// What breaks a rule that nobody insists on is a line `{"event":"note",…}` behind its event.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  printf '{\"method\":\"add\",\"args\":[1,2]}' | toolbus decode mediocre --as call
  toolbus decode mediocre --as response --strict < capture.bin")]
pub(crate) struct MediocreArgs {
    /// Who wrote it: `call` for the caller, `response` for the server
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
    /// What ends a blob of announced length: its length (`exact`) or its frame (`hint`)
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) blob_len: Ends,
    /// Take what would be noted for an error
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Show what one side of an MCP conversation says
///
/// Standard input is what a client or a server wrote, a message a line. What is no message of
/// the protocol is told as `{"event":"other","line":…}`; ids and values stand as they were sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus decode mcp --as call < what-the-client-wrote
  ./my-server < messages | toolbus decode mcp --as response")]
pub(crate) struct McpArgs {
    /// Who wrote it: `call` for the client, `response` for the server
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Side {
    Call,
    Response,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum Ends {
    #[default]
    Exact,
    Hint,
}

impl From<Side> for capture::Side {
    fn from(side: Side) -> capture::Side {
        match side {
            Side::Call => capture::Side::Call,
            Side::Response => capture::Side::Response,
        }
    }
}

impl From<Side> for Direction {
    fn from(side: Side) -> Direction {
        match side {
            Side::Call => Direction::Call,
            Side::Response => Direction::Response,
        }
    }
}

impl From<Ends> for BlobLen {
    fn from(ends: Ends) -> BlobLen {
        match ends {
            Ends::Exact => BlobLen::Exact,
            Ends::Hint => BlobLen::Hint,
        }
    }
}
