//! The server against clients that write HTTP/1.1 by hand.

use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Outcome, What};

use super::super::{ByHand, at_doors, builtin, run};
use super::{Message, stranger, visit};

const ADD: &str = r#"{"method":"add","args":{"a":1,"b":2}}"#;
const STREAMED: &str =
    "POST /rpc HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";

#[track_caller]
fn assert_status(message: &Message, status: &str, body: &str) {
    assert_eq!(message.first, format!("HTTP/1.1 {status}"));
    assert_eq!(message.field("content-type"), Some("application/json"));
    assert_eq!(message.body, format!("{body}\n"));
}

#[test]
fn calls_follow_each_other_on_one_connection() {
    run(async {
        let mut client = stranger(builtin().await).await;
        for content_type in ["", "content-type: application/x-mediocre-rpc\r\n"] {
            assert_status(&client.post(content_type, ADD).await, "200 OK", r#"{"res":3}"#);
        }
        let count = client.post("", r#"{"method":"count","args":{"n":2}}"#).await;
        assert_eq!(count.field("content-type"), Some("application/x-mediocre-rpc"));
        assert_eq!(count.field("transfer-encoding"), Some("chunked"));
        assert_eq!(count.field("x-accel-buffering"), Some("no"));
        assert_eq!(count.field("cache-control"), Some("no-transform"));
        let lines = [
            r#"{"streamStart":true,"streamLen":2}"#,
            r#"{"el":0}"#,
            r#"{"el":1}"#,
            r#"{"streamEnd":true}"#,
            "",
        ];
        assert_eq!(count.body, lines.join("\n"));
        let nope = client.post("", r#"{"method":"nope"}"#).await;
        let body = r#"{"err":{"msg":"no such method: `nope`","meta":{"code":"method_not_found"}}}"#;
        assert_status(&nope, "200 OK", body);
    });
}

#[test]
fn a_stream_goes_both_ways_at_once() {
    run(async {
        let mut client = stranger(builtin().await).await;
        client.say(STREAMED).await;
        client.say_chunk(r#"{"method":"echo","args":"h","streamStart":true}{"el"#).await;
        assert_eq!(client.head().await.first, "HTTP/1.1 200 OK");
        assert_eq!(client.chunk().await, b"{\"res\":\"h\",\"streamStart\":true}\n");
        client.say_chunk(r#"":1.0}"#).await;
        assert_eq!(client.chunk().await, b"{\"el\":1.0}\n");
        client.say_chunk("{\"elBytesFrame\":\"F9\"}\nF9some ").await;
        let begun = String::from_utf8(client.chunk().await).unwrap();
        assert!(begun.ends_with("some "), "{begun}");
        client.say_chunk("bytesF9{\"streamEnd\":true}").await;
        client.say("0\r\n\r\n").await;
        let ended = String::from_utf8(client.chunk().await).unwrap();
        assert!(ended.starts_with("bytes") && ended.ends_with("\n{\"streamEnd\":true}\n"));
        assert_eq!(client.chunk().await, b"");
        assert_status(&client.post("", ADD).await, "200 OK", r#"{"res":3}"#);
    });
}

#[test]
fn an_early_answer_leaves_the_rest_to_be_thrown_away() {
    run(async {
        let mut client = stranger(builtin().await).await;
        client.say(STREAMED).await;
        client.say_chunk(r#"{"method":"early","streamStart":true}"#).await;
        assert_status(&client.message().await, "200 OK", r#"{"res":{"early":true}}"#);
        client.say_chunk(r#"{"el":1}{"streamEnd":true}"#).await;
        client.say("0\r\n\r\n").await;
        assert_status(&client.post("", ADD).await, "200 OK", r#"{"res":3}"#);
    });
}

#[test]
fn a_late_failure_breaks_the_chunks_off() {
    run(async {
        let mut client = stranger(builtin().await).await;
        let body = r#"{"method":"count","args":{"n":3,"fail_at":1}}"#;
        let len = body.len();
        client
            .say(&format!(
                "POST /rpc HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len}\r\n\r\n{body}"
            ))
            .await;
        assert_eq!(client.head().await.first, "HTTP/1.1 200 OK");
        let rest = client.rest().await;
        assert!(rest.contains("{\"el\":0}\n") && !rest.contains("0\r\n\r\n"), "{rest:?}");
    });
}

#[test]
fn strangers_are_told_what_is_wrong() {
    run(async {
        let (_server, urls) = at_doors(builtin().await, &["mediocre+http://127.0.0.1:0/a"]).await;
        let mut client = visit(&urls[0]).await;
        let err = |msg: &str| format!(r#"{{"err":{{"msg":"{msg}","meta":{{"code":"invalid"}}}}}}"#);
        for (request, status, body) in [
            ("POST /rpc", "404 Not Found", err("no such path: `/rpc`")),
            ("DELETE /a", "405 Method Not Allowed", err("only POST is served here")),
        ] {
            client
                .say(&format!("{request} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"))
                .await;
            let refused = client.message().await;
            assert_eq!(refused.field("allow").is_some(), status.starts_with("405"));
            assert_status(&refused, status, &body);
        }
        client
            .say("POST /a?query=none HTTP/1.1\r\nhost: localhost\r\ncontent-encoding: gzip\r\n")
            .await;
        client.say("content-length: 3\r\n\r\nxyz").await;
        let encoded = client.message().await;
        assert_eq!(encoded.first, "HTTP/1.1 415 Unsupported Media Type");
    });
}

#[test]
fn a_deadline_in_the_head_is_kept() {
    run(async {
        let mut client = stranger(builtin().await).await;
        let sleep = r#"{"method":"sleep","args":{"ms":60000}}"#;
        let late = client.post("Toolbus-Timeout-Ms: 30\r\n", sleep).await;
        let body = r#"{"err":{"msg":"no answer within 30ms","meta":{"code":"deadline_exceeded"}}}"#;
        assert_status(&late, "200 OK", body);
        // A call that is never whole has no response, only a status.
        client.say("POST /rpc HTTP/1.1\r\nhost: localhost\r\nconnect-timeout-ms: 30\r\n").await;
        client.say("content-length: 100\r\n\r\n{\"method\"").await;
        let never = client.message().await;
        let body = r#"{"err":{"msg":"the call did not arrive in time","meta":{"code":"deadline_exceeded"}}}"#;
        assert_status(&never, "408 Request Timeout", body);
    });
}

#[test]
fn what_the_head_says_of_a_call_wins() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    run(async {
        let route = Rc::new(ByHand::default());
        let mut client = stranger(route.clone()).await;
        let debug = PARENT.replace("0af7", "1af7");
        let body = format!(r#"{{"method":"m","debug":{{"traceparent":"{debug}"}}}}"#);
        let asked = async {
            let (call, slot) = route.next().await;
            let _ = slot.send(Down::Done(Ok(Outcome::Value(Json::null()))));
            call
        };
        let fields = format!("traceparent: {PARENT}\r\ntoolbus-timeout-ms: 1500\r\n");
        let (call, _) = tokio::join!(asked, client.post(&fields, &body));
        assert!(matches!(&call.what, What::Tool { name, .. } if name.as_str() == "m"));
        assert_eq!(call.trace.unwrap().parent(), PARENT);
        assert_eq!(call.deadline.total, Some(Duration::from_millis(1500)));
        assert_eq!(call.deadline.quiet, None);
    });
}

#[test]
fn a_client_that_leaves_cancels_its_call() {
    run(async {
        for body in [r#"{"method":"m"}"#, r#"{"method":"m","streamStart":true}{"el":1}"#] {
            let route = Rc::new(ByHand::default());
            let mut client = stranger(route.clone()).await;
            client.say(STREAMED).await;
            client.say_chunk(body).await;
            if !body.contains("streamStart") {
                client.say("0\r\n\r\n").await;
            }
            let (_call, _slot) = route.next().await;
            assert_eq!(route.cancelled.get(), 0);
            drop(client);
            route.cancelled().await;
        }
    });
}

#[test]
fn a_server_that_stops_answers_what_is_under_way() {
    run(async {
        let route = Rc::new(ByHand::default());
        let (server, urls) = at_doors(route.clone(), &["mediocre+http://127.0.0.1:0"]).await;
        let mut client = visit(&urls[0]).await;
        let answers = async {
            let (_call, slot) = route.next().await;
            server.stop();
            tokio::task::yield_now().await;
            let _ = slot.send(Down::Done(Ok(Outcome::Value(Json::null()))));
        };
        let (answer, ()) = tokio::join!(client.post("", r#"{"method":"m"}"#), answers);
        assert_status(&answer, "200 OK", r#"{"res":null}"#);
        assert_eq!(client.rest().await, "");
    });
}
