//! Left to chance: bytes that no peer would write, messages there and back, and a pair of ends that
//! may do what they like.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Flow, Outbox, Readiness, Serving, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::decode::{BlobLen, Direction};
use toolbus_proto::mediocre::encode::{self, StreamStart, Writer};
use toolbus_proto::mediocre::event::{Head, Message, PeerError, Said};
use toolbus_proto::mediocre::{Client, Decoder, Methods, Reading, Server, ServerSettings};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, Piece};
use toolbus_testkit::pair::Pair;

use super::Counting;
use super::vectors::printed;

/// Any bytes must be read without a panic, in bounds, and the same however they are cut.
fn reads_anything(bytes: &[u8], cuts: &[usize]) {
    for direction in [Direction::Call, Direction::Response] {
        for (blob_len, is_strict) in [(BlobLen::Exact, false), (BlobLen::Hint, true)] {
            let reading = Reading { blob_len, is_strict, object_bytes_max: 60, depth_max: 4 };
            let whole = printed(direction, reading, bytes, &[]);
            assert_eq!(printed(direction, reading, bytes, cuts), whole);
            let all: Vec<_> = (0..bytes.len()).collect();
            assert_eq!(printed(direction, reading, bytes, &all), whole);
        }
    }
}

/// Whatever a caller writes, a server must not panic, hand out no more than is read, and end.
fn server_hears_anything(bytes: &[u8], cut: usize) {
    let now = Instant::now();
    let reading = Reading { object_bytes_max: 60, depth_max: 4, ..Reading::default() };
    let settings = ServerSettings { reading, ahead_bytes_max: 60, ..ServerSettings::default() };
    let mut server = Server::new(now, settings, Counting::default());
    let mut input = BytesMut::new();
    let answer = |server: &mut Server<Counting>| {
        while let Some((ticket, asked)) = server.poll_up() {
            if let Asked::Call(_) = asked {
                server.down(now, ticket, Down::Done(Ok(Outcome::Value(Json::null()))));
            }
        }
    };
    for piece in bytes.chunks(cut) {
        input.extend_from_slice(piece);
        while server.handle_bytes(now, &mut input) == Flow::Pause {
            answer(&mut server);
        }
        answer(&mut server);
        assert!(input.len() <= 60 + cut, "{} bytes are kept", input.len());
    }
    while server.handle_eof(now, &mut input) == Flow::Pause {
        answer(&mut server);
    }
    assert!(server.ended().is_some());
}

/// Whatever a server writes, a caller must not panic, and its call ends once.
fn caller_hears_anything(bytes: &[u8], cut: usize) {
    let now = Instant::now();
    let reading = Reading { object_bytes_max: 60, depth_max: 4, ..Reading::default() };
    let mut caller = Client::new(now, reading, Methods::asked(), Counting::default());
    let mut call = Call::tool(now, "m", None);
    call.options.sends_parts = true;
    caller.call(now, Ticket(1), call);
    caller.poll_transmit(&mut Outbox::new());
    let mut input = BytesMut::new();
    let mut ends = 0;
    let mut learn = |caller: &mut Client<Counting>| {
        while let Some((_, down)) = caller.poll_down() {
            assert_eq!(ends, 0, "it is over and gets {down:?}");
            ends += usize::from(matches!(down, Down::Done(_)));
        }
    };
    for piece in bytes.chunks(cut) {
        input.extend_from_slice(piece);
        while caller.handle_bytes(now, &mut input) == Flow::Pause {
            learn(&mut caller);
        }
        learn(&mut caller);
        assert!(input.len() <= 60, "{} bytes are kept", input.len());
    }
    while caller.handle_eof(now, &mut input) == Flow::Pause {
        learn(&mut caller);
    }
    caller.handle_lost(now, &Failure::new(FailureKind::Gone, "gone"));
    learn(&mut caller);
    assert_eq!(ends, 1);
}

