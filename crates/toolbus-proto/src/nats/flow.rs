//! The messages of one call between two toolbuses: numbered, cut into pieces, and never more than
//! the other side said that it takes.
//!
//! Each direction of a call has a [`Sender`] at one end and a [`Receiver`] at the other.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Write as _;

use bytes::Bytes;

use super::headers::{Headers, put_line};

/// The header that every message of a call has.
pub(crate) const HEADER: &str = "Toolbus";
/// What a call may send before it is given more.
pub(crate) const WINDOW: u64 = 256 << 10;
/// The same where much is given out already.
pub(crate) const WINDOW_SMALL: u64 = 16 << 10;
/// The largest payload of one message.
pub(crate) const PIECE_BYTES_MAX: usize = 256 << 10;
/// Pieces are no shorter than this, if the window allows.
const PIECE_BYTES_MIN: usize = 4 << 10;
/// What is kept free of a server's largest payload, for headers.
const ROOM_FOR_HEADERS: usize = 4 << 10;
/// What an item that comes in pieces may weigh.
pub(crate) const ITEM_BYTES_MAX: usize = 16 << 20;

/// How long pieces are for a server that takes so much.
pub(crate) fn piece_bytes_max(payload_max: usize) -> usize {
    PIECE_BYTES_MAX.min(payload_max.saturating_sub(ROOM_FOR_HEADERS))
}

/// One thing that is said: a call, a part, an end.
#[derive(Debug)]
pub(crate) struct Item {
    kind: &'static str,
    /// The headers of its first message besides the one that all have, as they are written.
    lines: Vec<u8>,
    payload: Bytes,
    /// More of the same run of bytes follows in another item.
    goes_on: bool,
    /// Its first message needs no credit.
    is_free: bool,
    /// Some of it has been written.
    has_begun: bool,
}

impl Item {
    pub(crate) fn new(kind: &'static str, payload: Bytes) -> Item {
        Item { kind, lines: Vec::new(), payload, goes_on: false, is_free: false, has_begun: false }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl AsRef<str>) -> Item {
        put_line(&mut self.lines, name, value.as_ref());
        self
    }

    #[must_use]
    pub(crate) fn with_number(mut self, name: &'static str, value: u64) -> Item {
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.extend_from_slice(b": ");
        put_number(&mut self.lines, value);
        self.lines.extend_from_slice(b"\r\n");
        self
    }

    #[must_use]
    pub(crate) fn maybe(self, name: &'static str, value: Option<impl AsRef<str>>) -> Item {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    #[must_use]
    pub(crate) fn maybe_number(self, name: &'static str, value: Option<u64>) -> Item {
        match value {
            Some(value) => self.with_number(name, value),
            None => self,
        }
    }

    /// More of the same run of bytes follows.
    #[must_use]
    pub(crate) fn going_on(self, goes_on: bool) -> Item {
        Item { goes_on, ..self }
    }

    /// What it is.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// What its first message carries counts as nothing.
    #[must_use]
    pub(crate) fn free(self) -> Item {
        Item { is_free: true, ..self }
    }
}

/// One message, besides its header block.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) kind: &'static str,
    pub(crate) payload: Bytes,
}

/// What one end says.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    next: u64,
    credit: u64,
    /// How long pieces are.
    piece_max: usize,
    /// What an item that does not fit as a whole waits for.
    piece_min: usize,
    waiting: VecDeque<Item>,
    /// What waits, in bytes.
    bytes: usize,
    /// What needs no turn and no credit: it may stand between the pieces of an item.
    urgent: VecDeque<Item>,
    /// Only the first message may leave yet.
    is_gated: bool,
}

impl Sender {
    pub(crate) fn new(piece_max: usize, credit: u64) -> Sender {
        let mut sender = Sender { piece_max, ..Sender::default() };
        sender.grant(credit);
        sender
    }

    /// Nothing follows the first message until the gate is opened.
    pub(crate) fn gated(self) -> Sender {
        Sender { is_gated: true, ..self }
    }

    pub(crate) fn open_gate(&mut self) {
        self.is_gated = false;
    }

    pub(crate) fn push(&mut self, item: Item) {
        self.bytes += item.payload.len();
        self.waiting.push_back(item);
    }

    /// Says this before anything else.
    pub(crate) fn push_first(&mut self, item: Item) {
        self.urgent.push_front(item);
    }

    pub(crate) fn push_urgent(&mut self, item: Item) {
        self.urgent.push_back(item);
    }

