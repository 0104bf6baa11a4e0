//! One bad peer beside good ones: how they fare before and meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};
use toolbus::address::Purpose;
use toolbus::bus::Bus;
use toolbus::peer::Registry;
use toolbus::peer::settings::Settings;
use toolbus_engine::calls::Inbox;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome};
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::process::Vitals;

use super::stage::Stage;
use super::{Carriage, Case, MEMORY_MAX, Side, alone, bad_callers, bad_models};

/// How long the good calls go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Length {
    Calls(usize),
    Time(Duration),
}

/// What the others noticed, and what it cost.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Of the good caller, before and during the fault; `None` where there can be no other.
    pub(super) good: Option<(Rate, Rate)>,
    /// How the calls of the bad tool ended.
    pub(super) bad: Ends,
    pub(super) memory_peak: usize,
    /// Which promises were not kept.
    pub(super) broken: Vec<String>,
}

/// How often calls ended in what way.
type Ends = BTreeMap<String, usize>;

#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) calls_a_second: f64,
    pub(super) p99: Duration,
}

/// What any call may take, a bad one too. Far longer than it does; a test that fails waits so long.
const CALL_PATIENCE: Duration = Duration::from_secs(30);
/// How many calls of a bad tool there are at once, and the text that each of them has.
const BAD_CALLS: usize = 4;
const BAD_TEXT: usize = 1 << 20;
/// How a call may end whose tool is bad. Where a value has no end that is too large.
const ENDS: [FailureKind; 5] = [
    FailureKind::TimedOut,
    FailureKind::Unavailable,
    FailureKind::Gone,
    FailureKind::BrokeProtocol,
    FailureKind::TooLarge,
];

pub(super) fn run(case: &Case, length: Length) -> Seen {
    if case.is_model() {
        return bad_models::run(case);
    }
    if case.side == Side::Front && case.carriage == Carriage::Stdio {
        return alone::run(case);
    }
    in_place(beside(case, length))
}

/// With a good caller, and a good tool for it to call.
async fn beside(case: &Case, length: Length) -> Seen {
    let mut stage = Stage::set(case);
    let Stage { server, caller_url, tool, bad, mark, .. } = &mut stage;
    let mut seen = Seen::default();
    let caller = connect(caller_url);
    let good = async |length| measure(&caller, tool, length).await;
    let before = match length {
        Length::Calls(_) => good(length).await,
        // Not measured, while everything is started.
        Length::Time(_) => match good(Length::Calls(20)).await {
            Ok(_) => good(length).await,
            failed => failed,
        },
    };
    let ends = Arc::new(Mutex::new(BTreeMap::new()));
    let (stop, stopped) = oneshot::channel();
    let mut crowd = Vec::new();
    let callers = match server.urls.get(1) {
        Some(url) => {
            let (url, ends) = (url.clone(), ends.clone());
            let tool = if case.wire == "godex" { "bad.ask" } else { "bad.f" };
            // On a thread of their own, so that they keep the good caller from nothing.
            Some(thread::spawn(move || call_bad_tool(&url, tool, &ends, stopped)))
        }
        None => {
            crowd = bad_callers::crowd(case, caller_url, mark);
            None
        }
    };
    until("the bad one has begun", || Path::new(mark).exists()).await;
    let during = good(length).await;
    match (before, during) {
        (Ok(before), Ok(during)) => seen.good = Some((before, during)),
        (before, during) => {
            let failures = [("before", before.err()), ("during", during.err())];
            let failures = failures.into_iter().filter_map(|(when, failed)| Some((when, failed?)));
            seen.broken.extend(failures.map(|(when, why)| format!("a good call {when}: {why}")));
        }
    }
    if bad.is_some() {
        until("a bad call ends", || !ends.lock().unwrap().is_empty()).await;
        seen.look_at_ends(ends.lock().unwrap().clone());
    }
    seen.look_at_memory(server.id());
    // Else it would leave them the time for calls under way.
    drop(stop);
    if let Some(callers) = callers {
        callers.join().unwrap();
    }
    server.signal(Signal::TERM);
    let status = server.wait();
    drop(crowd);
    seen.look_at_status(status);
    seen
}

fn connect(url: &str) -> Bus {
    let address = Registry::default().address(Purpose::Call, url).unwrap();
    Bus::of_addresses(&[address], &Settings::default()).unwrap()
}

