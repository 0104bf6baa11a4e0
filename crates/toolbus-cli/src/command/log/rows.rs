//! Calls as lines: columns for people, or the journal's own lines.

use toolbus::bus::journal::read::Entry;

use super::is_for_people;
use crate::args::Globals;
use crate::failed::Failed;
use crate::render::style::Paint;
use crate::render::{self, for_terminal, printable};

/// So much is written at once.
const CHUNK_BYTES: usize = 64 << 10;

pub(super) struct Rows {
    is_json: bool,
    for_people: bool,
    paint: Paint,
    has_title: bool,
    text: String,
}

impl Rows {
    pub(super) fn new(globals: &Globals) -> Rows {
        Rows {
            is_json: globals.json,
            for_people: is_for_people(),
            paint: globals.color.paint(&std::io::stdout()),
            has_title: false,
            text: String::new(),
        }
    }

    /// One more call, with its line.
    pub(super) fn add(&mut self, entry: &Entry<'_>, line: &str) -> Result<(), Failed> {
        match (self.is_json, self.for_people) {
            (true, true) => self.text.push_str(&for_terminal(line)),
            (true, false) => self.text.push_str(line),
            (false, _) => self.add_row(entry),
        }
        self.text.push('\n');
        if CHUNK_BYTES <= self.text.len() { self.finish() } else { Ok(()) }
    }

    /// Writes what there is.
    pub(super) fn finish(&mut self) -> Result<(), Failed> {
        if self.text.is_empty() {
            return Ok(());
        }
        let written = render::print_own(&self.text);
        self.text.clear();
        written
    }

    fn add_row(&mut self, entry: &Entry<'_>) {
        if self.for_people && !self.has_title {
            self.has_title = true;
            let title = row("TIME (UTC)", "DURATION", "OUTCOME", "IN", "OUT", "FRONT", "TOOL");
            self.text.push_str(&self.paint.title(&title));
            self.text.push('\n');
        }
        let time = entry.time.replace('T', " ");
        let outcome = format!("{:OUTCOME_WIDTH$}", printable(&entry.outcome));
        let outcome = match &*entry.outcome {
            "ok" => self.paint.ok(&outcome),
            "cancelled" => self.paint.warning(&outcome),
            _ => self.paint.error(&outcome),
        };
        let row = row(
            printable(time.trim_end_matches('Z')).as_ref(),
            &duration(entry.duration),
            &outcome,
            &size(entry.bytes.r#in),
            &size(entry.bytes.out),
            &printable(&entry.origin()),
            &printable(&entry.name()),
        );
        self.text.push_str(&row);
    }
}

/// The longest there is: `invalid_arguments`.
const OUTCOME_WIDTH: usize = 17;

fn row(
    time: &str,
    duration: &str,
    outcome: &str,
    bytes_in: &str,
    bytes_out: &str,
    front: &str,
    tool: &str,
) -> String {
    format!(
        "{time:23}  {duration:>8}  {outcome:OUTCOME_WIDTH$}  {bytes_in:>8}  {bytes_out:>8}  {front:8}  {tool}"
    )
}

/// Milliseconds as people read them.
pub(super) fn duration(millis: f64) -> String {
    match millis {
        ..1.0 => format!("{:.0} µs", millis * 1000.0),
        ..10.0 => format!("{millis:.2} ms"),
        ..100.0 => format!("{millis:.1} ms"),
        ..1000.0 => format!("{millis:.0} ms"),
        ..60_000.0 => format!("{:.2} s", millis / 1000.0),
        _ => format!("{:.1} min", millis / 60_000.0),
    }
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    let float = bytes as f64;
    match bytes {
        ..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", float / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", float / 1_048_576.0),
        _ => format!("{:.1} GiB", float / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_people_would_use() {
        let durations = [0.0, 0.412, 1.5, 12.34, 999.4, 1500.0, 90_000.0].map(duration);
        assert_eq!(
            durations,
            ["0 µs", "412 µs", "1.50 ms", "12.3 ms", "999 ms", "1.50 s", "1.5 min"]
        );
        let sizes = [0, 1023, 1536, 3 << 20, 5 << 30].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.5 KiB", "3.0 MiB", "5.0 GiB"]);
    }
}
