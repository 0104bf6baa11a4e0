//! quinn 0.11.12: when do a request's last byte and its FIN leave in one STREAM frame?
//!
//! Existing Orchestra servers never notice a FIN that comes by itself, so the answer decides
//! on which runtime the caller may run.

use std::{collections::BTreeSet, time::Instant};

use toolbus_spikes::{
    PATIENCE, must,
    quic::{Bench, Manners, call, call_without_fin, frame, read_frame},
    stream_frames::{self, StreamFrame},
};

#[tokio::test]
async fn on_one_thread_a_frame_and_its_fin_are_one_stream_frame() {
    let mut bench = bench();
    let (connection, _) = bench.dial().await;
    let request = frame(b"hello");
    let calls = 500;

    for _ in 0..calls {
        call(&connection, &request).await;
    }
    let sent = stream_frames::sent();
    bench.stop().await;

    let whole = request.len() as u64;
    let parted: Vec<_> = sent.iter().filter(|it| !is_whole(it, whole)).collect();
    assert!(
        parted.is_empty(),
        "{} of {} frames: {parted:?}",
        parted.len(),
        sent.len()
    );
    assert_eq!(streams(&sent), calls);
}

/// The end of a packet may cut a request in two, and the FIN goes with the second piece.
#[tokio::test]
async fn on_one_thread_the_last_byte_has_the_fin_when_many_calls_share_packets() {
    let mut bench = bench();
    let (connection, _) = bench.dial().await;
    let request = frame(&[7; 55]);
    let calls = 2000;

    let mut running = tokio::task::JoinSet::new();
    for _ in 0..calls {
        let (connection, request) = (connection.clone(), request.clone());
        running.spawn(async move { call(&connection, &request).await });
    }
    running.join_all().await;
    let sent = stream_frames::sent();
    bench.stop().await;

    assert_fin_with_last_byte(&sent, request.len());
    assert_eq!(streams(&sent), calls);
    let whole = request.len() as u64;
    assert!(
        sent.iter().any(|it| !is_whole(it, whole)),
        "some request was cut by a packet's end"
    );
}

/// A large request waits for room half-way, and still nothing lies between its last piece
/// and the FIN.
#[tokio::test]
async fn on_one_thread_the_last_bytes_of_a_large_request_have_the_fin() {
    let mut bench = bench();
    let (connection, _) = bench.dial().await;
    // Far more than the window the peer grants (1.25 MB), so the write has to wait.
    let request = frame(&vec![7; 4 << 20]);

    call(&connection, &request).await;
    let sent = stream_frames::sent();
    bench.stop().await;

    assert_fin_with_last_byte(&sent, request.len());
    assert!(1 < sent.len(), "a large request needs many frames");
}

/// What the other tests would see if it went wrong.
#[tokio::test]
async fn an_await_between_the_two_parts_them() {
    let mut bench = bench();
    let (connection, _) = bench.dial().await;
    let request = frame(b"hello");

    let mut send = call_without_fin(&connection, &request).await;
    send.finish().expect("not yet finished");
    // Resolves when the peer has acknowledged everything, the FIN included.
    must("the FIN to arrive", send.stopped())
        .await
        .expect("connected");
    let sent = stream_frames::sent();
    bench.stop().await;

    assert!(sent.iter().any(|it| it.length == 9 && !it.fin), "{sent:?}");
    assert!(sent.iter().any(|it| it.length == 0 && it.fin), "{sent:?}");
}

/// A worker takes the connection's driver as soon as the write has woken it: awaiting
/// nothing in between is not enough. Looking at the statistics until that has happened
/// makes sure of what otherwise happens now and then. (This body runs beside the workers;
/// in a task of a worker the driver would mostly, but not always, wait for that task.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_many_threads_they_may_part_though_nothing_is_awaited() {
    let mut bench = bench();
    let (connection, _) = bench.dial().await;

    let (mut send, mut recv) = must("a stream", connection.open_bi())
        .await
        .expect("a stream");
    let before = connection.stats().frame_tx.stream;
    let until = Instant::now() + PATIENCE;
    send.write_all(&frame(b"hello")).await.expect("written");
    while connection.stats().frame_tx.stream == before {
        assert!(Instant::now() < until, "the frame waited for its FIN");
        std::thread::yield_now();
    }
    send.finish().expect("not yet finished");
    must("the answer", read_frame(&mut recv))
        .await
        .expect("an answer");
    must("the FIN to arrive", send.stopped())
        .await
        .expect("connected");
    let stream_frames = connection.stats().frame_tx.stream - before;
    bench.stop().await;

    assert!(
        2 <= stream_frames,
        "the frame, and later its FIN: {stream_frames}"
    );
}

/// A peer as existing servers are, and this thread's STREAM frames listened to.
fn bench() -> Bench {
    stream_frames::listen();
    Bench::start(Manners::NeverReadsOn)
}

fn assert_fin_with_last_byte(sent: &[StreamFrame], request_bytes: usize) {
    let is_last = |it: &StreamFrame| it.offset + it.length == request_bytes as u64;
    let parted: Vec<_> = sent
        .iter()
        .filter(|it| it.fin != is_last(it) || it.length == 0)
        .collect();
    assert!(
        parted.is_empty(),
        "{} of {} frames: {parted:?}",
        parted.len(),
        sent.len()
    );
    assert!(sent.iter().any(is_last), "the last byte was sent");
}

fn is_whole(frame: &StreamFrame, request_bytes: u64) -> bool {
    frame.offset == 0 && frame.length == request_bytes && frame.fin
}

fn streams(sent: &[StreamFrame]) -> usize {
    sent.iter()
        .map(|it| &it.stream)
        .collect::<BTreeSet<_>>()
        .len()
}
