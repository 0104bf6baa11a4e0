//! hyper 1.12.0: what does the reader of a body learn when the body is cut short?

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::{Empty, channel::Channel};
use hyper::{
    Response,
    body::{Body, Frame},
};
use tokio::sync::mpsc;
use toolbus_spikes::{
    http::{GET, HalfClose, Raw, collect, dial, outcome, post, serve},
    must,
};

const SIZED: &str = "content-length: 9\r\n\r\nhello";
const IN_A_CHUNK: &str = "transfer-encoding: chunked\r\n\r\n9\r\nhello";
const BETWEEN_CHUNKS: &str = "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
const TO_THE_END: &str = "\r\nhello";

const SHORT: &str =
    "error reading a body from connection: end of file before message length reached";
const NO_LAST_CHUNK: &str =
    "error reading a body from connection: unexpected EOF during chunk size line";
const RESET: &str = "error reading a body from connection: Connection reset by peer (os error 104)";

/// What came, and how it ended.
type Read = (String, Result<(), String>);

#[tokio::test]
async fn a_request_cut_short_is_an_error_after_what_came() {
    for (request, error) in [
        (SIZED, SHORT),
        (IN_A_CHUNK, SHORT),
        (BETWEEN_CHUNKS, NO_LAST_CHUNK),
    ] {
        assert_eq!(
            read_request(request, drop).await,
            hello(Err(error)),
            "{request}"
        );
        assert_eq!(
            read_request(request, Raw::reset).await,
            hello(Err(RESET)),
            "{request}"
        );
    }
}

#[tokio::test]
async fn a_response_cut_short_is_an_error_after_what_came() {
    for (response, ended) in [
        (SIZED, Err(SHORT)),
        (IN_A_CHUNK, Err(SHORT)),
        (BETWEEN_CHUNKS, Err(NO_LAST_CHUNK)),
        // Nothing in HTTP tells such a body from one that was cut.
        (TO_THE_END, Ok(())),
    ] {
        assert_eq!(
            read_response(response, drop).await,
            hello(ended),
            "{response}"
        );
        assert_eq!(
            read_response(response, Raw::reset).await,
            hello(Err(RESET)),
            "{response}"
        );
    }
}

/// hyper gives up on the connection in the same breath, and with it what it had not yet
/// written: not even the head gets out.
#[tokio::test]
async fn a_body_that_fails_at_once_takes_what_came_before_with_it() {
    let (heard, ended) = hear_failing([Step::Data, Step::Fail]).await;
    assert_eq!(heard, ("".to_owned(), Ok(())));
    assert_eq!(
        ended,
        Err("error from user's Body stream: late failure".to_owned())
    );
}

#[tokio::test]
async fn a_body_that_is_pending_once_before_it_fails_is_flushed_and_has_no_last_chunk() {
    let ((heard, eof), ended) = hear_failing([Step::Data, Step::Pending, Step::Fail]).await;
    assert!(
        heard.starts_with("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n"),
        "{heard}"
    );
    assert!(heard.ends_with("\r\n\r\n5\r\nhello\r\n"), "{heard}");
    assert_eq!(eof, Ok(()));
    assert_eq!(
        ended,
        Err("error from user's Body stream: late failure".to_owned())
    );
}

/// A body that ends without an error always ends well on the wire.
#[tokio::test]
async fn a_channel_whose_sender_is_dropped_ends_well() {
    let (mut sender, _ended, mut server) = dial().await;
    let (mut body, channel) = Channel::new(1);
    let sending = tokio::spawn(async move { sender.send_request(post(channel)).await });
    body.send_data(Bytes::from_static(b"hello"))
        .await
        .expect("taken");
    drop(body);
    let heard = server.hear_to("0\r\n\r\n").await;
    assert!(heard.ends_with("5\r\nhello\r\n0\r\n\r\n"), "{heard}");
    sending.abort();
}

#[tokio::test]
async fn a_channel_that_is_aborted_cuts_the_request_and_fails_the_call() {
    let (mut sender, _ended, mut server) = dial().await;
    let (mut body, channel) = Channel::new(1);
    let sending = tokio::spawn(async move { sender.send_request(post(channel)).await });
    body.send_data(Bytes::from_static(b"hello"))
        .await
        .expect("taken");
    server.hear_to("5\r\nhello\r\n").await;
    body.abort(io::Error::other("given up"));

    assert_eq!(server.hear_out().await, ("".to_owned(), Ok(())));
    let error = must("the call to end", sending)
        .await
        .expect("no panic")
        .expect_err("no answer");
    assert!(error.is_user(), "{error:?}");
}

async fn read_request(request: &str, leave: fn(Raw)) -> Read {
    let (tell, mut told) = mpsc::unbounded_channel();
    let (mut client, _ended) = serve(HalfClose::Refused, move |request| {
        let tell = tell.clone();
        async move {
            let _ = tell.send(collect(request.into_body()).await);
            Response::new(Empty::<Bytes>::new())
        }
    })
    .await;
    client
        .say(format!("POST / HTTP/1.1\r\nhost: localhost\r\n{request}"))
        .await;
    leave(client);
    must("the body", told.recv()).await.expect("read")
}

async fn read_response(response: &str, leave: fn(Raw)) -> Read {
    let (mut sender, _ended, mut server) = dial().await;
    let (_, nothing) = Channel::new(1);
    let (answer, ()) = tokio::join!(sender.send_request(post(nothing)), async {
        server.hear_to("0\r\n\r\n").await;
        server.say(format!("HTTP/1.1 200 OK\r\n{response}")).await;
    });
    leave(server);
    collect(answer.expect("an answer").into_body()).await
}

type Heard = (String, Result<(), io::ErrorKind>);

/// Lets hyper send a body of these steps: what the client heard, and how hyper ended.
async fn hear_failing<const N: usize>(steps: [Step; N]) -> (Heard, Result<(), String>) {
    let (mut client, ended) = serve(HalfClose::Refused, move |_| async move {
        Response::new(Steps(steps.into()))
    })
    .await;
    client.say(GET).await;
    (client.hear_out().await, outcome(ended).await)
}

#[derive(Clone, Copy)]
enum Step {
    Data,
    Pending,
    Fail,
}

struct Steps(VecDeque<Step>);

impl Body for Steps {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.0.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Data) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"hello"))))),
            Some(Step::Fail) => Poll::Ready(Some(Err(io::Error::other("late failure")))),
            Some(Step::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

fn hello(ended: Result<(), &str>) -> Read {
    ("hello".to_owned(), ended.map_err(str::to_owned))
}