    /// The other side takes so many bytes more. Tells whether that can be.
    pub(crate) fn grant(&mut self, bytes: u64) -> bool {
        self.credit = self.credit.saturating_add(bytes);
        if self.piece_min == 0 && 0 < bytes {
            // The window: half of it is given back at a time.
            let half = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
            self.piece_min = half.clamp(1, PIECE_BYTES_MIN);
        }
        self.credit <= u64::from(u32::MAX >> 1)
    }

    /// Does the other side take so many bytes by now?
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes as u64 <= self.credit
    }

    /// What waits, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What waits and has no credit, in bytes.
    pub(crate) fn waiting_for_credit(&self) -> usize {
        self.bytes.saturating_sub(usize::try_from(self.credit).unwrap_or(usize::MAX))
    }

    /// Is nothing left to be said?
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.urgent.is_empty()
    }

    /// What was to be said behind the call, for another peer.
    pub(crate) fn take_behind(&mut self) -> VecDeque<Item> {
        self.bytes = 0;
        self.urgent.clear();
        let mut behind = std::mem::take(&mut self.waiting);
        behind.retain(|item| item.kind != "call");
        behind
    }

    /// Forgets what has not been said: the call ends otherwise.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.urgent.clear();
        self.bytes = 0;
    }

    /// The next message that may leave; its header block is written into `head`.
    pub(crate) fn next(&mut self, head: &mut Vec<u8>) -> Option<Piece> {
        if self.is_gated && 0 < self.next {
            return None;
        }
        if let Some(item) = self.urgent.pop_front() {
            self.put_head(head, item.kind, false, &item.lines);
            return Some(Piece { kind: item.kind, payload: item.payload });
        }
        let item = self.waiting.front_mut()?;
        let is_free = item.is_free && !item.has_begun;
        let room = if is_free { u64::MAX } else { self.credit };
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(self.piece_max);
        let len = item.payload.len().min(room);
        // A few bytes at a time would cost more than they carry.
        let is_worth = len == item.payload.len() || self.piece_min.max(1) <= len;
        if !is_worth {
            return None;
        }
        let payload = item.payload.split_to(len);
        let is_whole = item.payload.is_empty();
        let lines = if item.has_begun { Vec::new() } else { std::mem::take(&mut item.lines) };
        item.has_begun = true;
        let (kind, goes_on) = (item.kind, item.goes_on);
        if is_whole {
            self.waiting.pop_front();
        }
        self.bytes -= len;
        if !is_free {
            self.credit -= len as u64;
        }
        self.put_head(head, kind, !is_whole || goes_on, &lines);
        Some(Piece { kind, payload })
    }

    fn put_head(&mut self, head: &mut Vec<u8>, kind: &str, more: bool, lines: &[u8]) {
        head.clear();
        head.extend_from_slice(b"NATS/1.0\r\nToolbus: ");
        head.extend_from_slice(kind.as_bytes());
        head.push(b' ');
        put_number(head, self.next);
        if more {
            head.extend_from_slice(b" more");
        }
        head.extend_from_slice(b"\r\n");
        head.extend_from_slice(lines);
        head.extend_from_slice(b"\r\n");
        self.next += 1;
    }
}

/// Writes a number.
fn put_number(out: &mut Vec<u8>, number: u64) {
    // Cannot fail: it is memory.
    let _ = write!(out, "{number}");
}

/// The header of a message: what it is, its number, and whether the item goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) kind: Cow<'static, str>,
    pub(crate) seq: u64,
    pub(crate) more: bool,
}

/// The kinds that we know; others are passed over.
const KINDS: [&str; 14] = [
    "call", "begun", "end", "part", "credit", "progress", "log", "head", "fail", "refused", "ask",
    "answer", "cancel", "alive",
];

impl Mark {
    /// `None` if it cannot be read, or stands twice.
    pub(crate) fn read(headers: &Headers) -> Option<Mark> {
        let mut values = headers.all(HEADER);
        let (value, None) = (values.next()?, values.next()) else { return None };
        let mut words = value.split(' ');
        let kind = words.next()?;
        let known = KINDS.into_iter().find(|known| *known == kind);
        let kind = known.map_or_else(|| Cow::Owned(kind.to_owned()), Cow::Borrowed);
        let seq = words.next()?.parse().ok()?;
        let more = match words.next() {
            None => false,
            Some("more") => true,
            Some(_) => return None,
        };
        (!kind.is_empty() && words.next().is_none()).then_some(Mark { kind, seq, more })
    }
}

