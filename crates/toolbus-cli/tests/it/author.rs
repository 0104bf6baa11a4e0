//! One program of an author, as a peer of every wire and on everything that carries one.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use toolbus_testkit::page::Program;
use toolbus_testkit::scratch::Scratch;

use crate::docs::examples;
use crate::http::Request;
use crate::listening::Server;
use crate::mcp::INITIALIZE;
use crate::page::Page;

fn example(name: &str) -> String {
    examples().join(name).display().to_string()
}

#[track_caller]
fn check_echo(address: &str) {
    let page = Page::of(&["call", "-q", address, "echo", "text=hello"]).run();
    let answers = ["stdout\n\"hello\"\nexit 0\n", "stdout\n{\"text\":\"hello\"}\nexit 0\n"];
    assert!(answers.contains(&page.to_string().as_str()), "{address}: {page}");
}

#[test]
fn the_same_program_is_a_peer_of_every_wire() {
    let echo = example("echo_text");
    for address in [
        format!("mcp+stdio:{echo} --mcp"),
        format!("stdio:{echo} --oracle"),
        format!("mediocre+stdio:{echo} --mediocre"),
        format!("orchard+stdio:{echo} --orchard"),
        format!("orchard+stdio:{echo}"),
        format!("orchestra+plugin:{echo}"),
    ] {
        check_echo(&address);
    }
    // What is said of a model: it calls the program.
    let address = format!("mcp+stdio:{echo} --mcp");
    let words = ["exec", "--mock", "--mock-mode", "tool-loop", "--tools-from", &address, "hi"];
    let page = Page::of(&words).run();
    assert_eq!(page.to_string(), "stdout\nmock tool result: \n(no newline)\nexit 0\n");
}

#[test]
fn the_same_program_listens_wherever_it_is_told_to() {
    let scratch = Scratch::new();
    let (socket, certs) = (scratch.file("socket"), scratch.file("certs"));
    let mut command = Command::new(example("echo_text"));
    command.args(["--http", "0"]);
    command.args(["--listen", "mediocre+tcp://127.0.0.1:0"]);
    command.args([format!("--listen=mediocre+unix:{socket}")]);
    command.args(["--listen", "mediocre+http://127.0.0.1:0/rpc"]);
    command.args(["--listen", &format!("orchestra+quic://127.0.0.1:0?certs={certs}&id=echo")]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let server = Server::run(command, 5);
    let [http, tcp, unix, rpc, quic] = &server.urls[..] else { panic!("{:?}", server.urls) };
    let plugin = format!("{quic}?certs={certs}");
    for address in [&format!("mcp+{http}"), tcp, unix, rpc, &plugin] {
        check_echo(address);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 143\n");
}

#[test]
fn clients_are_told_whose_tools_they_are_and_how_to_use_them() {
    let told = r#""instructions":"Notes are kept in their order, and gone when the program ends.""#;
    let page =
        Program::new(example("notes")).args(["--mcp"]).stdin(format!("{INITIALIZE}\n")).run();
    assert!(page.stdout.contains(told), "{}", page.stdout);
    let mut command = Command::new(example("notes"));
    command.args(["--http", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::null());
    let server = Server::run(command, 1);
    let answer = Request::send(server.url(), "POST", "", INITIALIZE).answer();
    assert!(answer.contains(told), "{answer}");
    assert!(answer.contains(r#""serverInfo":{"name":"notes","version":"1.0.0"}"#), "{answer}");
    let page = Program::new(example("notes")).args(["--help"]).run();
    assert!(page.stdout.contains("\n\nNotes are kept"), "{}", page.stdout);
    let words = ["--listen-addr=127.0.0.1:0", "--manifest"];
    let page = Program::new(example("notes")).args(words).run();
    assert!(
        page.stdout.contains(r#""description":"Notes are kept"#),
        "{}{}",
        page.stdout,
        page.stderr
    );
}

#[test]
fn where_it_cannot_listen_it_says_why() {
    let run = |words: &[&str]| {
        let page = Program::new(example("echo_text")).args(words.iter().copied()).run();
        (page.stderr, page.status.code())
    };
    let check = |words: &[&str], expected: &str, code: i32| {
        let (said, exit) = run(words);
        assert!(said.contains(expected), "{words:?}: {said}");
        assert_eq!(exit, Some(code), "{words:?}: {said}");
    };
    check(&["--http"], "error: `--http` needs a value", 2);
    check(&["--listen", "gopher:x"], "gopher", 2);
    check(&["--listen", "builtin:"], "error: ", 2);
    check(&["--http", "0", "--mcp"], "error: unexpected argument `--mcp`", 2);
    check(&["--http", "0.0.0.0:0"], "hint: listen on 127.0.0.1", 2);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    check(&["--http", &at], "error: cannot listen on", 1);
}
