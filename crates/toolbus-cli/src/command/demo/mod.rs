//! `toolbus demo`: what toolbus can do, shown on this machine within seconds.

mod killed;
mod pairs;
mod peers;

use std::fmt::Display;
use std::io;
use std::time::{Duration, Instant};

use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::peer::settings::Settings;
use toolbus_proto::json::Json;
use toolbus_proto::tool::Failure;

use super::wire;
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::style::Paint;
use crate::render::{self, failure as told};
use crate::runtime::{self, Signals};

/// Take the tour: see tools called, killed and back again
///
/// Nothing needs to be installed: the tools are part of toolbus and are started as programs
/// of their own. One is called; one is killed in the middle of a call, and you see its last
/// words and the next call working; a whole bus is killed, and you see that no process is left.
/// Then every kind of peer is called through every kind of front.
///
/// The tour ends with 0 only if everything went as promised.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  toolbus demo")]
pub(crate) struct DemoArgs {}

/// Longer than any of it takes; only what is broken waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(_args: &DemoArgs, globals: &Globals) -> Result<(), Failed> {
    let tour = Tour { paint: globals.color.paint(&io::stdout()) };
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = tour.walk() => done,
            exit = signals.next() => Err(Failed::quietly(exit)),
        }
    })
}

struct Tour {
    paint: Paint,
}

impl Tour {
    async fn walk(&self) -> Result<(), Failed> {
        let peers = peers::Peers::prepare()?;
        self.say(format!("toolbus {}: any tool answers any caller", env!("CARGO_PKG_VERSION")))?;
        self.call_a_tool().await?;
        killed::a_tool(self, &peers).await?;
        killed::a_bus(self, &peers).await?;
        pairs::all(self, &peers).await?;
        self.what_next()
    }

    async fn call_a_tool(&self) -> Result<(), Failed> {
        self.step("Call a tool")?;
        self.command("toolbus call builtin: add a=19 b=23")?;
        let bus = open("builtin:")?;
        let begun = Instant::now();
        let sum = call(&bus, "add", r#"{"a":19,"b":23}"#).await;
        let sum = sum.map_err(|failure| broken("a built-in tool", &failure))?;
        self.show(&format!("{sum}"), begun.elapsed())
    }

    fn what_next(&self) -> Result<(), Failed> {
        self.step("Your turn")?;
        self.command("toolbus tools builtin:")?;
        for line in wire::FACES.iter().flat_map(|face| face.to_try()) {
            match line.strip_prefix("$ ") {
                Some(command) => self.command(command)?,
                None if line.is_empty() => self.say("")?,
                None => self.say(format!("  {line}"))?,
            }
        }
        self.say("")
    }

    fn step(&self, title: &str) -> Result<(), Failed> {
        self.say(format!("\n{}", self.paint.title(title)))
    }

    fn command(&self, command: &str) -> Result<(), Failed> {
        self.say(format!("  {} {command}", self.paint.dim("$")))
    }

    /// What came of it, and how long it took.
    fn show(&self, what: &str, took: Duration) -> Result<(), Failed> {
        self.say(format!("  {what}  {}", self.paint.dim(&millis(took))))
    }

    fn say(&self, line: impl Display) -> Result<(), Failed> {
        render::print_own(&format!("{line}\n"))
    }
}

/// A bus with one peer.
fn open(address: &str) -> Result<Bus, Failed> {
    let address = Address::parse(address).map_err(|error| Failed::usage(error.to_string()))?;
    let settings = Settings {
        name: Some("demo-tool".to_owned()),
        timeout: Some(PATIENCE),
        start_timeout: Some(PATIENCE),
        ..Settings::default()
    };
    Bus::of_addresses(&[address], &settings).map_err(|error| Failed::usage(error.to_string()))
}

async fn call(bus: &Bus, tool: &str, args: &'static str) -> Result<Json, Failure> {
    bus.call(tool, Json::from_trusted(args)).await.map(|reply| reply.json())
}

/// Something did not go as promised.
fn broken(what: &str, failure: &Failure) -> Failed {
    let mut failure = failure.clone();
    failure.message = format!("{what} did not do as promised: {}", failure.message);
    Failed { exit: Exit::Failed, ..told::failed(&failure) }
}

fn millis(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1000.0)
}
