//! Both ends of one HTTP exchange: bodies cut anywhere, and what becomes of them.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use expect_test::{Expect, expect};
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Flow, Machine, Outbox, Readiness, Serving, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::http::Terms;
use toolbus_proto::mediocre::{Client, Exchange, Methods, Reading, ServerSettings};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, What};

fn chance(bytes: &mut [u8]) {
    bytes.fill(0);
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

/// What a server makes of a body: what it ran, and its answer.
#[track_caller]
fn check(body: &str, expect: Expect) {
    let whole = answered(&[body.as_bytes()]);
    expect.assert_eq(&whole);
    let bytes: Vec<_> = body.as_bytes().chunks(1).collect();
    assert_eq!(answered(&bytes), whole, "byte by byte");
    for at in 1..body.len() {
        let (before, behind) = body.as_bytes().split_at(at);
        assert_eq!(answered(&[before, behind]), whole, "cut at {at}");
    }
}

fn answered(pieces: &[&[u8]]) -> String {
    let mut end = Served::new(Terms::default());
    for piece in pieces {
        end.arrive(piece);
    }
    end.end()
}

/// A server of a few methods: `m` gives its arguments back, `echo` streams, `early` does not
/// wait for its stream, `wait` waits for its end, and `late` fails in the middle.
struct Served {
    exchange: Exchange<fn(&mut [u8])>,
    input: BytesMut,
    out: Outbox,
    now: Instant,
    told: Vec<String>,
}

impl Served {
    fn new(terms: Terms) -> Served {
        let now = Instant::now();
        let exchange =
            Exchange::new(now, ServerSettings::default(), terms, chance as fn(&mut [u8]));
        let (input, out) = (BytesMut::new(), Outbox::new());
        Served { exchange, input, out, now, told: Vec::new() }
    }

    fn arrive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while self.exchange.handle_bytes(self.now, &mut self.input) == Flow::Pause {
            assert!(self.handle(), "it pauses for nobody");
        }
        self.handle();
    }

    fn end(mut self) -> String {
        while self.exchange.handle_eof(self.now, &mut self.input) != Flow::Close {
            assert!(self.handle(), "it waits for nobody");
        }
        self.handle();
        self.told()
    }

    /// Does what the machine asks for; tells whether there was anything.
    fn handle(&mut self) -> bool {
        let mut did = false;
        while let Some((ticket, asked)) = self.exchange.poll_up() {
            did = true;
            let downs = match asked {
                Asked::Call(Call { what: What::Tool { name, args }, options, .. }) => {
                    let streams = if options.sends_parts { ", a stream" } else { "" };
                    self.told.push(format!("ran {name}{streams}\n"));
                    match name.as_str() {
                        "m" if !options.sends_parts => {
                            vec![Down::Done(Ok(Outcome::Value(args.unwrap_or(Json::null()))))]
                        }
                        "early" => vec![Down::Done(Ok(Outcome::Value(json("true"))))],
                        "late" => vec![
                            Down::Part(Part::Json(json("1"))),
                            Down::Done(Err(Failure::new(FailureKind::Failed, "too late"))),
                        ],
                        "echo" => vec![Down::Begin { head: args, parts: None }],
                        _ => Vec::new(),
                    }
                }
                Asked::Up(Up::Part(_)) if self.told == ["ran wait, a stream\n"] => Vec::new(),
                Asked::Up(Up::Part(part)) => vec![Down::Part(part)],
                Asked::Up(Up::End(value)) => vec![Down::Done(Ok(Outcome::End(value)))],
                Asked::Up(Up::Cancel(_)) => {
                    self.told.push("cancelled\n".to_owned());
                    Vec::new()
                }
                asked => panic!("{asked:?}"),
            };
            for down in downs {
                self.exchange.down(self.now, ticket, down);
            }
        }
        self.exchange.poll_transmit(&mut self.out);
        did
    }

    fn told(mut self) -> String {
        let head = self.exchange.answer();
        let fields = head.head();
        let kind = fields.header("content-type").unwrap();
        let body = String::from_utf8(self.out.take().to_vec()).unwrap();
        if let Some(len) = head.single_len {
            assert_eq!(len, body.len());
        }
        let end = if self.exchange.is_complete() { "" } else { "cut\n" };
        format!("{}{} {}\n{body}{end}", self.told.concat(), head.status, kind)
    }
}

