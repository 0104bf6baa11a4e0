//! The conversations of `transcripts/orchestra/`: what stands in them, for all who replay them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use toolbus_proto::channel::StreamId;
use toolbus_proto::orchestra::Ids;

use crate::in_memory::Leaves;
use crate::transcript::{self, Arrival, unescape};

/// Where they are.
pub const FOLDER: &str = "transcripts/orchestra";

/// Those that are about TLS, and so need the hands.
pub const ELSEWHERE: [&str; 1] = ["who_may_connect.txt"];

/// How those of a hub begin, which is replayed with the supervisors of its plugins.
pub const OF_A_HUB: &[&str] = &["hub serving ", "plugins.yaml: "];

/// The conversations of which the first thing that happens begins like this.
pub fn conversations(begin: &[&str]) -> Vec<PathBuf> {
    let is_meant = |text: &str| {
        let first = text.lines().find_map(|line| line.strip_prefix("-- "));
        first.is_some_and(|first| begin.iter().any(|begin| first.starts_with(begin)))
    };
    let files = transcript::files(FOLDER).into_iter();
    let files = files.filter(|file| !ELSEWHERE.iter().any(|other| file.ends_with(other)));
    files.filter(|file| is_meant(&transcript::read(file))).collect()
}

/// Ids that can be foreseen, and the counter behind them.
pub fn ids(prefix: &'static str) -> (Ids, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    (more_ids(prefix, &count), count)
}

/// More of them, by the same counter.
pub fn more_ids(prefix: &'static str, count: &Arc<AtomicU64>) -> Ids {
    let count = count.clone();
    Ids::new(move || format!("{prefix}-{}", count.fetch_add(1, Ordering::Relaxed) + 1))
}

/// `0.5 s pass`.
pub fn passing(words: &str) -> Option<Duration> {
    let seconds = words.strip_suffix(" s pass")?;
    Some(Duration::from_secs_f64(seconds.parse().expect("a transcript waits for seconds")))
}

/// What stands on a stream: bytes in quotes, their end, or an end of another kind.
pub fn arrivals(wire: &str, text: &str) -> Vec<Arrival> {
    let event = |what: &str| Arrival::Event(format!("[{wire}] {what}"));
    let Some(rest) = text.strip_prefix('"') else { return vec![event(text)] };
    let (bytes, behind) = rest.rsplit_once('"').expect("a transcript quotes its bytes");
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
pub fn on_wire(words: &str) -> Option<(&str, &str)> {
    words.strip_prefix('[')?.split_once("] ")
}

/// What leaves, as it stands behind the name of its stream.
pub fn shown(leaves: &Leaves) -> String {
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
pub fn number(stream: StreamId) -> u64 {
    let (StreamId::Ours(number) | StreamId::Theirs(number)) = stream;
    number * 4
}
