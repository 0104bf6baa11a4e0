//! Clients that are never silent and never done.

use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use toolbus::bus::Route;
use toolbus::peer::access::Access;
use toolbus::wire::mediocre::front::{Mediocre, Settings};

use super::super::by_hand::with_settings;
use super::super::{ByHand, run};
use super::visit;

/// How long a client may take to get going. What comes of it does not depend on it: who drips is
/// given up sooner or later, and would never be otherwise.
const PATIENCE_WITH_CALLS: Duration = Duration::from_secs(1);
const DRIP: Duration = Duration::from_millis(10);

async fn served(route: Rc<dyn Route>, door: &str) -> (Mediocre, Vec<String>) {
    let settings = Settings { call_timeout: PATIENCE_WITH_CALLS, ..Settings::default() };
    with_settings(route, &[door], &Access::default(), settings).await
}

#[test]
fn a_call_that_drips_over_http1_is_given_up() {
    run(async {
        let route = Rc::new(ByHand::default());
        let (_server, urls) = served(route.clone(), "mediocre+http://127.0.0.1:0").await;
        let mut client = visit(&urls[0]).await;
        let head = "POST /rpc HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n";
        client.say(&format!("{head}{{\"method\":\"")).await;
        while client.heard.is_empty() {
            tokio::select! {
                _ = client.read() => {}
                () = tokio::time::sleep(DRIP) => {
                    // It may have been given up just now.
                    let _ = client.stream.write_all(b"x").await;
                }
            }
        }
        let answer = client.message().await;
        assert_eq!(answer.first, "HTTP/1.1 408 Request Timeout");
        assert_eq!(route.count(), 0);
    });
}

/// Of a stream call each element has to come, once it is begun.
#[test]
fn an_element_that_drips_is_given_up() {
    run(async {
        let route = Rc::new(ByHand::default());
        let (_server, urls) = served(route.clone(), "mediocre+http://127.0.0.1:0").await;
        let mut client = visit(&urls[0]).await;
        client
            .say("POST /rpc HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        client.say_chunk("{\"method\":\"m\",\"streamStart\":true}").await;
        let _call = route.next().await;
        for _ in 0..20 {
            client.say_chunk("{\"el\":1}").await;
        }
        client.say_chunk("{\"el\":\"").await;
        while client.heard.is_empty() {
            tokio::select! {
                _ = client.read() => {}
                () = tokio::time::sleep(DRIP) => {
                    let _ = client.stream.write_all(b"1\r\nx\r\n").await;
                }
            }
        }
        assert_eq!(client.message().await.first, "HTTP/1.1 408 Request Timeout");
        route.cancelled().await;
    });
}

#[cfg(feature = "tls")]
#[test]
fn a_call_that_drips_over_http2_is_given_up() {
    use toolbus_engine::transport::http::{Client, Method, Origin, Request, Timeouts, Version};
    use toolbus_engine::transport::tls::{ClientTls, Inside};
    use toolbus_testkit::certificates::Certificates;
    use toolbus_testkit::patience::PATIENCE;

    run(async {
        let files = Certificates::new();
        let proof = format!("?cert={}&key={}", files.file("server.pem"), files.file("server.key"));
        let door = format!("mediocre+https://127.0.0.1:0{proof}");
        let (_server, urls) = served(Rc::new(ByHand::default()), &door).await;
        let port = urls[0].split(':').nth(2).unwrap().trim_end_matches("/rpc").parse().unwrap();
        let tls = ClientTls::load(Some(&files.path("ca.pem")), None, Inside::Http).unwrap();
        let origin = Origin { host: "localhost".to_owned(), port, tls: Some(tls) };
        let client = Client::new(origin, 1, PATIENCE);
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = "/rpc".parse().unwrap();
        let (sink, answer) = client.start(request, Timeouts { connect: PATIENCE, head: None });
        let _ = sink.send(&"{\"method\":\"".into());
        let mut answer = std::pin::pin!(answer);
        let answer = loop {
            tokio::select! {
                answer = &mut answer => break answer.unwrap(),
                () = tokio::time::sleep(DRIP) => { let _ = sink.send(&"x".into()); }
            }
        };
        assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, 408));
    });
}
