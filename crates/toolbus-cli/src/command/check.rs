//! `toolbus check`: does a program keep the rules of its protocol?

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgMatches, FromArgMatches};
use toolbus::address::Address;
use toolbus::peer::settings::Settings;
use toolbus::wire::found;
use toolbus_check::{CheckKind, CheckOption, Finding, Target, TargetError, Verdict, Wanted};
use toolbus_engine::secrets::masked;
use toolbus_proto::did_you_mean::nearest;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Failure, FailureKind};

use super::wire::{self, WireFace};
use crate::args::peer::{HttpArgs, LimitArgs, ProgramArgs};
use crate::args::{Globals, value};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::logging::DONE;
use crate::peers::no_address;
use crate::render::{self, failure, table};
use crate::runtime::{self, Signals};
use crate::stderr;
use crate::stdio::Terminal as _;

/// After so long people are told what is waited for.
const LONG: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(
    about = "Test a program against the rules of its protocol",
    long_about = story(),
    override_usage = USAGE,
    after_long_help = examples()
)]
pub(crate) struct CheckArgs {
    /// Protocol it should speak [default: what it does speak]
    #[arg(value_name = "PROTOCOL", value_parser = ProtocolParser)]
    pub(crate) protocol: Option<String>,
    /// Program or server to test, e.g. `./my-oracle`
    pub(crate) target: Option<String>,
    /// Say what each rule asks for; without TARGET that is all
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// Let it have this long to end by itself
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    pub(crate) stop_timeout: Duration,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
}

const USAGE: &str = "toolbus check [OPTIONS] [PROTOCOL] <TARGET>";

fn story() -> String {
    let targets: Vec<_> = wire::faces().map(WireFace::check_target).collect();
    let targets = targets.join("; ");
    // It begins a sentence.
    let (first, rest) = targets.split_at_checked(1).unwrap_or_default();
    format!(
        "Test a program against the rules of its protocol\n\n\
         TARGET is talked to, several times. {}{rest}. Without PROTOCOL it is an address or a \
         command: the address says what it speaks, and of a command that is found out.\n\n\
         Each rule gets a line: `ok RULE`, `FAIL RULE: why` or `note RULE: why`, where a note is \
         nothing that the document demands. With `--json` it is \
         `{{\"rule\":…,\"outcome\":\"ok\",\"why\":…}}`. The exit code is 1 if a rule fails, and 3 if \
         TARGET cannot be started or reached at all. `--explain` says what each rule asks for.",
        first.to_uppercase()
    )
}

fn examples() -> String {
    let examples = wire::faces().flat_map(WireFace::check_examples);
    let lines: String = examples.map(|example| format!("\n  toolbus check {example}")).collect();
    format!("Examples:{lines}")
}

/// The wires whose rules are known, as the command line lists them.
fn protocols() -> impl Iterator<Item = &'static str> {
    let names = wire::FACES.iter().map(|face| face.wire().name());
    names.filter(|name| checked(name).is_some())
}

/// Takes any word, since one that stands alone may be TARGET, and says which ones are meant.
#[derive(Clone)]
struct ProtocolParser;

impl TypedValueParser for ProtocolParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(protocols().map(PossibleValue::new)))
    }
}

fn checked(protocol: &str) -> Option<&'static dyn CheckKind> {
    toolbus_check::find(protocol)
}

