//! What becomes of callers when a tool dies, and of tools when the bus dies.

use std::future::Future;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use toolbus_check::fixture::{Capability, FIXTURES, Fixture};
use toolbus_engine::child::{Program, Running, Signal as SessionSignal};
use toolbus_proto::tool::FailureKind;

use super::peers::{Peers, quoted};
use super::{PATIENCE, Tour, broken, call, millis, open};
use crate::exit::Exit;
use crate::failed::Failed;

/// How often is looked whether something has happened elsewhere.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Kills a tool in the middle of a call.
pub(super) async fn a_tool(tour: &Tour, peers: &Peers) -> Result<(), Failed> {
    tour.step("Kill it in the middle of a call")?;
    let wire = side_by_side()?;
    let working = "echo 'demo-tool: working on it, give me a minute' >&2;";
    let address = peers.serving_after(wire, working, "tool");
    let bus = open(&address)?;
    let shown = format!("toolbus call '{}./demo-tool'", wire.scheme);
    tour.command(&format!("{shown} sleep ms=60000"))?;
    let sleeping = call(&bus, "sleep", r#"{"ms":60000}"#);
    let killing = async {
        // Asked behind the other call and on the same pipe: once this one is answered, the
        // tool is in the middle of that one.
        call(&bus, "upper", r#"{"text":"ready"}"#)
            .await
            .map_err(|failure| broken("a tool", &failure))?;
        let pids = awaited("the tool's process id", || peers.pids("tool", 1)).await?;
        pids.into_iter().filter_map(Pid::from_raw).for_each(|pid| {
            let _ = kill_process(pid, Signal::KILL);
        });
        Ok::<_, Failed>(Instant::now())
    };
    // Begun in this order.
    let (failure, killed) = tokio::join!(biased; sleeping, killing);
    let took = killed?.elapsed();
    let failure = match failure {
        Err(failure) if failure.kind == FailureKind::Gone => failure,
        Err(failure) => return Err(broken("the killed tool", &failure)),
        Ok(_) => return Err(Failed::new(Exit::Failed, "a killed tool answered")),
    };
    tour.say(format!("  {}", tour.paint.dim("kill -9")))?;
    tour.show(&format!("{} {}", tour.paint.error("error:"), failure.message), took)?;
    for line in failure.last_words.iter().flat_map(|words| &words.stderr) {
        tour.say(format!("    its last words: {line}"))?;
    }
    tour.command(&format!("{shown} upper text='still here'"))?;
    let begun = Instant::now();
    let answer = call(&bus, "upper", r#"{"text":"still here"}"#).await;
    let answer = answer.map_err(|failure| broken("the next call", &failure))?;
    tour.show(&answer.to_string(), begun.elapsed())?;
    bus.shutdown().await;
    Ok(())
}

/// Kills a bus, and looks who is left of a tool that ignores SIGTERM and of its child.
pub(super) async fn a_bus(tour: &Tour, peers: &Peers) -> Result<(), Failed> {
    tour.step("Kill the bus")?;
    let file = quoted(&peers.file("bus").to_string_lossy());
    let stubborn = format!("trap '' TERM HUP; sleep 600 & echo $! >> {file};");
    let tool = peers.serving_after(side_by_side()?, &stubborn, "bus");
    let words = peers.ourselves(&["call", &tool, "sleep", "ms=600000"]);
    let words = toolbus_engine::child::words::split(&words)
        .map_err(|error| Failed::usage(error.to_string()))?;
    let cannot = |error: &dyn std::error::Error| {
        Failed::new(Exit::Failed, "cannot start a bus").caused_by(error)
    };
    let mut bus = Running::start(&Program::new(words)).map_err(|error| cannot(&error))?;
    let mut pids = awaited("the tool's process ids", || peers.pids("bus", 2)).await?;
    pids.push(bus.process.pid());
    tour.say("  a bus, a tool that ignores SIGTERM, and a child of the tool are running")?;
    tour.say(format!("  {}", tour.paint.dim("kill -9")))?;
    let begun = Instant::now();
    bus.process.signal_session(SessionSignal::Kill);
    awaited("the end of the bus", || bus.process.finish()).await?;
    awaited("the end of all that it started", || {
        pids.iter().all(|pid| is_gone(*pid)).then_some(())
    })
    .await?;
    tour.show("no process is left", begun.elapsed())
}

/// A wire in which one call can be seen to run by the answer to another, and that gives answers
/// as they are.
fn side_by_side() -> Result<&'static Fixture, Failed> {
    let mut fixtures = FIXTURES.into_iter().map(|(_, fixture)| fixture);
    fixtures
        .find(|fixture| {
            fixture.runs_side_by_side && fixture.why_not(Capability::Succeeds).is_none()
        })
        .ok_or_else(|| Failed::new(Exit::Failed, "no wire of this build runs calls side by side"))
}

/// Who is dead but not yet reaped by the system does nothing any more.
fn is_gone(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_zombie = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
    is_zombie || Pid::from_raw(pid).is_none_or(|pid| test_kill_process(pid).is_err())
}

/// Waits for something that can only be looked at.
fn awaited<T>(
    what: &str,
    mut look: impl FnMut() -> Option<T>,
) -> impl Future<Output = Result<T, Failed>> {
    let begun = Instant::now();
    async move {
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if PATIENCE < begun.elapsed() {
                let waited = millis(begun.elapsed());
                let message = format!("waited {waited} in vain for {what}");
                return Err(Failed::new(Exit::Failed, message));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
