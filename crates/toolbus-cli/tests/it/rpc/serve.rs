//! `toolbus rpc serve`: where it listens, whom it serves, how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use super::{builtin, over_pipes};
use crate::page::{Page, check};

const ADD: &str = r#"{"method":"add","args":{"a":1,"b":2}}"#;

fn stdio(said: &str) -> Page {
    Page::of(&["rpc", "serve", "--listen", "stdio:", "builtin:"]).stdin(said)
}

#[test]
fn standard_streams_end_with_their_input() {
    stdio(&format!("{ADD}{ADD}")).check(expect![[r#"
        stdout
        {"res":3}
        {"res":3}
        stderr
        listening on mediocre+stdio:
        exit 0
    "#]]);
    stdio("[]").check(expect![[r#"
        stdout
        {"err":{"msg":"expected an object at byte 0","meta":{"code":"protocol","reason":"not_an_object","offset":0}}}
        stderr
        listening on mediocre+stdio:
        error: expected an object at byte 0
        exit 3
    "#]]);
}

#[test]
fn it_listens_in_several_places_at_once() {
    let scratch = Scratch::new();
    let path = scratch.file("socket");
    let unix = format!("unix:{path}");
    let server = super::serve(&["mediocre+tcp://127.0.0.1:0", &unix], &["builtin:"]);
    assert_eq!(server.urls[1], format!("mediocre+unix:{path}"));
    for url in &server.urls {
        let page = Page::of(&["rpc", "call", url, "add", r#"{"a":1,"b":2}"#]).run();
        assert_eq!(page.stdout, "3\n", "{page}");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn tools_of_others_are_served_and_called_from_anywhere() {
    let backs = format!("mediocre+{}", over_pipes());
    let server = super::serve(&["tcp://127.0.0.1:0"], &[&backs]);
    let words = ["call", server.url(), "upper", "text=hi"];
    Page::of(&words).check(expect![[r#"
        stdout
        "HI"
        exit 0
    "#]]);
    let page = super::call(&server, &["echo", "--el", "1", "--blob", "-"]).stdin("hi").run();
    assert_eq!(page.stdout, "1\n{\"$bytes\":\"aGk=\"}\n", "{page}");
}

#[test]
fn a_signal_leaves_calls_in_flight_their_time() {
    let server = builtin();
    let at = server.url().strip_prefix("mediocre+tcp://").unwrap();
    let mut busy = TcpStream::connect(at).unwrap();
    busy.write_all(br#"{"method":"count","args":{"n":2,"ms":100}}"#).unwrap();
    let mut lines = BufReader::new(busy.try_clone().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), r#"{"streamStart":true,"streamLen":2}"#);
    server.signal(Signal::INT);
    let rest: Vec<_> = lines.collect();
    assert_eq!(rest, [r#"{"el":0}"#, r#"{"el":1}"#, r#"{"streamEnd":true}"#]);
    busy.shutdown(Shutdown::Both).unwrap();
    assert_eq!(server.end(), "exit 130\n");
}

#[test]
fn our_own_server_keeps_all_rules() {
    let server = builtin();
    Page::of(&["check", "mediocre", server.url(), "--method", "echo"]).check(expect![[r#"
        stdout
        ok unknown-method
        ok missing-method
        ok pipelined
        ok whitespace
        ok byte-by-byte
        ok unknown-fields
        ok half-close
        ok stray-bytes
        ok single-call
        ok stream-call
        exit 0
    "#]]);
    check(
        "check mediocre tcp://127.0.0.1:1",
        expect![[r#"
            stderr
            error: nothing listens on 127.0.0.1:1
            hint: is the server running, and is this its address?
            exit 3
        "#]],
    );
}

/// Answers the first byte of each connection in the same way, and then only listens.
fn stubborn(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("tcp://{}", listener.local_addr().expect("is bound"));
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a client connects");
            thread::spawn(move || {
                let mut byte = [0];
                if client.read_exact(&mut byte).is_ok() {
                    client.write_all(answer.as_bytes()).expect("is listened to");
                    let _ = std::io::copy(&mut client, &mut std::io::sink());
                }
            });
        }
    });
    url
}

#[test]
fn a_server_that_breaks_most_rules() {
    Page::of(&["check", "mediocre", &stubborn("{\"res\":1}")]).check(expect![[r#"
        stdout
        FAIL unknown-method: it answered without `err`
        FAIL missing-method: answer 1 of 2: it answered without `err`
        FAIL pipelined: answer 1 of 3: it answered without `err`
        FAIL whitespace: answer 1 of 3: it answered without `err`
        FAIL byte-by-byte: it answered without `err`
        FAIL unknown-fields: it answered without `err`
        FAIL half-close: it answered without `err`
        FAIL stray-bytes: it answered as if nothing was wrong
        exit 1
    "#]]);
    let page = Page::of(&["check", "mediocre", &stubborn("hello"), "--json"]).run();
    let first = r#"{"rule":"unknown-method","outcome":"fail","why":"it said what cannot be read: expected an object at byte 0"}"#;
    assert_eq!((page.stdout.lines().next(), page.status.code()), (Some(first), Some(1)), "{page}");
}

#[test]
fn what_cannot_be_served() {
    let server = builtin();
    let page = Page::of(&["rpc", "serve", "--listen", server.url(), "builtin:"]).run();
    assert_eq!(page.status.code(), Some(1), "{page}");
    check(
        "rpc serve builtin:",
        expect![[r#"
            stderr
            error: --listen is missing
            usage: toolbus rpc serve [OPTIONS] --listen <URL> [ADDRESS]...
            hint: `--help` tells more
            exit 2
        "#]],
    );
    check(
        "rpc serve --listen https://127.0.0.1:0?cert=nowhere.pem&key=nowhere.key builtin:",
        expect![[r#"
            stderr
            error: cannot listen on `mediocre+https://127.0.0.1:0?cert=nowhere.pem&key=nowhere.key`
              caused by: cannot read the certificate in `nowhere.pem`
              caused by: No such file or directory (os error 2)
            exit 2
        "#]],
    );
    check(
        "rpc serve --listen tls://127.0.0.1:0 builtin:",
        expect![[r#"
            stderr
            error: cannot listen on `mediocre+tls://127.0.0.1:0`: it has no certificate
            hint: name the certificate and its key by `?cert=FILE&key=FILE`
            exit 2
        "#]],
    );
    check(
        "rpc serve --listen tcp://127.0.0.1:0 mediocre+tcp://127.0.0.1:1",
        expect![[r#"
            stderr
            error: cannot open `mediocre+tcp://127.0.0.1:1`: nothing listens on 127.0.0.1:1
            hint: is the server running, and is this its address?
            exit 3
        "#]],
    );
}
