//! Connections on other threads, where that can be told: who has them, what ends them, and what of
//! them is kept in memory.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_engine::account::{Account, bytes_in_flight};
use toolbus_engine::transport::Threads;
use toolbus_engine::transport::http::{Limits, Response};

use super::super::tls::Certificates;
use super::{HTTP1, OVER_ALL, Over, Raw, Wire, ok, post, rest};
use crate::net::{eventually, run};

const ASK: &str = "GET / HTTP/1.1\r\nhost: here\r\n\r\n";
const MIB: usize = 1 << 20;

async fn wire_on(threads: &Threads, limits: Limits) -> Wire {
    Wire::on(Over::Http1, threads, limits, &Certificates::new()).await
}

/// As many clients as asked for, each with a call under way.
async fn busy(wire: &mut Wire, count: usize) -> Vec<Raw> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = wire.stranger().await;
        client.send(ASK).await;
        clients.push(client);
    }
    clients
}

/// One of four stays with the thread that has the bus, and what was on the others goes with them.
#[test]
fn a_thread_that_panics_takes_its_connections_with_it_and_no_other() {
    run(async {
        let threads = Threads::start(1).unwrap();
        let mut wire = wire_on(&threads, Limits::default()).await;
        let mut clients = busy(&mut wire, 8).await;
        let mut under_way = Vec::new();
        for _ in 0..8 {
            under_way.push(wire.next().await.responder);
        }
        threads.run(|| panic!("this thread is to end"));
        let lost = || under_way.iter().filter(|responder| responder.is_gone()).count();
        eventually("its clients have left", || lost() == 6).await;
        let mut cut = 0;
        let mut stay = Vec::new();
        for (responder, mut client) in under_way.into_iter().zip(clients.drain(..)) {
            // Clients may have been heard in another order, so that all are answered.
            responder.respond_whole(Response::new(Bytes::from("hi")));
            stay.push(async move { client.until_closed_or_answered().await });
        }
        for ended in stay {
            cut += usize::from(!ended.await);
        }
        assert_eq!(cut, 6);
        // Who comes later is served here.
        for _ in 0..5 {
            let mut late = wire.stranger().await;
            late.send(ASK).await;
            wire.next().await.responder.respond(ok()).end();
            late.head().await;
        }
    });
}

impl Raw {
    /// Was it answered? Otherwise the connection was closed.
    async fn until_closed_or_answered(&mut self) -> bool {
        use tokio::io::AsyncBufReadExt as _;
        let mut line = String::new();
        matches!(self.0.read_line(&mut line).await, Ok(count) if 0 < count)
    }
}

/// A connection of another thread that has been silent makes room like one of ours, and one with a
/// call under way does not.
#[test]
fn silent_connections_make_room_wherever_they_are() {
    for over in HTTP1 {
        run(async {
            let silence = Duration::ZERO;
            let limits = Limits { connections_max: 2, silence, ..Limits::default() };
            let mut wire = Wire::with(over, limits).await;
            let mut clients = busy(&mut wire, 2).await;
            let (first, second) = (wire.next().await, wire.next().await);
            let is_of = |client: &Raw, peer: String| {
                client.0.get_ref().local_addr().unwrap().to_string() == peer
            };
            // One of the two is answered, and falls silent.
            let (quiet, busy) = (first, second);
            let at = clients.iter().position(|it| is_of(it, quiet.peer.to_string())).unwrap();
            let mut silent = clients.remove(at);
            quiet.responder.respond(ok()).end();
            silent.head().await;
            let mut late = wire.stranger().await;
            late.send(ASK).await;
            let exchange = wire.next().await;
            assert_eq!(silent.until_the_end().await, "", "{over:?}");
            assert!(!busy.responder.is_gone());
            for (mut client, exchange) in [(clients.remove(0), busy), (late, exchange)] {
                exchange.responder.respond(ok()).end();
                client.head().await;
            }
        });
    }
}

