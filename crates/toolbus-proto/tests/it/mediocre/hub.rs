//! What crosses between the wire and the bus: lists of tools, the generic tool, traces,
//! deadlines, and how a slow side stops the other.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Flow, Machine, Outbox, Readiness, Serving, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::{Client, Methods, Reading, Server, ServerSettings};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, ToolSpec, Trace, What};

use super::{Counting, frame};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn caller(now: Instant, methods: Methods) -> Client<Counting> {
    Client::new(now, Reading::default(), methods, Counting::default())
}

fn server(now: Instant) -> Server<Counting> {
    Server::new(now, ServerSettings::default(), Counting::default())
}

fn written(channel: &mut impl Channel) -> String {
    let mut out = Outbox::new();
    channel.poll_transmit(&mut out);
    String::from_utf8(out.take().to_vec()).unwrap()
}

fn hear(now: Instant, channel: &mut impl Channel, text: &str) -> Flow {
    channel.handle_bytes(now, &mut BytesMut::from(text))
}

/// What a call becomes, and what comes of this answer to it.
fn ask(methods: Methods, what: What, answer: &str) -> (String, Result<Outcome, Failure>) {
    let now = Instant::now();
    let mut caller = caller(now, methods);
    caller.call(now, Ticket(1), Call::of(now, what));
    let asked = written(&mut caller);
    hear(now, &mut caller, answer);
    match caller.poll_down() {
        Some((Ticket(1), Down::Done(outcome))) => (asked, outcome),
        other => panic!("not an end: {other:?}"),
    }
}

fn names(outcome: Result<Outcome, Failure>) -> Vec<String> {
    let Ok(Outcome::Tools(tools)) = outcome else { panic!("no tools: {outcome:?}") };
    tools.iter().map(|tool| tool.name.to_string()).collect()
}

