//! What only one wire has on the command line: a folder each, and a line here.

mod godex;
mod mcp;
mod mediocre;
mod nats;
mod oracle;
mod orchard;
mod orchestra;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, FromArgMatches, Subcommand};
use toolbus::bus::Bus;
use toolbus::bus::back::LocalFuture;
use toolbus::peer::decode::Decoding;
use toolbus::peer::{PeerKind, Registry};
use toolbus_check::fixture::Probe;
use toolbus_engine::child::Running;
use toolbus_proto::tool::Wire;

use crate::args::Globals;
use crate::args::groups::{self, Group};
use crate::clients::ClientConfigs;
use crate::failed::Failed;
use crate::peers::Peers;

/// All of them, in the order in which they are listed.
pub(crate) static FACES: [&dyn WireFace; 7] = [
    &oracle::FACE,
    &mediocre::FACE,
    &mcp::FACE,
    &orchard::FACE,
    &orchestra::FACE,
    &godex::FACE,
    &nats::FACE,
];

/// What the command line says about one wire, and its own command.
pub(crate) trait WireFace: Sync {
    /// The wire.
    fn wire(&self) -> Wire;

    /// What its own command is called.
    fn name(&self) -> &'static str;

    /// Where that is listed.
    fn group(&self) -> &'static Group {
        &groups::SERVE
    }

    /// Its own command, with its arguments and their help.
    fn command(&self) -> clap::Command;

    /// What that command is to do.
    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error>;

    /// `toolbus decode` for it, with its arguments and their help.
    fn decode_command(&self) -> clap::Command;

    /// How a capture is to be read.
    fn decoding(&self, matches: &ArgMatches) -> Result<Box<dyn Decoding>, clap::Error>;

    /// How `toolbus check` is told whom to test: `an MCP server by its address …`.
    fn check_target(&self) -> &'static str;

    /// Arguments of `toolbus check`, as examples.
    fn check_examples(&self) -> &'static [&'static str];

    /// A front for the example of a config: its name, and what it listens on.
    fn front_example(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The configs that clients of this wire have, if there are any that we read.
    fn client_configs(&self) -> Option<&'static dyn ClientConfigs> {
        None
    }

    /// What a peer of it has besides tools, by kind, and how much of it.
    fn has_besides<'a>(
        &'a self,
        _bus: &'a Bus,
        _peers: &'a Peers,
        _globals: &'a Globals,
    ) -> LocalFuture<'a, Vec<(&'static str, usize)>> {
        Box::pin(async { Vec::new() })
    }

    /// The name under which the program has this command alone, if there is one.
    fn program(&self) -> Option<&'static str> {
        None
    }

    /// What goes to standard output where these words make no sense, besides the report.
    fn complaint(&self, _words: &[OsString], _failed: &Failed) -> Option<String> {
        None
    }

    /// Its ends in the tour, where this program is no peer of it as it is of others.
    fn ends(&self) -> Option<&'static dyn Ends> {
        None
    }

    /// Where its ends meet in the tour, if neither starts the other.
    fn meeting(&self) -> Option<&'static dyn Meeting> {
        None
    }

    /// What the tour ends with, if there is something to try.
    fn to_try(&self) -> &'static [&'static str] {
        &[]
    }
}

/// The ends of a wire whose back has one tool of its own, and whose front has no caller that
/// could be told what to call.
pub(crate) trait Ends: Sync {
    /// What stands before the command of a back, and the words that make this program one.
    fn back(&self) -> (&'static str, &'static [&'static str]);

    /// What is called of such a back.
    fn hello(&self) -> Probe;

    /// Starts `program` as a front before the peer at `address`, makes its caller call a tool,
    /// and gives what that caller is told, as JSON.
    fn call<'a>(
        &self,
        program: &'a str,
        address: &'a str,
        hello: Probe,
    ) -> LocalFuture<'a, Result<String, Failed>>;
}

/// A wire whose fronts and backs meet at a server that is neither.
pub(crate) trait Meeting: Sync {
    /// Finds such a server, or starts one that may use this folder; why there is none otherwise.
    fn open<'a>(&self, folder: &'a Path) -> LocalFuture<'a, Result<Box<dyn MeetingPlace>, String>>;
}

/// A server at which they meet, as long as this is kept.
pub(crate) trait MeetingPlace {
    /// Makes `program` serve the tools at `served` there, as long as it is kept running, and gives
    /// the address at which they are called.
    fn serve<'a>(
        &'a self,
        program: &'a str,
        served: &'a str,
    ) -> LocalFuture<'a, Result<(String, Running), Failed>>;
}

/// Commands that a wire has besides the one of its face.
pub(crate) static VERBS: &[&dyn Verb] = &[
    &orchard::scenario::VERB,
    &orchestra::certs::VERB,
    &orchestra::orchestrator::VERB,
    &mcp::context::PROMPT,
    &mcp::context::RESOURCE,
    &orchestra::transport_stdio::VERB,
];

/// One more command of a wire.
pub(crate) trait Verb: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Where it is listed.
    fn group(&self) -> &'static Group;

    /// The command, with its arguments and their help.
    fn command(&self) -> clap::Command;

    /// What that command is to do.
    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error>;

    /// What may follow on an unfinished line of this command, where only its peer knows; each with
    /// what it means.
    fn complete(&self, _line: &Unfinished<'_>) -> Option<Vec<(String, String)>> {
        None
    }

    /// Is a link of its name to the program this command?
    fn is_program(&self) -> bool {
        false
    }

    /// May its long flags begin with one dash, as those of Go programs do?
    fn takes_single_dashes(&self) -> bool {
        false
    }
}

