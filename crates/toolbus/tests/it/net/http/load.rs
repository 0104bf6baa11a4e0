//! Many, large and slow ones, beside others that are not.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use tokio::net::TcpStream;
use toolbus_engine::transport::http::{Exchange, Response};

use super::{OVER_ALL, Over, TIMEOUTS, Wire, echo, ok, post, push, rest, running, take};
use crate::net::{eventually, is_alone, open_descriptors, pattern, run};

const LARGE: usize = 64 << 20;
/// What HTTP, TLS and the sending halves of the sockets may hold of both directions at most.
const UNDER_WAY_MAX: usize = 24 << 20;

/// Much more than all buffers hold goes both ways at once, and comes back as it was.
#[test]
fn large_bodies_pass_through_small_buffers() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            let (sink, answer, exchange) = wire.call(post()).await;
            let echoing = tokio::task::spawn_local(echo(exchange));
            let mut body = answer.await.unwrap().unwrap().into_body();

            let under_way = Rc::new(Cell::new(0));
            let most = Cell::new(0);
            let chunk = Bytes::from(pattern(251 * 1000));
            let count = LARGE / chunk.len();
            let sending = async {
                for _ in 0..count {
                    push(&sink, &chunk).await;
                    under_way.set(under_way.get() + chunk.len());
                    if most.get() < under_way.get() {
                        let arrived = arrived_unread(wire.address.port());
                        most.set(most.get().max(under_way.get().saturating_sub(arrived)));
                    }
                }
                sink.end();
            };
            let receiving = async {
                let mut at = 0;
                while let Some(came) = body.next().await.unwrap() {
                    let expected = &chunk[at % 251..][..came.len().min(1000)];
                    assert_eq!(&came[..came.len().min(1000)], expected);
                    at += came.len();
                    under_way.set(under_way.get() - came.len());
                }
                at
            };
            let ((), received) = tokio::join!(sending, receiving);
            assert_eq!(received, count * chunk.len(), "{over:?}");
            assert!(most.get() < UNDER_WAY_MAX, "{over:?}: {}", most.get());
            echoing.await.unwrap();
        });
    }
}

/// How many bytes the kernel keeps that have arrived at either end of the connections to `port`
/// and are not read yet. It may keep dozens of megabytes, which are no buffer of ours.
fn arrived_unread(port: u16) -> usize {
    let Ok(table) = std::fs::read_to_string("/proc/self/net/tcp") else { return 0 };
    let ends_here = format!(":{port:04X}");
    let queue = |line: &str| {
        // Number, local address, remote address, state, and the two queues as `tx:rx`.
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote, queues) = (words.next()?, words.next()?, words.nth(1)?);
        if !local.ends_with(&ends_here) && !remote.ends_with(&ends_here) {
            return None;
        }
        usize::from_str_radix(queues.split_once(':')?.1, 16).ok()
    };
    table.lines().filter_map(queue).sum()
}

/// One client reads nothing, one sends nothing more; a third has a hundred calls answered.
#[test]
fn the_slow_do_not_hold_up_the_fast() {
    for over in OVER_ALL {
        run(async {
            let mut wire = Wire::new(over).await;
            // Answered with more than it reads.
            let (sink, answer, exchange) = wire.call(post()).await;
            sink.end();
            let reply = exchange.responder.respond(ok());
            let mut reads_slowly = answer.await.unwrap().unwrap().into_body();
            let writing = tokio::task::spawn_local(async move {
                for _ in 0..512 {
                    push(&reply, &Bytes::from(vec![7; 64 * 1024])).await;
                }
                reply.end();
            });
            // Asks with less than it promised.
            let (asks_slowly, answer, exchange) = wire.call(post()).await;
            let _ = asks_slowly.send(&Bytes::from("he"));
            let echoing = tokio::task::spawn_local(echo(exchange));
            let mut echoed = answer.await.unwrap().unwrap().into_body();
            take(&mut echoed, 2).await;

            for _ in 0..100 {
                let request = post().map(|()| Bytes::from("quick"));
                let answer = running(wire.client.ask(request, TIMEOUTS));
                let Exchange { mut body, responder, .. } = wire.next().await;
                assert_eq!(rest(&mut body).await.0, b"quick");
                responder.respond_whole(Response::new(Bytes::from("fox")));
                assert_eq!(rest(answer.await.unwrap().unwrap().body_mut()).await.0, b"fox");
            }
            assert!(!writing.is_finished() && !echoing.is_finished(), "{over:?}");

            let _ = asks_slowly.send(&Bytes::from("llo"));
            asks_slowly.end();
            assert_eq!(rest(&mut echoed).await.0, b"llo");
            assert_eq!(rest(&mut reads_slowly).await.0.len(), 512 * 64 * 1024);
            writing.await.unwrap();
            echoing.await.unwrap();
        });
    }
}

#[test]
fn a_thousand_clients_leave_nothing_behind() {
    if !is_alone("net::http::load::a_thousand_clients_leave_nothing_behind") {
        return;
    }
    run(async {
        let mut wire = Wire::new(Over::Http1).await;
        let before = open_descriptors();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let tasks_before = tasks();
        for round in 0..1000 {
            let mut stranger = wire.stranger().await;
            match round % 5 {
                0 => {}
                1 => stranger.send("POST / HT").await,
                2 => {
                    stranger.send("GET / HTTP/1.1\r\nhost: here\r\n\r\n").await;
                    echo(wire.next().await).await;
                    stranger.head().await;
                }
                3 => {
                    stranger.send("GET / HTTP/1.1\r\nhost: here\r\n\r\n").await;
                    // The answer is not awaited.
                    let exchange = wire.next().await;
                    stranger.reset();
                    exchange.responder.gone().await;
                    continue;
                }
                _ => {
                    let request = post().map(|()| Bytes::from("hi"));
                    let answer = running(wire.client.ask(request, TIMEOUTS));
                    let exchange = wire.next().await;
                    answer.abort();
                    drop(exchange);
                }
            }
        }
        // One connection each is at rest in the client; everything else is gone.
        drop(wire.client);
        eventually("no descriptor is left", || open_descriptors() == before).await;
        eventually("no task is left", || tasks() == tasks_before).await;
        drop(TcpStream::connect(wire.address).await.unwrap());
    });
}
