//! Oracles for hosts that call and wait: an executor inside a VM, without any runtime.
//!
//! [`Oracles`] starts each oracle at its first call and keeps it; [`serve`] is the other side,
//! a tool that answers in place.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::oracle::cairo::{self, Cheatcode, SelectorForm};
use toolbus_proto::oracle::felt::{Felt, Leniency};
use toolbus_proto::oracle::shell::Exec;
use toolbus_proto::oracle::{Client, Functions, felts};
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind, Outcome, What};

use crate::address::Place;
use crate::child::supervisor::{Conversations, Restart, Supervisor};
use crate::child::{Patience, Program, shell};
use crate::engine::blocking::calling::Caller;
use crate::peer::OpenError;

pub use crate::engine::blocking::serving::{serve, serve_on};

/// What can be set about the oracles of one host.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long one call may take; `None` is for ever.
    pub timeout: Option<Duration>,
    /// How long an oracle may take from its start until it is ready.
    pub start_timeout: Duration,
    /// How long an oracle may take from our goodbye until its end.
    pub stop_timeout: Duration,
    /// The longest line, without its newline.
    pub line_bytes_max: usize,
    /// What becomes of felts that are not below the prime.
    pub leniency: Leniency,
    /// May `shell:` be called? A caller of it can run any command.
    pub allow_shell: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let wire = toolbus_proto::oracle::Settings::default();
        Settings {
            timeout: None,
            start_timeout: crate::wire::oracle::PATIENCE.start,
            stop_timeout: crate::wire::oracle::PATIENCE.stop,
            line_bytes_max: wire.line_bytes_max,
            leniency: wire.leniency,
            allow_shell: false,
        }
    }
}

/// The oracles of one host, each started by its first call and kept until the host ends.
///
/// It may be sent to another thread and is used by one at a time: an executor's calls are
/// strictly one after another. [`Oracles::shutdown`] says goodbye; dropping it without that
/// kills what oracles are left, and none survives the host however it ends.
///
/// ```
/// use toolbus::wire::oracle::blocking::{Oracles, Settings};
/// use toolbus_proto::oracle::felt::Felt;
///
/// // An oracle of three lines: it is ready, it hears that we know, it answers.
/// let connection = r#"stdio:sh -c 'echo "$0"; read ack; read call; echo "$1"'
///     '{"jsonrpc":"2.0","id":0,"method":"ready"}'
///     '{"jsonrpc":"2.0","id":0,"result":["0x2a"]}'"#;
///
/// let mut oracles = Oracles::new(Settings::default());
/// let answer = oracles.invoke(connection, "ask", &[Felt::ONE])?;
/// assert_eq!(answer, [Felt::from(42)]);
/// oracles.shutdown();
/// # Ok::<(), toolbus_proto::tool::Failure>(())
/// ```
pub struct Oracles {
    settings: Settings,
    opened: Opened,
}

/// The oracles that were called once, by the exact text of their connection strings.
#[derive(Default)]
struct Opened {
    /// The one that was called last: most calls go to the same again.
    recent: Option<(String, Oracle)>,
    others: HashMap<String, Oracle>,
}

enum Oracle {
    Stdio(Box<Caller<Client>>),
    Shell,
}

impl Oracles {
    /// Starts nothing yet.
    pub fn new(settings: Settings) -> Oracles {
        Oracles { settings, opened: Opened::default() }
    }

    /// Calls a function of an oracle and waits for its answer.
    ///
    /// `connection` is `stdio:<command>`, or `shell:` where that is allowed. An oracle that
    /// has died is started anew, but a call that was under way then is never repeated.
    pub fn invoke(
        &mut self,
        connection: &str,
        selector: &str,
        calldata: &[Felt],
    ) -> Result<Vec<Felt>, Failure> {
        let Oracles { settings, opened } = self;
        match opened.find_or_open(settings, connection)? {
            Oracle::Stdio(caller) => invoke(settings, caller, selector, calldata),
            Oracle::Shell => exec(settings, selector, calldata),
        }
    }

    /// Answers a Cairo program that asks by its cheatcode: felts in, felts out.
    ///
    /// In: the connection string as a `ByteArray`, the selector in the form that the
    /// program's library uses, the arguments. Out: what the program reads as a
    /// `Result<_, oracle::Error>`. Whatever goes wrong, with the input too, is such an error:
    /// a failing oracle never stops the program.
    pub fn oracle_invoke(&mut self, form: SelectorForm, felts: &[Felt]) -> Vec<Felt> {
        let Cheatcode { connection, selector, calldata } = match Cheatcode::parse(felts, form) {
            Ok(cheatcode) => cheatcode,
            Err(error) => return cairo::error(&error.to_string()),
        };
        match self.invoke(&connection, &selector, calldata) {
            Ok(felts) => cairo::ok(&felts),
            Err(failure) => cairo::error(&failure.message),
        }
    }

