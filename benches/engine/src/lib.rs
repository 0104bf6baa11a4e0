//! What the programs beside this file share: a bus in memory, a tool behind it, a small oracle, a
//! look at memory.

use std::cell::Cell;
use std::future::Future;
use std::io::{BufRead, Write};
use std::rc::Rc;

use tokio::io::duplex;
use tokio::task::{LocalSet, spawn_local};
use toolbus_engine::client::{Client as Connection, Sharing};
use toolbus::bus::Route;
use toolbus_engine::front::Front;
use toolbus_engine::calls::{Answerer, Pressure, ReplyTo, RunningCall};
use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Outcome, What};
use toolbus_testkit::plain::{Client, Limits, Server};

/// What one direction of a connection in memory holds: as much as a socket.
const WIRE_BYTES: usize = 256 * 1024;

/// Runs on one thread, as a bus does. As a task among tasks: the future that a runtime blocks on
/// is polled behind one more look at the kernel.
pub fn run(what: impl Future<Output = ()> + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be had");
    let outcome = LocalSet::new().block_on(&runtime, async { spawn_local(what).await });
    outcome.expect("the measurement does not panic");
}

/// A connection in memory to a front that passes on to `route`.
pub fn hop(sharing: Sharing, route: Rc<dyn Route>) -> Connection<Client> {
    let (near_out, far_in) = duplex(WIRE_BYTES);
    let (far_out, near_in) = duplex(WIRE_BYTES);
    let front = Front::with_sharing(Server::new(Limits::default()), route, None, sharing);
    spawn_local(async move { front.serve(far_in, far_out).await });
    Connection::new("peer", Client::new(Limits::default()), sharing, near_in, near_out)
}

/// Whoever answers at the other end of a connection.
pub struct Over(pub Connection<Client>);

impl Route for Over {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.0.start(call, down)
    }
}

/// Gives arguments back as the answer, and parts as parts. `early` answers the first part.
pub struct Echo;

impl Route for Echo {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let What::Tool { name, args } = call.what else { return RunningCall::ended() };
        if !call.options.sends_parts {
            let args = args.unwrap_or_else(|| Json::from_trusted("null"));
            let _ = down.send(Down::Done(Ok(Outcome::Value(args))));
            return RunningCall::ended();
        }
        let is_early = name.as_str() == "early";
        let _ = down.send(Down::Begin { head: None, parts: None });
        RunningCall::new(Rc::new(Echoing { down, is_early, is_full: Cell::new(false) }), Ticket(0))
    }
}

struct Echoing {
    down: ReplyTo,
    is_early: bool,
    /// The way down is full, so we are.
    is_full: Cell<bool>,
}

impl Answerer for Echoing {
    fn send(&self, _: Ticket, up: Up) -> Pressure {
        let down = match up {
            Up::Part(_) if self.is_early => Down::Done(Ok(Outcome::End(None))),
            Up::Part(part) => Down::Part(part),
            Up::End(end) => Down::Done(Ok(Outcome::End(end))),
            Up::Answer(..) | Up::Cancel(_) => return Pressure::Ready,
        };
        let room = self.down.send(down);
        self.is_full.set(room == Pressure::Full);
        room
    }

    fn resume(&self, _: Ticket) {
        if self.is_full.replace(false) {
            self.down.resume();
        }
    }
}

/// The smallest oracle there can be.
pub fn oracle() {
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| {
        let said = writeln!(out, "{line}").and_then(|()| out.flush());
        said.expect("somebody listens");
    };
    say(r#"{"jsonrpc":"2.0","id":0,"method":"ready"}"#.to_owned());
    for (at, line) in std::io::stdin().lock().lines().enumerate() {
        if line.expect("a line").contains("shutdown") {
            return;
        }
        // The first line is the acknowledgement.
        if let Some(id) = at.checked_sub(1) {
            say(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":["0x1"]}}"#));
        }
    }
}

/// A line of `/proc/self/status`, in MiB: `VmRSS` for what is used now, `VmHWM` for the most.
pub fn memory(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    let kib = found.and_then(|found| found.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