/// The commands of single wires, each with where it is listed.
pub(crate) fn grouped() -> impl Iterator<Item = (&'static Group, &'static str)> {
    let verbs = VERBS.iter().map(|verb| (verb.group(), verb.name()));
    FACES.into_iter().map(|face| (face.group(), face.name())).chain(verbs)
}

/// An unfinished line of a command.
pub(crate) struct Unfinished<'a> {
    /// The commands behind its own.
    pub(crate) commands: &'a [&'a str],
    /// What stands behind them besides flags.
    pub(crate) positional: &'a [&'a str],
    /// The word that is not finished.
    pub(crate) word: &'a str,
    /// The config that was named.
    pub(crate) config: Option<PathBuf>,
}

/// What may follow on a line of the command `name`, where only its peer knows.
pub(crate) fn completed(name: &str, line: &Unfinished<'_>) -> Option<Vec<(String, String)>> {
    let verb = VERBS.iter().find(|verb| verb.command().get_name() == name)?;
    verb.complete(line)
}

/// The words of a command line as clap takes them: a program that was started by a link named like
/// one of these commands is that command, and some take long flags with one dash.
pub(crate) fn spelled_out(words: &[OsString]) -> Vec<OsString> {
    let mut words = words.to_vec();
    let started_as = words.first().and_then(|word| Path::new(word).file_name()?.to_str());
    let program = started_as.and_then(|name| {
        let verb = VERBS.iter().find(|verb| verb.name() == name)?;
        verb.is_program().then(|| OsString::from(name))
    });
    if let Some(name) = program {
        words.insert(1, name);
    }
    let at = words.iter().position(|word| {
        let named = |verb: &&&dyn Verb| word.to_str() == Some(verb.name());
        VERBS.iter().find(named).is_some_and(|verb| verb.takes_single_dashes())
    });
    // A command stands behind nothing but flags.
    let is_flag = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with('-'));
    if let Some(at) = at.filter(|at| words[1..*at].iter().all(is_flag)) {
        for word in &mut words[at + 1..] {
            let Some(text) = word.to_str() else { continue };
            let is_long = text.len() > 2 && text.starts_with('-') && !text.starts_with("--");
            // `-vv` is a flag that is given twice.
            let is_repeated = |letters: &[u8]| letters.iter().all(|letter| *letter == letters[0]);
            if is_long && !is_repeated(&text.as_bytes()[1..]) {
                *word = format!("-{text}").into();
            }
        }
    }
    words
}

/// A command that was read.
pub(crate) trait Run: fmt::Debug {
    fn run(&self, globals: &Globals) -> Result<(), Failed>;
}

/// All of them, in the order of the registry.
pub(crate) fn faces() -> impl Iterator<Item = &'static dyn WireFace> {
    let wires: Vec<_> = Registry::default().wires().map(PeerKind::wire).collect();
    wires.into_iter().filter_map(|wire| FACES.into_iter().find(|face| face.wire() == wire))
}

/// The wire whose program we are, by the name that we were started under.
pub(crate) fn of_program(words: &[OsString]) -> Option<&'static dyn WireFace> {
    let name = Path::new(words.first()?).file_name().and_then(OsStr::to_str)?;
    FACES.into_iter().find(|face| face.program() == Some(name))
}

/// What goes to standard output where a command line makes no sense.
pub(crate) fn complaint(words: &[OsString], failed: &Failed) -> Option<String> {
    FACES.iter().find_map(|face| face.complaint(words, failed))
}

/// The commands of single wires, by their names.
#[derive(Debug)]
pub(crate) struct WireCommand(Box<dyn Run>);

impl WireCommand {
    /// The command of one wire.
    pub(crate) fn of(
        face: &dyn WireFace,
        matches: &ArgMatches,
    ) -> Result<WireCommand, clap::Error> {
        face.read(matches).map(WireCommand)
    }

    pub(crate) fn run(&self, globals: &Globals) -> Result<(), Failed> {
        self.0.run(globals)
    }
}

#[cfg(test)]
thread_local! {
    /// How often all of them were built, which is most of what a start costs.
    pub(crate) static BUILT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Subcommand for WireCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        #[cfg(test)]
        BUILT.set(BUILT.get() + 1);
        let verbs = VERBS.iter().map(|verb| verb.command());
        let mut commands: Vec<_> = FACES.iter().map(|face| face.command()).chain(verbs).collect();
        commands.sort_by(|one, other| one.get_name().cmp(other.get_name()));
        command.subcommands(commands)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        WireCommand::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        FACES.iter().any(|face| face.name() == name) || VERBS.iter().any(|verb| verb.name() == name)
    }
}

impl FromArgMatches for WireCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<WireCommand, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let face = FACES.into_iter().find(|face| face.name() == name);
        let verb = VERBS.iter().find(|verb| verb.name() == name);
        let read = face.map(|face| face.read(matches));
        read.or_else(|| verb.map(|verb| verb.read(matches))).ok_or_else(missing)?.map(WireCommand)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = WireCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A command that has commands of its own.
fn with_subcommands<C: Subcommand>(name: &'static str) -> clap::Command {
    let command = clap::Command::new(name).subcommand_required(true).arg_required_else_help(true);
    C::augment_subcommands(command)
}
