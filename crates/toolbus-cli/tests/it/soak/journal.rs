//! What the journal says of the calls.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use super::callers::{ANSWERED, Counts, FAILED};

/// How calls ended, by what their arguments said.
pub(super) struct Journal {
    ended: HashMap<String, Vec<Value>>,
    lines: usize,
    /// Lines of processes that were killed in the middle of them.
    cut_off: usize,
}

impl Journal {
    pub(super) fn read(file: &str) -> Journal {
        let text = fs::read_to_string(file).expect("there is a journal");
        let lines = text.lines().count();
        let mut journal = Journal { ended: HashMap::new(), lines, cut_off: 0 };
        for line in text.lines() {
            assert_ne!(line, "", "no line is empty");
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                journal.cut_off += 1;
                continue;
            };
            let said = ["text", "message", "prompt"].map(|name| line["arguments"][name].as_str());
            if let Some(said) = said.into_iter().flatten().next() {
                journal.ended.entry(said.to_owned()).or_default().push(line.clone());
            }
        }
        journal
    }

    pub(super) fn len(&self) -> usize {
        self.lines
    }

    /// Lines that cannot be read: at most one for each process that was killed.
    pub(super) fn cut_off(&self) -> usize {
        self.cut_off
    }

    /// A call that was answered has one line which says so, and none has two.
    pub(super) fn check(&self, counts: &Counts) {
        let mut wrong = String::new();
        for (said, how) in &counts.said {
            let written = self.ended.get(said).map_or(&[][..], Vec::as_slice);
            let expected = match how.as_str() {
                ANSWERED => Some("ok"),
                FAILED => Some("failed"),
                _ => None,
            };
            let is_right = match (expected, written) {
                (Some(expected), [line]) => line["outcome"] == expected,
                (None, [] | [_]) => true,
                _ => false,
            };
            if !is_right {
                let lines: Vec<_> = written.iter().map(Value::to_string).collect();
                let _ = writeln!(wrong, "{said}: {how}, but the journal says {lines:?}");
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}
