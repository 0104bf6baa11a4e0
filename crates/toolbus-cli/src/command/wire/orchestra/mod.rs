//! The programs of Orchestra: `toolbus orchestrator`, `toolbus plugin`, `toolbus transport-stdio`,
//! and `toolbus certs` for the certificates that they all need.

pub(super) mod certs;
pub(super) mod orchestrator;
mod plugin;
pub(super) mod transport_stdio;

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use toolbus::peer::PeerKind as _;
use toolbus::peer::decode::Decoding;
use toolbus::wire::orchestra::{ORCHESTRA, WIRE};
use toolbus_proto::tool::Wire;

use super::{Run, WireFace};
use crate::args::groups::Group;
use crate::command::decode::Side;

/// Its programs are listed together.
static GROUP: Group = Group { title: "Orchestra" };

/// Orchestra on the command line.
pub(super) static FACE: Face = Face;

pub(super) struct Face;

impl WireFace for Face {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn name(&self) -> &'static str {
        "plugin"
    }

    fn group(&self) -> &'static Group {
        &GROUP
    }

    fn command(&self) -> clap::Command {
        plugin::PluginArgs::augment_args(clap::Command::new(self.name()))
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(plugin::PluginArgs::from_arg_matches(matches)?))
    }

    fn decode_command(&self) -> clap::Command {
        DecodeArgs::augment_args(clap::Command::new("orchestra"))
    }

    fn decoding(&self, matches: &ArgMatches) -> Result<Box<dyn Decoding>, clap::Error> {
        let DecodeArgs { side } = DecodeArgs::from_arg_matches(matches)?;
        Ok(ORCHESTRA.decode(side.into()).expect("captures of Orchestra can be read"))
    }

    fn check_target(&self) -> &'static str {
        "an Orchestra hub or plugin by its address, `orchestra+quic://HOST:PORT`, or a plugin by its command line"
    }

    fn check_examples(&self) -> &'static [&'static str] {
        &["orchestra orchestra+quic://localhost:50100", "orchestra './my-plugin --verbose'"]
    }
}

/// Show what one side of an Orchestra stream says
///
/// Standard input is what one side wrote: frames, each a length of four bytes and a message of
/// Protobuf. A frame that is too large or cannot be read is told by `{"event":"error",…}`, and
/// reading goes on; the exit code is then 3.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:
  printf '\\0\\0\\0\\006\\n\\002h1j\\0' | toolbus decode orchestra --as call")]
pub(crate) struct DecodeArgs {
    /// Who wrote it: `call` for who asks, `response` for who answers
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
}
