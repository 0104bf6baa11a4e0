//! quinn 0.11.12: a peer grants 100 streams; what brings their credit back?

use quinn::Connection;
use toolbus_spikes::{
    must,
    quic::{Bench, Manners, NO_FAULT, STREAMS_GRANTED, call, call_without_fin, frame, round_trip},
};

#[tokio::test]
async fn a_fin_with_its_frame_gives_credit_back_even_if_the_peer_never_reads_on() {
    let mut bench = Bench::start(Manners::NeverReadsOn);
    let (connection, _) = bench.dial().await;
    for _ in 0..10 * STREAMS_GRANTED {
        assert_eq!(call(&connection, &frame(b"hello")).await, b"hello");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_late_fin_loses_credit_for_good_if_the_peer_never_reads_on() {
    let mut bench = Bench::start(Manners::NeverReadsOn);
    let (connection, peer) = bench.dial().await;
    for _ in 0..STREAMS_GRANTED {
        let mut send = call_without_fin(&connection, &frame(b"hello")).await;
        send.finish().expect("not yet finished");
        // Resolves when the peer has acknowledged everything, the FIN included.
        must("the FIN to arrive", send.stopped())
            .await
            .expect("connected");
    }
    assert_no_credit(&connection, &peer).await;

    // What helps is another connection; the old one need not be closed for it.
    let (further, _) = bench.dial().await;
    assert_eq!(call(&further, &frame(b"hello")).await, b"hello");
    bench.stop().await;
}

#[tokio::test]
async fn a_reset_loses_credit_likewise() {
    let mut bench = Bench::start(Manners::NeverReadsOn);
    let (connection, peer) = bench.dial().await;
    for _ in 0..STREAMS_GRANTED {
        let mut send = call_without_fin(&connection, &frame(b"hello")).await;
        send.reset(NO_FAULT).expect("not yet reset");
    }
    while peer.stats().frame_rx.reset_stream < u64::from(STREAMS_GRANTED) {
        round_trip(&connection).await;
    }
    assert_no_credit(&connection, &peer).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_peer_that_drains_gives_credit_back_for_late_fins() {
    let mut bench = Bench::start(Manners::Drains);
    let (connection, _) = bench.dial().await;
    for _ in 0..3 * STREAMS_GRANTED {
        let mut send = call_without_fin(&connection, &frame(b"hello")).await;
        send.finish().expect("not yet finished");
    }
    bench.stop().await;
}

/// Dropping a stopped stream makes quinn reset it, and the reset is what ends it at the peer.
#[tokio::test]
async fn a_peer_that_stops_gets_a_reset_from_a_caller_without_fin_and_gives_credit_back() {
    let mut bench = Bench::start(Manners::Stops);
    let (connection, peer) = bench.dial().await;
    for _ in 0..3 * STREAMS_GRANTED {
        let send = call_without_fin(&connection, &frame(b"hello")).await;
        assert_eq!(
            must("STOP_SENDING", send.stopped()).await,
            Ok(Some(NO_FAULT))
        );
    }
    assert!(2 * u64::from(STREAMS_GRANTED) <= peer.stats().frame_rx.reset_stream);
    bench.stop().await;
}

/// The peer never raised the limit, so the next request cannot begin.
async fn assert_no_credit(connection: &Connection, peer: &Connection) {
    round_trip(connection).await;
    assert_eq!(peer.stats().frame_tx.max_streams_bidi, 0);
    tokio::select! {
        biased;
        opened = connection.open_bi() => panic!("there was credit left: {opened:?}"),
        () = std::future::ready(()) => {}
    }
}