/// Pieces of which messages are made, right and wrong ones.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        r#"{"method":"m"}"#,
        r#"{"method":"m","streamStart":true}"#,
        r#"{"streamStart":true,"streamLen":2}"#,
        r#"{"res":1,"err":"#,
        r#"{"el":1}"#,
        r#"{"el":null,"streamEnd":true}"#,
        r#"{"elBytesFrame":"ab"}"#,
        r#"{"elBytesFrame":"aab","elBytesLen":3}"#,
        r#"{"elBytesFrame":"a-"}"#,
        r#"{"args":[[[]]],"debug":1}"#,
        r#"{"streamEnd":true}"#,
        "ab",
        "aab",
        "a",
        "-",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ",",
        ":",
        "\n",
        "true",
        "\u{e9}",
    ]);
    let junk = prop::collection::vec(any::<u8>(), 0..4);
    let piece = prop_oneof![9 => words.prop_map(|word| word.as_bytes().to_vec()), 1 => junk];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

fn any_json() -> impl Strategy<Value = Json> {
    prop::sample::select(vec!["0", "1.0", "[ 1 ]", r#""\ud800""#, r#"{"a":{"a":1}}"#, "\"}\""])
        .prop_map(|text| Json::parse(text).expect("is JSON"))
}

fn any_part() -> impl Strategy<Value = Part> {
    // Of the letters of the frames, so that their beginnings occur.
    let data = prop::collection::vec(prop::sample::select(b"ABa{}\n\xff".to_vec()), 0..40);
    let pieces = (data, any::<bool>(), any::<bool>());
    prop_oneof![
        any_json().prop_map(Part::Json),
        Just(Part::Json(Json::null())),
        pieces.prop_map(|(data, is_sized, last)| {
            let len = (is_sized && last).then_some(data.len() as u64);
            Part::Bytes(Piece { data: data.into(), media_type: None, len, last })
        }),
    ]
}

/// A message as it is meant.
#[derive(Debug, Clone)]
struct Meant {
    head: Option<Json>,
    debug: bool,
    len: Option<u64>,
    stream: Option<(Vec<Part>, Option<Json>)>,
}

fn any_message() -> impl Strategy<Value = Meant> {
    let json = || prop::option::of(any_json());
    let stream = prop::option::of((prop::collection::vec(any_part(), 0..6), json()));
    (json(), any::<bool>(), prop::option::of(1u64..9), stream)
        .prop_map(|(head, debug, len, stream)| Meant { head, debug, len, stream })
}

/// What a message says: its elements with their blobs whole, and its tail.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    head: Option<Head>,
    elements: Vec<Element>,
    tail: Option<Option<Json>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Element {
    Value(Json),
    Blob(Vec<u8>),
}

fn write(out: &mut Outbox, meant: &Meant) -> Told {
    let debug = meant.debug.then(|| Json::of(&BTreeMap::from([("a", 1)])));
    let start = meant.stream.as_ref().map(|_| StreamStart(meant.len));
    encode::call(out, "m\n", meant.head.as_ref(), debug.as_ref(), start);
    let head = Head {
        is_stream: start.is_some(),
        stream_len: meant.len.filter(|_| start.is_some()),
        message: Message::Call { method: "m\n".into(), args: meant.head.clone() },
        debug,
    };
    let mut told = Told { head: Some(head), ..Told::default() };
    let Some((parts, tail)) = &meant.stream else { return told };
    let mut writer = Writer::new(Counting::default());
    let mut is_inside = false;
    for part in parts {
        // A length is told with the first piece or not at all.
        let mut part = part.clone();
        if let (Part::Bytes(piece), true) = (&mut part, is_inside) {
            piece.len = None;
        }
        writer.part(out, &part).expect("short data cannot hold a frame");
        match part {
            Part::Bytes(Piece { data, last, .. }) => {
                match told.elements.last_mut() {
                    Some(Element::Blob(blob)) if is_inside => blob.extend_from_slice(&data),
                    _ => told.elements.push(Element::Blob(data.to_vec())),
                }
                is_inside = !last;
            }
            Part::Json(json) => {
                told.elements.push(Element::Value(json));
                is_inside = false;
            }
            Part::Text(_) => unreachable!("none is made"),
        }
    }
    writer.tail(out, tail.as_ref()).expect("no length was announced and not kept");
    told.tail = Some(tail.clone());
    told
}

fn read(bytes: &[u8], cut: usize) -> Vec<Told> {
    let mut decoder = Decoder::new(Direction::Call, Reading::default());
    let mut input = BytesMut::new();
    let mut all: Vec<Told> = Vec::new();
    for piece in bytes.chunks(cut) {
        input.extend_from_slice(piece);
        while let Some(event) = decoder.next(&mut input) {
            let said = event.expect("we write no nonsense").said;
            if let Said::Head(head) = said {
                all.push(Told { head: Some(*head), ..Told::default() });
                continue;
            }
            let told = all.last_mut().expect("a head comes first");
            match said {
                Said::Value(value) => told.elements.push(Element::Value(value)),
                Said::BlobBegin => told.elements.push(Element::Blob(Vec::new())),
                Said::Piece(data) => match told.elements.last_mut() {
                    Some(Element::Blob(blob)) => blob.extend_from_slice(&data),
                    _ => panic!("a piece of nothing"),
                },
                Said::BlobEnd => {}
                Said::Tail(tail) => told.tail = Some(tail.value),
                Said::Head(_) | Said::MethodMissing { .. } => panic!("{said:?}"),
            }
        }
    }
    decoder.end(&input).expect("we write no half messages");
    all
}

/// What chance lets happen next; the numbers choose among the calls there are.
#[derive(Debug, Clone)]
enum Step {
    Call { seconds: Option<u64>, sends_parts: bool },
    Up(usize, Up),
    Down(Down),
    Carry(usize, usize),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let call = (prop::option::of(1u64..20), any::<bool>());
    let up = prop_oneof![
        8 => any_part().prop_map(Up::Part),
        3 => prop::option::of(any_json()).prop_map(Up::End),
        1 => Just(Up::Cancel(None)),
    ];
    let failure = Failure::new(FailureKind::Failed, "no luck");
    let down = prop_oneof![
        2 => prop::option::of(any_json()).prop_map(|head| Down::Begin { head, parts: None }),
        6 => any_part().prop_map(Down::Part),
        1 => any_json().prop_map(Down::Progress),
        2 => any_json().prop_map(|value| Down::Done(Ok(Outcome::Value(value)))),
        2 => prop::option::of(any_json()).prop_map(|end| Down::Done(Ok(Outcome::End(end)))),
        1 => Just(Down::Done(Err(failure))),
    ];
    prop_oneof![
        2 => call.prop_map(|(seconds, sends_parts)| Step::Call { seconds, sends_parts }),
        4 => (any::<usize>(), up).prop_map(|(which, up)| Step::Up(which, up)),
        5 => down.prop_map(Step::Down),
        6 => (0usize..90, 0usize..90).prop_map(|(up, down)| Step::Carry(up, down)),
        1 => (0u64..4).prop_map(Step::Wait),
    ]
}

struct Game {
    pair: Pair<Client<Counting>, Server<Counting>>,
    calls: u64,
    /// What the tool said to each call before it ended it.
    said: BTreeMap<Ticket, Vec<Down>>,
}

impl Game {
    fn new() -> Game {
        let now = Instant::now();
        let caller = Client::new(now, Reading::default(), Methods::asked(), Counting::default());
        let server = Server::new(now, ServerSettings::default(), Counting::default());
        Game { pair: Pair::new(now, caller, server), calls: 0, said: BTreeMap::new() }
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Call { seconds, sends_parts } => {
                let number = Json::of(&self.calls);
                let mut call = Call::tool(self.pair.now, "any", Some(number));
                call.deadline.total = seconds.map(Duration::from_secs);
                call.options.sends_parts = sends_parts;
                self.pair.call(Ticket(self.calls), call);
                self.calls += 1;
            }
            Step::Up(which, up) if 0 < self.calls => {
                self.pair.up(Ticket(which as u64 % self.calls), up);
            }
            Step::Up(..) => {}
            Step::Down(down) => self.down(down),
            Step::Carry(up, down) => drop(self.pair.carry(up, down)),
            Step::Wait(seconds) => {
                let later = self.pair.now + Duration::from_secs(seconds);
                self.pair.wait_until(later);
            }
        }
    }

    /// The tool says something to the last call it knows, which alone can be open.
    fn down(&mut self, down: Down) {
        let last = self.pair.asked.iter().rfind(|(_, asked)| matches!(asked, Asked::Call(_)));
        let Some(&(ticket, _)) = last else { return };
        let said = self.said.entry(ticket).or_default();
        if !matches!(said.last(), Some(Down::Done(_))) {
            said.push(down.clone());
            self.pair.down(ticket, down);
        }
    }

    /// Each call has ended exactly once, and nothing came behind its end.
    fn assert_ended_once(&self) {
        let mut ended = BTreeMap::new();
        for (ticket, down) in &self.pair.learned {
            assert!(!ended.contains_key(ticket), "{ticket:?} is over and gets {down:?}");
            if let Down::Done(outcome) = down {
                ended.insert(*ticket, outcome);
            }
        }
        assert_eq!(ended.len() as u64, self.calls, "calls that never ended");
        // A success is told only if the tool said so: as many at most, and of the same kind.
        let successes = ended.values().filter(|outcome| outcome.is_ok()).count();
        let said = self.said.values().filter(|said| matches!(said.last(), Some(Down::Done(Ok(_)))));
        assert!(successes <= said.count(), "a success that the tool did not say");
    }
}

proptest! {
    #[test]
    fn anything_is_read_the_same_however_it_is_cut(
        bytes in any_bytes(),
        mut cuts in prop::collection::vec(0usize..400, 0..6),
    ) {
        cuts.sort_unstable();
        reads_anything(&bytes, &cuts);
    }

    #[test]
    fn whatever_is_heard_ends_well(bytes in any_bytes(), cut in 1usize..60) {
        server_hears_anything(&bytes, cut);
        caller_hears_anything(&bytes, cut);
    }

    #[test]
    fn both_ways_at_once_nothing_is_lost(
        up in prop::collection::vec(any_part(), 0..40),
        down in prop::collection::vec(any_part(), 0..40),
        ends in (prop::option::of(any_json()), prop::option::of(any_json())),
        bytes_max in (1usize..60, 1usize..60),
    ) {
        let mut game = Game::new();
        game.play(Step::Call { seconds: None, sends_parts: true });
        while game.pair.asked.is_empty() {
            game.pair.carry(bytes_max.0, bytes_max.1);
        }
        let (ticket, up, down) = (game.pair.asked[0].0, unsized_parts(up), unsized_parts(down));
        let last = up.len().max(down.len());
        for index in 0..=last {
            if let Some(part) = up.get(index) {
                game.pair.up(Ticket(0), Up::Part(part.clone()));
            }
            if let Some(part) = down.get(index) {
                game.pair.down(ticket, Down::Part(part.clone()));
            }
            game.pair.carry(bytes_max.0, bytes_max.1);
        }
        game.pair.up(Ticket(0), Up::End(ends.0.clone()));
        while game.pair.carry(bytes_max.0, bytes_max.1) {}
        game.pair.down(ticket, Down::Done(Ok(Outcome::End(ends.1.clone()))));
        while game.pair.carry(bytes_max.0, bytes_max.1) {}

        let asked = game.pair.asked.iter().filter_map(|(_, asked)| match asked {
            Asked::Up(Up::Part(part)) => Some(part),
            _ => None,
        });
        prop_assert_eq!(elements(asked), elements(&up));
        let learned = game.pair.learned.iter().filter_map(|(_, down)| match down {
            Down::Part(part) => Some(part),
            _ => None,
        });
        prop_assert_eq!(elements(learned), elements(&down));
        let last_asked = game.pair.asked.last().map(|(_, asked)| format!("{asked:?}"));
        prop_assert_eq!(last_asked, Some(format!("{:?}", Asked::Up(Up::End(ends.0)))));
        let (_, done) = game.pair.learned.last().expect("the call has ended");
        prop_assert_eq!(done, &Down::Done(Ok(Outcome::End(ends.1))));
        prop_assert!(game.pair.calling.is_free());
    }

    #[test]
    fn what_is_written_is_what_is_read(
        meant in prop::collection::vec(any_message(), 0..5),
        cut in 1usize..50,
    ) {
        let mut out = Outbox::new();
        let told: Vec<_> = meant.iter().map(|meant| write(&mut out, meant)).collect();
        prop_assert_eq!(read(&out.take(), cut), told);
    }

    #[test]
    fn every_call_ends_once(steps in prop::collection::vec(any_step(), 1..80)) {
        let mut game = Game::new();
        for step in steps {
            game.play(step);
        }
        // The tools answer what is asked, for as long as there are calls.
        while game.pair.carry(usize::MAX, usize::MAX) {
            game.down(Down::Done(Ok(Outcome::Value(Json::null()))));
        }
        game.pair.cut();
        game.assert_ended_once();
    }

    #[test]
    fn a_cut_anywhere_ends_all(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut game = Game::new();
        for step in steps {
            game.play(step);
        }
        game.pair.cut();
        game.assert_ended_once();
        prop_assert!(game.pair.serving.ended().is_some() || game.open_on_the_server());
        prop_assert!(matches!(game.pair.calling.readiness(), Readiness::Broken(_)));
    }
}

/// As a relay would send them: nothing is announced.
fn unsized_parts(parts: Vec<Part>) -> Vec<Part> {
    let mut parts = parts;
    for part in &mut parts {
        if let Part::Bytes(piece) = part {
            piece.len = None;
        }
    }
    parts
}

/// Parts with their blobs whole; one that was never ended is ended by what follows it.
fn elements<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Vec<Element> {
    let mut elements = Vec::new();
    let mut is_inside = false;
    for part in parts {
        match part {
            Part::Json(json) => {
                elements.push(Element::Value(json.clone()));
                is_inside = false;
            }
            Part::Bytes(piece) => {
                match elements.last_mut() {
                    Some(Element::Blob(blob)) if is_inside => blob.extend_from_slice(&piece.data),
                    _ => elements.push(Element::Blob(piece.data.to_vec())),
                }
                is_inside = !piece.last;
            }
            Part::Text(_) => unreachable!("none is made"),
        }
    }
    elements
}

impl Game {
    /// Is a call left that the tool has not ended?
    fn open_on_the_server(&self) -> bool {
        let calls = self.pair.asked.iter().filter(|(_, asked)| matches!(asked, Asked::Call(_)));
        let mut tickets = calls.map(|(ticket, _)| ticket);
        tickets.any(|ticket| {
            let said = self.said.get(ticket);
            !said.is_some_and(|said| matches!(said.last(), Some(Down::Done(_))))
        })
    }
}

#[test]
fn an_error_is_what_was_meant() {
    let mut out = Outbox::new();
    let error = PeerError { msg: "a\n\"".into(), meta: Json::parse("[1, 2]").ok() };
    encode::failure(&mut out, &error);
    let mut input = BytesMut::from(&out.take()[..]);
    let mut decoder = Decoder::new(Direction::Response, Reading::default());
    let event = decoder.next(&mut input).expect("is whole").expect("is right");
    let Said::Head(head) = event.said else { panic!("{event:?}") };
    let Message::Response { err, .. } = head.message else { panic!("{head:?}") };
    assert_eq!(err, Some(error));
}

#[test]
fn pieces_are_slices_of_what_was_read() {
    let head = br#"{"method":"m","streamStart":true}{"elBytesFrame":"F9"}F9"#;
    let data = Bytes::from(vec![b'x'; 100_000]);
    let mut input = BytesMut::from(&[&head[..], &data[..]].concat()[..]);
    let range = input.as_ptr_range();
    let mut decoder = Decoder::new(Direction::Call, Reading::default());
    let mut bytes = 0;
    while let Some(Ok(event)) = decoder.next(&mut input) {
        if let Said::Piece(piece) = event.said {
            assert!(range.contains(&piece.as_ptr()), "a copy");
            bytes += piece.len();
        }
    }
    assert_eq!(bytes, data.len());
}
