//! What a server bears, and how it ends.

use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use toolbus_engine::transport::http::{BodyError, Exchange, Limits, Response};

use super::{HTTP1, OVER_ALL, Over, Raw, TIMEOUTS, Wire, ok, post, rest, running, take};
use crate::net::{eventually, run, run_and_let_time_fly};

/// Beginnings of requests that go no further.
const HALF_OPEN: [&str; 4] =
    ["", "P", "PRI * HTTP/2.0\r\n", "POST /rpc HTTP/1.1\r\nhost: here\r\nx-slow: "];

#[test]
fn a_head_that_never_ends_is_not_waited_for() {
    run_and_let_time_fly(async {
        let wire = Wire::new(Over::Http1).await;
        for begun in HALF_OPEN {
            let mut stranger = wire.stranger().await;
            let before = tokio::time::Instant::now();
            stranger.send(begun).await;
            assert_eq!(stranger.until_the_end().await, "", "{begun:?}");
            // The time for a head, and a moment to part.
            let waited = before.elapsed().as_secs();
            assert!((10..=12).contains(&waited), "{begun:?}: {waited}");
        }
    });
}

#[test]
fn a_second_head_that_never_ends_is_not_waited_for_either() {
    run_and_let_time_fly(async {
        let mut wire = Wire::new(Over::Http1).await;
        let mut stranger = wire.stranger().await;
        stranger.send("GET / HTTP/1.1\r\nhost: here\r\n\r\n").await;
        wire.next().await.responder.respond(ok()).end();
        stranger.head().await;
        let before = tokio::time::Instant::now();
        stranger.send("GET / HT").await;
        assert_eq!(stranger.until_the_end().await, "");
        assert!(before.elapsed() < Duration::from_secs(13));
    });
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    run_and_let_time_fly(async {
        let mut wire = Wire::new(Over::Http1).await;
        let mut stranger = wire.stranger().await;
        stranger.send("GET / HTTP/1.1\r\nhost: here\r\n\r\n").await;
        let responder = wire.next().await.responder;
        // A call may take as long as it takes.
        tokio::time::advance(Duration::from_secs(3600)).await;
        responder.respond(ok()).end();
        stranger.head().await;
        let before = tokio::time::Instant::now();
        assert_eq!(stranger.until_the_end().await, "");
        let waited = before.elapsed().as_secs();
        assert!((300..=302).contains(&waited), "{waited}");
    });
}

#[test]
fn who_reads_nothing_is_not_written_to_for_ever() {
    run_and_let_time_fly(async {
        let mut wire = Wire::new(Over::Http1).await;
        let mut stranger = wire.stranger().await;
        stranger.send("GET / HTTP/1.1\r\nhost: here\r\n\r\n").await;
        let sink = wire.next().await.responder.respond(ok());
        let chunk = Bytes::from(vec![0; 64 * 1024]);
        let before = tokio::time::Instant::now();
        while !sink.is_gone() {
            let _ = sink.send(&chunk);
            sink.room().await;
        }
        assert!(before.elapsed() < Duration::from_secs(62));
    });
}

#[test]
fn too_large_a_head_is_refused() {
    for over in HTTP1 {
        run(async {
            let wire = Wire::new(over).await;
            let mut stranger = wire.stranger().await;
            let header = "x".repeat(100_000);
            stranger.send(&format!("GET / HTTP/1.1\r\nx-large: {header}\r\n\r\n")).await;
            let head = stranger.head().await;
            assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
        });
    }
}

#[test]
fn more_connections_than_are_borne_wait_outside() {
    for over in HTTP1 {
        run(async {
            let limits =
                Limits { connections_max: 2, silence: 2 * crate::PATIENCE, ..Limits::default() };
            let mut wire = Wire::with(over, limits).await;
            let mut first = wire.stranger().await;
            let mut second = wire.stranger().await;
            let mut third = wire.stranger().await;
            for stranger in [&mut first, &mut second, &mut third] {
                stranger.send(ASK).await;
            }
            let from = |stranger: &Raw| stranger.0.get_ref().local_addr().unwrap().to_string();
            let mut inside = vec![wire.next().await, wire.next().await];
            // Two threads may be heard in any order.
            inside.sort_by_key(|exchange| exchange.peer.to_string() == from(&second));
            // A connected client may ask as often as it likes; the third is not even heard.
            for _ in 0..50 {
                inside.pop().unwrap().responder.respond(ok()).end();
                second.head().await;
                second.send(ASK).await;
                inside.push(wire.next().await);
            }
            assert!(!wire.peers.borrow().contains(&from(&third)));
            // Until one of them leaves.
            drop(first);
            assert_eq!(wire.next().await.peer.to_string(), from(&third));
        });
    }
}

