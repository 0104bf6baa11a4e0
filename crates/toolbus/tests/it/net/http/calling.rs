//! Our client, and servers that are not ours.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use expect_test::{Expect, expect};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use toolbus_engine::transport::http::{
    Body, CallError, Client, Origin, Request, Response, Timeouts,
};
use toolbus_testkit::port;

use super::{Over, TIMEOUTS, Wire, echo, ok, post, rest, running};
use crate::PATIENCE;
use crate::net::{run, run_and_let_time_fly, write_all};

/// A server that knows nothing of HTTP, and a client for it.
async fn foreign() -> (TcpListener, Client, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, client(port, 16), port)
}

fn client(port: u16, connections_max: usize) -> Client {
    let origin = Origin { host: "127.0.0.1".into(), port, tls: None };
    Client::new(origin, connections_max, Duration::from_secs(60))
}

fn request() -> Request<Bytes> {
    post().map(|()| Bytes::from("hi"))
}

/// Takes one request and answers with these bytes.
async fn answer(listener: &TcpListener, bytes: &str) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"hi") {
        stream.read_buf(&mut request).await.unwrap();
    }
    write_all(&mut stream, bytes.as_bytes()).await;
    stream
}

/// What the client says of a server that answers so and closes.
async fn told(bytes: &str) -> (u16, Result<Response<Body>, CallError>) {
    let (listener, client, port) = foreign().await;
    let serving = async { drop(answer(&listener, bytes).await) };
    let (answer, ()) = tokio::join!(client.ask(request(), TIMEOUTS), serving);
    (port, answer)
}

/// The reasons, one below the other, and the hint.
fn shown(port: u16, error: &CallError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!("\n{error}"));
        cause = error.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text.replace(&port.to_string(), "PORT")
}

