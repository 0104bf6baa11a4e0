//! The client protocol of NATS: a dozen verbs in control lines, some with a payload behind them.
//!
//! [`OpReader`] cuts operations out of bytes, whoever wrote them; the `put_*` functions write what a
//! client says. Header blocks are in [`headers`](super::headers).

use bytes::{Buf, Bytes, BytesMut};

use super::headers::HEADERS_BYTES_MAX;
use crate::channel::Outbox;
use crate::printable::printable;

/// The longest control line.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The longest `INFO`, which lists the servers of a cluster.
const INFO_BYTES_MAX: usize = 1 << 20;
/// The largest payload that is kept.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// The longest verb is `CONNECT`; `HMSG` has the most words behind it.
const VERB_BYTES_MAX: usize = 8;
const WORDS_MAX: usize = 5;
/// How much of what nobody understands is shown.
const SHOWN_CHARS_MAX: usize = 60;

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The server says who it is: JSON.
    Info(Bytes),
    /// The client says who it is: JSON.
    Connect(Bytes),
    /// A message from the server, with the number of its subscription.
    Msg(Message),
    /// A message from a client.
    Pub(Message),
    /// A client subscribes.
    Sub {
        /// What it wants to hear.
        subject: String,
        /// Only one of those in this queue group hears each message.
        queue: Option<String>,
        /// The client's number for it.
        sid: String,
    },
    /// A client unsubscribes, at once or after so many messages.
    Unsub {
        /// The number of the subscription.
        sid: String,
        /// After so many.
        max: Option<u64>,
    },
    /// Are you there?
    Ping,
    /// Yes.
    Pong,
    /// What a client said was heard, where it asked to be told.
    Ok,
    /// The server complains.
    Err(String),
}

/// A message, in either direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Where it was sent.
    pub subject: String,
    /// The subscription that it is for; empty in what a client publishes.
    pub sid: String,
    /// Where an answer goes.
    pub reply: Option<String>,
    /// The header block, if it has one.
    pub head: Option<Bytes>,
    /// What it says.
    pub payload: Bytes,
    /// It was so long that it was read past: head and payload are empty.
    pub too_large: Option<usize>,
}

/// Why bytes are no NATS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A control line that never ends.
    #[error("a control line of more than {bytes_max} bytes")]
    LongLine {
        /// The limit.
        bytes_max: usize,
    },
    /// A line that is no operation.
    #[error("`{0}` is no operation")]
    NoOperation(String),
    /// A payload that does not end where it should.
    #[error("no end of line behind a payload of {0} bytes")]
    NoEnd(usize),
}

/// Cuts operations out of a run of bytes.
#[derive(Debug, Default)]
pub struct OpReader {
    /// Bytes already known to hold no end of line.
    searched: usize,
    /// A message whose payload is still to come.
    awaited: Option<Awaited>,
}

#[derive(Debug)]
struct Awaited {
    message: Message,
    is_pub: bool,
    head_len: usize,
    len: usize,
    /// So many bytes of it are still to be read past; nothing of it is kept.
    skip: Option<usize>,
}

impl OpReader {
    /// The next whole operation, or `None` until the rest of it arrives.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Op>, Breach> {
        loop {
            if let Some(awaited) = &mut self.awaited {
                if !awaited.is_here(input)? {
                    return Ok(None);
                }
                let awaited = self.awaited.take();
                return Ok(awaited.map(|awaited| awaited.take(input)));
            }
            let Some(line) = self.line(input)? else { return Ok(None) };
            if line.is_empty() {
                continue;
            }
            if let Some(op) = self.read(&line)? {
                return Ok(Some(op));
            }
        }
    }

    /// Is the beginning of an operation there, and the rest of it not?
    pub fn is_inside(&self, input: &BytesMut) -> bool {
        self.awaited.is_some() || !input.is_empty()
    }

    fn line(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, Breach> {
        let is_info = input.len() >= 4 && input[..4].eq_ignore_ascii_case(b"INFO");
        let bytes_max = if is_info { INFO_BYTES_MAX } else { LINE_BYTES_MAX };
        loop {
            let Some(at) = memchr::memchr(b'\n', &input[self.searched..]) else {
                self.searched = input.len();
                return match bytes_max < input.len() {
                    true => Err(Breach::LongLine { bytes_max }),
                    false => Ok(None),
                };
            };
            let end = self.searched + at;
            self.searched = end + 1;
            if bytes_max < end {
                return Err(Breach::LongLine { bytes_max });
            }
            if 0 < end && input[end - 1] == b'\r' {
                self.searched = 0;
                let line = input.split_to(end + 1).freeze();
                return Ok(Some(line.slice(..end - 1)));
            }
        }
    }

    fn read(&mut self, line: &Bytes) -> Result<Option<Op>, Breach> {
        let breach = || Breach::NoOperation(printable(line, SHOWN_CHARS_MAX));
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let verb_len = line.iter().position(is_blank).unwrap_or(line.len());
        let rest = line.slice(verb_len..);
        let text = std::str::from_utf8(&rest).map_err(|_| breach())?;
        let mut words = text.split([' ', '\t']).filter(|word| !word.is_empty());
        let mut verb = [0; VERB_BYTES_MAX];
        let verb = verb.get_mut(..verb_len).ok_or_else(breach)?;
        verb.copy_from_slice(&line[..verb_len]);
        verb.make_ascii_uppercase();
        let op = match &*verb {
            b"INFO" => Op::Info(trimmed(&rest)),
            b"CONNECT" => Op::Connect(trimmed(&rest)),
            b"PING" => Op::Ping,
            b"PONG" => Op::Pong,
            b"+OK" => Op::Ok,
            b"-ERR" => Op::Err(text.trim().trim_matches('\'').to_owned()),
            b"MSG" | b"HMSG" | b"PUB" | b"HPUB" => {
                let mut found = [""; WORDS_MAX];
                let found = all(&mut found, words).ok_or_else(breach)?;
                let awaited = Awaited::read(verb, found).ok_or_else(breach)?;
                self.awaited = Some(awaited);
                return Ok(None);
            }
            b"SUB" => {
                let mut found = [""; WORDS_MAX];
                let (subject, queue, sid) = match *all(&mut found, words).ok_or_else(breach)? {
                    [subject, sid] => (subject, None, sid),
                    [subject, queue, sid] => (subject, Some(queue.to_owned()), sid),
                    _ => return Err(breach()),
                };
                Op::Sub { subject: subject.to_owned(), queue, sid: sid.to_owned() }
            }
            b"UNSUB" => {
                let sid = words.next().ok_or_else(breach)?.to_owned();
                let max = words.next().map(str::parse).transpose().map_err(|_| breach())?;
                Op::Unsub { sid, max }
            }
            _ => return Err(breach()),
        };
        Ok(Some(op))
    }
}

