//! Both ends of MCP over HTTP.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{
    Calling, Flow, Machine as _, Outbox, Serving as _, StreamId, StreamLost, Streams, Writing,
};
use toolbus_proto::http::{Admission, RequestHead, ResponseHead};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::http::{ClientSettings, Endpoint, Entrance, HttpClient, Settings};

use super::super::{Piece, pieces};
use super::{Answerer, Asker, BYTES_MAX, behind, calling_settings, gone};

/// What clients may ask over HTTP, a request a piece: its head, line by line, and behind an
/// empty line its body. Each is answered once, and all of them when we give up.
pub fn endpoint(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let mut now = Instant::now();
    let origins = vec!["https://app.example".to_owned()];
    let entrance = Entrance {
        admission: Admission { origins, ..Admission::LOOPBACK },
        path: "/".into(),
        sse: true,
        body_bytes_max: BYTES_MAX,
    };
    let version = "1".to_owned();
    let settings = Settings { version, behind: behind(*kind), entrance, first_caller: 0 };
    let mut sessions = 0;
    let mut endpoint = Endpoint::new(settings, move || {
        sessions += 1;
        format!("s{sessions}")
    });
    let mut answerer = Answerer::default();
    let mut streams = BTreeMap::new();
    for piece in pieces(data) {
        match piece {
            Piece::Bytes(bytes) => {
                let stream = StreamId::Theirs(streams.len() as u64);
                streams.insert(stream, Answered::Nothing);
                request(&mut endpoint, now, stream, bytes);
            }
            Piece::Event(event) => {
                now += Duration::from_secs(u64::from(event));
                if let Some((ticket, down)) = answerer.reply(event) {
                    endpoint.down(now, ticket, down);
                }
                let stream = StreamId::Theirs(u64::from(event / 8));
                if event % 8 == 7 && streams.get(&stream).is_some_and(Answered::is_open) {
                    endpoint.handle_lost(now, stream, lost());
                    streams.insert(stream, Answered::Whole);
                }
                endpoint.handle_timeout(now);
            }
        }
        answerer.take(|| endpoint.poll_up());
        take_answers(&mut endpoint, &mut streams);
    }
    endpoint.close(now);
    endpoint.give_up(now);
    // Whose body never came is silent for too long.
    endpoint.handle_timeout(now + Duration::from_secs(30));
    answerer.take(|| endpoint.poll_up());
    take_answers(&mut endpoint, &mut streams);
    for (stream, answered) in streams {
        assert!(!answered.is_open(), "{stream:?} was never answered");
    }
}

/// The same of a server of the old HTTP+SSE.
pub fn sse_client(data: &[u8]) {
    answers(data, true);
}

/// What a server may answer over HTTP. A piece is for one of the open requests: which, how, and
/// the rest is its body. Each call ends once.
pub fn http_client(data: &[u8]) {
    answers(data, false);
}

fn answers(data: &[u8], sse: bool) {
    let mut now = Instant::now();
    let mut client = HttpClient::new(ClientSettings {
        calling: calling_settings(),
        path: "/".into(),
        origin: "http://h:80".into(),
        sse,
        start_timeout: Duration::from_secs(200),
    });
    let mut asker = Asker::new(now, &mut client);
    let mut streams: BTreeMap<StreamId, BytesMut> = BTreeMap::new();
    for piece in pieces(data) {
        match piece {
            Piece::Bytes([which, how, body @ ..]) => {
                let at = usize::from(*which) % streams.len().max(1);
                if let Some((&stream, input)) = streams.iter_mut().nth(at) {
                    input.extend_from_slice(body);
                    answer(&mut client, now, stream, *how, input);
                    assert!(input.len() <= BYTES_MAX + 64, "no more than an event is kept");
                }
            }
            Piece::Bytes(_) => {}
            Piece::Event(event) => {
                now += Duration::from_secs(u64::from(event));
                asker.go_on(now, &mut client, event);
                client.handle_timeout(now);
            }
        }
        asker.learn(&mut client);
        while let Some((stream, head)) = client.poll_open() {
            let mut body = Outbox::new();
            client.poll_transmit(stream, &mut body);
            let len = head.header("Content-Length").map_or(0, |len| len.parse().expect("a number"));
            assert_eq!(body.len(), len);
            assert!(body.is_empty() || Json::parse(body.take()).is_ok(), "a message a request");
            assert_eq!(client.writing(stream), Writing::Finish);
            assert!(streams.insert(stream, BytesMut::new()).is_none(), "no number comes twice");
        }
        while client.poll_ready().is_some() {}
        streams.retain(|stream, _| client.writing(*stream) == Writing::Finish);
    }
    client.close(now, Duration::ZERO);
    Calling::handle_lost(&mut client, now, &gone());
    asker.learn(&mut client);
    assert!(asker.open.is_empty(), "never ended: {:?}", asker.open);
}