/// What a client does not read is counted here, wherever its connection is, until it has read it.
#[test]
fn what_is_not_read_is_counted_until_it_is() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            let sink = exchange.responder.respond(ok());
            sink.charge_to(&Account::new("a client"));
            let mut body = answer.await.unwrap().unwrap().into_body();
            let count = 64;
            for _ in 0..count {
                let _ = sink.send(&Bytes::from(vec![7; MIB]));
            }
            // More than the kernel holds for both ends.
            assert!(8 * MIB < bytes_in_flight().0, "{over:?}: {}", bytes_in_flight().0);
            sink.end();
            let (came, end) = rest(&mut body).await;
            assert_eq!(came.len(), count * MIB);
            end.unwrap();
            eventually("nothing is counted any more", || bytes_in_flight().0 == 0).await;
        });
    }
}

/// The same of a client that leaves instead.
#[test]
fn what_is_never_read_counts_no_more_once_its_client_has_left() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            let sink = exchange.responder.respond(ok());
            sink.charge_to(&Account::new("a client"));
            let body = answer.await.unwrap().unwrap().into_body();
            for _ in 0..64 {
                let _ = sink.send(&Bytes::from(vec![7; MIB]));
            }
            assert!(8 * MIB < bytes_in_flight().0, "{over:?}: {}", bytes_in_flight().0);
            drop(body);
            sink.gone().await;
            eventually("nothing is counted any more", || bytes_in_flight().0 == 0).await;
        });
    }
}

/// A client that is asked to wait with its body does so, as long as nothing of it is wanted.
#[test]
fn a_body_that_waits_to_be_asked_for_is_asked_for_when_it_is_wanted() {
    for over in HTTP1 {
        run(async {
            let mut wire = Wire::new(over).await;
            let mut stranger = wire.stranger().await;
            let expecting = "POST / HTTP/1.1\r\nhost: here\r\nexpect: 100-continue\r\n";
            stranger.send(&format!("{expecting}content-length: 2\r\n\r\n")).await;
            let mut exchange = wire.next().await;
            let asked = Rc::new(Cell::new(false));
            let seen = asked.clone();
            let reading = async {
                seen.set(true);
                rest(&mut exchange.body).await
            };
            let sending = async {
                let head = stranger.head().await;
                assert!(asked.get());
                assert_eq!(head, "HTTP/1.1 100 Continue\n");
                stranger.send("hi").await;
            };
            let ((came, _), ()) = tokio::join!(reading, sending);
            assert_eq!(came, b"hi");
            exchange.responder.respond(ok()).end();
            stranger.head().await;
            // One that is refused is never asked.
            stranger.send(&format!("{expecting}content-length: 2\r\n\r\n")).await;
            wire.next()
                .await
                .responder
                .respond(Response::builder().status(413).body(()).unwrap())
                .end();
            assert!(stranger.head().await.starts_with("HTTP/1.1 413 "), "{over:?}");
        });
    }
}

/// Many answers on few connections of all threads: each arrives where it was asked for.
#[test]
fn answers_go_where_they_were_asked_for() {
    run(async {
        let threads = Threads::start(3).unwrap();
        let mut wire = wire_on(&threads, Limits::default()).await;
        let (clients, rounds) = (16, 100);
        let mut asking = tokio::task::JoinSet::new();
        for number in 0..clients {
            let mut client = wire.stranger().await;
            asking.spawn_local(async move {
                for round in 0..rounds {
                    let said = format!("{number}.{round}");
                    let count = said.len();
                    let head = format!("POST / HTTP/1.1\r\nhost: here\r\ncontent-length: {count}");
                    client.send(&format!("{head}\r\n\r\n{said}")).await;
                    client.head().await;
                    assert_eq!(client.exactly(count).await, said);
                }
            });
        }
        for _ in 0..clients * rounds {
            let mut exchange = wire.next().await;
            let (said, end) = rest(&mut exchange.body).await;
            end.unwrap();
            exchange.responder.respond_whole(Response::new(said.into()));
        }
        while let Some(ended) = asking.join_next().await {
            ended.unwrap();
        }
    });
}
