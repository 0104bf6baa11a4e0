//! hyper 1.12.0: what becomes of a request's body when the answer comes before its end?

use std::{io, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, channel::Channel};
use hyper::{Request, Response, body::Incoming};
use tokio::sync::Notify;
use toolbus_spikes::{
    http::{GET, HalfClose, collect, dial, outcome, post, serve},
    must,
};

const ANSWERED: &str = "\r\n\r\nearly";

#[tokio::test]
async fn a_small_rest_that_is_already_there_is_thrown_away_and_the_connection_lives() {
    let (mut client, _ended) = serve(HalfClose::Refused, answer_without_reading).await;
    for _ in 0..2 {
        client.say(format!("{}hello", post_of(5))).await;
        client.hear_to(ANSWERED).await;
    }
}

/// The head does not say so: the client learns it from the end of the connection.
#[tokio::test]
async fn a_rest_still_to_come_closes_the_connection_after_the_answer() {
    let (mut client, ended) = serve(HalfClose::Refused, answer_without_reading).await;
    client.say(format!("{}hello", post_of(9))).await;
    let (heard, eof) = client.hear_out().await;
    assert!(heard.ends_with(ANSWERED), "{heard}");
    assert!(!heard.contains("connection: close"), "{heard}");
    assert_eq!(eof, Ok(()));
    assert_eq!(outcome(ended).await, Ok(()));
    client
        .try_say("rest")
        .await
        .expect("nobody has objected yet");
}

/// A client that reads first still gets the answer, at least on Linux; one that is writing
/// learns of a broken connection and nothing else.
#[tokio::test]
async fn a_rest_left_in_the_socket_makes_the_close_a_reset() {
    let rest_bytes = 256 << 10;
    let written = Arc::new(Notify::new());
    let told = written.clone();
    let (mut client, ended) = serve(HalfClose::Refused, move |request| {
        let told = told.clone();
        async move {
            told.notified().await;
            answer_without_reading(request).await
        }
    })
    .await;
    client.say(post_of(rest_bytes)).await;
    client.say(vec![b'x'; rest_bytes]).await;
    written.notify_one();
    client.hear_to(ANSWERED).await;
    assert_eq!(client.hear_out().await, ("".to_owned(), Ok(())));
    assert_eq!(outcome(ended).await, Ok(()));
    assert_eq!(client.try_say("rest").await, Err(io::ErrorKind::BrokenPipe));
}

/// What an early answer has to do: somebody else reads on.
#[tokio::test]
async fn a_task_that_reads_on_keeps_the_connection() {
    let (mut client, _ended) = serve(HalfClose::Refused, |request: Request<Incoming>| async {
        tokio::spawn(request.into_body().collect());
        early()
    })
    .await;
    client.say(format!("{}hello", post_of(1 << 20))).await;
    client.hear_to(ANSWERED).await;
    client.say(vec![b'x'; (1 << 20) - "hello".len()]).await;
    client.say(GET).await;
    client.hear_to(ANSWERED).await;
}

#[tokio::test]
async fn without_reading_there_is_no_100_continue() {
    let (mut client, _ended) = serve(HalfClose::Refused, answer_without_reading).await;
    client
        .say("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n")
        .await;
    let (heard, eof) = client.hear_out().await;
    assert!(
        heard.starts_with("HTTP/1.1 200 OK\r\n") && heard.ends_with(ANSWERED),
        "{heard}"
    );
    assert_eq!(eof, Ok(()));
}

#[tokio::test]
async fn a_client_has_the_early_answer_at_once_and_may_go_on_sending() {
    let (mut sender, _ended, mut server) = dial().await;
    let (mut body, channel) = Channel::new(1);
    let answering = async {
        server.hear_to("\r\n\r\n").await;
        server
            .say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly")
            .await;
    };
    let (answer, ()) = tokio::join!(sender.send_request(post(channel)), answering);
    let answer = answer.expect("an answer");
    assert_eq!(
        collect(answer.into_body()).await,
        ("early".to_owned(), Ok(()))
    );
    assert!(
        !sender.is_ready(),
        "the connection is busy with the request"
    );

    body.send_data(Bytes::from_static(b"hello"))
        .await
        .expect("still taken");
    server.hear_to("5\r\nhello\r\n").await;
    drop(body);
    server.hear_to("0\r\n\r\n").await;
    must("the connection to be free", sender.ready())
        .await
        .expect("reusable");
}

/// The answer stands, and what is still to be sent goes nowhere.
#[tokio::test]
async fn a_client_keeps_the_early_answer_of_a_server_that_closes() {
    let (mut sender, ended, mut server) = dial().await;
    let (mut body, channel) = Channel::new(1);
    let answering = async {
        server.hear_to("\r\n\r\n").await;
        server
            .say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly")
            .await;
        drop(server);
    };
    let (answer, ()) = tokio::join!(sender.send_request(post(channel)), answering);
    let answer = answer.expect("an answer");
    assert_eq!(
        collect(answer.into_body()).await,
        ("early".to_owned(), Ok(()))
    );

    let ended = outcome(ended).await;
    assert_eq!(
        ended,
        Err("connection closed before message completed".to_owned())
    );
    body.send_data(Bytes::from_static(b"hello"))
        .await
        .expect_err("nobody takes it");
    assert!(
        must("the end", sender.ready())
            .await
            .expect_err("no more calls")
            .is_closed()
    );
}

async fn answer_without_reading(_: Request<Incoming>) -> Response<Full<Bytes>> {
    early()
}

fn early() -> Response<Full<Bytes>> {
    Response::new(Full::from("early"))
}

fn post_of(body_bytes: usize) -> String {
    format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {body_bytes}\r\n\r\n")
}