/// What one end hears.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    expected: u64,
    /// What was given when the call began.
    window: u64,
    /// What the other side may still send.
    credit: u64,
    /// What was taken, and is not given back yet.
    taken: u64,
    unfinished: Option<Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    kind: Cow<'static, str>,
    headers: Headers,
    bytes: Vec<u8>,
    /// A run of bytes, whose pieces are passed on as they come.
    is_run: bool,
}

/// What was said, whole.
#[derive(Debug)]
pub(crate) struct WholeItem {
    pub(crate) kind: Cow<'static, str>,
    /// The headers of its first message; none behind the first piece of a run.
    pub(crate) headers: Headers,
    pub(crate) payload: Bytes,
    /// More of the same run of bytes follows.
    pub(crate) more: bool,
    /// What of it is to be given back once its reader has taken it.
    pub(crate) owed: u64,
}

/// What may stand between the pieces of an item.
const BETWEEN: [&str; 4] = ["credit", "alive", "cancel", "fail"];

impl Receiver {
    /// The other side was told that it may send so much.
    pub(crate) fn new(window: u64) -> Receiver {
        Receiver { window, credit: window, ..Receiver::default() }
    }

    /// What the other side may send in all.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Takes a message; gives what it completes, or why the call cannot go on.
    pub(crate) fn take(
        &mut self,
        mark: Mark,
        headers: Headers,
        payload: Bytes,
    ) -> Result<Option<WholeItem>, String> {
        if mark.seq != self.expected {
            return Err(format!("message {} came in place of {}", mark.seq, self.expected));
        }
        self.expected += 1;
        let Mark { kind, more, seq } = mark;
        let len = payload.len() as u64;
        let is_free = kind == "call" && seq == 0;
        if !is_free {
            let left = self.credit.checked_sub(len);
            self.credit = left.ok_or_else(|| format!("{len} bytes came, {} may", self.credit))?;
        }
        let owed = if is_free { 0 } else { len };
        if BETWEEN.contains(&&*kind) && !more {
            let is_its_own = self.unfinished.as_ref().is_some_and(|begun| begun.kind == kind);
            if !is_its_own {
                return Ok(Some(WholeItem { kind, headers, payload, more, owed }));
            }
        }
        let Some(mut begun) = self.unfinished.take() else {
            let is_run = kind == "part" && headers.get("Toolbus-Part") == Some("bytes");
            if !more || is_run {
                if more {
                    let kind = kind.clone();
                    let (headers, bytes) = (Headers::default(), Vec::new());
                    self.unfinished = Some(Unfinished { kind, headers, bytes, is_run });
                }
                return Ok(Some(WholeItem { kind, headers, payload, more, owed }));
            }
            self.taken += owed;
            let bytes = payload.to_vec();
            self.unfinished = Some(Unfinished { kind, headers, bytes, is_run });
            return Ok(None);
        };
        if begun.kind != kind {
            return Err(format!("`{kind}` came inside of an unfinished `{}`", begun.kind));
        }
        if begun.is_run {
            if more {
                self.unfinished = Some(begun);
            }
            let headers = Headers::default();
            return Ok(Some(WholeItem { kind, headers, payload, more, owed }));
        }
        if ITEM_BYTES_MAX < begun.bytes.len() + payload.len() {
            return Err(format!("a `{kind}` of more than {ITEM_BYTES_MAX} bytes"));
        }
        begun.bytes.extend_from_slice(&payload);
        if more {
            self.taken += owed;
            self.unfinished = Some(begun);
            return Ok(None);
        }
        let payload = begun.bytes.into();
        Ok(Some(WholeItem { kind, headers: begun.headers, payload, more, owed }))
    }

    /// Is something begun and not whole?
    pub(crate) fn is_inside(&self) -> bool {
        self.unfinished.is_some()
    }

