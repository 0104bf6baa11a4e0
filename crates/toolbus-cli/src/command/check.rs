//! `toolbus check`: does somebody's program keep the rules of its protocol?

use std::time::Duration;

use toolbus::address::Place;
use toolbus::check::{self, Subject, Verdict};
use toolbus::child::{Patience, Program};
use toolbus_proto::tool::Wire;

use super::oracle;
use crate::args::{Globals, value};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::runtime::{self, Signals};

/// Test somebody's program against the rules of its protocol
///
/// TARGET is started, several times, and talked to; an oracle is named by its connection,
/// `stdio:COMMAND`. Each rule gets a line: `ok RULE`, `FAIL RULE: why` or `note RULE: why`,
/// where a note is nothing that the document demands. With `--json` it is
/// `{"rule":…,"outcome":"ok","why":…}`. The exit code is 1 if a rule fails, and 3 if TARGET
/// cannot be started at all.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus check oracle 'stdio:./my-oracle'
  toolbus check oracle 'stdio:toolbus oracle serve builtin:'")]
pub(crate) struct CheckArgs {
    /// Protocol it should speak
    #[arg(value_name = "PROTOCOL")]
    pub(crate) protocol: Protocol,
    /// Program to test, e.g. `stdio:./my-oracle`
    pub(crate) target: String,
    /// Give up if it is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) start_timeout: Option<Duration>,
    /// Let it have this long to end by itself
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    pub(crate) stop_timeout: Duration,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Protocol {
    Oracle,
}

pub(crate) fn run(args: &CheckArgs, globals: &Globals) -> Result<(), Failed> {
    let Protocol::Oracle = args.protocol;
    let subject = Subject {
        program: program(&args.target)?,
        start: args.start_timeout.unwrap_or(Patience::ORACLE.start),
        stop: args.stop_timeout,
    };
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let mut done = Ok(());
        let mut tell = |finding: check::Finding| {
            let line =
                if globals.json { finding.to_json().to_string() } else { finding.to_string() };
            let printed = render::print(&format!("{}\n", render::printable(&line)));
            let failed = matches!(finding.verdict, Verdict::Fail(_));
            if done.is_ok() && failed {
                done = Err(Failed::quietly(Exit::Failed));
            }
            if printed.is_err() {
                done = printed;
            }
        };
        tokio::select! {
            checked = check::oracle::check(&subject, &mut tell) => {
                checked.map_err(|failure| render::failure::failed(&failure))?;
            }
            exit = signals.next() => return Err(Failed::quietly(exit)),
        }
        done
    })
}

/// What to start for an oracle's connection string.
fn program(target: &str) -> Result<Program, Failed> {
    match oracle::connection(target)?.place() {
        Place::Command { wire: Wire::Oracle, words } => Ok(Program::new(words.clone())),
        _ => Err(Failed::usage(format!("`{target}` is no program that can be tested"))
            .hint("name one by `stdio:COMMAND`")),
    }
}
