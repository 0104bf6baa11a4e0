//! One bad peer beside good ones: how they fare before and meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::io::PipeWriter;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};
use toolbus::address::Purpose;
use toolbus::bus::Bus;
use toolbus::engine::calls::Inbox;
use toolbus::wire::Registry;
use toolbus::wire::settings::Settings;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome};
use toolbus_testkit::patience::{PATIENCE, awaited};
use toolbus_testkit::peer;
use toolbus_testkit::process::{Group, Vitals, stands_still};
use toolbus_testkit::scratch::Scratch;

use super::bad_tools::BadTool;
use super::{Carriage, Case, Fault, MEMORY_MAX, Side, bad_callers};
use crate::listening::Server;
use crate::page::command;

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
    if case.side == Side::Front && case.carriage == Carriage::Stdio {
        return alone(case);
    }
    in_place(beside(case, length))
}

/// With a good caller, and a good tool for it to call.
async fn beside(case: &Case, length: Length) -> Seen {
    let scratch = Scratch::new();
    let bad = (case.side == Side::Back).then(|| BadTool::new(case, &scratch));
    let (good, _good_server) = good_back(case);
    let name = if case.side == Side::Back { "good" } else { "try" };
    let mut config = format!("[back.{name}]\nconnect = '''{good}'''\n");
    if let Some(bad) = &bad {
        config.push_str(&bad.back);
    }
    let front = match (case.side, case.wire, case.carriage) {
        (Side::Front, "mcp", _) => "mcp+http://127.0.0.1:0/mcp",
        (Side::Front, _, Carriage::Http) => "mediocre+http://127.0.0.1:0/rpc",
        _ => "mediocre+tcp://127.0.0.1:0",
    };
    config.push_str(&format!("[front.callers]\nserve = \"{front}\"\n"));
    if case.side == Side::Back {
        config.push_str("[front.others]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n");
        config.push_str("call_timeout = \"1s\"\n");
    }
    let path = scratch.file("tools.toml");
    fs::write(&path, config).unwrap();
    let fronts = if case.side == Side::Back { 2 } else { 1 };
    let server = Server::start(&["serve", "-v", "--config", &path], fronts);
    let address = |url: &String| match url.starts_with("http://") {
        true => format!("mcp+{url}"),
        false => url.clone(),
    };
    let url = address(&server.urls[0]);
    // An MCP client sees the tools of the only back by their own names.
    let tool = if front.starts_with("mcp") { "upper".to_owned() } else { format!("{name}.upper") };

    let mut seen = Seen::default();
    let caller = connect(&url);
    let good = async |length| measure(&caller, &tool, length).await;
    let before = match good(Length::Calls(20)).await {
        Ok(_) => good(length).await,
        failed => failed,
    };
    let ends = Arc::new(Mutex::new(BTreeMap::new()));
    let mark = scratch.file("bad");
    let (stop, stopped) = oneshot::channel();
    let mut crowd = Vec::new();
    let callers = match server.urls.get(1).map(address) {
        Some(url) => {
            let ends = ends.clone();
            // On a thread of their own, so that they keep the good caller from nothing.
            Some(thread::spawn(move || call_bad_tool(&url, &ends, stopped)))
        }
        None => {
            crowd = bad_callers::crowd(case, &url, &mark);
            None
        }
    };
    let mark = bad.as_ref().map_or(mark, |bad| bad.mark.clone());
    until("the bad one has begun", || Path::new(&mark).exists()).await;
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
        seen.bad = ends.lock().unwrap().clone();
        let is_odd = |end: &&String| !ENDS.iter().any(|kind| format!("{kind:?}") == **end);
        let odd: Vec<&String> = seen.bad.keys().filter(is_odd).collect();
        if !odd.is_empty() {
            seen.broken.push(format!("bad calls end as {odd:?}"));
        }
    }
    seen.look_at_memory(server.id());
    // Else it would leave them the time for calls under way.
    drop(stop);
    if let Some(callers) = callers {
        callers.join().unwrap();
    }
    server.signal(Signal::TERM);
    let ended = server.end();
    drop(crowd);
    if !ended.ends_with("exit 143\n") {
        seen.broken.push(format!("ended with {ended}"));
    }
    seen
}