#[test]
fn a_single_call_is_run_after_its_body() {
    check(
        " {\"method\":\"m\",\"args\":[1.0]}\r\n\t",
        expect![[r#"
            ran m
            200 application/json
            {"res":[1.0]}
        "#]],
    );
    check(
        r#"{"args":1}"#,
        expect![[r#"
            200 application/json
            {"err":{"msg":"method must be a non-empty string","meta":{"code":"invalid","reason":"method_missing"}}}
        "#]],
    );
}

#[test]
fn a_stream_call_is_run_from_its_head_on() {
    check(
        r#"{"method":"echo","args":"h","streamStart":true}{"el":1}{"args":"t","streamEnd":true}"#,
        expect![[r#"
            ran echo, a stream
            200 application/x-mediocre-rpc
            {"res":"h","streamStart":true}
            {"el":1}
            {"args":"t","streamEnd":true}
        "#]],
    );
    check(
        r#"{"method":"early","streamStart":true}{"el":1}"#,
        expect![[r#"
            ran early, a stream
            200 application/json
            {"res":true}
        "#]],
    );
    check(
        r#"{"streamStart":true}{"el":1}"#,
        expect![[r#"
            200 application/json
            {"err":{"msg":"method must be a non-empty string","meta":{"code":"invalid","reason":"method_missing"}}}
        "#]],
    );
}

#[test]
fn a_body_that_is_not_one_call_is_refused_and_not_run() {
    check(
        " \n",
        expect![[r#"
            400 application/json
            {"err":{"msg":"the body holds no call","meta":{"code":"protocol","reason":"no_call"}}}
        "#]],
    );
    check(
        r#"{"method":"m"}{"method":"m"}"#,
        expect![[r#"
            400 application/json
            {"err":{"msg":"bytes after the call","meta":{"code":"protocol","reason":"trailing_bytes"}}}
        "#]],
    );
    check(
        r#"{"method":"m""#,
        expect![[r#"
            400 application/json
            {"err":{"msg":"the bytes end inside an object at byte 13","meta":{"code":"protocol","reason":"truncated_object","offset":13}}}
        "#]],
    );
    check(
        r#"{"method":"m"]"#,
        expect![[r#"
            400 application/json
            {"err":{"msg":"not a JSON object at byte 0","meta":{"code":"protocol","reason":"bad_json","offset":0}}}
        "#]],
    );
    check(
        &format!("{{\"method\":\"m\",\"args\":{}", "[".repeat(128)),
        expect![[r#"
            413 application/json
            {"err":{"msg":"an object is nested deeper than 128 levels at byte 0","meta":{"code":"too_large","reason":"too_deep","offset":0}}}
        "#]],
    );
}

#[test]
fn a_stream_that_breaks_is_refused_until_its_response_has_begun() {
    check(
        r#"{"method":"wait","streamStart":true}{"el":1}{}"#,
        expect![[r#"
            ran wait, a stream
            cancelled
            400 application/json
            {"err":{"msg":"not an element of a stream at byte 44","meta":{"code":"protocol","reason":"unknown_element","offset":44}}}
        "#]],
    );
    check(
        r#"{"method":"echo","streamStart":true}{"el":1}"#,
        expect![[r#"
            ran echo, a stream
            cancelled
            200 application/x-mediocre-rpc
            {"streamStart":true}
            {"el":1}
            cut
        "#]],
    );
    check(
        r#"{"method":"late"}"#,
        expect![[r#"
            ran late
            200 application/x-mediocre-rpc
            {"streamStart":true}
            {"el":1}
            cut
        "#]],
    );
}

#[test]
fn a_call_that_does_not_come_in_time_is_not_run() {
    let mut quiet = Served::new(Terms::default());
    quiet.arrive(b"{\"method\"");
    let patience = ServerSettings::default().call_timeout;
    assert_eq!(quiet.exchange.poll_timeout(), Some(quiet.now + patience));
    quiet.now += patience;
    quiet.exchange.handle_timeout(quiet.now);
    let late = expect![[r#"
        408 application/json
        {"err":{"msg":"the call did not arrive in time","meta":{"code":"deadline_exceeded"}}}
    "#]];
    late.assert_eq(&quiet.end());

    let deadline = Some(Duration::from_millis(200));
    let mut hurried = Served::new(Terms { deadline, trace: None });
    hurried.arrive(b"{\"method\":\"m\"}");
    hurried.now += Duration::from_millis(200);
    hurried.exchange.handle_timeout(hurried.now);
    late.assert_eq(&hurried.end());
}

/// A byte now and then is no way to hold a place for ever.
#[test]
fn a_call_that_drips_is_not_waited_for() {
    let patience = ServerSettings::default().call_timeout;
    let drips = |begun: &[u8], drop: &[u8]| {
        let mut slow = Served::new(Terms::default());
        slow.arrive(begun);
        let before = slow.now;
        while slow.now < before + 10 * patience {
            slow.now += Duration::from_secs(1);
            slow.exchange.handle_timeout(slow.now);
            if slow.exchange.is_finished() {
                let waited = slow.now - before;
                assert!(patience <= waited && waited < patience + Duration::from_secs(5));
                return slow.end();
            }
            slow.arrive(drop);
        }
        panic!("it is still waited for");
    };
    let late = expect![[r#"
        408 application/json
        {"err":{"msg":"the call comes too slowly: at least 1024 bytes a second are needed","meta":{"code":"deadline_exceeded"}}}
    "#]];
    late.assert_eq(&drips(b"{\"method\":\"", b"x"));
    // A call that is whole, and blanks behind it, which are nothing at all.
    let late = expect![[r#"
        408 application/json
        {"err":{"msg":"the call did not arrive in time","meta":{"code":"deadline_exceeded"}}}
    "#]];
    late.assert_eq(&drips(b"{\"method\":\"m\"}", b" "));
}

/// What a caller learns of an answer, and what it wrote.
#[track_caller]
fn check_answer(status: u16, body: &str, expect: Expect) {
    let whole = learned(status, &[body.as_bytes()]);
    expect.assert_eq(&whole);
    for at in 1..body.len() {
        let (before, behind) = body.as_bytes().split_at(at);
        assert_eq!(learned(status, &[before, behind]), whole, "cut at {at}");
    }
}

fn learned(status: u16, pieces: &[&[u8]]) -> String {
    let now = Instant::now();
    let chance = chance as fn(&mut [u8]);
    let mut caller = Client::over_http(now, Reading::default(), Methods::given(["m"]), chance);
    let ticket = toolbus_proto::channel::Ticket(7);
    caller.call(now, ticket, Call::tool(now, "m", None));
    let head = caller.begin().unwrap();
    let mut out = Outbox::new();
    caller.poll_transmit(&mut out);
    assert_eq!((head.len, head.is_stream), (Some(out.len()), false));
    assert!(caller.is_said() && caller.is_finished(), "the request has ended");
    caller.handle_status(status);
    let mut input = BytesMut::new();
    let mut flow = Flow::More;
    for piece in pieces {
        input.extend_from_slice(piece);
        flow = caller.handle_bytes(now, &mut input);
    }
    if flow == Flow::More {
        caller.handle_eof(now, &mut input);
    }
    caller.handle_lost(now, &Failure::new(FailureKind::Gone, "gone"));
    let mut told = String::new();
    while let Some((_, down)) = caller.poll_down() {
        told.push_str(&match down {
            Down::Begin { head, .. } => format!("head {}\n", head.unwrap_or(Json::null())),
            Down::Part(Part::Json(value)) => format!("value {value}\n"),
            Down::Done(Ok(Outcome::Value(value))) => format!("ok {value}\n"),
            Down::Done(Ok(Outcome::End(_))) => "done\n".to_owned(),
            Down::Done(Err(failure)) => format!("failed {}: {failure}\n", failure.kind),
            down => panic!("{down:?}"),
        });
    }
    assert!(matches!(caller.readiness(), Readiness::Broken(_)), "an exchange is for one call");
    told
}

#[test]
fn an_answer_is_what_its_body_says() {
    check_answer(
        200,
        "{\"res\":1}\n",
        expect![[r#"
        ok 1
    "#]],
    );
    check_answer(
        200,
        r#"{"err":{"msg":"no"}}"#,
        expect![[r#"
        failed failed: no
    "#]],
    );
    check_answer(
        206,
        r#"{"streamStart":true}{"el":1}{"streamEnd":true}"#,
        expect![[r#"
            head null
            value 1
            done
        "#]],
    );
    check_answer(
        200,
        r#"{"streamStart":true}{"el":1}"#,
        expect![[r#"
        head null
        value 1
        failed broke_protocol: truncated_stream: the response broke off
    "#]],
    );
    check_answer(
        200,
        "",
        expect![[r#"
        failed gone: gone
    "#]],
    );
}

#[test]
fn a_status_counts_unless_the_body_is_a_real_error() {
    check_answer(
        400,
        r#"{"err":{"msg":"no","meta":{"code":"invalid"}}}"#,
        expect![[r#"
            failed invalid_arguments: no
        "#]],
    );
    for body in [
        "",
        "<html>",
        "{\"res\":1}",
        "{\"err\":{}}",
        "{\"streamStart\":true,\"err\":{\"msg\":\"no\"}}",
        "{",
    ] {
        check_answer(
            502,
            body,
            expect![[r#"
            failed broke_protocol: the server answered with HTTP status 502
        "#]],
        );
    }
}
