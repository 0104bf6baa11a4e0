//! Exchanges that break off: who notices, when, and what still arrives.

use std::time::Duration;

use bytes::Bytes;
use expect_test::expect;
use toolbus_engine::calls::Pressure;
use toolbus_engine::transport::http::{BodyError, Exchange, Limits, Response, StatusCode};

use super::{
    HTTP1, HTTP2, OVER_ALL, Over, TIMEOUTS, Wire, echo, ok, post, push, rest, running, take,
};
use crate::PATIENCE;
use crate::net::{eventually, run, run_and_let_time_fly};

#[test]
fn an_answer_that_breaks_off_is_no_good_end() {
    for over in OVER_ALL {
        for is_dropped in [false, true] {
            run(async {
                let mut wire = Wire::new(over).await;
                let (sink, answer, exchange) = wire.call(post()).await;
                sink.end();
                let sink = exchange.responder.respond(ok());
                let _ = sink.send(&Bytes::from("hello"));
                // In the same breath: what came before has to get out all the same.
                match is_dropped {
                    true => drop(sink),
                    false => sink.abort(),
                }
                let mut body = answer.await.unwrap().unwrap().into_body();
                let (came, end) = rest(&mut body).await;
                assert_eq!(came, b"hello", "{over:?}");
                assert!(matches!(end, Err(BodyError::Cut { .. })), "{over:?}: {end:?}");
            });
        }
    }
}

#[test]
fn a_chunked_answer_that_breaks_off_has_no_last_chunk() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            let mut stranger = wire.stranger().await;
            stranger.send("GET / HTTP/1.1\r\nhost: here\r\n\r\n").await;
            let sink = wire.next().await.responder.respond(ok());
            let _ = sink.send(&Bytes::from("hello"));
            sink.abort();
            stranger.head().await;
            assert_eq!(stranger.until_the_end().await, "5\r\nhello\r\n");
        });
    }
}

/// Even if the other side has not yet begun to read what came before: it is waited for.
#[test]
fn a_slow_reader_gets_all_before_the_break() {
    for over in OVER_ALL.into_iter().filter(|over| over.here() != Over::Http2) {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            let sink = exchange.responder.respond(ok());
            let mut body = answer.await.unwrap().unwrap().into_body();
            // More than the sockets hold, and more than hyper takes: when it breaks, a part is
            // written, a part waits there, and the rest here.
            let sent = 32 << 20;
            assert_eq!(sink.send(&Bytes::from(vec![7; sent])), Pressure::Full);
            let first = take(&mut body, 1).await.len();
            sink.abort();
            let (came, end) = rest(&mut body).await;
            assert_eq!(first + came.len(), sent, "{over:?}");
            assert!(end.is_err());
        });
    }
}

#[test]
fn a_request_that_breaks_off_is_no_good_end() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            let Exchange { mut body, responder, .. } = exchange;
            let _ = sink.send(&Bytes::from("hello"));
            assert_eq!(take(&mut body, 5).await, b"hello");
            sink.abort();
            let (_, end) = rest(&mut body).await;
            assert!(matches!(end, Err(BodyError::Cut { .. })), "{over:?}: {end:?}");
            assert!(answer.await.unwrap().is_err(), "{over:?}");
            // Who answers all the same is not held up.
            let sink = responder.respond(ok());
            push(&sink, &Bytes::from(vec![0; 1 << 20])).await;
        });
    }
}

#[test]
fn a_call_that_is_dropped_is_noticed() {
    for over in OVER_ALL {
        run(async {
            // Before the answer began.
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            let Exchange { mut body, responder, .. } = exchange;
            assert!(body.next().await.unwrap().is_none());
            assert!(!responder.is_gone());
            answer.abort();
            responder.gone().await;

            // While it is being sent, and has nothing to send just now.
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            let Exchange { mut body, responder, .. } = exchange;
            assert!(body.next().await.unwrap().is_none());
            let sink = responder.respond(ok());
            let _ = sink.send(&Bytes::from("hello"));
            let mut answer = answer.await.unwrap().unwrap().into_body();
            take(&mut answer, 5).await;
            drop(answer);
            sink.gone().await;
            assert!(sink.is_gone());
            // A client that goes on all the same is not held up.
            for _ in 0..100 {
                push(&sink, &Bytes::from(vec![0; 64 * 1024])).await;
            }
        });
    }
}

/// What a client had sent when it died, and whether the handler was asked by then.
const STAGES: [(&str, bool); 6] = [
    ("", false),
    ("POST /rpc HT", false),
    ("POST /rpc HTTP/1.1\r\nhost: here\r\ncontent-le", false),
    ("POST /rpc HTTP/1.1\r\nhost: here\r\ncontent-length: 10\r\n\r\n", true),
    ("POST /rpc HTTP/1.1\r\nhost: here\r\ncontent-length: 10\r\n\r\nhello", true),
    ("POST /rpc HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", true),
];

#[test]
fn a_client_may_die_at_every_stage() {
    for is_reset in [false, true] {
        run(async {
            let mut wire = Wire::new(Over::Http1).await;
            for (sent, is_asked) in STAGES {
                let mut stranger = wire.stranger().await;
                stranger.send(sent).await;
                let asked = if is_asked { Some(wire.next().await) } else { None };
                match is_reset {
                    true => stranger.reset(),
                    false => drop(stranger),
                }
                let Some(Exchange { mut body, responder, .. }) = asked else { continue };
                let (_, end) = rest(&mut body).await;
                assert!(matches!(end, Err(BodyError::Cut { .. })), "{sent:?}: {end:?}");
                responder.respond_whole(Response::new(Bytes::from("too late")));
            }
            // The others have not noticed.
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            echo(exchange).await;
            assert!(answer.await.unwrap().is_ok());
        });
    }
}

