//! A peer that never gives streams back gets a further connection, and no caller notices.

use std::cell::Cell;

use toolbus_engine::transport::io::Writer;
use toolbus_testkit::runtime::run;

use super::*;

/// Answers each request without reading it, and keeps its stream for ever.
async fn forgetful(connection: Connection) {
    let mut kept = Vec::new();
    while let Some((reader, mut writer)) = connection.accept().await {
        // The stream says whose answer it is: any id will do.
        let frame =
            b"\x00\x00\x00\x15\xa2\x01\x12\x08\x01\x12\x0e\x0a\x0c\x0a\x04text\x12\x04\x1a\x02hi";
        let piece = [std::io::IoSlice::new(frame)];
        toolbus_engine::transport::io::Sink::write(&mut writer, &piece).await.unwrap();
        writer.finish();
        kept.push(reader);
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
                    forgetful(connection).await;
                });
            }
        });
        let bus = bus_at(certs.address(port, ""));
        // More than the peer allows at a time, and none is given back.
        for count in 0..150 {
            let answered = outcome(&bus, call("echo", r#"{"text":"hi"}"#)).await;
            assert_eq!(answered, value(r#"{"text":"hi"}"#), "after {count}");
        }
        assert_eq!(connections.get(), 2);
        bus.shutdown().await;
    });
}
