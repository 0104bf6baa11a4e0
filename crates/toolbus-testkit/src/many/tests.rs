//! The wire over many streams: everything crosses, and a fault on one stream stays there.

use std::time::{Duration, Instant};

use expect_test::expect;
use toolbus_proto::channel::{AskId, Asked, Down, Machine, Notice, Serving, StreamId, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, FailureKind, Outcome, Part};

use super::*;

const SMALL: Limits = Limits { line_bytes_max: 200, calls_max: 8, queue_max: 2 };

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn pair(now: Instant) -> Pair<Client, Server> {
    Pair::new(now, Client::new(SMALL), Server::new(SMALL))
}

/// A conversation with three calls at once, one that is cancelled, questions, parts and news.
/// So many bytes of each stream are carried at once.
fn everything(now: Instant, bytes_max: usize) -> Pair<Client, Server> {
    let run = |pair: &mut Pair<Client, Server>| while pair.carry(bytes_max) {};
    let mut pair = pair(now);
    let mut call = Call::tool(now, "stream", Some(json("[1]")));
    call.deadline.quiet = Some(Duration::from_secs(5));
    call.options.sends_parts = true;
    pair.call(Ticket(1), call);
    pair.call(Ticket(2), Call::tool(now, "other", None));
    let mut call = Call::tool(now, "slow", None);
    call.deadline.total = Some(Duration::from_secs(9));
    pair.call(Ticket(3), call);
    run(&mut pair);
    // Streams are numbered as they are opened, whatever comes first on them.
    let (one, two) = (Ticket(0), Ticket(1));
    assert_eq!(pair.asked.len(), 3);
    pair.up(Ticket(1), Up::Part(Part::Text("a\n".into())));
    pair.down(one, Down::Begin { head: None, parts: None });
    pair.down(one, Down::Ask(AskId(7), json("\"sure?\"")));
    pair.down(two, Down::Progress(json("0.5")));
    run(&mut pair);
    pair.up(Ticket(1), Up::Answer(AskId(7), json("true")));
    pair.up(Ticket(1), Up::End(None));
    pair.up(Ticket(3), Up::Cancel(None));
    pair.down(two, Down::Done(Ok(Outcome::Value(json("2")))));
    run(&mut pair);
    pair.serving.tell(now, &Notice::ToolsChanged);
    pair.down(one, Down::Part(Part::Json(json("[1, 2]"))));
    pair.down(one, Down::Done(Ok(Outcome::End(Some(json("3"))))));
    run(&mut pair);
    pair
}

#[test]
fn everything_crosses_whatever_is_carried_at_once() {
    let told = |bytes_max| {
        let mut pair = everything(Instant::now(), bytes_max);
        assert_eq!(pair.open(), []);
        assert_eq!(pair.calling.poll_notice(), Some(Notice::ToolsChanged));
        let mut lines = Vec::new();
        for (ticket, asked) in &pair.asked {
            lines.push(match asked {
                Asked::Call(call) => format!("{} {:?}", ticket.0, call.what),
                Asked::Up(up) => format!("{} {up:?}", ticket.0),
            });
        }
        let learned = pair.learned.iter().map(|(ticket, down)| match down {
            Down::Done(Err(failure)) => format!("{} {:?}", ticket.0, failure.kind),
            down => format!("{} {down:?}", ticket.0),
        });
        lines.extend(learned);
        lines.sort();
        lines.join("\n")
    };
    let whole = told(usize::MAX);
    expect![[r#"
        0 Answer(AskId(7), true)
        0 End(None)
        0 Part(Text("a\n"))
        0 Tool { name: ToolName("stream"), args: Some([1]) }
        1 Ask(AskId(7), "sure?")
        1 Begin { head: None, parts: None }
        1 Done(Ok(End(Some(3))))
        1 Part(Json([1, 2]))
        1 Tool { name: ToolName("other"), args: None }
        2 Cancel(None)
        2 Done(Ok(Value(2)))
        2 Progress(0.5)
        2 Tool { name: ToolName("slow"), args: None }
        3 Cancelled"#]]
    .assert_eq(&whole);
    for bytes_max in [1, 2, 7] {
        assert_eq!(told(bytes_max), whole, "{bytes_max} bytes at a time");
    }
}

#[test]
fn whatever_is_wrong_with_one_stream_each_call_ends_once() {
    let now = Instant::now();
    for bytes_max in [usize::MAX, 3] {
        let pair = everything(now, bytes_max);
        faults::calling(now, &pair.to_calling, SMALL.line_bytes_max, || Client::new(SMALL));
        faults::serving(now, &pair.to_serving, SMALL.line_bytes_max, || Server::new(SMALL));
    }
}

#[test]
fn a_stream_that_is_lost_ends_its_own_call_and_no_other() {
    let now = Instant::now();
    let mut pair = pair(now);
    pair.call(Ticket(1), Call::tool(now, "a", None));
    pair.call(Ticket(2), Call::tool(now, "b", None));
    pair.run();
    pair.lose(StreamId::Ours(0), 9);
    let [(Ticket(1), Down::Done(Err(failure)))] = &pair.learned[..] else {
        panic!("{:?}", pair.learned)
    };
    assert_eq!(
        (failure.kind, &*failure.message),
        (FailureKind::Gone, "the stream was reset with code 9")
    );
    assert!(matches!(&pair.asked[2..], [(Ticket(0), Asked::Up(Up::Cancel(None)))]));
    pair.down(Ticket(1), Down::Done(Ok(Outcome::Value(json("1")))));
    pair.run();
    assert_eq!(pair.learned[1], (Ticket(2), Down::Done(Ok(Outcome::Value(json("1"))))));
}

#[test]
fn a_stream_that_never_ends_is_given_up_in_time() {
    let now = Instant::now();
    let mut pair = pair(now);
    let mut call = Call::tool(now, "a", None);
    call.deadline.quiet = Some(Duration::from_secs(5));
    pair.call(Ticket(1), call);
    pair.run();
    assert_eq!(pair.calling.poll_timeout(), Some(now + Duration::from_secs(5)));
    pair.wait_until(now + Duration::from_secs(5));
    pair.run();
    let [(Ticket(1), Down::Done(Err(failure)))] = &pair.learned[..] else {
        panic!("{:?}", pair.learned)
    };
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert!(matches!(&pair.asked[1..], [(Ticket(0), Asked::Up(Up::Cancel(None)))]));
    assert_eq!(pair.open(), []);
}
