//! `toolbus check`: does somebody's program keep the rules of its protocol?

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, FromArgMatches};
use toolbus::secrets::masked;
use toolbus::wire::Registry;
use toolbus::wire::check::{CheckKind, CheckOption, Finding, TargetError, Verdict, Wanted};
use toolbus::wire::settings::Settings;

use super::wire::{self, WireFace};
use crate::args::peer::{HttpArgs, ProgramArgs};
use crate::args::{Globals, value};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::runtime::{self, Signals};

#[derive(Debug, clap::Args)]
#[command(
    about = "Test somebody's program against the rules of its protocol",
    long_about = story(),
    after_long_help = examples()
)]
pub(crate) struct CheckArgs {
    /// Protocol it should speak
    #[arg(value_name = "PROTOCOL", value_parser = protocols())]
    pub(crate) protocol: String,
    /// Whom to test, e.g. `stdio:./my-oracle`
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) options: Options,
    /// Give up if it is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) start_timeout: Option<Duration>,
    /// Let it have this long to end by itself
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    pub(crate) stop_timeout: Duration,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
}

fn story() -> String {
    let targets: Vec<_> = wire::faces().map(WireFace::check_target).collect();
    let targets = targets.join("; ");
    // It begins a sentence.
    let (first, rest) = targets.split_at_checked(1).unwrap_or_default();
    format!(
        "Test somebody's program against the rules of its protocol\n\n\
         TARGET is talked to, several times. {}{rest}.\n\n\
         Each rule gets a line: `ok RULE`, `FAIL RULE: why` or `note RULE: why`, where a note is \
         nothing that the document demands. With `--json` it is \
         `{{\"rule\":…,\"outcome\":\"ok\",\"why\":…}}`. The exit code is 1 if a rule fails, and 3 if \
         TARGET cannot be started or reached at all.",
        first.to_uppercase()
    )
}

fn examples() -> String {
    let examples = wire::faces().flat_map(WireFace::check_examples);
    let lines: String = examples.map(|example| format!("\n  toolbus check {example}")).collect();
    format!("Examples:{lines}")
}

/// The wires whose rules are known, as the command line lists them.
fn protocols() -> PossibleValuesParser {
    let known = wire::FACES.iter().filter(|face| checked(face.wire().name()).is_some());
    PossibleValuesParser::new(known.map(|face| face.wire().name()))
}

fn checked(protocol: &str) -> Option<&'static dyn CheckKind> {
    Registry::default().find(protocol)?.check()
}

/// What can be said about the tests of one wire alone, as it was given.
#[derive(Debug, Default)]
pub(crate) struct Options(Vec<(&'static str, String)>);

impl Options {
    fn all() -> impl Iterator<Item = &'static CheckOption> {
        let checks = wire::FACES.into_iter().filter_map(|face| checked(face.wire().name()));
        checks.flat_map(CheckKind::options)
    }
}

impl clap::Args for Options {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(Options::all().map(|option| {
            Arg::new(option.name).long(option.name).value_name(option.value_name).help(option.help)
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Options::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Options, clap::Error> {
        let given = Options::all().filter_map(|option| {
            let value = matches.get_one::<String>(option.name)?;
            Some((option.name, value.clone()))
        });
        Ok(Options(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Options::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(crate) fn run(args: &CheckArgs, globals: &Globals) -> Result<(), Failed> {
    let kind = checked(&args.protocol)
        .ok_or_else(|| Failed::usage(format!("there are no tests for `{}`", args.protocol)))?;
    for (given, _) in &args.options.0 {
        if !kind.options().iter().any(|option| option.name == *given) {
            let whose = Options::all().find(|option| option.name == *given);
            let whose = whose.map_or("others", |option| option.only_for);
            return Err(Failed::usage(format!("`--{given}` is for {whose}")));
        }
    }
    let wanted = Wanted {
        start: args.start_timeout,
        stop: args.stop_timeout,
        settings: Settings {
            program: args.program.settings()?,
            credentials: args.http.credentials()?,
            ..Settings::default()
        },
        options: args.options.0.clone(),
    };
    let target = kind
        .target(&args.target, &wanted)
        .map_err(|TargetError { message, hint }| Failed::usage(message).hint_if_any(hint))?;
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let mut done = Ok(());
        let mut tell = |finding: Finding| {
            let line =
                if globals.json { finding.to_json().to_string() } else { finding.to_string() };
            let printed = render::print(&format!("{}\n", render::printable(&masked(&line))));
            let failed = matches!(finding.verdict, Verdict::Fail(_));
            if done.is_ok() && failed {
                done = Err(Failed::quietly(Exit::Failed));
            }
            if printed.is_err() {
                done = printed;
            }
        };
        tokio::select! {
            checked = target.check(&mut tell) => {
                checked.map_err(|failure| render::failure::failed(&failure))?;
            }
            exit = signals.next() => return Err(Failed::quietly(exit)),
        }
        done
    })
}
