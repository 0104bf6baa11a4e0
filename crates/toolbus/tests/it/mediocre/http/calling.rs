//! The calling end against servers that answer in HTTP by hand.

use std::rc::Rc;
use std::time::{Duration, Instant};

use toolbus::bus::back::Back;
use toolbus_engine::calls::{Inbox, RunningCall};
use toolbus_proto::channel::Up;
use toolbus_proto::tool::{Call, FailureKind, Part, Trace};

use super::super::calling::{back, call, json, value};
use super::super::run;
use super::{Message, Stranger, accept, played};

/// One call, and a server that answers it with this.
async fn answered(answer: &str) -> String {
    let (listener, address) = played().await;
    let back = back(&address);
    let serving = async {
        let mut server = accept(&listener).await;
        server.message().await;
        server.say(answer).await;
    };
    let (outcome, ()) = tokio::join!(call(&*back, "m", "1"), serving);
    match outcome {
        Ok(outcome) => format!("{outcome:?}"),
        Err(failure) => format!("{}: {failure}", failure.kind),
    }
}

#[test]
fn a_status_that_is_no_success_is_told_unless_the_body_is_an_error() {
    run(async {
        for (answer, told) in [
            (
                "502 Bad Gateway\r\ncontent-length: 6\r\n\r\n<html>",
                "broke_protocol: the server answered with HTTP status 502",
            ),
            (
                "302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
                "broke_protocol: the server answered with HTTP status 302",
            ),
            (
                "503 No\r\ncontent-length: 52\r\n\r\n{\"err\":{\"msg\":\"busy\",\"meta\":{\"code\":\"unavailable\"}}}",
                "unavailable: busy",
            ),
            (
                "200 OK\r\ncontent-length: 28\r\n\r\n{\"streamStart\":true}{\"el\":1}",
                "broke_protocol: truncated_stream: the response broke off",
            ),
            (
                "200 OK\r\ncontent-length: 100\r\n\r\n{\"streamStart\":true}{\"el\":1}",
                "broke_protocol: truncated_stream: the response broke off",
            ),
        ] {
            assert_eq!(answered(&format!("HTTP/1.1 {answer}")).await, told);
        }
        let told = answered("220 mail.example ESMTP\r\n").await;
        assert!(told.starts_with("broke_protocol: 127.0.0.1:"), "{told}");
        let told = answered("").await;
        assert!(told.starts_with("gone: 127.0.0.1:"), "{told}");
    });
}

async fn answer(server: &mut Stranger) -> Message {
    let message = server.message().await;
    server.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"res\":1}").await;
    message
}

#[test]
fn a_connection_is_used_again_and_one_that_died_costs_no_call() {
    run(async {
        let (listener, address) = played().await;
        let back = back(&address);
        let serving = async {
            let mut first = accept(&listener).await;
            for _ in 0..2 {
                answer(&mut first).await;
            }
            // Closed while it rests.
            drop(first);
            answer(&mut accept(&listener).await).await;
        };
        let calling = async {
            for _ in 0..3 {
                assert_eq!(call(&*back, "m", "1").await, value("1"));
            }
        };
        tokio::join!(serving, calling);
    });
}

#[test]
fn a_deadline_and_a_trace_stand_in_the_head() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    run(async {
        let (listener, address) = played().await;
        let back = back(&address);
        let (inbox, slot) = Inbox::new();
        let mut traced = Call::tool(Instant::now(), "m", Some(json("1")));
        traced.deadline.total = Some(Duration::from_secs(30));
        traced.trace = Trace::read(PARENT, Some("a=b"));
        let uplink = back.start(traced, slot);
        let message = answer(&mut accept(&listener).await).await;
        assert_eq!(inbox.whole(uplink).await, value("1"));
        assert_eq!(message.first, "POST /rpc HTTP/1.1");
        assert_eq!(message.field("content-type"), Some("application/json"));
        let millis: u64 = message.field("toolbus-timeout-ms").unwrap().parse().unwrap();
        assert!(0 < millis && millis <= 30_000, "{millis}");
        assert_eq!(message.field("traceparent"), Some(PARENT));
        assert_eq!(message.field("tracestate"), Some("a=b"));
        let debug = format!(r#""debug":{{"traceparent":"{PARENT}","tracestate":"a=b"}}"#);
        assert_eq!(message.body, format!("{{\"method\":\"m\",\"args\":1,{debug}}}\n"));
    });
}

/// A stream call that has begun.
fn begun(back: &Rc<dyn Back>) -> (Rc<Inbox>, RunningCall) {
    let (inbox, slot) = Inbox::new();
    let mut streamed = Call::tool(Instant::now(), "m", None);
    streamed.options.sends_parts = true;
    let uplink = back.start(streamed, slot);
    let _ = uplink.send(Up::Part(Part::Json(json("1"))));
    (inbox, uplink)
}

async fn heard_beginning(server: &mut Stranger) {
    let head = server.head().await;
    assert_eq!(head.field("content-type"), Some("application/x-mediocre-rpc"));
    assert_eq!(head.field("transfer-encoding"), Some("chunked"));
    let mut said = Vec::new();
    while said != b"{\"method\":\"m\",\"streamStart\":true}\n{\"el\":1}\n" {
        said.extend(server.chunk().await);
    }
}

#[test]
fn an_early_answer_closes_the_connection_without_an_end() {
    run(async {
        let (listener, address) = played().await;
        let back = back(&address);
        let (inbox, uplink) = begun(&back);
        let mut server = accept(&listener).await;
        heard_beginning(&mut server).await;
        server.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"res\":1}").await;
        assert_eq!(inbox.whole(uplink).await, value("1"));
        assert_eq!(server.rest().await, "");
    });
}

#[test]
fn cancelling_closes_the_connection_without_an_end() {
    run(async {
        let (listener, address) = played().await;
        let back = back(&address);
        let (_inbox, uplink) = begun(&back);
        let mut server = accept(&listener).await;
        heard_beginning(&mut server).await;
        drop(uplink);
        assert_eq!(server.rest().await, "");
    });
}

#[test]
fn more_calls_than_connections_wait_in_line_within_their_deadlines() {
    run(async {
        let (listener, address) = played().await;
        let back = back(&address);
        let held: Vec<_> = (0..16).map(|_| begun(&back)).collect();
        let mut servers = Vec::new();
        while servers.len() < held.len() {
            servers.push(accept(&listener).await);
        }
        let (inbox, slot) = Inbox::new();
        let mut late = Call::tool(Instant::now(), "m", None);
        late.deadline.total = Some(Duration::from_millis(50));
        let failure = inbox.whole(back.start(late, slot)).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
    });
}
