//! Answers that go out together, as one array.

use super::Transport;
use crate::channel::Outbox;

/// The answers to one array of requests.
#[derive(Debug)]
pub(super) struct Batch {
    /// Requests that are not answered, and one more while the array is being read.
    pub(super) owed: usize,
    answers: Vec<Outbox>,
}

impl Transport {
    /// Begins an array.
    pub(super) fn begin_batch(&mut self) -> u64 {
        let key = self.number();
        self.batches.insert(key, Batch { owed: 1, answers: Vec::new() });
        key
    }

    /// One more request of an array.
    pub(super) fn owe(&mut self, batch: Option<u64>) {
        if let Some(batch) = batch.and_then(|key| self.batches.get_mut(&key)) {
            batch.owed += 1;
        }
    }

    /// A line is to be written: at once, or with the others of its array.
    pub(super) fn put(&mut self, batch: Option<u64>, mut line: Outbox) {
        match batch {
            Some(key) => self.settle_batch(key, Some(line)),
            None => self.out.append(&mut line),
        }
    }

    /// One request less to answer; with the last of them the array is written.
    pub(super) fn settle_batch(&mut self, key: u64, answer: Option<Outbox>) {
        let Some(batch) = self.batches.get_mut(&key) else { return };
        batch.owed -= 1;
        self.kept_bytes += answer.as_ref().map_or(0, Outbox::len);
        batch.answers.extend(answer);
        if batch.owed > 0 {
            return;
        }
        let Some(Batch { answers, .. }) = self.batches.remove(&key) else { return };
        self.kept_bytes -= answers.iter().map(Outbox::len).sum::<usize>();
        if answers.is_empty() {
            return;
        }
        for (index, mut answer) in answers.into_iter().enumerate() {
            self.out.put(if index == 0 { b"[" } else { b"," });
            // Without the newline that ends it where it stands alone.
            let answer = answer.take();
            self.out.put_shared(&answer.slice(..answer.len() - 1));
        }
        self.out.put(b"]\n");
    }
}
