//! `toolbus decode`: what a capture of a wire says, event by event.

use bytes::BytesMut;
use clap::{ArgMatches, FromArgMatches, Subcommand};
use toolbus::peer::decode::{Decoded, Decoding};
use toolbus_proto::capture;

use super::wire::{self, WireFace};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::runtime::{self, Signals};
use crate::stdio;

/// Show what the bytes of a capture say, event by event
///
/// Bytes go in on standard input, for each event one line of JSON comes out, as soon as it is
/// known. Where the capture breaks the rules of its wire, the last line says which and where,
/// and the exit code is 3.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DecodeCommand {
    #[command(flatten)]
    Wire(DecodeWire),
}

/// The same for one wire, with its own options.
pub(crate) struct DecodeWire(&'static dyn WireFace, Box<dyn Decoding>);

impl Subcommand for DecodeWire {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        command.subcommands(wire::FACES.iter().map(|face| face.decode_command()))
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        DecodeWire::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        wire::FACES.iter().any(|face| face.wire().name() == name)
    }
}

impl FromArgMatches for DecodeWire {
    fn from_arg_matches(matches: &ArgMatches) -> Result<DecodeWire, clap::Error> {
        let named = |name: &str| wire::FACES.into_iter().find(|face| face.wire().name() == name);
        match matches.subcommand().and_then(|(name, matches)| Some((named(name)?, matches))) {
            Some((face, matches)) => Ok(DecodeWire(face, face.decoding(matches)?)),
            None => Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = DecodeWire::from_arg_matches(matches)?;
        Ok(())
    }
}

impl std::fmt::Debug for DecodeWire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DecodeWire").field(&self.0.wire()).finish()
    }
}

/// Whose words a capture has.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Side {
    Call,
    Response,
}

impl From<Side> for capture::Side {
    fn from(side: Side) -> capture::Side {
        match side {
            Side::Call => capture::Side::Call,
            Side::Response => capture::Side::Response,
        }
    }
}

pub(crate) fn run(command: DecodeCommand) -> Result<(), Failed> {
    let DecodeCommand::Wire(DecodeWire(_, mut decoding)) = command;
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = print(&mut *decoding) => done,
            exit = signals.next() => Err(Failed::quietly(exit)),
        }
    })
}

async fn print(decoding: &mut dyn Decoding) -> Result<(), Failed> {
    let cannot_read = |error: std::io::Error| {
        Failed::new(Exit::Failed, "cannot read standard input").caused_by(&error)
    };
    let mut stdin = stdio::stdin().map_err(cannot_read)?;
    let mut input = BytesMut::new();
    loop {
        let is_end = stdin.read(&mut input).await.map_err(cannot_read)? == 0;
        let mut lines = String::new();
        let decoded = decoding.take(&mut input, is_end, &mut lines);
        // All that one read made known goes out at once.
        render::print(&lines)?;
        match decoded {
            // The lines have said all there is to say.
            Decoded::Broken => return Err(Failed::quietly(Exit::Unreachable)),
            Decoded::Wrong if is_end => return Err(Failed::quietly(Exit::Unreachable)),
            Decoded::More if is_end => return Ok(()),
            Decoded::Ended(0) => return Ok(()),
            Decoded::Ended(code) => return Err(Failed::quietly(Exit::of(code))),
            Decoded::More | Decoded::Wrong => {}
        }
    }
}