#[test]
fn a_call_without_an_answer_says_why() {
    run(async {
        let check = |(port, answer): (u16, Result<Response<Body>, CallError>), expected: Expect| {
            expected.assert_eq(&shown(port, &answer.map(|_| ()).unwrap_err()));
        };
        check(
            told("").await,
            expect![[r#"
            127.0.0.1:PORT closed the connection without an answer
            connection closed before message completed"#]],
        );
        check(
            told("SSH-2.0-OpenSSH_9.9\r\n").await,
            expect![[r#"
            127.0.0.1:PORT does not answer in HTTP
            invalid HTTP version parsed
            hint: is it an HTTP server, and if so, is it `https`?"#]],
        );
        check(
            told("HTTP/1.1 200 OK\r\ncontent-le").await,
            expect![[r#"
            127.0.0.1:PORT closed the connection without an answer
            connection closed before message completed"#]],
        );

        let port = port::free();
        check(
            (port, client(port, 16).ask(request(), TIMEOUTS).await),
            expect![[r#"
            nothing listens on 127.0.0.1:PORT
            hint: is the server running, and is this its address?"#]],
        );
    });
}

#[test]
fn a_call_without_an_answer_ends() {
    run_and_let_time_fly(async {
        let (_listener, client, port) = foreign().await;
        let timeouts = Timeouts { head: Some(Duration::from_secs(7)), ..TIMEOUTS };
        let error = client.ask(request(), timeouts).await.map(|_| ()).unwrap_err();
        expect!["no answer from 127.0.0.1:PORT within 7s"].assert_eq(&shown(port, &error));
    });
}

#[test]
fn an_answer_that_breaks_off_is_told_from_a_whole_one() {
    run(async {
        for (head, is_whole) in [
            ("content-length: 5\r\n\r\nhello", true),
            ("content-length: 9\r\n\r\nhello", false),
            ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", true),
            ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", false),
            ("transfer-encoding: chunked\r\n\r\n9\r\nhello", false),
            // Nothing in HTTP tells this from one that was cut.
            ("\r\nhello", true),
        ] {
            let (_, answer) = told(&format!("HTTP/1.1 200 OK\r\n{head}")).await;
            let (came, end) = rest(answer.unwrap().body_mut()).await;
            assert_eq!(came, b"hello", "{head:?}");
            assert_eq!(end.is_ok(), is_whole, "{head:?}");
        }
    });
}

/// A server may close what it keeps at any time, and then the next call takes another one.
#[test]
fn a_kept_connection_that_was_closed_is_not_used() {
    run(async {
        let (listener, client, _) = foreign().await;
        const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        for _ in 0..3 {
            let serving = answer(&listener, ANSWER);
            let (answer, stream) = tokio::join!(client.ask(request(), TIMEOUTS), serving);
            assert_eq!(rest(answer.unwrap().body_mut()).await.0, b"ok");
            // The client has had no time to notice.
            drop(stream);
        }
    });
}

#[test]
fn a_kept_connection_is_closed_in_the_end() {
    run_and_let_time_fly(async {
        let (listener, client, _) = foreign().await;
        const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let serving = answer(&listener, ANSWER);
        let (answer, mut stream) = tokio::join!(client.ask(request(), TIMEOUTS), serving);
        assert_eq!(rest(answer.unwrap().body_mut()).await.0, b"ok");
        let before = tokio::time::Instant::now();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
        assert_eq!(before.elapsed().as_secs(), 60);
        drop(client);
    });
}

#[test]
fn calls_beyond_the_connections_wait_in_line() {
    run(async {
        let mut wire = Wire::new(Over::Http1).await;
        let client = client(wire.address.port(), 2);
        let call = || {
            let answer = client.ask(request(), TIMEOUTS);
            tokio::task::spawn_local(async { rest(answer.await.unwrap().body_mut()).await.0 })
        };
        let calls: Vec<_> = (0..5).map(|_| call()).collect();
        let mut inside = vec![wire.next().await, wire.next().await];
        assert!(wire.exchanges.is_empty());
        for _ in 0..3 {
            echo(inside.remove(0)).await;
            inside.push(wire.next().await);
        }
        for exchange in inside {
            echo(exchange).await;
        }
        for call in calls {
            assert_eq!(call.await.unwrap(), b"hi");
        }
        let mut peers = wire.peers.borrow().clone();
        peers.sort();
        peers.dedup();
        assert_eq!(peers.len(), 2);
    });
}

#[test]
fn many_calls_share_one_http2_connection() {
    run(async {
        let mut wire = Wire::new(Over::Http2).await;
        let (sink, first, exchange) = wire.call(post()).await;
        let calls: Vec<_> =
            (0..50).map(|_| running(wire.client.ask(request(), TIMEOUTS))).collect();
        for _ in 0..50 {
            echo(wire.next().await).await;
        }
        for call in calls {
            assert_eq!(rest(call.await.unwrap().unwrap().body_mut()).await.0, b"hi");
        }
        // The first one still goes on.
        sink.end();
        exchange.responder.respond(ok()).end();
        assert!(first.await.unwrap().is_ok());
        wire.peers.borrow_mut().dedup();
        assert_eq!(wire.peers.borrow().len(), 1);
    });
}

#[test]
fn a_server_that_is_not_believed_is_not_asked() {
    run(async {
        let wire = Wire::new(Over::Http2).await;
        use toolbus_engine::transport::tls::{ClientTls, Inside};
        let tls = ClientTls::load(None, None, Inside::Http).unwrap();
        let port = wire.address.port();
        let origin = Origin { host: "localhost".into(), port, tls: Some(tls) };
        let client = Client::new(origin, 1, PATIENCE);
        let error = client.ask(request(), TIMEOUTS).await.map(|_| ()).unwrap_err();
        expect![[r#"
            no safe connection to localhost:PORT
            the TLS handshake failed
            invalid peer certificate: UnknownIssuer
            hint: if the server's certificate is your own, name it by `ca=FILE`"#]]
        .assert_eq(&shown(port, &error));
        assert!(wire.exchanges.is_empty());
    });
}