impl Awaited {
    fn read(verb: &[u8], words: &[&str]) -> Option<Awaited> {
        let has_head = verb[0] == b'H';
        let is_pub = verb.ends_with(b"PUB");
        let sizes = if has_head { 2 } else { 1 };
        let (words, sizes) = words.split_at_checked(words.len().checked_sub(sizes)?)?;
        let (subject, sid, reply) = match (is_pub, words) {
            (true, [subject]) => (subject, "", None),
            (true, [subject, reply]) => (subject, "", Some(*reply)),
            (false, [subject, sid]) => (subject, *sid, None),
            (false, [subject, sid, reply]) => (subject, *sid, Some(*reply)),
            _ => return None,
        };
        let size = |text: &str| text.parse::<u32>().ok().map(|size| size as usize);
        let (head_len, len) = match *sizes {
            [len] => (0, size(len)?),
            [head, len] => (size(head)?, size(len)?),
            _ => return None,
        };
        if len < head_len {
            return None;
        }
        let mut message = Message {
            subject: (*subject).to_owned(),
            sid: sid.to_owned(),
            reply: reply.map(str::to_owned),
            ..Message::default()
        };
        let is_too_large = PAYLOAD_BYTES_MAX < len - head_len || HEADERS_BYTES_MAX < head_len;
        if is_too_large {
            message.too_large = Some(len);
        } else if has_head {
            message.head = Some(Bytes::new());
        }
        Some(Awaited { message, is_pub, head_len, len, skip: is_too_large.then_some(len) })
    }

    /// Is all of it there, with the end of its line?
    fn is_here(&mut self, input: &mut BytesMut) -> Result<bool, Breach> {
        if let Some(skip) = &mut self.skip {
            let past = (*skip).min(input.len());
            input.advance(past);
            *skip -= past;
            if 0 < *skip {
                return Ok(false);
            }
        }
        let before = if self.skip.is_some() { 0 } else { self.len };
        if input.len() < before + 2 {
            // The payload is large: room for it is made once.
            input.reserve(before + 2 - input.len());
            return Ok(false);
        }
        match &input[before..before + 2] == b"\r\n" {
            true => Ok(true),
            false => Err(Breach::NoEnd(self.len)),
        }
    }

    fn take(self, input: &mut BytesMut) -> Op {
        let Awaited { mut message, is_pub, head_len, len, skip } = self;
        if skip.is_none() {
            let whole = input.split_to(len).freeze();
            message.payload = whole.slice(head_len..);
            message.head = message.head.map(|_| whole.slice(..head_len));
        }
        input.advance(2);
        if is_pub { Op::Pub(message) } else { Op::Msg(message) }
    }
}

/// All words of a line, if they are no more than an operation may have.
fn all<'a, 'b>(
    found: &'b mut [&'a str; WORDS_MAX],
    words: impl Iterator<Item = &'a str>,
) -> Option<&'b [&'a str]> {
    let mut count = 0;
    for word in words {
        *found.get_mut(count)? = word;
        count += 1;
    }
    Some(&found[..count])
}

fn trimmed(text: &Bytes) -> Bytes {
    text.slice_ref(text.trim_ascii())
}