/// What can be said about the tests of one wire alone, as it was given.
#[derive(Debug, Default)]
pub(crate) struct Options(Vec<(&'static str, String)>);

impl Options {
    fn all() -> impl Iterator<Item = &'static CheckOption> {
        let checks = wire::FACES.into_iter().filter_map(|face| checked(face.wire().name()));
        let mut all: Vec<&CheckOption> = Vec::new();
        for option in checks.flat_map(CheckKind::options) {
            // What two wires call the same is one flag.
            if all.iter().all(|known| known.name != option.name) {
                all.push(option);
            }
        }
        all.into_iter()
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

/// What is to be tested, as far as it was said.
enum Asked<'a> {
    By(&'static dyn CheckKind, &'a str),
    /// By the rules of what it speaks.
    Alone(Address),
}

impl Asked<'_> {
    fn of<'a>(args: &'a CheckArgs, protocol: &'a str) -> Result<Asked<'a>, Failed> {
        match (checked(protocol), &args.target) {
            (Some(kind), Some(target)) => Ok(Asked::By(kind, target)),
            (Some(_), None) => Err(missing("TARGET")),
            (None, Some(_)) => {
                let meant = nearest(protocol, protocols());
                let meant = meant.map(|meant| format!("did you mean `{meant}`?"));
                Err(Failed::usage(format!("`PROTOCOL` cannot be `{protocol}`")).hint_if_any(meant))
            }
            (None, None) => {
                let address = Address::parse(protocol).map_err(|error| no_address(&error))?;
                Ok(Asked::Alone(address))
            }
        }
    }
}

fn missing(what: &str) -> Failed {
    Failed::usage(format!("{what} is missing"))
        .lines([format!("usage: {}", USAGE.replace("[OPTIONS] ", ""))])
        .hint("`--help` tells more")
}

pub(crate) fn run(args: &CheckArgs, globals: &Globals) -> Result<(), Failed> {
    let Some(protocol) = &args.protocol else { return Err(missing("TARGET")) };
    if let (true, None, Some(kind)) = (args.explain, &args.target, checked(protocol)) {
        args.fit(kind)?;
        return render::print(&explained(kind, globals));
    }
    let wanted = Wanted {
        start: args.limit.start_timeout,
        stop: args.stop_timeout,
        settings: Settings {
            program: args.program.settings()?,
            credentials: args.http.credentials()?,
            ..Settings::default()
        },
        options: args.options.0.clone(),
    };
    let asked = Asked::of(args, protocol)?;
    if let Asked::By(kind, target) = asked {
        let target = args.target(kind, target, &wanted)?;
        return runtime::block_on(async {
            let mut signals = Signals::listen()?;
            test(args, globals, kind, &*target, &mut signals).await
        });
    }
    let Asked::Alone(address) = asked else { return Ok(()) };
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let settings =
            Settings { start_timeout: args.limit.start_timeout, ..wanted.settings.clone() };
        let spelled = tokio::select! {
            spelled = found::spelled_out(&address, &settings) => {
                spelled.map_err(|failure| failure::failed(&failure))?
            }
            exit = signals.next() => return Err(Failed::quietly(exit)),
            missed = over(&args.limit) => return Err(failure::failed(&missed)),
        };
        let kind = checked(spelled.kind().name()).ok_or_else(|| {
            let message = format!("there are no tests for {}", spelled.kind().summary());
            Failed::usage(message)
        })?;
        if address.is_bare() && !globals.quiet {
            let (summary, command) = (spelled.kind().summary(), spelled.wire().name());
            let line = format!("it is {summary}, tested by `toolbus check {command}`\n");
            stderr::write(&line);
        }
        let target = args.target(kind, &spelled.to_string(), &wanted)?;
        test(args, globals, kind, &*target, &mut signals).await
    })
}

impl CheckArgs {
    /// Only what can be said about tests of this wire must have been said.
    fn fit(&self, kind: &dyn CheckKind) -> Result<(), Failed> {
        for (given, _) in &self.options.0 {
            if !kind.options().iter().any(|option| option.name == *given) {
                let whose = Options::all().find(|option| option.name == *given);
                let whose = whose.map_or("others", |option| option.only_for);
                return Err(Failed::usage(format!("`--{given}` is for {whose}")));
            }
        }
        Ok(())
    }

    fn target(
        &self,
        kind: &dyn CheckKind,
        text: &str,
        wanted: &Wanted,
    ) -> Result<Box<dyn Target>, Failed> {
        self.fit(kind)?;
        kind.target(text, wanted)
            .map_err(|TargetError { message, hint }| Failed::usage(message).hint_if_any(hint))
    }
}

