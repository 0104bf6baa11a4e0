//! What the journal costs: processor time of one call through a front and a bus, all on one thread
//! over memory, without a journal, with one, and with one that has arguments and results. Then how
//! fast a journal is read.
//!
//! `journal [ROUNDS] [MIB]`. Contenders take turns within a round; a ratio is the median of the
//! rounds, with the least and the most.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;
use toolbus::bus::config::JournalConfig;
use toolbus::bus::journal::Journal;
use toolbus::bus::journal::read::{Entry, Lines, open_all};
use toolbus_engine::calls::Inbox;
use toolbus_engine::client::{Client as Connection, Sharing};
use toolbus::{Back, Bus, Failure, LocalFuture, ReplyTo, RunningCall, ToolSpec};
use toolbus_bench_engine::{Echo, hop, run};
use toolbus_proto::json::Json;
use toolbus_proto::tool::Call;
use toolbus_testkit::plain::Client;

/// How many calls a turn has.
const CALLS: usize = 32_000;
const IN_FLIGHT: usize = 16;
const ARGS: &str = r#"{"city":"Reykjavík","days":3,"units":"metric"}"#;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|number| number.parse::<usize>().ok());
    let (rounds, mib) = (numbers.next().unwrap_or(9), numbers.next().unwrap_or(256));
    let folder = std::env::temp_dir().join(format!("toolbus-journal-{}", std::process::id()));
    let path = folder.join("calls.jsonl");
    calls(rounds, path.clone());
    reading(mib, &path);
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

fn calls(rounds: usize, path: PathBuf) {
    run(async move {
        let of = |values: bool| JournalConfig {
            path: path.clone(),
            arguments: values,
            results: values,
            bytes_max: 64 << 20,
            required: true,
        };
        let contenders: Vec<_> =
            [None, Some(of(false)), Some(of(true))].iter().map(connection).collect();
        let mut times: Vec<[f64; 3]> = Vec::new();
        for round in 0..=rounds {
            let mut micros = [0.0; 3];
            for (contender, micros) in contenders.iter().zip(&mut micros) {
                *micros = turn(contender).await;
            }
            // The first is for warming up.
            if 0 < round {
                times.push(micros);
            }
        }
        println!("| {IN_FLIGHT} in flight | µs of the processor a call | of that without |");
        println!("|---|---|---|");
        let names = ["without a journal", "with one", "with arguments and results in it"];
        for (at, name) in names.iter().enumerate() {
            let micros = middle(times.iter().map(|times| times[at]));
            let ratio = middle(times.iter().map(|times| times[at] / times[0]));
            println!(
                "| {name} | {:.2} ({:.2} to {:.2}) | {:.2} ({:.2} to {:.2}) |",
                micros[1], micros[0], micros[2], ratio[1], ratio[0], ratio[2]
            );
        }
    });
}

/// A client of a front of a bus.
fn connection(journal: &Option<JournalConfig>) -> Rc<Connection<Client>> {
    let mut bus = Bus::builder().plain_names().foreign("echo", || EchoBack).build().expect("a bus");
    if let Some(journal) = journal {
        bus = bus.observed_by(Rc::new(Journal::new(journal))).for_front("bench");
    }
    Rc::new(hop(Sharing::Shared, Rc::new(bus)))
}

struct EchoBack;

impl Back for EchoBack {
    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async { Ok(Arc::from([])) })
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        toolbus::bus::Route::start(&Echo, call, down)
    }
}

/// Microseconds of the processor for each call.
async fn turn(connection: &Rc<Connection<Client>>) -> f64 {
    let before = processor_nanos();
    let mut callers = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let connection = connection.clone();
        callers.spawn_local(async move {
            for _ in 0..CALLS / IN_FLIGHT {
                let (inbox, down) = Inbox::new();
                let args = Json::from_trusted(ARGS);
                let call = Call::tool(Instant::now(), "forecast", Some(args));
                let running = connection.start(call, down);
                inbox.whole(running).await.expect("it answers");
            }
        });
    }
    callers.join_all().await;
    (processor_nanos() - before) / 1000.0 / CALLS as f64
}

/// What this thread had of the processor so far.
fn processor_nanos() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    told.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number")
}

/// The least, the median and the most.
fn middle(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

/// Reads the lines that were written, again and again.
fn reading(mib: usize, path: &Path) {
    let mut lines = Vec::new();
    let last = open_all(path).expect("it was written").pop().expect("there is one");
    let mut some = Lines::new(last);
    while let Some(line) = some.next_line().expect("a file") {
        if lines.len() < 1 << 20 && !memory_of(line).contains("\"arguments\"") {
            lines.extend_from_slice(line);
            lines.push(b'\n');
        }
    }
    let large = path.with_extension("large");
    let mut file = std::fs::File::create(&large).expect("the folder is ours");
    let mut written = 0;
    while written < mib << 20 {
        file.write_all(&lines).expect("there is room");
        written += lines.len();
    }
    let begun = Instant::now();
    let before = processor_nanos();
    let mut lines = Lines::new(std::fs::File::open(&large).expect("it is there"));
    let (mut count, mut millis) = (0_u64, 0.0);
    while let Some(line) = lines.next_line().expect("a file") {
        let entry = Entry::parse(line).expect("we wrote it");
        millis += entry.duration;
        count += u64::from(entry.outcome == "ok");
    }
    let (seconds, processor) =
        (begun.elapsed().as_secs_f64(), (processor_nanos() - before) / 1e9);
    let mib = written as f64 / 1_048_576.0;
    println!(
        "\nRead {count} lines ({mib:.0} MiB, {:.2} ms each) in {seconds:.2} s, {processor:.2} s of the \
         processor: {:.0} MiB/s of it.",
        millis / count as f64,
        mib / processor
    );
}

fn memory_of(line: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(line)
}