const ASK: &str = "GET / HTTP/1.1\r\nhost: here\r\n\r\n";

#[test]
fn silent_connections_make_room_the_oldest_first() {
    run_and_let_time_fly(async {
        let limits = Limits { connections_max: 4, ..Limits::default() };
        let mut wire = Wire::with(Over::Http1, limits).await;
        // One has a call under way, one has had an answer, and two never say a whole head.
        let mut busy = wire.stranger().await;
        busy.send(ASK).await;
        let running = wire.next().await;
        let mut mute = wire.stranger().await;
        let mut slow = wire.stranger().await;
        slow.send("GET / HT").await;
        let mut kept = wire.stranger().await;
        kept.send(ASK).await;
        wire.next().await.responder.respond(ok()).end();
        kept.head().await;
        let mut served = Vec::new();
        for silent in [&mut mute, &mut slow, &mut kept] {
            let before = tokio::time::Instant::now();
            let mut late = wire.stranger().await;
            late.send(ASK).await;
            let exchange = wire.next().await;
            // Long before its own time is over.
            assert!(before.elapsed() < Duration::from_secs(2));
            assert_eq!(silent.until_the_end().await, "");
            served.push((late, exchange));
        }
        // All that are left have calls under way, and are let be.
        let mut outside = wire.stranger().await;
        outside.send(ASK).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(wire.exchanges.is_empty());
        running.responder.respond(ok()).end();
        busy.head().await;
        // Until one of them falls silent.
        let exchange = wire.next().await;
        assert_eq!(busy.until_the_end().await, "");
        for (mut late, exchange) in served.into_iter().chain([(outside, exchange)]) {
            exchange.responder.respond(ok()).end();
            late.head().await;
        }
    });
}

#[test]
fn shutting_down_lets_calls_end_and_takes_no_more() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            let idle = TcpStream::connect(wire.address).await.unwrap();
            let address = wire.address;
            let shutdown = tokio::task::spawn_local(wire.server.shutdown(crate::PATIENCE));
            let refused = || std::net::TcpStream::connect(address).is_err();
            eventually("no client is let in", refused).await;

            let sink = exchange.responder.respond(ok());
            let _ = sink.send(&Bytes::from("the last one"));
            let mut body = answer.await.unwrap().unwrap().into_body();
            take(&mut body, 12).await;
            assert!(!shutdown.is_finished());
            sink.end();
            assert!(body.next().await.unwrap().is_none(), "{over:?}");
            // Those who have nothing to do do not hold it up.
            shutdown.await.unwrap();
            drop(idle);
        });
    }
}

#[test]
fn patience_with_the_last_calls_ends() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            let Exchange { responder, .. } = exchange;
            let sink = responder.respond(ok());
            let _ = sink.send(&Bytes::from("hello"));
            let mut body = answer.await.unwrap().unwrap().into_body();
            take(&mut body, 5).await;
            let waiting = running(wire.client.ask(post().map(|()| Bytes::new()), TIMEOUTS));
            let unanswered = wire.next().await;
            wire.server.shutdown(Duration::ZERO).await;
            assert!(sink.is_gone() && unanswered.responder.is_gone());
            let (_, end) = rest(&mut body).await;
            assert!(matches!(end, Err(BodyError::Cut { .. })), "{over:?}: {end:?}");
            assert!(waiting.await.unwrap().is_err());
        });
    }
}

#[test]
fn dropping_the_server_ends_all_at_once() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            drop(wire.server);
            exchange.responder.gone().await;
            // It is too late, and does no harm.
            exchange.responder.respond_whole(Response::new(Bytes::from("late")));
            assert!(answer.await.unwrap().is_err());
        });
    }
}