    /// Says goodbye to all oracles and waits until none is left, however long they take
    /// together: the stop time-out, and at most a few seconds for those who would not go.
    pub fn shutdown(self) {
        let Opened { recent, others } = self.opened;
        let oracles = others.into_values().chain(recent.map(|(_, oracle)| oracle));
        let callers = oracles.filter_map(|oracle| match oracle {
            Oracle::Stdio(caller) => Some(caller),
            Oracle::Shell => None,
        });
        let mut callers: Vec<_> = callers.filter(|caller| !caller.is_idle()).collect();
        let Some((first, others)) = callers.split_first_mut() else { return };
        // All of them are waited for at once, or ten slow ones would take ten times as long.
        thread::scope(|scope| {
            for caller in others {
                let goodbye = thread::Builder::new().name("toolbus goodbye".into());
                // Where there is no thread to be had, it is killed when it is dropped.
                let _ = goodbye.spawn_scoped(scope, || caller.shutdown());
            }
            first.shutdown();
        });
    }
}

impl Opened {
    fn find_or_open(
        &mut self,
        settings: &Settings,
        connection: &str,
    ) -> Result<&mut Oracle, Failure> {
        let is_recent = self.recent.as_ref().is_some_and(|(recent, _)| recent == connection);
        if !is_recent {
            let found = match self.others.remove_entry(connection) {
                Some(found) => found,
                None => (connection.to_owned(), Oracle::open(connection, settings)?),
            };
            self.others.extend(self.recent.replace(found));
        }
        let (_, oracle) = self.recent.as_mut().expect("it was just put there");
        Ok(oracle)
    }
}

impl Oracle {
    fn open(connection: &str, settings: &Settings) -> Result<Oracle, Failure> {
        let refused = |message: String| Failure::new(FailureKind::InvalidArguments, message);
        let address = super::connection(connection).map_err(|error| refused(error.to_string()))?;
        match address.place() {
            Place::Inside if settings.allow_shell => Ok(Oracle::Shell),
            Place::Command(words) => Ok(Oracle::Stdio(Box::new(caller(words.clone(), settings)))),
            // The program shows this text alone, so it has to say what to do.
            _ => Err(refused(format!("{}; it has to be allowed", OpenError::ShellIsOff))),
        }
    }
}

fn caller(words: Vec<String>, settings: &Settings) -> Caller<Client> {
    let program = Program::new(words);
    let name = program.name().rsplit('/').next().unwrap_or_default().to_owned();
    let patience = Patience {
        start: settings.start_timeout,
        stop: settings.stop_timeout,
        ..crate::wire::oracle::PATIENCE
    };
    let wire = toolbus_proto::oracle::Settings {
        line_bytes_max: settings.line_bytes_max,
        leniency: settings.leniency,
    };
    let make = move || Client::new(wire.clone(), Functions::default());
    let supervisor = Supervisor::new(name.clone(), patience, Restart::OnDemand);
    Caller::new(name, program, patience, Conversations::new(supervisor, make))
}

fn invoke(
    settings: &Settings,
    caller: &mut Caller<Client>,
    selector: &str,
    calldata: &[Felt],
) -> Result<Vec<Felt>, Failure> {
    let ask = |now| {
        let mut body = Vec::new();
        felts::write(calldata, &mut body);
        let method = Bytes::copy_from_slice(selector.as_bytes());
        let what = What::Native { wire: toolbus_proto::oracle::WIRE, method, body: body.into() };
        let deadline = Deadline { asked: now, quiet: settings.timeout, total: None };
        Call { deadline, ..Call::of(now, what) }
    };
    let broke = |message: String| Failure::new(FailureKind::BrokeProtocol, message);
    match caller.call(ask)? {
        Outcome::Value(answer) => felts::read(answer.as_str(), settings.leniency)
            .map_err(|error| broke(error.to_string())),
        other => Err(broke(format!("the answer must be felts, not {other:?}"))),
    }
}

fn exec(settings: &Settings, selector: &str, calldata: &[Felt]) -> Result<Vec<Felt>, Failure> {
    let exec = Exec::from_felts(selector, calldata)?;
    let limits = shell::Limits {
        stdout_bytes_max: settings.line_bytes_max,
        give_up_at: settings.timeout.map(|timeout| Instant::now() + timeout),
    };
    let ran = shell::run(exec.command(), &limits, None)?;
    Ok(Exec::felts(ran.code, &ran.stdout))
}