#[test]
fn a_list_of_tools_is_asked_for_and_answered() {
    let now = Instant::now();
    let mut server = server(now);
    hear(now, &mut server, r#"{"method":"toolbus.tools","args":7}"#);
    let Some((ticket, Asked::Call(call))) = server.poll_up() else { panic!("no call") };
    assert_eq!(call.what, What::Tools);
    let tools = ["b", "toolbus.x", "a"].map(|name| ToolSpec::new(name, json("{}")));
    server.down(now, ticket, Down::Done(Ok(Outcome::Tools(tools.to_vec().into()))));
    let answer = written(&mut server);
    assert_eq!(answer, "{\"res\":[{\"name\":\"a\",\"input\":{}},{\"name\":\"b\",\"input\":{}}]}\n");

    let (asked, outcome) = ask(Methods::asked(), What::Tools, &answer);
    assert_eq!(asked, "{\"method\":\"toolbus.tools\"}\n");
    assert_eq!(names(outcome), ["a", "b", "call"]);
}

#[test]
fn who_cannot_list_its_methods_has_the_generic_tool() {
    for answer in [
        r#"{"err":{"msg":"no such method"}}"#,
        r#"{"res":{"tools":[]}}"#,
        r#"{"streamStart":true}{"el":1}{"elBytesFrame":"F9"}F9xF9{"streamEnd":true}"#,
    ] {
        assert_eq!(names(ask(Methods::asked(), What::Tools, answer).1), ["call"], "{answer}");
    }
    let (asked, outcome) = ask(Methods::given(["x"]), What::Tools, "");
    assert_eq!((&*asked, names(outcome)), ("", vec!["call".to_owned(), "x".to_owned()]));
}

#[test]
fn the_generic_tool_may_send_a_stream() {
    let args = r#"{"method":"put","args":1,"elements":[2.50,{"$bytes":"aGk="}],"tail":3}"#;
    let what = What::Tool { name: "call".into(), args: Some(json(args)) };
    let (asked, outcome) = ask(Methods::asked(), what, "{}");
    let frame = frame(0);
    let expected = format!(
        "{{\"method\":\"put\",\"args\":1,\"streamStart\":true,\"streamLen\":2}}\n{{\"el\":2.50}}\n\
         {{\"elBytesFrame\":\"{frame}\",\"elBytesLen\":2}}\n{frame}hi{frame}\n\
         {{\"args\":3,\"streamEnd\":true}}\n"
    );
    assert_eq!(asked, expected);
    assert_eq!(outcome, Ok(Outcome::Value(Json::null())));
    let what = What::Tool { name: "call".into(), args: None };
    let (asked, outcome) = ask(Methods::asked(), what, "");
    assert_eq!((&*asked, outcome.unwrap_err().kind), ("", FailureKind::InvalidArguments));
    let empty = Some(json(r#"{"method":"m","debug":{}}"#));
    let (asked, _) = ask(Methods::asked(), What::Tool { name: "call".into(), args: empty }, "{}");
    assert_eq!(asked, "{\"method\":\"m\"}\n");
}

#[test]
fn a_trace_goes_in_and_out_and_nothing_else_of_debug() {
    let now = Instant::now();
    let mut server = server(now);
    let debug = format!(r#"{{"method":"m","debug":{{"token":"x","traceparent":"{PARENT}"}}}}"#);
    hear(now, &mut server, &debug);
    let Some((_, Asked::Call(call))) = server.poll_up() else { panic!("no call") };
    assert_eq!(call.trace, Trace::read(PARENT, None));
    // The tool may look at all of it.
    let seen = format!(r#"{{"token":"x","traceparent":"{PARENT}"}}"#);
    assert_eq!(call.debug.as_deref(), Some(&json(&seen)));
    assert_eq!(call.deadline.quiet, Some(Duration::from_secs(60)));

    let mut caller = caller(now, Methods::asked());
    caller.call(now, Ticket(1), call);
    let expected = format!("{{\"method\":\"m\",\"debug\":{{\"traceparent\":\"{PARENT}\"}}}}\n");
    assert_eq!(written(&mut caller), expected);
}

#[test]
fn a_stream_that_is_drained_may_be_shorter_than_announced() {
    for is_strict in [false, true] {
        let now = Instant::now();
        let reading = Reading { is_strict, ..Reading::default() };
        let settings = ServerSettings { reading, ..ServerSettings::default() };
        let mut server = Server::new(now, settings, Counting::default());
        hear(now, &mut server, r#"{"method":"m","streamStart":true,"streamLen":9}{"el":1}"#);
        let (ticket, _) = server.poll_up().unwrap();
        server.down(now, ticket, Down::Done(Ok(Outcome::Value(Json::null()))));
        hear(now, &mut server, r#"{"el":2}{"streamEnd":true}{"method":"next"}"#);
        let Some((_, Asked::Call(call))) = server.poll_up() else { panic!("{:?}", server.ended()) };
        assert_eq!(call.what, What::Tool { name: "next".into(), args: None });
        assert_eq!(server.poll_notice(), None);
    }
}

#[test]
fn a_call_is_given_up_when_no_byte_moves() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let mut caller = caller(now, Methods::asked());
    let mut call = Call::tool(now, "m", None);
    call.deadline.quiet = Some(second * 5);
    call.options.sends_parts = true;
    caller.call(now, Ticket(1), call.clone());
    caller.call(now, Ticket(2), call.clone());
    call.deadline.quiet = None;
    caller.call(now, Ticket(3), call);
    written(&mut caller);
    caller.up(now + second * 2, Ticket(1), Up::Part(Part::Json(json("1"))));
    assert_eq!(caller.poll_timeout(), Some(now + second * 5));
    caller.handle_timeout(now + second * 5);
    let (ticket, late) = caller.poll_down().unwrap();
    let Down::Done(Err(failure)) = late else { panic!("{late:?}") };
    assert_eq!((ticket, failure.kind), (Ticket(2), FailureKind::TimedOut));
    // Every byte counts, those of the call as well as those of the response.
    assert_eq!(caller.poll_timeout(), Some(now + second * 7));
    hear(now + second * 6, &mut caller, " \n\t\r\n");
    assert_eq!(caller.poll_timeout(), Some(now + second * 7), "blanks mean nothing");
    hear(now + second * 6, &mut caller, r#"{"streamStart""#);
    assert_eq!(caller.poll_timeout(), Some(now + second * 11));
    caller.handle_sent(now + second * 8);
    assert_eq!(caller.poll_timeout(), Some(now + second * 13));
    caller.handle_timeout(now + second * 13);
    let (ticket, late) = caller.poll_down().unwrap();
    let Down::Done(Err(failure)) = late else { panic!("{late:?}") };
    assert_eq!((ticket, &*failure.message), (Ticket(1), "no answer within 5s"));
    // A late answer could be taken for the next call's, so this connection is over; who
    // waited for it may take another.
    assert!(matches!(caller.readiness(), Readiness::Broken(_)));
    assert_eq!(hear(now, &mut caller, r#":true}"#), Flow::Close);
    let unsent = caller.take_unsent();
    assert_eq!(unsent.iter().map(|(ticket, _)| ticket.0).collect::<Vec<_>>(), [3]);
    assert_eq!(caller.poll_down(), None);
}

#[test]
fn a_slow_tool_stops_the_reading() {
    let now = Instant::now();
    let mut server = server(now);
    let elements = "{\"el\":1}".repeat(40);
    let mut input = BytesMut::from(&*format!(r#"{{"method":"m","streamStart":true}}{elements}"#));
    assert_eq!(server.handle_bytes(now, &mut input), Flow::Pause);
    assert!(!input.is_empty());
    let mut taken = 0;
    while server.handle_bytes(now, &mut input) == Flow::Pause {
        assert!(server.poll_up().is_some());
        taken += 1;
    }
    assert_eq!(taken, 41 - 15);
    assert!(input.is_empty());
}

#[test]
fn so_much_is_read_ahead_and_no_more() {
    let now = Instant::now();
    let mut server = server(now);
    let mut input = BytesMut::from(r#"{"method":"a"}"#);
    assert_eq!(server.handle_bytes(now, &mut input), Flow::More);
    let (ticket, _) = server.poll_up().unwrap();
    let long = format!(r#"{{"method":"b","args":"{}"}}"#, "x".repeat(300 * 1024));
    let (ahead, rest) = long.split_at(256 * 1024);
    input.extend_from_slice(&ahead.as_bytes()[..ahead.len() - 1]);
    assert_eq!(server.handle_bytes(now, &mut input), Flow::More);
    input.extend_from_slice(&ahead.as_bytes()[ahead.len() - 1..]);
    assert_eq!(server.handle_bytes(now, &mut input), Flow::Pause);
    server.down(now, ticket, Down::Done(Ok(Outcome::Value(Json::null()))));
    assert_eq!(server.handle_bytes(now, &mut input), Flow::More);
    input.extend_from_slice(rest.as_bytes());
    assert_eq!(server.handle_bytes(now, &mut input), Flow::More);
    assert!(matches!(server.poll_up(), Some((_, Asked::Call(_)))));
}

#[test]
fn who_asks_and_does_not_read_is_not_heard_for_ever() {
    let now = Instant::now();
    let mut server = server(now);
    let mut input = BytesMut::from("{}".repeat(10_000).as_bytes());
    assert_eq!(server.handle_bytes(now, &mut input), Flow::Pause);
    let left = input.len();
    assert!(0 < left);
    let answers = written(&mut server);
    assert!(answers.len() < 257 * 1024, "{} bytes of answers", answers.len());
    assert_eq!(server.handle_bytes(now, &mut input), Flow::Pause);
    assert_eq!(server.handle_eof(now, &mut input), Flow::Pause);
    assert_eq!(input.len(), left);
    server.handle_sent(now);
    server.handle_bytes(now, &mut input);
    assert!(input.len() < left);
}

#[test]
fn a_slow_caller_stops_the_reading() {
    let now = Instant::now();
    let mut caller = caller(now, Methods::asked());
    caller.call(now, Ticket(1), Call::tool(now, "m", None));
    written(&mut caller);
    let elements = "{\"el\":1}".repeat(40);
    let mut input =
        BytesMut::from(&*format!(r#"{{"streamStart":true}}{elements}{{"streamEnd":true}}"#));
    assert_eq!(caller.handle_bytes(now, &mut input), Flow::Pause);
    // The end of the stream waits behind what was not taken yet.
    assert_eq!(caller.handle_eof(now, &mut input), Flow::Pause);
    let mut downs = Vec::new();
    while caller.handle_eof(now, &mut input) == Flow::Pause {
        downs.extend(caller.poll_down());
    }
    downs.extend(std::iter::from_fn(|| caller.poll_down()));
    assert_eq!(downs.len(), 42);
    assert_eq!(downs.pop(), Some((Ticket(1), Down::Done(Ok(Outcome::End(None))))));
}

#[test]
fn saying_goodbye_ends_what_is_under_way() {
    let now = Instant::now();
    let mut caller = caller(now, Methods::asked());
    caller.call(now, Ticket(1), Call::tool(now, "m", None));
    written(&mut caller);
    caller.call(now, Ticket(2), Call::tool(now, "m", None));
    caller.close(now, Duration::ZERO);
    caller.call(now, Ticket(3), Call::tool(now, "m", None));
    let kinds = std::iter::from_fn(|| caller.poll_down()).map(|(ticket, down)| match down {
        Down::Done(Err(failure)) => (ticket.0, failure.kind),
        down => panic!("{down:?}"),
    });
    use FailureKind::{Cancelled, Unavailable};
    assert_eq!(kinds.collect::<Vec<_>>(), [(1, Cancelled), (2, Cancelled), (3, Unavailable)]);
    assert_eq!(written(&mut caller), "");
    assert_eq!(hear(now, &mut caller, ""), Flow::Close);
}
