//! `toolbus check`: does somebody's program keep the rules of its protocol?

use std::rc::Rc;
use std::time::Duration;

use toolbus::address::{Address, Place, Purpose};
use toolbus::child::{Patience, Program};
use toolbus::wire::check::{self, Subject, Verdict};
use toolbus::wire::mcp::back_http::Options;
use toolbus::wire::mcp::check as mcp;
use toolbus::wire::mediocre::check as mediocre;
use toolbus::wire::settings::Settings;
use toolbus_proto::tool::Failure;

use super::{oracle, rpc};
use crate::args::{Globals, value};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::runtime::{self, Signals};

/// Test somebody's program against the rules of its protocol
///
/// TARGET is talked to, several times. An oracle is named by its connection, `stdio:COMMAND`,
/// and started; an MCP server by its address, `mcp+stdio:COMMAND` or `mcp+http://HOST:PORT/PATH`;
/// a mediocre-rpc server by a URL as `toolbus rpc call` takes it.
///
/// Each rule gets a line: `ok RULE`, `FAIL RULE: why` or `note RULE: why`, where a note is
/// nothing that the document demands. With `--json` it is
/// `{"rule":…,"outcome":"ok","why":…}`. The exit code is 1 if a rule fails, and 3 if TARGET
/// cannot be started or reached at all.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus check oracle 'stdio:./my-oracle'
  toolbus check oracle 'stdio:toolbus oracle serve builtin:'
  toolbus check mcp 'mcp+stdio:python3 server.py'
  toolbus check mcp mcp+http://127.0.0.1:8932/mcp
  toolbus check mediocre tcp://127.0.0.1:7420 --method ping")]
pub(crate) struct CheckArgs {
    /// Protocol it should speak
    #[arg(value_name = "PROTOCOL")]
    pub(crate) protocol: Protocol,
    /// Whom to test, e.g. `stdio:./my-oracle`
    pub(crate) target: String,
    /// Method of a mediocre-rpc server that may be called with null, and as an empty stream
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Option<String>,
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
    Mediocre,
    Mcp,
}

pub(crate) fn run(args: &CheckArgs, globals: &Globals) -> Result<(), Failed> {
    let target = Target::read(args)?;
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
            checked = target.check(&mut tell) => {
                checked.map_err(|failure| render::failure::failed(&failure))?;
            }
            exit = signals.next() => return Err(Failed::quietly(exit)),
        }
        done
    })
}

/// Who is tested.
enum Target {
    Oracle(Subject),
    Mediocre(mediocre::Subject),
    Mcp(mcp::Subject),
}

impl Target {
    fn read(args: &CheckArgs) -> Result<Target, Failed> {
        match args.protocol {
            Protocol::Oracle | Protocol::Mcp if args.method.is_some() => {
                Err(Failed::usage("`--method` is for mediocre-rpc servers"))
            }
            Protocol::Oracle => Ok(Target::Oracle(Subject {
                program: program(&args.target)?,
                start: args.start_timeout.unwrap_or(Patience::ORACLE.start),
                stop: args.stop_timeout,
            })),
            Protocol::Mediocre => Ok(Target::Mediocre(mediocre::Subject {
                place: server(&args.target)?,
                method: args.method.clone(),
                start: args.start_timeout.unwrap_or(Patience::MEDIOCRE.start),
            })),
            Protocol::Mcp => Ok(Target::Mcp(mcp::Subject {
                place: mcp_server(&args.target)?,
                start: args.start_timeout.unwrap_or(Patience::MCP.start),
                stop: args.stop_timeout,
            })),
        }
    }

    async fn check(&self, tell: impl FnMut(check::Finding)) -> Result<(), Failure> {
        match self {
            Target::Oracle(subject) => toolbus::wire::oracle::check::check(subject, tell).await,
            Target::Mediocre(subject) => mediocre::check(subject, tell).await,
            Target::Mcp(subject) => mcp::check(subject, tell).await,
        }
    }
}

/// Where a mediocre-rpc server is.
fn server(target: &str) -> Result<mediocre::Place, Failed> {
    let address = rpc::address(Purpose::Call, target)?;
    mediocre::Place::of(&address).map_err(|error| Failed::usage(error.to_string()))
}

/// What to start for an oracle's connection string.
fn program(target: &str) -> Result<Program, Failed> {
    match oracle::connection(target)?.place() {
        Place::Command { wire: toolbus_proto::oracle::WIRE, words } => {
            Ok(Program::new(words.clone()))
        }
        _ => Err(Failed::usage(format!("`{target}` is no program that can be tested"))
            .hint("name one by `stdio:COMMAND`")),
    }
}

/// What to start or to reach for an MCP server's address.
fn mcp_server(target: &str) -> Result<mcp::Place, Failed> {
    let address = Address::parse(target).map_err(|error| Failed::usage(error.to_string()))?;
    match address.place() {
        Place::Command { wire: toolbus_proto::mcp::WIRE, words } => {
            Ok(mcp::Place::Program(Program::new(words.clone())))
        }
        Place::Url(url) if url.wire == toolbus_proto::mcp::WIRE => {
            let options = Options::of(&address.peer_name(), url, &Settings::default());
            let options = options.map_err(|error| Failed::usage(error.to_string()))?;
            Ok(mcp::Place::Url(Rc::new(options)))
        }
        _ => Err(Failed::usage(format!("`{target}` is no MCP server"))
            .hint("name one by `mcp+stdio:COMMAND` or `mcp+http://HOST:PORT/PATH`")),
    }
}
