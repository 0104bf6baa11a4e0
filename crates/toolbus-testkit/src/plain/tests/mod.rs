//! The plain wire as conversations, and as a pair left to chance.

mod chance;
mod conversations;

use std::time::{Duration, Instant};

use bytes::Bytes;
use expect_test::expect;
use toolbus_proto::channel::{AskId, Asked, Calling, Down, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, Piece, What, Wire};

use super::{Client, Limits, Server, WIRE};
use crate::pair::Pair;

pub(crate) const SMALL: Limits = Limits { line_bytes_max: 200, calls_max: 3, queue_max: 2 };

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn piece(data: &'static [u8], last: bool) -> Part {
    let (data, media_type) = (Bytes::from_static(data), Some("image/png".into()));
    Part::Bytes(Piece { data, media_type, len: None, last })
}

/// A pair in whose conversation everything occurs that the contract has.
pub(crate) fn everything(now: Instant) -> Pair<Client, Server> {
    let (first, second, third) = (Ticket(1), Ticket(2), Ticket(3));
    let mut pair = Pair::new(now, Client::new(SMALL), Server::new(SMALL));
    let mut call = Call::tool(now, "stream", Some(json("[1]")));
    call.deadline.quiet = Some(Duration::from_secs(5));
    call.options.sends_parts = true;
    pair.call(first, call);
    pair.run();
    let native = What::Native {
        wire: WIRE,
        method: Bytes::from_static(b"ping"),
        body: Bytes::from_static(b"{}"),
    };
    pair.call(second, Call::of(now, native));
    let mut call = Call::tool(now, "slow", None);
    call.deadline.total = Some(Duration::from_secs(9));
    pair.call(third, call);
    pair.up(first, Up::Part(Part::Text("a\n".into())));
    pair.up(first, Up::Part(piece(b"\x00\xff", true)));
    pair.run();
    let (one, two) = (pair.asked[0].0, pair.asked[1].0);
    pair.down(one, Down::Begin { head: Some(json("null")), parts: None });
    pair.down(one, Down::Ask(AskId(7), json("\"sure?\"")));
    pair.down(two, Down::Done(Ok(Outcome::Native(Bytes::from_static(b"{}")))));
    pair.down(one, Down::Progress(json("0.50")));
    pair.run();
    pair.up(first, Up::Answer(AskId(7), json("true")));
    pair.up(first, Up::End(None));
    pair.up(third, Up::Cancel(Some(json("\"bored\""))));
    pair.run();
    pair.down(one, Down::Log(json("{\"level\":\"info\"}")));
    pair.down(one, Down::Part(Part::Json(json("[1, 2]"))));
    pair.down(one, Down::Done(Ok(Outcome::End(Some(json("3"))))));
    pair.close();
    pair.run();
    pair
}

#[test]
fn everything_crosses_as_it_was_said() {
    let pair = everything(Instant::now());
    let asked: Vec<_> = pair
        .asked
        .iter()
        .map(|(ticket, asked)| match asked {
            Asked::Call(call) => format!("{} {:?}", ticket.0, call.what),
            Asked::Up(up) => format!("{} {up:?}", ticket.0),
        })
        .collect();
    expect![[r#"
        0 Tool { name: ToolName("stream"), args: Some([1]) }
        1 Native { wire: plain, method: b"ping", body: b"{}" }
        2 Tool { name: ToolName("slow"), args: None }
        0 Part(Text("a\n"))
        0 Part(Bytes(Piece { data: b"\0\xff", media_type: Some("image/png"), len: None, last: true }))
        0 Answer(AskId(7), true)
        0 End(None)
        2 Cancel(Some("bored"))"#]]
    .assert_eq(&asked.join("\n"));
    let learned: Vec<_> =
        pair.learned.iter().map(|(ticket, down)| format!("{} {down:?}", ticket.0)).collect();
    expect![[r#"
        1 Begin { head: Some(null), parts: None }
        1 Ask(AskId(7), "sure?")
        2 Done(Ok(Native(b"{}")))
        1 Progress(0.50)
        3 Done(Err(Failure { kind: Cancelled, code: None, message: "the caller changed its mind", detail: None, from_peer: false, last_words: None }))
        1 Log({"level":"info"})
        1 Part(Json([1, 2]))
        1 Done(Ok(End(Some(3))))"#]].assert_eq(&learned.join("\n"));
}

#[test]
fn what_is_lost_before_it_was_sent_can_be_taken_over() {
    let now = Instant::now();
    let mut pair = Pair::new(now, Client::new(SMALL), Server::new(SMALL));
    pair.call(Ticket(1), Call::tool(now, "alone", None));
    pair.call(Ticket(2), Call::tool(now, "followed", None));
    pair.up(Ticket(2), Up::End(None));
    let taken = pair.calling.take_unsent();
    assert_eq!(taken.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [Ticket(1)]);
    pair.cut();
    let failure = Failure::new(FailureKind::Gone, "closed the conversation");
    assert_eq!(pair.learned, [(Ticket(2), Down::Done(Err(failure)))]);
}
