//! What a run has to say and its owner has not taken yet: lines, text, notes.

use std::collections::VecDeque;

use super::notes::Note;

/// Which of it the caller makes use of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// JSON lines.
    pub lines: bool,
    /// Every event of the server, and not only those that the document knows.
    pub all_events: bool,
    /// The text of the answer, piece by piece.
    pub text: bool,
    /// With the text of refusals among it.
    pub refusals: bool,
    /// Of the text only the last message, when all is over.
    pub last_message: bool,
    /// Every event as it came, in the notes.
    pub trace: bool,
    /// The output items of a turn, to be sent back with the next.
    pub items: bool,
}

/// What waits to be taken.
#[derive(Debug, Default)]
pub struct Said {
    pub(super) wanted: Wanted,
    /// Whole lines, each with its newline.
    pub(super) lines: Vec<u8>,
    pub(super) notes: VecDeque<Note>,
    pub(super) text: Text,
}

impl Said {
    /// Nothing yet.
    pub fn new(wanted: Wanted) -> Said {
        Said { wanted, ..Said::default() }
    }

    /// How much waits, about.
    pub(super) fn len(&self) -> usize {
        self.lines.len() + self.text.pieces.len() + self.notes.len()
    }

    /// The lines that wait, each with its newline. The writer clears them when they are written.
    pub fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.lines
    }

    /// The next piece of text.
    pub fn poll_text(&mut self) -> Option<String> {
        self.text.pieces.pop_front()
    }

    /// The next note.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }

    /// Does the text so far end in a newline, or is there none?
    pub fn is_at_line_start(&self) -> bool {
        self.text.is_at_line_start()
    }

    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.notes.push_back(Note::Warning(message.into()));
    }

    /// Are the characters of texts of any use?
    pub(super) fn wants_characters(&self) -> bool {
        self.wanted.text || self.wanted.last_message
    }

    /// Some text of the message `item`; `None` where the server did not say of which.
    pub(super) fn put_text(&mut self, turn: u32, item: Option<&str>, text: &str) {
        if text.is_empty() || !self.wants_characters() {
            return;
        }
        let Wanted { text: wants_pieces, last_message, .. } = self.wanted;
        self.text.put(turn, item, text, wants_pieces, last_message);
    }

    /// Some text of a refusal: it is shown like any text, and is not a message's own.
    pub(super) fn put_refusal(&mut self, turn: u32, item: Option<&str>, text: &str) {
        if !text.is_empty() && self.wanted.text && self.wanted.refusals {
            self.text.put(turn, item, text, true, false);
        }
    }
}

/// Messages joined: one newline between two, unless the first ends in one.
#[derive(Debug, Default)]
pub(super) struct Text {
    pieces: VecDeque<String>,
    is_begun: bool,
    ends_in_newline: bool,
    turn: u32,
    item: Option<String>,
    last_message: Option<String>,
}

impl Text {
    fn put(
        &mut self,
        turn: u32,
        item: Option<&str>,
        text: &str,
        wants_pieces: bool,
        keeps_last: bool,
    ) {
        let is_other = self.turn != turn
            || matches!((self.item.as_deref(), item), (Some(old), Some(new)) if old != new);
        if self.is_begun && is_other {
            if keeps_last {
                self.last_message = None;
            }
            if !self.ends_in_newline && wants_pieces {
                self.pieces.push_back("\n".to_owned());
            }
        }
        if self.turn != turn {
            self.item = None;
        }
        if item.is_some() && self.item.as_deref() != item {
            self.item = item.map(str::to_owned);
        }
        self.turn = turn;
        self.is_begun = true;
        self.ends_in_newline = text.ends_with('\n');
        if keeps_last {
            self.last_message.get_or_insert_default().push_str(text);
        }
        if wants_pieces {
            self.pieces.push_back(text.to_owned());
        }
    }

    fn is_at_line_start(&self) -> bool {
        !self.is_begun || self.ends_in_newline
    }

    /// The last message, if it is one of this turn.
    pub(super) fn last_message(&self, turn: u32) -> Option<&str> {
        self.last_message.as_deref().filter(|_| self.turn == turn)
    }

    pub(super) fn last_message_len(&self) -> usize {
        self.last_message.as_ref().map_or(0, String::len)
    }
}
