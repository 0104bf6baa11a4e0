//! Who is kept out of a server over HTTP, over real sockets and in both versions.

use std::rc::Rc;

use toolbus::address::{Address, Purpose};
use toolbus::peer::access::Access;
use toolbus::peer::settings::Secret;
use toolbus::wire::mediocre::front::ListenAddress;
#[cfg(feature = "tls")]
use toolbus_engine::transport::http::{Client, Method, Origin, Request, Timeouts, Version};
#[cfg(feature = "tls")]
use toolbus_engine::transport::tls::{ClientTls, Inside};
#[cfg(feature = "tls")]
use toolbus_testkit::certificates::Certificates;
#[cfg(feature = "tls")]
use toolbus_testkit::patience::PATIENCE;

use super::super::{ByHand, at_doors, builtin, run, with_access};
use super::visit;

const ADD: &str = r#"{"method":"add","args":{"a":1,"b":2}}"#;

/// What the first line of the answer says of a request with these header fields.
async fn status(url: &str, fields: &[&str], body: &str) -> String {
    let mut client = visit(url).await;
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let len = body.len();
    client.say(&format!("POST /rpc HTTP/1.1\r\n{fields}content-length: {len}\r\n\r\n{body}")).await;
    let answer = client.message().await;
    let status = answer.first.split(' ').nth(1).unwrap().to_owned();
    // Told in the form of the wire, whatever it is.
    let is_told = if status == "200" { "{\"res\":" } else { "{\"err\":{\"msg\":" };
    assert!(answer.body.starts_with(is_told), "{answer:?}");
    assert_eq!(answer.field("www-authenticate"), (status == "401").then_some("Bearer"));
    status
}

/// What a page can send to any site without asking it first, and what else it might try.
#[test]
fn no_page_of_another_site_can_call_a_tool() {
    run(async {
        let route = Rc::new(ByHand::default());
        let (_server, urls) = at_doors(route.clone(), &["mediocre+http://127.0.0.1:0"]).await;
        let evil = "origin: https://evil.example";
        for fields in [
            &["host: localhost", evil, "content-type: text/plain;charset=UTF-8"][..],
            &["host: localhost", evil, "content-type: application/x-www-form-urlencoded"],
            &["host: localhost", evil, "content-type: multipart/form-data"],
            &["host: localhost", evil],
            &["host: localhost", evil, "content-type: application/json"],
            &["host: localhost", "origin: null", "content-type: application/json"],
            &["host: localhost", "origin: \u{ff}", "content-type: application/json"],
            &["host: localhost", "origin: http://localhost.evil.com"],
            &["host: localhost", "origin: http://127.0.0.1.evil.com"],
            &["host: localhost", "origin: http://[::1].evil.com"],
            &["host: localhost", "origin: http://localhost:80@evil.com"],
            // Its own name leads to this machine.
            &["host: evil.example:80", "content-type: application/json"],
            &["host: [::1].evil.com", "content-type: application/json"],
            &["host: localhost:80@evil", "content-type: application/json"],
        ] {
            assert_eq!(status(&urls[0], fields, ADD).await, "403", "{fields:?}");
        }
        // Of a page on this machine a browser does not ask us either, if it calls it text.
        let here = "origin: http://localhost:3000";
        let text = "content-type: text/plain";
        for fields in [&["host: localhost", here, text][..], &["host: localhost", here]] {
            assert_eq!(status(&urls[0], fields, ADD).await, "415", "{fields:?}");
        }
        assert_eq!(status(&urls[0], &["host: localhost", text], ADD).await, "415");
        // All the while nothing was called.
        assert_eq!(route.count(), 0);
    });
}

#[test]
fn those_who_may_come_in_do() {
    run(async {
        let access = Access { origins: vec!["https://app.example".into()], ..Access::default() };
        let door = ["mediocre+http://127.0.0.1:0"];
        let (_server, urls) = with_access(builtin().await, &door, &access).await;
        let json = "content-type: application/json";
        for fields in [
            &["host: localhost"][..],
            &["host: 127.0.0.1:7420", json],
            &["host: [::1]:80", "content-type: application/octet-stream"],
            &["host: localhost", "origin: https://app.example", json],
            &["host: localhost", "origin: http://localhost:3000", json],
        ] {
            assert_eq!(status(&urls[0], fields, ADD).await, "200", "{fields:?}");
        }
    });
}

#[test]
fn who_shows_no_token_is_told_to() {
    run(async {
        let access = Access { token: Some(Secret::new("s3cret".into())), ..Access::default() };
        let door = ["mediocre+http://0.0.0.0:0"];
        let (_server, urls) = with_access(builtin().await, &door, &access).await;
        for (shown, expected) in [
            ("authorization: Bearer s3cret", "200"),
            ("authorization: Bearer s3cret2", "401"),
            ("authorization: Basic s3cret", "401"),
            ("authorization: ", "401"),
        ] {
            assert_eq!(status(&urls[0], &["host: tools.example", shown], ADD).await, expected);
        }
        let evil = ["host: tools.example", "origin: https://evil.example"];
        assert_eq!(status(&urls[0], &evil, ADD).await, "403");
    });
}

#[cfg(feature = "tls")]
#[test]
fn http2_has_the_same_door() {
    run(async {
        let files = Certificates::new();
        let proof = format!("?cert={}&key={}", files.file("server.pem"), files.file("server.key"));
        let door = format!("mediocre+https://127.0.0.1:0{proof}");
        let (_server, urls) = at_doors(builtin().await, &[&door]).await;
        let port = urls[0].split(':').nth(2).unwrap().trim_end_matches("/rpc").parse().unwrap();
        let tls = ClientTls::load(Some(&files.path("ca.pem")), None, Inside::Http).unwrap();
        let origin = Origin { host: "localhost".to_owned(), port, tls: Some(tls) };
        let client = Client::new(origin, 1, PATIENCE);
        for (origin, expected) in [
            ("http://localhost:3000", 200),
            ("https://evil.example", 403),
            ("http://[::1].evil.com", 403),
        ] {
            let mut request = Request::new(ADD.into());
            *request.method_mut() = Method::POST;
            *request.uri_mut() = "/rpc".parse().unwrap();
            request.headers_mut().insert("origin", origin.parse().unwrap());
            request.headers_mut().insert("content-type", "application/json".parse().unwrap());
            let answer = client.ask(request, Timeouts { connect: PATIENCE, head: None }).await;
            let answer = answer.unwrap();
            assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, expected));
        }
    });
}

#[test]
fn others_must_prove_who_they_are_or_be_allowed_not_to() {
    let address = |text: &str| Address::parse_for(Purpose::Serve, text).unwrap();
    let insecure = Access { insecure: true, ..Access::default() };
    let token = Access { token: Some(Secret::new("s3cret".into())), ..Access::default() };
    let may = |text: &str, access: &Access| ListenAddress::of(&address(text), access).is_ok();
    for text in ["mediocre+tcp://0.0.0.0:0", "mediocre+http://0.0.0.0:0", "mediocre+tcp://[::]:0"] {
        let refused = ListenAddress::of(&address(text), &Access::default()).unwrap_err();
        assert!(refused.to_string().starts_with("will not listen on "), "{refused}");
        assert!(refused.hint().unwrap().contains("--insecure"), "{refused}");
        assert!(may(text, &insecure), "{text}");
        // Only over HTTP a token can be shown.
        assert_eq!(may(text, &token), text.contains("http"), "{text}");
    }
    for text in ["mediocre+tcp://localhost:0", "mediocre+http://[::1]:0", "mediocre+unix:a.sock"] {
        assert!(may(text, &Access::default()), "{text}");
    }
}
