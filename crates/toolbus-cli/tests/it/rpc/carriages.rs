//! `toolbus rpc` and `toolbus check` over everything that carries the wire.

use std::fs;
use std::path::Path;

use expect_test::expect;
use toolbus_engine::child::words;
use toolbus_testkit::certificates::Certificates;

use super::{over_pipes, serve};
use crate::listening::Server;
use crate::page::{Page, check};

/// The built-in tools behind a door of each kind.
struct Everywhere {
    files: Certificates,
    server: Server,
}

impl Everywhere {
    fn new() -> Everywhere {
        let files = Certificates::new();
        let proof = format!("?cert={}&key={}", files.file("server.pem"), files.file("server.key"));
        let doors = [
            "tcp://127.0.0.1:0".to_owned(),
            format!("unix:{}", files.file("socket")),
            format!("tls://127.0.0.1:0{proof}"),
            "http://127.0.0.1:0".to_owned(),
            format!("https://127.0.0.1:0{proof}"),
        ];
        let doors: Vec<&str> = doors.iter().map(String::as_str).collect();
        let server = serve(&doors, &["builtin:"]);
        Everywhere { files, server }
    }

    /// The addresses of callers.
    fn urls(&self) -> Vec<String> {
        let trusting = |url: &String| match url.contains("tls:") || url.contains("https:") {
            true => format!("{url}?ca={}", self.files.file("ca.pem")),
            false => url.clone(),
        };
        self.server.urls.iter().map(trusting).chain([over_pipes()]).collect()
    }
}

#[test]
fn where_it_listens_is_told_in_full() {
    let everywhere = Everywhere::new();
    let [tcp, unix, tls, http, https] = &everywhere.server.urls[..] else { panic!("five doors") };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    assert!(tcp.strip_prefix("mediocre+tcp://127.0.0.1:").is_some_and(is_port), "{tcp}");
    assert!(tls.strip_prefix("mediocre+tls://127.0.0.1:").is_some_and(is_port), "{tls}");
    let socket = everywhere.files.file("socket");
    assert_eq!(unix.strip_prefix("mediocre+unix:"), Some(&*socket));
    for (url, scheme) in [(http, "http"), (https, "https")] {
        let port = url.strip_prefix(&*format!("mediocre+{scheme}://127.0.0.1:"));
        assert!(port.and_then(|port| port.strip_suffix("/rpc")).is_some_and(is_port), "{url}");
    }
}

#[test]
fn the_page_of_the_specification_is_the_same_everywhere() {
    let path = "../../transcripts/mediocre/page_rpc_call_prints_a_stream.txt";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let everywhere = Everywhere::new();
    let hello = everywhere.files.file("hello.bin");
    fs::write(&hello, "hello").unwrap();
    for url in everywhere.urls() {
        for expected in text.split("$ toolbus ").skip(1) {
            let (command, sections) = expected.split_once('\n').unwrap();
            let words = words::split(&command.replace("hello.bin", &hello)).unwrap();
            assert_eq!(words[..3], ["rpc", "call", "mediocre+tcp://127.0.0.1:PORT"]);
            let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
            words[2] = &url;
            let page = Page::of(&words).run();
            // What a program that is started says of itself is no part of the page.
            let stderr = page.stderr.replace("  | listening on mediocre+stdio:\n", "");
            let code = page.status.code().unwrap();
            let mut found = format!("stdout\n{}", page.stdout);
            if !stderr.is_empty() {
                found.push_str(&format!("stderr\n{stderr}"));
            }
            found.push_str(&format!("exit {code}\n"));
            assert_eq!(found, sections, "{url}");
        }
    }
}

#[test]
fn the_rules_are_kept_everywhere() {
    let rules = [
        "unknown-method",
        "missing-method",
        "pipelined",
        "whitespace",
        "byte-by-byte",
        "unknown-fields",
        "half-close",
        "stray-bytes",
        "single-call",
        "stream-call",
    ];
    for url in Everywhere::new().urls() {
        // What one exchange is, and where it ends, is HTTP's own business.
        let is_there = |rule: &&str| {
            !url.starts_with("mediocre+http") || !["pipelined", "half-close"].contains(rule)
        };
        let lines = rules.iter().filter(|rule| is_there(rule)).map(|rule| format!("ok {rule}\n"));
        let page = Page::of(&["check", "mediocre", &url, "--method", "echo"]).run();
        assert_eq!(page.stdout, lines.collect::<String>(), "{url}: {page}");
        assert_eq!(page.status.code(), Some(0), "{url}: {page}");
    }
}

#[test]
fn tools_and_calls_of_the_bus_come_by_every_way() {
    for url in Everywhere::new().urls() {
        let address = match url.strip_prefix("stdio:") {
            Some(_) => format!("mediocre+{url}"),
            None => url,
        };
        let page = Page::of(&["call", &address, "upper", "text=hi"]).run();
        assert_eq!((&*page.stdout, page.status.code()), ("\"HI\"\n", Some(0)), "{page}");
        let page = Page::of(&["tools", &address, "--json"]).run();
        assert_eq!(page.stdout.lines().count(), 10, "{page}");
    }
}

#[test]
fn a_server_that_is_not_believed_or_not_understood() {
    let everywhere = Everywhere::new();
    let [tcp, _, tls, http, https] = &everywhere.server.urls[..] else { panic!("five doors") };
    let ca = format!("?ca={}", everywhere.files.file("ca.pem"));
    let plain = |url: &str, scheme: &str| {
        let (_, rest) = url.split_once("://").unwrap();
        format!("{scheme}://{rest}")
    };
    for url in [
        tls.clone(),
        https.clone(),
        plain(tls, "tcp"),
        plain(https, "http"),
        format!("{}{ca}", plain(tcp, "tls")),
        format!("{}{ca}", plain(http, "https")),
        plain(tcp, "http"),
    ] {
        let page = Page::of(&["rpc", "call", &url, "echo"]).run();
        assert_eq!(page.status.code(), Some(3), "{url}: {page}");
        assert!(page.stderr.starts_with("error: "), "{url}: {page}");
    }
    let page = Page::of(&["rpc", "call", tls, "echo"]).run().to_string();
    expect![[r#"
        stderr
        error: the TLS handshake failed: invalid peer certificate: UnknownIssuer
        hint: if the server's certificate is your own, name it by `ca=FILE`
        exit 3
    "#]]
    .assert_eq(&page);
}

#[test]
fn a_program_that_cannot_be_started_cannot_be_checked() {
    check(
        "check mediocre stdio:/no/such/program",
        expect![[r#"
            stderr
            error: there is no program `/no/such/program`
            hint: nothing is at that path: correct it
            exit 3
        "#]],
    );
    check(
        "check mediocre https://127.0.0.1:1?ca=nowhere.pem",
        expect![[r#"
            stderr
            error: cannot open `mediocre+https://127.0.0.1:1?ca=nowhere.pem`: cannot read the certificate in `nowhere.pem`: No such file or directory (os error 2)
            exit 2
        "#]],
    );
}
