//! A request and its end leave together, and every stream is given back.

use std::collections::HashSet;

use toolbus_engine::transport::io::Source;
use toolbus_engine::transport::io::Writer;
use toolbus_testkit::runtime::run;

use super::stream_frames::{self, StreamFrame};
use super::*;

/// The frames of requests: those that this thread sent on streams of the client. Both ends are
/// on one thread, and both directions of a stream have one name; answers have other lengths.
fn assert_ends_with_last_byte(sent: &[StreamFrame]) {
    let mut ended = HashSet::new();
    let mut streams = HashSet::new();
    for frame in sent {
        streams.insert(&frame.stream);
        assert!(0 < frame.length, "an end by itself: {frame:?}");
        if frame.fin {
            ended.insert((&frame.stream, frame.offset + frame.length));
        }
    }
    // The request and the answer of each.
    assert!(2 * streams.len() <= ended.len() + 2, "{} of {}", ended.len(), streams.len());
}

#[test]
fn a_request_and_its_end_are_one_frame() {
    stream_frames::listen();
    run(async {
        let chain = Chain::new().await;
        for _ in 0..300 {
            assert_eq!(
                chain.outcome(call("echo", r#"{"text":"hi"}"#)).await,
                value(r#"{"text":"hi"}"#)
            );
        }
        let sent = stream_frames::sent();
        let parted: Vec<_> =
            sent.iter().filter(|frame| !(frame.offset == 0 && frame.fin)).collect();
        assert!(parted.is_empty(), "{} of {}: {parted:?}", parted.len(), sent.len());
        assert!(600 <= sent.len());
    });
}

#[test]
fn many_requests_at_once_end_with_their_last_bytes() {
    stream_frames::listen();
    run(async {
        let chain = Chain::new().await;
        let calls: Vec<_> =
            (0..1000).map(|_| chain.call(call("echo", r#"{"text":"hello"}"#))).collect();
        for (inbox, running) in calls {
            assert_eq!(inbox.whole(running).await, value(r#"{"text":"hello"}"#));
        }
        assert_ends_with_last_byte(&stream_frames::sent());
    });
}

#[test]
fn a_large_request_and_a_large_answer_end_with_their_last_bytes() {
    stream_frames::listen();
    run(async {
        let chain = Chain::new().await;
        let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(9 << 20));
        assert_eq!(chain.outcome(call("echo", &text)).await, value(&text));
        assert_ends_with_last_byte(&stream_frames::sent());
    });
}

/// Far more than the peer allows at a time, one after the other and all at once.
#[test]
fn streams_are_given_back() {
    run(async {
        let chain = Chain::new().await;
        let calls: Vec<_> = (0..1000).map(|_| chain.call(call("echo", "{}"))).collect();
        for (inbox, running) in calls {
            assert_eq!(inbox.whole(running).await, value("{}"));
        }
        assert_eq!(chain.tools.running(), 0);
        assert!(!chain.near.ask(Client::is_starved));
    });
}

/// A caller whose end comes by itself, after the answer.
#[test]
fn late_ends_cost_no_stream() {
    run(async {
        let (near, far) = connected().await;
        let tools = Tools::new();
        let serving = spawn_local(serve(far, Rc::new(Served(tools))));
        // A health request.
        let request: &[u8] = b"\x00\x00\x00\x06\x0a\x02x1j\x00";
        for _ in 0..500 {
            let (mut reader, mut writer) = open(&near).await;
            let pieces = [std::io::IoSlice::new(request)];
            assert_eq!(
                toolbus_engine::transport::io::Sink::write(&mut writer, &pieces).await.unwrap(),
                10
            );
            let mut input = bytes::BytesMut::new();
            while reader.read(&mut input).await.unwrap() != 0 {}
            assert_eq!(&input[..], b"\x00\x00\x00\x0c\x0a\x02x1j\x06\x08\x01\x12\x02ok");
            // The answer is here, its end too, and only now ours follows.
            writer.finish();
        }
        serving.abort();
    });
}

async fn open(
    connection: &Connection,
) -> (toolbus_engine::transport::quic::QuicReader, toolbus_engine::transport::quic::QuicWriter) {
    let opener = connection.opener();
    toolbus_engine::transport::io::Opener::<Client>::open(&opener, ()).await.ok().unwrap()
}
