//! hyper 1.12.0: when does a handler, or the body being sent, learn that its client is gone?

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::{Empty, channel::Channel};
use hyper::{
    Response,
    body::{Body, Frame},
};
use tokio::sync::{Notify, mpsc};
use toolbus_spikes::{
    http::{Ended, GET, HalfClose, Raw, dial, outcome, post, serve},
    must,
};

#[tokio::test]
async fn a_running_handler_is_dropped_when_its_client_closes() {
    let mut scene = Scene::handler(HalfClose::Refused).await;
    scene.client.say(GET).await;
    assert_eq!(scene.witness.next().await, Seen::Began);
    drop(scene.client);
    assert_eq!(scene.witness.next().await, Seen::Dropped);
    let ended = outcome(scene.ended).await;
    assert_eq!(
        ended,
        Err("connection closed before message completed".to_owned())
    );
}

#[tokio::test]
async fn a_client_that_closes_its_sending_half_counts_as_gone() {
    let mut scene = Scene::handler(HalfClose::Refused).await;
    scene.client.say(GET).await;
    assert_eq!(scene.witness.next().await, Seen::Began);
    scene.client.half_close().await;
    assert_eq!(scene.witness.next().await, Seen::Dropped);
    assert_eq!(scene.client.hear_out().await, ("".to_owned(), Ok(())));
}

/// The price: a client that is really gone is not noticed either, even if it was reset.
#[tokio::test]
async fn where_half_a_close_is_allowed_the_handler_runs_to_its_end() {
    let mut scene = Scene::handler(HalfClose::Allowed).await;
    scene.client.say(GET).await;
    assert_eq!(scene.witness.next().await, Seen::Began);
    scene.client.half_close().await;
    exchange_elsewhere().await;
    scene.go_on.notify_one();
    assert_eq!(scene.witness.next().await, Seen::Finished);
    let (heard, eof) = scene.client.hear_out().await;
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n"), "{heard}");
    assert_eq!(eof, Ok(()));

    for leave in [drop, Raw::reset] {
        let mut scene = Scene::handler(HalfClose::Allowed).await;
        scene.client.say(GET).await;
        assert_eq!(scene.witness.next().await, Seen::Began);
        leave(scene.client);
        exchange_elsewhere().await;
        scene.go_on.notify_one();
        assert_eq!(scene.witness.next().await, Seen::Finished);
    }
}

/// hyper reads no further than it has to, so it does not come to the end of the connection.
#[tokio::test]
async fn a_client_that_leaves_unread_bytes_behind_is_not_missed() {
    let with_a_body = GET.replace("\r\n\r\n", "\r\ncontent-length: 9\r\n\r\nhello");
    let pipelined = GET.repeat(2);
    for (request, body) in [
        (&with_a_body, Unread::Held),
        (&with_a_body, Unread::Dropped),
        (&pipelined, Unread::Dropped),
    ] {
        let mut scene = Scene::with_body(HalfClose::Refused, body).await;
        scene.client.say(request).await;
        assert_eq!(scene.witness.next().await, Seen::Began);
        drop(scene.client);
        exchange_elsewhere().await;
        scene.go_on.notify_one();
        assert_eq!(
            scene.witness.next().await,
            Seen::Finished,
            "{body:?} {request}"
        );
    }
}

#[tokio::test]
async fn a_body_being_sent_is_dropped_when_its_client_closes_though_it_has_nothing_to_send() {
    for leave in [drop, Raw::reset] {
        let (mut client, mut witness) = stream(HalfClose::Refused).await;
        client.say(GET).await;
        client.hear_to("5\r\nhello\r\n").await;
        assert_eq!(witness.next().await, Seen::Began);
        leave(client);
        assert_eq!(witness.next().await, Seen::Dropped);
    }
}

#[tokio::test]
async fn where_half_a_close_is_allowed_only_a_failing_write_ends_the_body() {
    let (tell, mut bodies) = mpsc::unbounded_channel();
    let (mut client, _ended) = serve(HalfClose::Allowed, move |_| {
        let (body, channel) = Channel::<Bytes>::new(1);
        tell.send(body).expect("awaited");
        async { Response::new(channel) }
    })
    .await;
    client.say(GET).await;
    let mut body = must("the handler", bodies.recv()).await.expect("called");
    body.send_data(Bytes::from_static(b"hello"))
        .await
        .expect("taken");
    client.hear_to("5\r\nhello\r\n").await;
    drop(client);
    exchange_elsewhere().await;

    body.send_data(Bytes::from_static(b"nobody hears this"))
        .await
        .expect("still taken");
    must("a write to fail", async {
        while body
            .send_data(Bytes::from_static(b"nor this"))
            .await
            .is_ok()
        {}
    })
    .await;
}

