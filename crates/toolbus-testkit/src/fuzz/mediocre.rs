//! The mediocre-rpc room: the decoder over any bytes, and two ends of one connection that may
//! do what they like.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{Asked, Calling as _, Down, Readiness, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::decode::{BlobLen, Direction};
use toolbus_proto::mediocre::event::Said;
use toolbus_proto::mediocre::{Client, Decoder, Methods, Reading, Server, ServerSettings, printed};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, Piece, What};

use crate::pair::Pair;

/// Reads that end at 0xFE, in both directions and however strictly: how they are cut never
/// shows, and no more is kept than an object may have.
pub fn decoder(data: &[u8]) {
    let reads: Vec<&[u8]> = data.split(|byte| *byte == 0xfe).collect();
    let whole = reads.concat();
    for direction in [Direction::Call, Direction::Response] {
        for (blob_len, is_strict) in [(BlobLen::Exact, false), (BlobLen::Hint, true)] {
            let reading = Reading { blob_len, is_strict, object_bytes_max: 200, depth_max: 5 };
            let told = told(direction, reading, [&whole[..]]);
            assert_eq!(self::told(direction, reading, reads.iter().copied()), told);
            assert_eq!(self::told(direction, reading, whole.chunks(1)), told);
        }
    }
}

/// What a decoder says, a line for each event and the bytes of each blob.
fn told<'a>(
    direction: Direction,
    reading: Reading,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<String> {
    let mut decoder = Decoder::new(direction, reading);
    let (mut lines, mut blob) = (Vec::new(), Vec::new());
    let mut input = BytesMut::new();
    for read in reads {
        input.extend_from_slice(read);
        while let Some(next) = decoder.next(&mut input) {
            let event = match next {
                Ok(event) => event,
                Err(error) => {
                    lines.push(printed::error(&error));
                    assert!(decoder.next(&mut input).is_none(), "something behind an error");
                    return lines;
                }
            };
            match &event.said {
                Said::Piece(piece) => {
                    assert!(!piece.is_empty());
                    blob.extend_from_slice(piece);
                }
                Said::BlobEnd => lines.push(format!("{:?}", std::mem::take(&mut blob))),
                _ => lines.extend(printed::event(&event)),
            }
            lines.extend(printed::notes(&event));
        }
        assert!(input.len() <= reading.object_bytes_max, "more is kept than an object may have");
    }
    lines.extend(decoder.end(&input).err().map(|error| printed::error(&error)));
    lines
}

/// Each few bytes are something that one of the ends does, or that time or the wire does to
/// them. Each call ends once, what succeeds is what the tool said, and a cut ends everything.
pub fn connection(data: &[u8]) {
    let mut game = Game::new();
    let mut choices = data.iter().copied();
    while let Some(choice) = choices.next() {
        let mut next = || choices.next().unwrap_or_default();
        match choice % 8 {
            0 => game.call(next()),
            1 | 2 => game.up(next(), Up::Part(part(next(), next()))),
            3 if choice < 200 => game.up(next(), Up::End(value(next()))),
            3 => game.up(next(), Up::Cancel(None)),
            4 => game.down(Down::Part(part(next(), next()))),
            5 => game.down(reply(next())),
            6 => drop(game.pair.carry(usize::from(next()), usize::from(next()))),
            _ => {
                let later = game.pair.now + Duration::from_millis(u64::from(next()) * 20);
                game.pair.wait_until(later);
            }
        }
    }
    if data.len().is_multiple_of(2) {
        // The tools answer what is asked, for as long as there are calls.
        while game.pair.carry(usize::MAX, usize::MAX) {
            game.down(Down::Done(Ok(Outcome::Value(Json::null()))));
        }
    }
    game.pair.cut();
    game.assert_ended_once();
    assert!(matches!(game.pair.calling.readiness(), Readiness::Broken(_)));
}

/// Always the same frame, so that data can hold it.
#[derive(Debug)]
struct NoChance;

impl toolbus_proto::mediocre::frames::Random for NoChance {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

struct Game {
    pair: Pair<Client<NoChance>, Server<NoChance>>,
    calls: u64,
    /// What the tool said to each call, by the number that the caller gave it.
    said: BTreeMap<u64, Vec<Down>>,
}

impl Game {
    fn new() -> Game {
        let now = Instant::now();
        let caller = Client::new(now, Reading::default(), Methods::asked(), NoChance);
        let server = Server::new(now, ServerSettings::default(), NoChance);
        Game { pair: Pair::new(now, caller, server), calls: 0, said: BTreeMap::new() }
    }

