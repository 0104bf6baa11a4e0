//! A peer that never gives streams back gets a further connection, and no caller notices.

use std::cell::{Cell, RefCell};

use toolbus::engine::Source;
use toolbus::engine::io::Writer;
use toolbus_testkit::runtime::run;

use super::*;

/// Answers each request and keeps its stream for ever, as servers do that never read on.
async fn forgetful(
    connection: Connection,
    kept: Rc<RefCell<Vec<toolbus::transport::quic::QuicReader>>>,
) {
    while let Some((mut reader, mut writer)) = connection.accept().await {
        let mut input = bytes::BytesMut::new();
        // A frame, but not its end.
        while input.len() < 4 || input.len() < 4 + usize::from(input[3]) {
            reader.read(&mut input).await.unwrap();
        }
        let id = &input[4..4 + 2 + usize::from(input[5])];
        let body = b"\xa2\x01\x12\x08\x01\x12\x0e\x0a\x0c\x0a\x04text\x12\x04\x1a\x02hi";
        let frame = [&[0, 0, 0, (id.len() + body.len()) as u8], id, body].concat();
        let piece = [std::io::IoSlice::new(&frame)];
        toolbus::engine::Sink::write(&mut writer, &piece).await.unwrap();
        writer.finish();
        kept.borrow_mut().push(reader);
    }
}

#[test]
fn lost_streams_lead_to_a_further_connection() {
    run(async {
        let certs = Certs::new();
        let hub = certs.listen().await;
        let port = hub.addresses()[0].port();
        let connections = Rc::new(Cell::new(0));
        let counted = connections.clone();
        spawn_local(async move {
            while let Some(arrival) = hub.accept().await {
                counted.set(counted.get() + 1);
                spawn_local(async move {
                    let connection = arrival.open(HANDSHAKE).await.unwrap();
                    forgetful(connection, Rc::default()).await;
                });
            }
        });
        let bus = bus_at(certs.address(port, ""));
        // More than the peer allows at a time, and none is given back: the readers are kept,
        // and what ends together with its frame is not even looked at.
        for count in 0..250 {
            let answered = outcome(&bus, call("echo", r#"{"text":"hi"}"#)).await;
            assert_eq!(answered, value(r#"{"text":"hi"}"#), "after {count}");
        }
        assert_eq!(connections.get(), 2);
        bus.shutdown().await;
    });
}