/// The other way round: how our client cancels a call.
#[tokio::test]
async fn a_call_whose_future_is_dropped_closes_the_connection() {
    let (mut sender, ended, mut server) = dial().await;
    let (_body, channel) = Channel::new(1);
    let calling = tokio::spawn(async move { sender.send_request(post(channel)).await.map(drop) });
    server.hear_to("\r\n\r\n").await;
    calling.abort();
    assert_eq!(server.hear_out().await, ("".to_owned(), Ok(())));
    assert_eq!(outcome(ended).await, Ok(()));
}

#[tokio::test]
async fn an_answer_that_is_dropped_half_read_closes_the_connection() {
    let (mut sender, _ended, mut server) = dial().await;
    let (_, nothing) = Channel::new(1);
    let (answer, ()) = tokio::join!(sender.send_request(post(nothing)), async {
        server.hear_to("0\r\n\r\n").await;
        server
            .say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello")
            .await;
    });
    drop(answer.expect("an answer"));
    assert_eq!(server.hear_out().await, ("".to_owned(), Ok(())));
}

/// A handler that runs until it is told to go on, and what it was seen to do.
struct Scene {
    client: Raw,
    ended: Ended,
    witness: Witness,
    go_on: Arc<Notify>,
}

/// What the handler does with a body that it does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    Held,
    Dropped,
}

impl Scene {
    async fn handler(half_close: HalfClose) -> Self {
        Self::with_body(half_close, Unread::Dropped).await
    }

    async fn with_body(half_close: HalfClose, unread: Unread) -> Self {
        let (testimony, witness) = witness();
        let go_on = Arc::new(Notify::new());
        let told = go_on.clone();
        let (client, ended) = serve(half_close, move |request| {
            let (running, told) = (testimony.begin(), told.clone());
            async move {
                let held = (unread == Unread::Held).then_some(request);
                told.notified().await;
                running.finish();
                drop(held);
                Response::new(Empty::<Bytes>::new())
            }
        })
        .await;
        Self {
            client,
            ended,
            witness,
            go_on,
        }
    }
}

/// Serves a body that sends `hello` and then nothing more for ever.
async fn stream(half_close: HalfClose) -> (Raw, Witness) {
    let (testimony, witness) = witness();
    let (client, _ended) = serve(half_close, move |_| {
        let body = Quiet {
            hello: Some(Bytes::from_static(b"hello")),
            _running: testimony.begin(),
        };
        async { Response::new(body) }
    })
    .await;
    (client, witness)
}

struct Quiet {
    hello: Option<Bytes>,
    _running: Running,
}

impl Body for Quiet {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.hello.take() {
            Some(hello) => Poll::Ready(Some(Ok(Frame::data(hello)))),
            None => Poll::Pending,
        }
    }
}

/// A whole exchange beside the one under test, on the same runtime: whatever hyper was going
/// to notice of the other client by itself, it has had its turns to notice.
async fn exchange_elsewhere() {
    let (mut client, _ended) = serve(HalfClose::Refused, |_| async {
        Response::new(Empty::<Bytes>::new())
    })
    .await;
    client.say(GET).await;
    client.hear_to("\r\n\r\n").await;
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Began,
    Dropped,
    Finished,
}

struct Witness(mpsc::UnboundedReceiver<Seen>);
struct Testimony(mpsc::UnboundedSender<Seen>);

/// Held by what runs; tells when it is dropped before it has finished.
struct Running(Option<mpsc::UnboundedSender<Seen>>);

fn witness() -> (Testimony, Witness) {
    let (tell, told) = mpsc::unbounded_channel();
    (Testimony(tell), Witness(told))
}

impl Witness {
    async fn next(&mut self) -> Seen {
        must("something to be seen", self.0.recv())
            .await
            .expect("somebody is still running")
    }
}

impl Testimony {
    fn begin(&self) -> Running {
        let _ = self.0.send(Seen::Began);
        Running(Some(self.0.clone()))
    }
}

impl Running {
    fn finish(mut self) {
        self.tell(Seen::Finished);
    }

    fn tell(&mut self, seen: Seen) {
        if let Some(tell) = self.0.take() {
            let _ = tell.send(seen);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tell(Seen::Dropped);
    }
}