    fn call(&mut self, choice: u8) {
        let number = Json::of(&self.calls);
        let mut call = Call::tool(self.pair.now, "any", Some(number));
        call.options.sends_parts = choice.is_multiple_of(2);
        call.deadline.quiet = (choice < 100).then(|| Duration::from_secs(u64::from(choice)));
        self.pair.call(Ticket(self.calls), call);
        self.calls += 1;
    }

    fn up(&mut self, choice: u8, up: Up) {
        if 0 < self.calls {
            self.pair.up(Ticket(u64::from(choice) % self.calls), up);
        }
    }

    /// The tool says something to the last call it knows, which alone can be open.
    fn down(&mut self, down: Down) {
        let call = self.pair.asked.iter().rev().find_map(|(ticket, asked)| match asked {
            Asked::Call(Call { what: What::Tool { args, .. }, .. }) => {
                let number = args.as_ref().and_then(|args| args.read().ok());
                Some((*ticket, number.expect("is the number we gave it")))
            }
            _ => None,
        });
        let Some((ticket, number)) = call else { return };
        let said = self.said.entry(number).or_default();
        if !matches!(said.last(), Some(Down::Done(_))) {
            said.push(down.clone());
            self.pair.down(ticket, down);
        }
    }

    fn assert_ended_once(&self) {
        let mut learned: BTreeMap<u64, Vec<&Down>> = BTreeMap::new();
        for (ticket, down) in &self.pair.learned {
            let learned = learned.entry(ticket.0).or_default();
            let is_over = matches!(learned.last(), Some(Down::Done(_)));
            assert!(!is_over, "{ticket:?} is over and gets {down:?}");
            learned.push(down);
        }
        for number in 0..self.calls {
            let learned = learned.get(&number).map_or(&[][..], Vec::as_slice);
            let Some(Down::Done(outcome)) = learned.last() else {
                panic!("call {number} never ended");
            };
            if outcome.is_ok() {
                let said = self.said.get(&number).map_or(&[][..], Vec::as_slice);
                assert!(matches!(said.last(), Some(Down::Done(Ok(_)))), "the tool did not say so");
                assert_eq!(elements(learned.iter().copied()), elements(said));
            }
        }
    }
}

/// The elements of a reply, each blob whole.
fn elements<'a>(downs: impl IntoIterator<Item = &'a Down>) -> Vec<Vec<u8>> {
    let mut elements: Vec<Vec<u8>> = Vec::new();
    let mut is_inside = false;
    for down in downs {
        match down {
            Down::Part(Part::Bytes(piece)) => {
                match elements.last_mut() {
                    Some(blob) if is_inside => blob.extend_from_slice(&piece.data),
                    _ => elements.push([b"blob ", &piece.data[..]].concat()),
                }
                is_inside = !piece.last;
            }
            Down::Part(Part::Json(json)) => {
                elements.push(json.as_bytes().to_vec());
                is_inside = false;
            }
            _ => {}
        }
    }
    elements
}

/// A value, or some bytes of which frames are made.
fn part(choice: u8, len: u8) -> Part {
    if choice < 64 {
        return Part::Json(value(choice).unwrap_or(Json::null()));
    }
    let data = if choice.is_multiple_of(2) { "Aaaaaaaaaaaaaaaaaaaaaaaaa" } else { "aaaaaaaaA{}\n" };
    let data: Vec<u8> = data.bytes().cycle().take(usize::from(len)).collect();
    let whole = (choice.is_multiple_of(5)).then(|| u64::from(choice / 2));
    Part::Bytes(Piece { data: data.into(), media_type: None, len: whole, last: choice < 128 })
}

fn value(choice: u8) -> Option<Json> {
    let texts = ["0", "1.0", "[ 1 ]", r#""\ud800""#, r#"{"a":{"a":1}}"#, "\"}\""];
    texts.get(usize::from(choice)).map(|text| Json::from_trusted(*text))
}

fn reply(choice: u8) -> Down {
    match choice % 5 {
        0 => Down::Begin { head: value(choice / 5), parts: Some(u64::from(choice)) },
        1 => Down::Progress(Json::null()),
        2 => Down::Done(Ok(Outcome::End(value(choice / 5)))),
        3 => Down::Done(Ok(Outcome::Value(value(choice / 5).unwrap_or(Json::null())))),
        _ => Down::Done(Err(Failure::new(FailureKind::Failed, "no luck"))),
    }
}
