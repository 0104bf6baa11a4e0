//! Answers that go out together: those to an array of requests, as one array.

use crate::channel::Outbox;
use crate::counted::Counted;

/// Arrays of requests that are not answered in full, by numbers of ours.
#[derive(Debug, Default)]
pub struct Batches {
    open: Counted<u64, Batch>,
    begun: u64,
    /// What the answers weigh that wait for others.
    bytes: usize,
}

#[derive(Debug)]
struct Batch {
    /// Requests that are not answered, and one more while the array is being read.
    owed: usize,
    answers: Vec<Outbox>,
}

impl Batches {
    /// Begins an array. It has been read when [`Batches::settle`] is called without an answer.
    pub fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.open.insert(self.begun, Batch { owed: 1, answers: Vec::new() });
        self.begun
    }

    /// One more request, if it is part of an array.
    pub fn owe(&mut self, batch: Option<u64>) {
        if let Some(batch) = batch.and_then(|batch| self.open.get_mut(&batch)) {
            batch.owed += 1;
        }
    }

    /// One request less to answer. With the last of them the array is over, and this is all of it:
    /// empty if there is no answer in it.
    pub fn settle(&mut self, batch: u64, answer: Option<Outbox>) -> Option<Outbox> {
        let mut text = Outbox::new();
        let Some(open) = self.open.get_mut(&batch) else { return Some(text) };
        open.owed -= 1;
        self.bytes += answer.as_ref().map_or(0, Outbox::len);
        open.answers.extend(answer);
        if 0 < open.owed {
            return None;
        }
        let answers = self.open.remove(&batch).map(|open| open.answers);
        for (index, mut answer) in answers.into_iter().flatten().enumerate() {
            self.bytes -= answer.len();
            text.put(if index == 0 { b"[" } else { b"," });
            text.append(&mut answer);
        }
        if !text.is_empty() {
            text.put(b"]");
        }
        Some(text)
    }

    /// What the answers weigh that wait for others.
    pub fn weight(&self) -> usize {
        self.bytes
    }
}
