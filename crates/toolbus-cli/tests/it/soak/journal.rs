//! What the journal says of the calls.

use std::collections::HashMap;
use std::fs;

use serde_json::Value;

use super::callers::{ANSWERED, Counts, FAILED};

/// How calls ended, by what their arguments said.
pub(super) struct Journal {
    ended: HashMap<String, Vec<String>>,
    lines: usize,
}

impl Journal {
    pub(super) fn read(file: &str) -> Journal {
        let text = fs::read_to_string(file).expect("there is a journal");
        let mut journal = Journal { ended: HashMap::new(), lines: text.lines().count() };
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let said = ["text", "message", "prompt"].map(|name| line["arguments"][name].as_str());
            if let Some(said) = said.into_iter().flatten().next() {
                let outcome = line["outcome"].as_str().unwrap_or_default().to_owned();
                journal.ended.entry(said.to_owned()).or_default().push(outcome);
            }
        }
        journal
    }

    pub(super) fn len(&self) -> usize {
        self.lines
    }

    /// A call that was answered has one line which says so, and none has two.
    pub(super) fn check(&self, counts: &Counts) {
        for (said, how) in &counts.said {
            let written = self.ended.get(said).map_or(&[][..], Vec::as_slice);
            let expected = match how.as_str() {
                ANSWERED => Some("ok"),
                FAILED => Some("failed"),
                _ => None,
            };
            match (expected, written) {
                (Some(expected), [written]) => assert_eq!(written, expected, "{said}: {how}"),
                (None, [] | [_]) => {}
                _ => panic!("{said}: {how}, but the journal says {written:?}"),
            }
        }
    }
}