fn lost() -> StreamLost {
    StreamLost { code: None, failure: gone() }
}

/// How far the answer to a request is.
#[derive(Debug, PartialEq, Eq)]
enum Answered {
    Nothing,
    Begun,
    Whole,
}

impl Answered {
    fn is_open(&self) -> bool {
        *self != Answered::Whole
    }
}

/// A head, line by line, and a body, in two reads.
fn request(endpoint: &mut Endpoint, now: Instant, stream: StreamId, bytes: &[u8]) {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let body = body.get(2..).unwrap_or_default();
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let (method, target) = first.split_once(' ').unwrap_or((first, "/"));
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    let mut head = RequestHead::new(method.to_owned(), path);
    head.query = query.map(str::to_owned);
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        head.headers.push(name.to_owned(), value);
    }
    let mut flow = endpoint.handle_opened(now, stream, head);
    let mut input = BytesMut::new();
    for read in [&body[..body.len() / 2], &body[body.len() / 2..]] {
        if flow == Flow::More {
            input.extend_from_slice(read);
            flow = endpoint.handle_bytes(now, stream, &mut input);
            assert!(input.len() <= BYTES_MAX, "no more than a body is kept");
        }
    }
    // One that is too short never ends.
    if flow == Flow::More && !body.is_empty() {
        flow = endpoint.handle_eof(now, stream, &mut input);
        assert!(flow != Flow::More, "there is no more");
    }
}

fn take_answers(endpoint: &mut Endpoint, streams: &mut BTreeMap<StreamId, Answered>) {
    while let Some(stream) = endpoint.poll_ready() {
        let answered = streams.get_mut(&stream).expect("a stream that was opened");
        let mut out = Outbox::new();
        endpoint.poll_transmit(stream, &mut out);
        if let Some(ResponseHead { .. }) = endpoint.poll_answer(stream) {
            assert_eq!(*answered, Answered::Nothing, "{stream:?} is answered once");
            *answered = Answered::Begun;
        }
        assert!(out.is_empty() || *answered == Answered::Begun, "{stream:?} has its head first");
        if endpoint.writing(stream) == Writing::Finish {
            *answered = Answered::Whole;
        }
    }
    while endpoint.poll_notice().is_some() {}
}

fn answer(client: &mut HttpClient, now: Instant, stream: StreamId, how: u8, input: &mut BytesMut) {
    const STATUSES: [u16; 8] = [200, 202, 307, 400, 401, 404, 405, 500];
    let head = |status: u16, media_type: &'static str| {
        let mut head = ResponseHead::new(status);
        head.headers.push("Content-Type", media_type);
        head.headers.push("Location", "/other");
        head.headers.extend(how.is_multiple_of(3).then_some(("Mcp-Session-Id", "s")));
        head
    };
    match how / 32 {
        0 => client.handle_answered(now, stream, head(200, "application/json")),
        1 => client.handle_answered(now, stream, head(200, "text/event-stream")),
        2 => {
            let status = STATUSES[usize::from(how) % STATUSES.len()];
            client.handle_answered(now, stream, head(status, "application/json"))
        }
        3 => {
            Streams::handle_lost(client, now, stream, lost());
            return input.clear();
        }
        4 => client.handle_cut(now, stream, input, lost()),
        _ => Flow::More,
    };
    let flow = client.handle_bytes(now, stream, input);
    if flow == Flow::More && how.is_multiple_of(2) {
        client.handle_eof(now, stream, input);
    }
}
