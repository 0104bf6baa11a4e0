//! A safe connection through a proxy: a tunnel, in which the server proves who it is as ever.

use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use toolbus_engine::transport::http::{Client, Origin, Proxy, Request};
use toolbus_engine::transport::tls::Inside;

use super::{Limits, Over, Raw, TIMEOUTS, Wire, echo, rest};
use crate::net::run;
use crate::net::tls::Certificates;

/// A proxy that gives one tunnel after the other to this address, and what it was asked.
async fn proxy(to: std::net::SocketAddr) -> (u16, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, asked) = tokio::sync::mpsc::unbounded_channel();
    spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut client = Raw(tokio::io::BufReader::new(stream));
            let _ = tell.send(client.head().await);
            client.send("HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n").await;
            let mut server = TcpStream::connect(to).await.unwrap();
            spawn_local(async move { copy_bidirectional(&mut client.0, &mut server).await });
        }
    });
    (port, asked)
}

#[test]
fn a_tunnel_of_a_proxy_carries_a_safe_connection() {
    run(async {
        let files = Certificates::new();
        for over in [Over::Http1InTls, Over::Http2] {
            let mut wire = Wire::of(over, Limits::default(), &files).await;
            let (port, mut asked) = proxy(wire.address).await;
            let authorization = Some("Basic dXNlcjp3b3Jk".to_owned());
            let proxy = Proxy { host: "127.0.0.1".to_owned(), port, authorization };
            let inside = if over == Over::Http2 { Inside::Http } else { Inside::Bytes };
            let tls = Some(files.client(inside));
            // The proxy alone knows where `localhost:443` is.
            let origin = Origin { host: "localhost".to_owned(), port: 443, tls };
            let client = Client::through(proxy, origin, 1, Duration::from_secs(60));
            for _ in 0..2 {
                let request = Request::post("/rpc").body("hi".into()).unwrap();
                let answer = spawn_local(client.ask(request, TIMEOUTS));
                echo(wire.next().await).await;
                let mut answer = answer.await.unwrap().unwrap();
                assert_eq!(rest(answer.body_mut()).await.0, b"hi", "{over:?}");
            }
            let head = asked.recv().await.unwrap();
            assert_eq!(
                head,
                "CONNECT localhost:443 HTTP/1.1\nHost: localhost:443\n\
                 Proxy-Authorization: Basic dXNlcjp3b3Jk\n"
            );
            assert!(asked.is_empty(), "the tunnel is kept for the second request");
        }
    });
}