/// Publishes a message; `head` is a whole header block.
pub fn put_pub(
    out: &mut Outbox,
    subject: &str,
    reply: Option<&str>,
    head: Option<&[u8]>,
    payload: &Bytes,
) {
    out.put(if head.is_some() { b"HPUB " } else { b"PUB " });
    out.put(subject.as_bytes());
    out.put(b" ");
    if let Some(reply) = reply {
        out.put(reply.as_bytes());
        out.put(b" ");
    }
    let head = head.unwrap_or_default();
    if !head.is_empty() {
        out.put_number(head.len() as u64);
        out.put(b" ");
    }
    out.put_number((head.len() + payload.len()) as u64);
    out.put(b"\r\n");
    out.put(head);
    out.put_shared(payload);
    out.put(b"\r\n");
}

/// Subscribes.
pub fn put_sub(out: &mut Outbox, subject: &str, queue: Option<&str>, sid: u64) {
    out.put(b"SUB ");
    out.put(subject.as_bytes());
    out.put(b" ");
    if let Some(queue) = queue {
        out.put(queue.as_bytes());
        out.put(b" ");
    }
    out.put_number(sid);
    out.put(b"\r\n");
}

/// Unsubscribes at once.
pub fn put_unsub(out: &mut Outbox, sid: u64) {
    out.put(b"UNSUB ");
    out.put_number(sid);
    out.put(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(text: &[u8]) -> Result<Vec<Op>, Breach> {
        let (mut reader, mut input) = (OpReader::default(), BytesMut::from(text));
        let mut found = Vec::new();
        while let Some(op) = reader.next(&mut input)? {
            found.push(op);
        }
        Ok(found)
    }

    const TALK: &[u8] = b"INFO {\"a\":1} \r\nping\r\nMSG a.b 1 2\r\nhi\r\nHMSG  a\t7 r 12 14 \r\n\
        NATS/1.0\r\n\r\nhi\r\n-ERR 'no'\r\nPUB a 0\r\n\r\nSUB a q 1\r\nUNSUB 1 5\r\n";

    #[test]
    fn operations_are_cut_out_wherever_bytes_are_cut() {
        let whole = ops(TALK).unwrap();
        assert_eq!(whole.len(), 8);
        let Op::Msg(message) = &whole[3] else { panic!("{whole:?}") };
        assert_eq!((&*message.sid, message.reply.as_deref()), ("7", Some("r")));
        assert_eq!(message.head.as_deref(), Some(&b"NATS/1.0\r\n\r\n"[..]));
        assert_eq!(whole[4], Op::Err("no".to_owned()));
        let (mut reader, mut input, mut found) = (OpReader::default(), BytesMut::new(), Vec::new());
        for byte in TALK {
            input.extend_from_slice(&[*byte]);
            found.extend(reader.next(&mut input).unwrap());
        }
        assert_eq!(found, whole);
        assert!(!reader.is_inside(&input));
    }

    #[test]
    fn what_breaks_the_framing_is_told() {
        for (text, why) in [
            (&b"HELLO\r\n"[..], "`HELLO` is no operation"),
            (b"MSG a 1 x\r\n", "`MSG a 1 x` is no operation"),
            (b"HMSG a 1 9 2\r\n", "`HMSG a 1 9 2` is no operation"),
            (b"MSG a 1 2\r\nhi!!", "no end of line behind a payload of 2 bytes"),
        ] {
            assert_eq!(ops(text).unwrap_err().to_string(), why);
        }
        let long = [b'x'; LINE_BYTES_MAX + 1];
        assert_eq!(ops(&long), Err(Breach::LongLine { bytes_max: LINE_BYTES_MAX }));
        let mut info = b"INFO ".to_vec();
        info.extend([b'x'; LINE_BYTES_MAX]);
        assert_eq!(ops(&info), Ok(vec![]));
    }

    #[test]
    fn a_payload_over_the_limit_is_read_past() {
        let len = PAYLOAD_BYTES_MAX + 1;
        let mut text = format!("MSG a 1 {len}\r\n").into_bytes();
        text.resize(text.len() + len, b'x');
        text.extend_from_slice(b"\r\nPING\r\n");
        let found = ops(&text).unwrap();
        let Op::Msg(message) = &found[0] else { panic!() };
        assert_eq!((message.too_large, message.payload.len()), (Some(len), 0));
        assert_eq!(found[1], Op::Ping);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Outbox::new();
        put_sub(&mut out, "a.>", Some("q"), 3);
        put_pub(&mut out, "a", Some("r"), Some(b"NATS/1.0\r\n\r\n"), &Bytes::from_static(b"x"));
        put_pub(&mut out, "a", None, None, &Bytes::new());
        put_unsub(&mut out, 3);
        let found = ops(&out.take()).unwrap();
        assert!(matches!(&found[0], Op::Sub { queue: Some(q), .. } if q == "q"));
        let Op::Pub(message) = &found[1] else { panic!() };
        assert_eq!((message.reply.as_deref(), &message.payload[..]), (Some("r"), &b"x"[..]));
        assert_eq!(found[3], Op::Unsub { sid: "3".to_owned(), max: None });
    }
}
