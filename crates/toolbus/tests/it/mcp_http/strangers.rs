//! Who is kept out, and what is too much.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolbus::peer::settings::Secret;

use super::*;

#[test]
fn it_says_where_it_listens() {
    run(async {
        let options = Options::default();
        let listener = mcp_http::listen(&":0".parse().unwrap(), &options).await.unwrap();
        let Whereabouts::Tcp(address) = listener.whereabouts().unwrap() else { panic!("no TCP") };
        let line = mcp_http::listening_on(&listener, &options).unwrap();
        assert_eq!(line, format!("listening on http://127.0.0.1:{}/mcp", address.port()));
    });
}

#[test]
fn pages_of_other_sites_are_kept_out() {
    run(async {
        let access = Access { origins: vec!["https://app.example".into()], ..Access::default() };
        let options = Options { access, ..Options::default() };
        let served = Served::with(options, builtin().await).await;
        for (origin, status) in [
            ("https://evil.example", 403),
            ("null", 403),
            ("https://app.example", 200),
            ("http://localhost:3000", 200),
        ] {
            let answer = served.post(&[("Origin", origin)], INITIALIZE).await;
            assert_eq!(answer.status, status, "{origin}: {answer:?}");
        }
        for (host, status) in [("evil.example", "403"), ("\u{ff}", "403"), ("localhost", "200")] {
            let mut stranger = TcpStream::connect(served.address).await.unwrap();
            let length = INITIALIZE.len();
            let request = format!(
                "POST /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{INITIALIZE}"
            );
            stranger.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stranger.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
        }
        served.stop().await;
    });
}

#[test]
fn a_client_without_a_token_is_kept_out() {
    run(async {
        let token = Some(Secret::new("s3cret".to_owned()));
        let access = Access { token, ..Access::default() };
        let options = Options { access, ..Options::default() };
        let served = Served::with(options, builtin().await).await;
        let refused = served.post(&[], INITIALIZE).await;
        assert_eq!(refused.header("WWW-Authenticate"), "Bearer");
        refused.is(
            401,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a bearer token is needed"}}"#,
        );
        let wrong = [("Authorization", "Bearer s3cre")];
        assert_eq!(served.post(&wrong, INITIALIZE).await.status, 401);
        let right = [("Authorization", "Bearer s3cret")];
        assert_eq!(served.post(&right, INITIALIZE).await.status, 200);
        served.stop().await;
    });
}

#[test]
fn a_body_over_the_limit_is_refused_and_the_client_reads_why() {
    run(async {
        let options = Options { body_bytes_max: 1000, ..Options::default() };
        let served = Served::with(options, builtin().await).await;
        let padding = " ".repeat(300_000);
        served.post(&[], &format!("{padding}{INITIALIZE}")).await.is(
            413,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"body is longer than the limit of 1000 bytes"}}"#,
        );
        assert_eq!(served.post(&[], "{").await.status, 400);
        assert_eq!(served.post(&[], INITIALIZE).await.status, 200);
        served.stop().await;
    });
}
