//! Server-sent events: the frames of an HTTP stream, written and read.
//!
//! [`write_event`] writes one; [`Events::next`] cuts whole ones off the front of what was
//! read. Like lines, an event has a limit, and what is beyond it is skipped to its end.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr2};

use super::lines::TooLong;

/// Appends an event that carries one message.
pub fn write_event(out: &mut Vec<u8>, id: Option<&str>, message: &[u8]) {
    out.extend_from_slice(b"event: message\n");
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    // A line end inside a message would end the field: it becomes a field a line.
    let mut rest = message;
    loop {
        let end = memchr2(b'\r', b'\n', rest);
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        out.push(b'\n');
        let Some(end) = end else { break };
        let is_pair = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(is_pair)..];
    }
    out.push(b'\n');
}

/// Appends an event without data, which only tells its id.
pub fn write_id(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(format!("id: {id}\ndata:\n\n").as_bytes());
}

/// A comment, which means nothing to the reader: it keeps proxies from closing a quiet stream.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One event as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Its kind; none means `message`.
    pub name: Option<Bytes>,
    /// Its data; several fields are joined by newlines.
    pub data: Bytes,
    /// The id to resume from, if it tells one.
    pub id: Option<String>,
    /// How many milliseconds to wait before resuming, if it tells that.
    pub retry: Option<u64>,
}

/// Cuts events, remembering how far it has looked.
#[derive(Debug)]
pub struct Events {
    bytes_max: usize,
    /// Bytes of the unfinished line that are known to hold no line end.
    searched: usize,
    is_fresh: bool,
    /// The last line ended in a carriage return: a line feed right behind it is part of that.
    after_return: bool,
    /// The line being read is thrown away; its event is too long.
    skipping: bool,
    fields: Fields,
}

/// Where an event lies at the front of what was read.
struct Plain {
    name: Option<Range<usize>>,
    data: Range<usize>,
    /// All of it, with the blank line at its end.
    len: usize,
}

/// The event whose lines are being read.
#[derive(Debug, Default)]
struct Fields {
    /// Some of its lines have been taken.
    is_begun: bool,
    event: Event,
    data: Option<BytesMut>,
    is_any: bool,
    is_too_long: bool,
}

impl Events {
    /// Events of at most `bytes_max` bytes of data.
    pub fn new(bytes_max: usize) -> Events {
        Events {
            bytes_max,
            searched: 0,
            is_fresh: true,
            after_return: false,
            skipping: false,
            fields: Fields::default(),
        }
    }

    /// The next whole event, or `None` until the rest of it arrives.
    pub fn next(&mut self, input: &mut BytesMut) -> Option<Result<Event, TooLong>> {
        if let Some(Plain { name, data, len }) = self.plain(input) {
            let event = input.split_to(len).freeze();
            return Some(Ok(Event {
                name: name.map(|name| event.slice(name)),
                data: event.slice(data),
                ..Event::default()
            }));
        }
        self.next_by_line(input)
    }

    /// The next whole event, shown to `take` where it lies: its kind, and its data.
    #[inline]
    pub fn next_with<T>(
        &mut self,
        input: &mut BytesMut,
        take: impl FnOnce(Option<&[u8]>, &[u8]) -> T,
    ) -> Option<Result<T, TooLong>> {
        if let Some(Plain { name, data, len }) = self.plain(input) {
            let taken = take(name.map(|name| &input[name]), &input[data]);
            input.advance(len);
            return Some(Ok(taken));
        }
        let event = self.next_by_line(input)?;
        Some(event.map(|event| take(event.name.as_deref(), &event.data)))
    }

    fn next_by_line(&mut self, input: &mut BytesMut) -> Option<Result<Event, TooLong>> {
        loop {
            let line = self.line(input)?;
            if !line.is_empty() {
                self.field(&line);
                continue;
            }
            let Fields { mut event, data, is_any, is_too_long, .. } =
                std::mem::take(&mut self.fields);
            if is_too_long {
                return Some(Err(TooLong { bytes_max: self.bytes_max }));
            }
            if is_any {
                event.data = data.unwrap_or_default().freeze();
                return Some(Ok(event));
            }
        }
    }

