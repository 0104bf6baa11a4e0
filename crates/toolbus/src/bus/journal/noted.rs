//! Lines that are not in the file yet, and which of those that were could not be written.

use toolbus_proto::tool::Failure;

/// With so much it is written, whatever else ends in the same turn.
const TEXT_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Noted {
    text: Vec<u8>,
    /// How many lines there were, with those that are written.
    count: u64,
    /// Lines that are not in the file, and what their callers are told instead of an answer.
    lost: Vec<(u64, Failure)>,
}

impl Noted {
    /// Puts one more line behind the others, and gives its number.
    pub(super) fn line(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> u64 {
        put(&mut self.text);
        self.count += 1;
        self.count
    }

    /// The lines, each with its end.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn is_enough(&self) -> bool {
        TEXT_BYTES_MAX <= self.text.len()
    }

    /// They are in the file.
    pub(super) fn written(&mut self) {
        // What a large line needed is not kept.
        match self.text.capacity() <= 2 * TEXT_BYTES_MAX {
            true => self.text.clear(),
            false => self.text = Vec::new(),
        }
    }

    /// How many lines there are behind the first so many bytes.
    pub(super) fn lines_behind(&self, bytes: usize) -> u64 {
        self.text[bytes..].iter().filter(|byte| **byte == b'\n').count() as u64
    }

    /// The last so many of them are not in the file. Their callers are told so, if they are to be.
    pub(super) fn lost(&mut self, lines: u64, refusal: Option<Failure>) {
        let numbers = self.count - lines + 1..=self.count;
        if let Some(refusal) = refusal {
            self.lost.extend(numbers.map(|number| (number, refusal.clone())));
        }
        self.written();
    }

    /// What the caller of the call that is told by this line has to know. Asked once for each.
    pub(super) fn outcome(&mut self, number: u64) -> Result<(), Failure> {
        match self.lost.iter().position(|(lost, _)| *lost == number) {
            Some(at) => Err(self.lost.swap_remove(at).1),
            None => Ok(()),
        }
    }
}
