//! Orchestra: vectors and conversations of `transcripts/orchestra/`, faults and chance.
//!
//! Every conversation is replayed here but one, which is about TLS and needs the hands:
//! `who_may_connect.txt`.
//!
//! Of those that are, some lines are told by the player, since the hands will write them: what
//! is listened on (`orchestrator listening on …`, `READY …`), what a program is run with
//! (`spawn …`), and that a dial took too long.

mod certificates;
mod decisions;
mod faults;
mod hub;
mod plugin;
mod stdio;
mod vectors;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use toolbus_proto::channel::StreamId;
use toolbus_proto::orchestra::Ids;
use toolbus_testkit::in_memory::Leaves;
use toolbus_testkit::transcript::{self, Arrival, unescape};

const FOLDER: &str = "transcripts/orchestra";

/// Those that need the hands.
const ELSEWHERE: [&str; 1] = ["who_may_connect.txt"];

/// The conversations in which something happens that begins like this.
fn conversations(begin: &[&str]) -> Vec<PathBuf> {
    let is_meant = |text: &str| {
        let first = text.lines().find_map(|line| line.strip_prefix("-- "));
        first.is_some_and(|first| begin.iter().any(|begin| first.starts_with(begin)))
    };
    let files = transcript::files(FOLDER).into_iter();
    let files = files.filter(|file| !ELSEWHERE.iter().any(|other| file.ends_with(other)));
    files.filter(|file| is_meant(&transcript::read(file))).collect()
}

#[test]
fn every_conversation_is_replayed_somewhere() {
    let replayed = [stdio::BEGIN, hub::BEGIN, plugin::BEGIN, certificates::BEGIN]
        .map(|begin| conversations(begin).len());
    let all = transcript::files(FOLDER).len();
    assert_eq!(replayed.iter().sum::<usize>() + ELSEWHERE.len(), all, "{replayed:?}");
    assert_eq!(all, 67);
}

/// Ids that can be foreseen, and the counter behind them.
fn ids(prefix: &'static str) -> (Ids, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    (more_ids(prefix, &count), count)
}

fn more_ids(prefix: &'static str, count: &Arc<AtomicU64>) -> Ids {
    let count = count.clone();
    Ids::new(move || format!("{prefix}-{}", count.fetch_add(1, Ordering::Relaxed) + 1))
}

/// `0.5 s pass`.
fn passing(words: &str) -> Option<Duration> {
    let seconds = words.strip_suffix(" s pass")?;
    Some(Duration::from_secs_f64(seconds.parse().unwrap()))
}

/// What stands on a stream: bytes in quotes, their end, or an end of another kind.
fn arrivals(wire: &str, text: &str) -> Vec<Arrival> {
    let event = |what: &str| Arrival::Event(format!("[{wire}] {what}"));
    let Some(rest) = text.strip_prefix('"') else { return vec![event(text)] };
    let (bytes, behind) = rest.rsplit_once('"').unwrap();
    let mut arrivals = Vec::new();
    if !bytes.is_empty() {
        arrivals.push(Arrival::Bytes(unescape(bytes)));
    }
    match behind {
        "" => {}
        " FIN" if bytes.is_empty() => arrivals.push(event("FIN alone")),
        " FIN" => arrivals.push(event("FIN")),
        other => panic!("what is `{other}`?"),
    }
    arrivals
}

/// The words of an event on a stream: its wire, and what happens.
fn on_wire(words: &str) -> Option<(&str, &str)> {
    words.strip_prefix('[')?.split_once("] ")
}

/// What leaves, as it stands behind the name of its stream.
fn shown(leaves: &Leaves) -> String {
    match leaves {
        Leaves::Bytes(bytes, ends) => {
            let end = if *ends { " FIN" } else { "" };
            let mut text = String::new();
            for byte in bytes {
                match byte {
                    b'"' | b'\\' => text.push_str(&format!("\\x{byte:02x}")),
                    b' '..=b'~' => text.push(char::from(*byte)),
                    _ => text.push_str(&format!("\\x{byte:02x}")),
                }
            }
            format!("\"{text}\"{end}")
        }
        Leaves::Stop(code) => format!("STOP_SENDING {code}"),
        Leaves::Reset(code) => format!("RESET {code}"),
    }
}

/// Streams that the client of a connection opens have every fourth number, from 0.
fn number(stream: StreamId) -> u64 {
    let (StreamId::Ours(number) | StreamId::Theirs(number)) = stream;
    number * 4
}
