//! Exchanges that go well.

use bytes::Bytes;
use expect_test::expect;
use toolbus_engine::transport::http::{Exchange, Request, Response, StatusCode, Version};

use super::{HTTP1, OVER_ALL, Over, TIMEOUTS, Wire, echo, ok, post, rest, running, take};
use crate::PATIENCE;
use crate::net::run;

#[test]
fn a_whole_request_gets_a_whole_answer() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let request = Request::post("/rpc?a=b").header("x-key", "1").body(Bytes::from("hi"));
            let answer = running(wire.client.ask(request.unwrap(), TIMEOUTS));
            let Exchange { head, mut body, responder, .. } = wire.next().await;
            assert_eq!(head.uri.path_and_query().unwrap(), "/rpc?a=b");
            assert_eq!(head.headers["x-key"], "1");
            let is_http2 = head.version == Version::HTTP_2;
            assert_eq!(is_http2, over.here() == Over::Http2, "{over:?}");
            assert_eq!(body.collect(1024, PATIENCE).await.unwrap(), "hi");

            let head = Response::builder().status(404).header("x-lock", "2");
            responder.respond_whole(head.body(Bytes::from("nothing here")).unwrap());
            let mut answer = answer.await.unwrap().unwrap();
            assert_eq!(answer.status(), StatusCode::NOT_FOUND);
            assert_eq!(answer.headers()["x-lock"], "2");
            assert_eq!(answer.headers()["content-length"], "12");
            assert_eq!(answer.body_mut().collect(1024, PATIENCE).await.unwrap(), "nothing here");
        });
    }
}

/// Each side waits for the other before it goes on: nothing is held back anywhere.
#[test]
fn both_sides_stream_at_the_same_time() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            let echoing = tokio::task::spawn_local(echo(exchange));
            let mut body = answer.await.unwrap().unwrap().into_body();
            for round in 0..100 {
                let said = Bytes::from(format!("{{\"el\":{round}}}\n"));
                let _ = sink.send(&said);
                assert_eq!(take(&mut body, said.len()).await, said, "{over:?}");
            }
            sink.end();
            assert!(body.next().await.unwrap().is_none());
            echoing.await.unwrap();
        });
    }
}

/// As an MCP server streams: one event at a time, each on its way before the next is known.
#[test]
fn events_arrive_one_by_one() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            let mut stranger = wire.stranger().await;
            stranger.send("GET /mcp HTTP/1.1\r\nhost: here\r\n\r\n").await;
            let exchange = wire.next().await;
            let head = Response::builder().header("content-type", "text/event-stream");
            let sink = exchange.responder.respond(head.body(()).unwrap());
            // The head does not wait for the first event.
            expect![[r#"
            HTTP/1.1 200 OK
            content-type: text/event-stream
            transfer-encoding: chunked
        "#]]
            .assert_eq(&stranger.head().await);
            for event in ["data: 1\n\n", "data: 2\n\n"] {
                let _ = sink.send(&Bytes::from(event));
                assert_eq!(stranger.exactly(14).await, format!("9\r\n{event}\r\n"));
            }
            // What is ready together goes out together.
            let _ = sink.send(&Bytes::from("data: 3\n\n"));
            let _ = sink.send(&Bytes::from("data: 4\n\n"));
            sink.end();
            assert_eq!(stranger.exactly(29).await, "12\r\ndata: 3\n\ndata: 4\n\n\r\n0\r\n\r\n");
        });
    }
}

#[test]
fn connections_are_used_again() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            for _ in 0..5 {
                let (sink, answer, exchange) = wire.call(post()).await;
                let echoing = tokio::task::spawn_local(echo(exchange));
                let _ = sink.send(&Bytes::from("again"));
                sink.end();
                let mut body = answer.await.unwrap().unwrap().into_body();
                assert_eq!(rest(&mut body).await.0, b"again");
                echoing.await.unwrap();
            }
            wire.peers.borrow_mut().dedup();
            assert_eq!(wire.peers.borrow().len(), 1, "{over:?}");
        });
    }
}

#[test]
fn http2_is_known_by_its_first_bytes() {
    for over in HTTP1 {
        run(async {
            let wire = Wire::new(over).await;
            let mut stranger = wire.stranger().await;
            // The preface and empty settings; settings are what comes back.
            stranger.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0").await;
            assert_eq!(stranger.exactly(9).await.as_bytes()[3], 4);
        });
    }
}

#[test]
fn who_is_not_answered_gets_a_500() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            drop(exchange);
            let answer = answer.await.unwrap().unwrap();
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{over:?}");
        });
    }
}

#[test]
fn an_empty_answer_has_no_body_to_wait_for() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            let mut stranger = wire.stranger().await;
            stranger.send("POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 0\r\n\r\n").await;
            wire.next().await.responder.respond(ok()).end();
            expect![[r#"
            HTTP/1.1 200 OK
            content-length: 0
        "#]]
            .assert_eq(&stranger.head().await);
        });
    }
}