#[test]
fn an_early_answer_leaves_the_connection_usable() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            let mut stranger = wire.stranger().await;
            for _ in 0..2 {
                stranger
                    .send("POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 100000\r\n\r\n")
                    .await;
                let Exchange { responder, body, .. } = wire.next().await;
                responder.respond_whole(Response::new(Bytes::from("early")));
                drop(body);
                // There before the body is.
                expect![[r#"
                HTTP/1.1 200 OK
                content-length: 5
            "#]]
                .assert_eq(&stranger.head().await);
                assert_eq!(stranger.exactly(5).await, "early");
                stranger.send(&"x".repeat(100_000)).await;
            }
        });
    }
}

/// A client that sends all it has before it reads must find the answer, and not a reset.
#[test]
fn an_early_answer_survives_too_large_a_body() {
    for over in HTTP1 {
        run(async {
            let limits = Limits { drain_bytes_max: 100_000, ..Limits::default() };
            let mut wire = Wire::with(over, limits).await;
            let mut stranger = wire.stranger().await;
            let sending = async {
                stranger
                    .send("POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 1000000\r\n\r\n")
                    .await;
                stranger.send(&"x".repeat(1_000_000)).await;
                stranger.until_the_end().await
            };
            let answering = async {
                let Exchange { responder, .. } = wire.next().await;
                let head = Response::builder().status(StatusCode::PAYLOAD_TOO_LARGE);
                responder.respond_whole(head.body(Bytes::from("too much")).unwrap());
            };
            let (came, ()) = tokio::join!(sending, answering);
            assert!(came.starts_with("HTTP/1.1 413 ") && came.ends_with("too much"), "{came}");
        });
    }
}

#[test]
fn a_body_that_never_comes_is_not_waited_for() {
    run_and_let_time_fly(async {
        let mut wire = Wire::new(Over::Http1).await;
        let mut stranger = wire.stranger().await;
        stranger.send("POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\n").await;
        let Exchange { responder, mut body, .. } = wire.next().await;
        let error = body.collect(1000, Duration::from_secs(7)).await.unwrap_err();
        assert_eq!(error.to_string(), "the body paused for 7s");
        responder.respond_whole(Response::new(Bytes::from("sorry")));
        drop(body);
        assert!(stranger.until_the_end().await.ends_with("sorry"));
    });
}

#[test]
fn a_body_is_collected_up_to_its_limit() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            for (bytes_max, is_taken) in [(99_999, false), (100_000, true)] {
                let (sink, answer, exchange) = wire.call(post()).await;
                for _ in 0..10 {
                    let _ = sink.send(&Bytes::from(vec![7; 10_000]));
                }
                sink.end();
                let Exchange { mut body, responder, .. } = exchange;
                let collected = body.collect(bytes_max, PATIENCE).await;
                assert_eq!(collected.is_ok_and(|all| all == vec![7; 100_000]), is_taken);
                drop(body);
                responder.respond(ok()).end();
                assert!(answer.await.unwrap().is_ok());
            }
        });
    }
}

/// Our own client does not wait for a server that has answered before it has read all.
#[test]
fn our_client_answered_early_closes_the_connection() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            for _ in 0..2 {
                let (sink, answer, exchange) = wire.call(post()).await;
                let Exchange { mut body, responder, .. } = exchange;
                responder.respond_whole(Response::new(Bytes::from("early")));
                let mut answer = answer.await.unwrap().unwrap().into_body();
                assert_eq!(rest(&mut answer).await.0, b"early");
                // The server sees the request cut, and the sink that the client reads no more.
                assert!(body.next().await.is_err());
                sink.gone().await;
            }
            assert_ne!(wire.peers.borrow()[0], wire.peers.borrow()[1]);
        });
    }
}

/// The server resets the stream of a request it did not read; the answer stands all the same.
#[test]
fn an_early_answer_over_http2_is_no_loss() {
    for over in HTTP2 {
        run(async {
            let mut wire = Wire::new(over).await;
            for _ in 0..3 {
                let (sink, answer, exchange) = wire.call(post()).await;
                let _ = sink.send(&Bytes::from(vec![0; 200_000]));
                exchange.responder.respond_whole(Response::new(Bytes::from("early")));
                drop(exchange.body);
                let mut answer = answer.await.unwrap().unwrap().into_body();
                let (came, end) = rest(&mut answer).await;
                assert_eq!(came, b"early");
                end.unwrap();
                sink.gone().await;
            }
            wire.peers.borrow_mut().dedup();
            assert_eq!(wire.peers.borrow().len(), 1);
        });
    }
}

#[test]
fn a_handler_that_keeps_a_dead_body_keeps_no_connection() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            let request = post().map(|()| Bytes::from(vec![0; 100_000]));
            let answer = running(wire.client.ask(request, TIMEOUTS));
            let exchange = wire.next().await;
            answer.abort();
            let peer = exchange.peer.to_string();
            drop(exchange.responder);
            let _kept = exchange.body;
            drop(wire.server);
            eventually("the connection is closed", || !is_connected(&peer)).await;
        });
    }
}

/// Is there an established connection from that port of this machine?
fn is_connected(peer: &str) -> bool {
    let port: u16 = peer.rsplit(':').next().unwrap().parse().unwrap();
    let remote = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(2);
        let is_from = fields.next().is_some_and(|address| address.ends_with(&remote));
        is_from && matches!(fields.next(), Some("01" | "08"))
    })
}