/// Tests it, and prints what becomes of each rule.
async fn test(
    args: &CheckArgs,
    globals: &Globals,
    kind: &dyn CheckKind,
    target: &dyn Target,
    signals: &mut Signals,
) -> Result<(), Failed> {
    let mut done = Ok(());
    let awaited = Awaited::of(kind);
    let mut summary = Summary::default();
    let mut tell = |finding: Finding| {
        let line = if globals.json { finding.to_json().to_string() } else { finding.to_string() };
        let sentence = sentence(kind, finding.rule);
        debug_assert!(sentence.is_some(), "`{}` is not explained", finding.rule);
        let sentence = sentence.filter(|_| args.explain && !globals.json);
        let sentence = sentence.map_or(String::new(), |sentence| format!("   {sentence}\n"));
        let line = render::printable(&masked(&line)).into_owned();
        let printed = render::print(&format!("{line}\n{sentence}"));
        awaited.told(finding.rule);
        let failed = matches!(finding.verdict, Verdict::Fail(_));
        summary.count(&finding.verdict);
        if done.is_ok() && failed {
            done = Err(Failed::quietly(Exit::Failed));
        }
        if printed.is_err() {
            done = printed;
        }
    };
    tokio::select! {
        checked = target.check(&mut tell) => {
            checked.map_err(|failure| failure::failed(&failure))?;
        }
        exit = signals.next() => return Err(Failed::quietly(exit)),
        never = awaited.tell() => match never {},
        missed = over(&args.limit) => {
            let missed = failure::failed(&missed);
            return Err(match awaited.rule() {
                Some(rule) => missed.lines([format!("it was still tested for `{rule}`")]),
                None => missed,
            });
        }
    }
    // Standard output has a line for each rule and no other.
    if io::stderr().is_terminal() && !globals.quiet && !globals.json {
        stderr::write(&summary.line());
    }
    done
}

/// How many rules there were, for people who do not count them.
#[derive(Default)]
struct Summary {
    rules: usize,
    failed: usize,
    noted: usize,
}

impl Summary {
    fn count(&mut self, verdict: &Verdict) {
        self.rules += 1;
        match verdict {
            Verdict::Ok => {}
            Verdict::Fail(_) => self.failed += 1,
            Verdict::Note(_) => self.noted += 1,
        }
    }

    fn line(&self) -> String {
        let Summary { rules, failed, noted } = *self;
        match (failed, noted) {
            (0, 0) => format!("{rules} rules, all ok\n"),
            (0, _) => format!("{rules} rules, none fails, {noted} noted\n"),
            (_, 0) => format!("{rules} rules, {failed} failed\n"),
            (_, _) => format!("{rules} rules, {failed} failed, {noted} noted\n"),
        }
    }
}

/// Waits until the time for all of it is over, if there is a limit.
async fn over(limit: &LimitArgs) -> Failure {
    match limit.timeout {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            Failure::new(FailureKind::TimedOut, format!("not done within {limit:?}"))
        }
        None => std::future::pending().await,
    }
}

/// The rules of a wire and what each asks for.
fn explained(kind: &dyn CheckKind, globals: &Globals) -> String {
    if globals.json {
        let line = |(rule, sentence): &(&str, &str)| {
            format!("{{\"rule\":{},\"explanation\":{}}}\n", Json::of(rule), Json::of(sentence))
        };
        return kind.rules().iter().map(line).collect();
    }
    let row = |(rule, sentence): &(&str, &str)| [(*rule).to_owned(), (*sentence).to_owned()];
    table::plain(&kind.rules().iter().map(row).collect::<Vec<_>>())
}

fn sentence(kind: &dyn CheckKind, rule: &str) -> Option<&'static str> {
    kind.rules().iter().find(|(known, _)| *known == rule).map(|(_, sentence)| *sentence)
}

/// The rule whose verdict is awaited, for people who wonder why nothing happens.
struct Awaited {
    rules: &'static [(&'static str, &'static str)],
    /// Which of them comes next.
    next: Cell<usize>,
}

impl Awaited {
    fn of(kind: &dyn CheckKind) -> Awaited {
        Awaited { rules: kind.rules(), next: Cell::new(0) }
    }

    fn told(&self, rule: &str) {
        if let Some(at) = self.rules.iter().position(|(known, _)| *known == rule) {
            self.next.set(at + 1);
        }
    }

    fn rule(&self) -> Option<&'static str> {
        self.rules.get(self.next.get()).map(|(rule, _)| *rule)
    }

    /// Says after a while what is waited for, once for each rule.
    async fn tell(&self) -> Infallible {
        let mut said = None;
        loop {
            let next = self.next.get();
            tokio::time::sleep(LONG).await;
            if let Some((rule, sentence)) = self.rules.get(next)
                && self.next.get() == next
                && said.replace(next) != Some(next)
            {
                let message = format!("still waiting, to see about `{rule}`: {sentence}");
                // A script has no use for it.
                match io::stderr().is_terminal() {
                    true => tracing::warn!(target: DONE, "{message}"),
                    false => tracing::info!("{message}"),
                }
            }
        }
    }
}