/// A tool that is as it should be, in the wire of the bad one, and its process if we start it.
fn good_back(case: &Case) -> (String, Option<Server>) {
    if case.side == Side::Front {
        return ("builtin:".into(), None);
    }
    let program = peer::quoted(env!("CARGO_BIN_EXE_toolbus"));
    let on_pipes = |words: &str| (format!("{}+stdio:{program} {words} builtin:", case.wire), None);
    let listening = |words: &[&str], scheme: &str| {
        let server = Server::start(words, 1);
        (format!("{scheme}{}", server.url()), Some(server))
    };
    match (case.wire, case.carriage) {
        ("oracle", _) => on_pipes("oracle serve"),
        ("mcp", Carriage::Stdio) => on_pipes("mcp"),
        ("mcp", _) => listening(&["mcp", "--http", "0", "builtin:"], "mcp+"),
        (_, Carriage::Stdio) => on_pipes("rpc serve --listen stdio:"),
        (_, Carriage::Tcp) => {
            listening(&["rpc", "serve", "--listen", "tcp://127.0.0.1:0", "builtin:"], "")
        }
        (_, Carriage::Http) => {
            listening(&["rpc", "serve", "--listen", "http://127.0.0.1:0/rpc", "builtin:"], "")
        }
    }
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
fn call_bad_tool(url: &str, ends: &Arc<Mutex<Ends>>, mut stopped: oneshot::Receiver<()>) {
    in_place(async {
        let mut callers = JoinSet::new();
        for caller in 0..BAD_CALLS {
            let (bus, ends) = (connect(url), ends.clone());
            callers.spawn_local(async move {
                for turn in 0.. {
                    let bytes = if caller == 0 && turn == 0 { 1 } else { BAD_TEXT };
                    let end = call(&bus, "bad.f", &"x".repeat(bytes)).await;
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
    let args = Json::from_trusted(format!(r#"{{"text":"{text}"}}"#));
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

/// A front on pipes has one caller, so there are no others to notice anything.
fn alone(case: &Case) -> Seen {
    let words: &[&str] = match case.wire {
        "oracle" => &["oracle", "serve", "builtin:"],
        "mcp" => &["mcp", "builtin:"],
        _ => &["rpc", "serve", "--listen", "stdio:", "builtin:"],
    };
    let (asked, asks) = std::io::pipe().unwrap();
    let (answers, answered) = std::io::pipe().unwrap();
    let mut command = command(words);
    command.stdin(asked).stdout(answered).stderr(Stdio::null());
    let mut toolbus = Killed(command.spawn().unwrap());
    let steps = bad_callers::steps(case);
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let mut bad = peer::command(&steps);
    bad.process_group(0).stdin(answers).stdout(asks.try_clone().unwrap());
    let bad = Killed(bad.spawn().unwrap());
    // The pipes are theirs alone, but for our look at one.
    drop((command, steps));
    let pid = toolbus.0.id();
    let begun = reads(pid);
    awaited("it has had its fill", || {
        let is_enough = match case.fault {
            Fault::DoesNotRead => is_full(&asks) && stands_still(pid),
            Fault::Trickles => begun.1 + 20 < reads(pid).1,
            Fault::Floods | Fault::FloodsStderr => begun.0 + FILL < reads(pid).0,
        };
        is_enough.then_some(())
    });
    let mut seen = Seen::default();
    seen.look_at_memory(pid);
    kill_process(Pid::from_child(&toolbus.0), Signal::TERM).unwrap();
    let status = awaited("it ends", || toolbus.0.try_wait().unwrap());
    if status.code() != Some(143) {
        seen.broken.push(format!("ended with {status}"));
    }
    drop(bad);
    seen
}

/// How much a flood should be at least.
const FILL: u64 = 4 << 20;

/// A process that does not outlive its test, nor do those it has started.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        Group::of(&self.0).kill();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many bytes a process has read so far, and how often.
fn reads(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().parse().ok()).unwrap()
    };
    (value("rchar:"), value("syscr:"))
}

/// Does a pipe take nothing before something is read from it?
fn is_full(pipe: &PipeWriter) -> bool {
    let mut polled = [PollFd::new(pipe, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec::default())).unwrap() == 0
}

impl Seen {
    fn look_at_memory(&mut self, pid: u32) {
        self.memory_peak = Vitals::of(pid).memory_peak;
        if MEMORY_MAX < self.memory_peak {
            self.broken.push(format!("{} MiB of memory", self.memory_peak >> 20));
        }
    }
}