/// Good calls, one after the other.
async fn measure(bus: &Bus, tool: &str, length: Length) -> Result<Rate, Failure> {
    let begun = Instant::now();
    let mut took = Vec::new();
    let is_over = |calls: usize| match length {
        Length::Calls(count) => count <= calls,
        Length::Time(time) => time <= begun.elapsed(),
    };
    while !is_over(took.len()) {
        let asked = Instant::now();
        let answer = call(bus, tool, "hello").await?;
        assert_eq!(answer, r#""HELLO""#);
        took.push(asked.elapsed());
    }
    let calls_a_second = took.len() as f64 / begun.elapsed().as_secs_f64();
    took.sort_unstable();
    Ok(Rate { calls_a_second, p99: took[took.len() * 99 / 100] })
}

/// Calls the bad tool again and again, first with little, then with much for it to read.
fn call_bad_tool(
    url: &str,
    tool: &'static str,
    ends: &Arc<Mutex<Ends>>,
    mut stopped: oneshot::Receiver<()>,
) {
    in_place(async {
        let mut callers = JoinSet::new();
        for caller in 0..BAD_CALLS {
            let (bus, ends) = (connect(url), ends.clone());
            callers.spawn_local(async move {
                for turn in 0.. {
                    let bytes = if caller == 0 && turn == 0 { 1 } else { BAD_TEXT };
                    let end = call(&bus, tool, &"x".repeat(bytes)).await;
                    let end =
                        end.map_or_else(|failure| format!("{:?}", failure.kind), |_| "done".into());
                    *ends.lock().unwrap().entry(end).or_default() += 1;
                    // One that is refused at once is no flood of the caller's.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        }
        let _ = (&mut stopped).await;
        callers.shutdown().await;
    });
}

fn in_place<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, what)
}

async fn call(bus: &Bus, tool: &str, text: &str) -> Result<String, Failure> {
    let (inbox, reply_to) = Inbox::new();
    let name = if tool == "bad.ask" { "prompt" } else { "text" };
    let args = Json::from_trusted(format!(r#"{{"{name}":"{text}"}}"#));
    let mut call = Call::tool(Instant::now(), tool, Some(args));
    call.deadline.quiet = Some(PATIENCE);
    let whole = inbox.whole(bus.start(call, reply_to));
    // Not `TimedOut`: that is for the bus to say, and long before.
    let late = |_| Failure::new(FailureKind::Cancelled, format!("no end within {CALL_PATIENCE:?}"));
    Ok(match tokio::time::timeout(CALL_PATIENCE, whole).await.map_err(late)?? {
        Outcome::Value(json) => json.as_str().to_owned(),
        Outcome::Text(text) => Json::of(&text).as_str().to_owned(),
        other => format!("{other:?}"),
    })
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "not so after {PATIENCE:?}: {what}");
        // How often to look.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Seen {
    fn look_at_ends(&mut self, ends: Ends) {
        let is_odd = |end: &&String| !ENDS.iter().any(|kind| format!("{kind:?}") == **end);
        let odd: Vec<&String> = ends.keys().filter(is_odd).collect();
        if !odd.is_empty() {
            self.broken.push(format!("bad calls end as {odd:?}"));
        }
        self.bad = ends;
    }

    /// SIGTERM was sent. What listens ends well by it, what serves pipes does not.
    pub(super) fn look_at_status(&mut self, status: ExitStatus) {
        if !matches!(status.code(), Some(0 | 143)) {
            self.broken.push(format!("ended with {status}"));
        }
    }

    /// Of one that ends by itself, the last look counts at which it lived.
    pub(super) fn look_at_memory_if_alive(&mut self, pid: u32) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<usize>().ok());
        self.judge_memory(kib.map_or(self.memory_peak, |kib| kib * 1024));
    }

    pub(super) fn look_at_memory(&mut self, pid: u32) {
        self.judge_memory(Vitals::of(pid).memory_peak);
    }

    fn judge_memory(&mut self, peak: usize) {
        self.memory_peak = peak;
        if MEMORY_MAX < self.memory_peak {
            self.broken.push(format!("{} MiB of memory", self.memory_peak >> 20));
        }
    }
}