    /// What it keeps, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.unfinished.as_ref().map_or(0, |begun| begun.bytes.len())
    }

    /// The reader has taken so much.
    pub(crate) fn took(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// What is to be given back now, if it is worth a message.
    pub(crate) fn give_back(&mut self) -> Option<u64> {
        if self.taken == 0 || self.taken < self.window / 2 {
            return None;
        }
        let bytes = std::mem::take(&mut self.taken);
        self.credit += bytes;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::headers::Block;

    fn pass(
        sender: &mut Sender,
        receiver: &mut Receiver,
    ) -> Vec<Result<Option<WholeItem>, String>> {
        let (mut heard, mut head) = (Vec::new(), Vec::new());
        while let Some(Piece { payload, .. }) = sender.next(&mut head) {
            let headers = Headers::read(&Bytes::copy_from_slice(&head)).unwrap();
            let mark = Mark::read(&headers).unwrap();
            heard.push(receiver.take(mark, headers, payload));
        }
        heard
    }

    #[test]
    fn a_sender_stops_where_its_credit_ends() {
        let mut sender = Sender::new(PIECE_BYTES_MAX, WINDOW);
        let mut receiver = Receiver::new(WINDOW);
        let long = Bytes::from(vec![b'x'; 3 * PIECE_BYTES_MAX]);
        sender.push(Item::new("end", long.clone()).with("Toolbus-Answer", "text"));
        let mut whole = None;
        let mut rounds = 0;
        while whole.is_none() {
            for heard in pass(&mut sender, &mut receiver) {
                whole = whole.or(heard.unwrap());
            }
            if let Some(bytes) = receiver.give_back() {
                assert!(sender.grant(bytes));
            }
            rounds += 1;
            assert!(rounds < 5);
        }
        let whole = whole.unwrap();
        assert_eq!((whole.payload, whole.headers.get("toolbus-answer")), (long, Some("text")));
        assert_eq!((rounds, sender.bytes()), (3, 0));
        assert!(sender.is_empty());
    }

    #[test]
    fn a_run_of_bytes_is_passed_on_piece_by_piece() {
        let mut sender = Sender::new(4 << 10, WINDOW);
        let mut receiver = Receiver::new(WINDOW);
        let piece = |len| Item::new("part", Bytes::from(vec![0; len]));
        sender.push(piece(5 << 10).with("Toolbus-Part", "bytes").going_on(true));
        sender.push_urgent(Item::new("credit", Bytes::new()).with("Toolbus-Credit", "7"));
        sender.push(piece(1));
        let heard: Vec<_> =
            pass(&mut sender, &mut receiver).into_iter().map(Result::unwrap).collect();
        let seen: Vec<_> = heard
            .iter()
            .flatten()
            .map(|heard| (&*heard.kind, heard.payload.len(), heard.more))
            .collect();
        let expected =
            [("credit", 0, false), ("part", 4096, true), ("part", 1024, true), ("part", 1, false)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_does_not_fit_ends_the_call() {
        let mark = |text: &str| {
            let block = Block::new().with(HEADER, text).end();
            Mark::read(&Headers::read(&block.into()).unwrap())
        };
        assert_eq!(mark("part"), None);
        assert_eq!(mark("part x"), None);
        assert_eq!(mark("part 1 less"), None);
        let twice = Block::new().with(HEADER, "part 0").with(HEADER, "part 0").end();
        assert_eq!(Mark::read(&Headers::read(&twice.into()).unwrap()), None);
        let take = |receiver: &mut Receiver, text, payload: &'static [u8]| {
            let taken =
                receiver.take(mark(text).unwrap(), Headers::default(), Bytes::from_static(payload));
            taken.map(|heard| heard.map(|heard| heard.kind.into_owned()))
        };
        let mut receiver = Receiver::new(4);
        assert_eq!(take(&mut receiver, "head 0 more", b"ab"), Ok(None));
        assert_eq!(
            take(&mut receiver, "part 1", b"c"),
            Err("`part` came inside of an unfinished `head`".to_owned())
        );
        let mut receiver = Receiver::new(4);
        assert_eq!(
            take(&mut receiver, "part 1", b""),
            Err("message 1 came in place of 0".to_owned())
        );
        assert_eq!(take(&mut receiver, "part 0", b"abcde"), Err("5 bytes came, 4 may".to_owned()));
    }

    #[test]
    fn what_waits_for_the_gate_is_not_said() {
        let (mut sender, mut head) = (Sender::new(4 << 10, 0).gated(), Vec::new());
        sender.push(Item::new("call", Bytes::from(vec![0; 5 << 10])).free());
        assert_eq!(sender.next(&mut head).unwrap().payload.len(), 4 << 10);
        assert!(sender.next(&mut head).is_none());
        sender.open_gate();
        assert!(sender.next(&mut head).is_none());
        assert!(sender.grant(WINDOW));
        assert_eq!(sender.next(&mut head).unwrap().payload.len(), 1 << 10);
    }
}