    /// What is pending when the stream ends: an event that only lacks its blank line, or of
    /// which the last line has no end. To be asked after [`Events::next`] has no more.
    ///
    /// The standard throws it away; who calls this takes it if it makes sense.
    pub fn last(&mut self, input: &mut BytesMut) -> Option<Result<Event, TooLong>> {
        // One for the line, one for the event, and one that a carriage return may swallow.
        input.extend_from_slice(b"\n\n\n");
        let event = self.next(input);
        input.clear();
        event
    }

    /// Is the event that is being read over the limit already? Its end need not be awaited.
    pub fn is_over_limit(&self) -> bool {
        self.fields.is_too_long
    }

    /// An event as most are: wholly there, with a field of data and maybe its kind, and line
    /// feeds between. It is found in one go, without a copy; all others take the long way.
    fn plain(&self, input: &BytesMut) -> Option<Plain> {
        // A line that was looked at in vain is not looked at from its beginning again.
        let is_clean = self.searched == 0 && !self.after_return && !self.skipping;
        if !is_clean || self.is_fresh || self.fields.is_begun {
            return None;
        }
        let (mut name, mut data) = (None, None);
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let len = memchr2(b'\r', b'\n', rest).filter(|end| rest[*end] == b'\n')?;
            let line = &rest[..len];
            let (field, prefix) = match line {
                [] if data.is_some() => break,
                [b'd', b'a', b't', b'a', b':', b' ', ..] => (&mut data, 6),
                [b'e', b'v', b'e', b'n', b't', b':', b' ', ..] if len <= FIELD_NAME_MAX => {
                    (&mut name, 7)
                }
                _ => return None,
            };
            if field.replace(at + prefix..at + len).is_some() {
                return None;
            }
            at += len + 1;
        }
        let data = data.filter(|data| data.len() <= self.bytes_max)?;
        Some(Plain { name, data, len: at + 1 })
    }

    /// The next whole line, without its end.
    fn line(&mut self, input: &mut BytesMut) -> Option<Bytes> {
        if self.after_return && !input.is_empty() {
            self.after_return = false;
            if input[0] == b'\n' {
                input.advance(1);
            }
        }
        let Some(at) = memchr2(b'\r', b'\n', &input[self.searched..]) else {
            if self.bytes_max + FIELD_NAME_MAX < input.len() || self.skipping {
                self.skipping = true;
                self.fields.is_too_long = true;
                // A fresh buffer: a hostile line must not leave its room behind.
                *input = BytesMut::new();
            }
            self.searched = input.len();
            return None;
        };
        let end = self.searched + at;
        self.searched = 0;
        self.after_return = input[end] == b'\r';
        let mut line = input.split_to(end + 1).freeze();
        line.truncate(end);
        if std::mem::take(&mut self.skipping) || self.bytes_max + FIELD_NAME_MAX < end {
            self.fields.is_too_long = true;
            // Not empty: it must not be taken for the end of its event.
            line = Bytes::from_static(b":");
        }
        if std::mem::take(&mut self.is_fresh) && line.starts_with("\u{feff}".as_bytes()) {
            line.advance(3);
        }
        Some(line)
    }

    fn field(&mut self, line: &Bytes) {
        let (name, value) = match memchr(b':', line) {
            None => (&line[..], &[][..]),
            Some(at) => (&line[..at], &line[at + 1..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        let Fields { is_begun, event, data, is_any, is_too_long } = &mut self.fields;
        *is_begun = true;
        match name {
            b"data" => {
                *is_any = true;
                let kept = data.as_ref().map_or(0, |data| data.len() + 1);
                if *is_too_long || self.bytes_max < kept + value.len() {
                    *is_too_long = true;
                    *data = None;
                    return;
                }
                match data {
                    Some(data) => {
                        data.extend_from_slice(b"\n");
                        data.extend_from_slice(value);
                    }
                    None => *data = Some(BytesMut::from(value)),
                }
            }
            b"event" if value.len() <= FIELD_NAME_MAX => event.name = Some(line.slice_ref(value)),
            b"id" if value.len() <= ID_BYTES_MAX && !value.contains(&0) => {
                *is_any = true;
                event.id = Some(text());
            }
            b"retry" => {
                if let Ok(millis) = text().parse() {
                    *is_any = true;
                    event.retry = Some(millis);
                }
            }
            _ => {}
        }
    }
}

/// Room for the name of a field before its value.
const FIELD_NAME_MAX: usize = 64;
/// The longest id that is kept.
const ID_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All events of `bytes`, fed in pieces that end at `cuts`.
    fn events(bytes: &[u8], cuts: &[usize], bytes_max: usize) -> Vec<Result<Event, TooLong>> {
        let mut events = Events::new(bytes_max);
        let mut input = BytesMut::new();
        let mut out = Vec::new();
        let mut from = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            let cut = cut.clamp(from, bytes.len());
            input.extend_from_slice(&bytes[from..cut]);
            from = cut;
            while let Some(event) = events.next(&mut input) {
                out.push(event);
            }
            assert!(input.len() <= bytes_max + FIELD_NAME_MAX, "kept more than the limit");
        }
        out
    }

    fn data(text: &'static str) -> Event {
        Event { data: Bytes::from_static(text.as_bytes()), ..Event::default() }
    }

    #[test]
    fn events_are_read_whatever_ends_their_lines() {
        let text = "\u{feff}data: a\r\ndata:b\r\n\r\n: hello\nevent: x\rid: 1.0\rdata\r\rretry: 5\n\nfoo: bar\n\n";
        let named = Event { name: Some("x".into()), id: Some("1.0".into()), ..Event::default() };
        let retry = Event { retry: Some(5), ..Event::default() };
        assert_eq!(events(text.as_bytes(), &[], 100), [Ok(data("a\nb")), Ok(named), Ok(retry)]);
    }

    #[test]
    fn what_is_pending_at_the_end_can_be_asked_for() {
        for (text, expected) in [
            ("data: a\n\ndata: b", Some("b")),
            ("data: b\n", Some("b")),
            ("data: b\r", Some("b")),
            ("event: x\ndata: b\r\n", Some("b")),
            ("data: a\n\n: bye", None),
            ("", None),
        ] {
            let mut events = Events::new(100);
            let mut input = BytesMut::from(text);
            while events.next(&mut input).is_some() {}
            let last = events.last(&mut input).map(|last| last.unwrap().data);
            assert_eq!(last.as_deref(), expected.map(str::as_bytes), "{text:?}");
            assert!(input.is_empty());
        }
    }

    #[test]
    fn an_event_over_the_limit_is_skipped_and_the_next_is_fine() {
        let text = format!(
            "data: {}\n\ndata: ok\n\ndata: 1234\ndata: 567\n\ndata: ok\n\n",
            "x".repeat(500)
        );
        let too_long = || Err(TooLong { bytes_max: 7 });
        let expected = [too_long(), Ok(data("ok")), too_long(), Ok(data("ok"))];
        assert_eq!(events(text.as_bytes(), &[100, 200, 300], 7), expected);
        assert_eq!(events(text.as_bytes(), &[], 7), expected);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut out = Vec::new();
        write_id(&mut out, "1.0");
        write_event(&mut out, Some("1.1"), b"{\"a\":\r\n1}");
        out.extend_from_slice(KEEP_ALIVE);
        write_event(&mut out, None, b"{}");
        let text = "id: 1.0\ndata:\n\nevent: message\nid: 1.1\ndata: {\"a\":\ndata: 1}\n\n: keep-alive\n\nevent: message\ndata: {}\n\n";
        assert_eq!(str::from_utf8(&out).unwrap(), text);
        let read = events(&out, &[], 100);
        let shown: Vec<_> = read.iter().flatten().map(|event| &event.data[..]).collect();
        assert_eq!(shown, [&b""[..], b"{\"a\":\n1}", b"{}"]);
    }

    proptest! {
        #[test]
        fn any_split_of_the_input_gives_the_same_events(
            pieces in prop::collection::vec(
                prop_oneof![Just("\n"), Just("\r"), Just("\r\n"), Just("data: "), Just("id:"), Just("xyz"), Just(":")],
                0..60,
            ),
            mut cuts in prop::collection::vec(0usize..200, 0..20),
            bytes_max in 0usize..40,
        ) {
            let bytes = pieces.concat().into_bytes();
            cuts.sort_unstable();
            let single: Vec<_> = (0..bytes.len()).collect();
            let whole = events(&bytes, &[], bytes_max);
            prop_assert_eq!(&events(&bytes, &cuts, bytes_max), &whole);
            prop_assert_eq!(&events(&bytes, &single, bytes_max), &whole);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            events(&bytes, &[7, 50], 20);
        }
    }
}
