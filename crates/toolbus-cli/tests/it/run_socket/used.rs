//! Which `toolbus serve` is used, and what `-v` says of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use expect_test::expect;
use rustix::process::Signal;
use serde_json::Value;
use toolbus_testkit::patience::awaited;

use super::Bench;
use super::same::without_spinner;
use crate::terminal::Terminal;

const CALL: [&str; 4] = ["call", "try.add", "a=1", "b=2"];

#[test]
fn one_that_is_the_same_is_used_and_no_other() {
    let bench = Bench::of("[back.e]\nconnect = \"mcp+stdio:cat\"\nenv_pass = [\"PASSED\"]\n");
    assert_eq!(bench.says(&CALL), "info: no toolbus serve runs for this config");
    let mut serve = bench.serve_with(&[], &[("PASSED", "1")]);
    let pid = serve.id();
    let says = |passed: &str| {
        let page = bench.page(&[&CALL[..], &["-v"]].concat()).env("PASSED", passed).run();
        assert_eq!((page.stdout.as_str(), page.status.code()), ("3\n", Some(0)), "{page}");
        page.stderr.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(says("1"), format!("info: using toolbus serve (pid {pid})"));
    let unlike = |why: &str| format!("info: toolbus serve (pid {pid}) is not used: {why}");
    assert_eq!(says("2"), unlike("its environment differs"));
    let config = fs::read_to_string(bench.config()).unwrap();
    bench.write(&format!("{config}# more\n"));
    assert_eq!(says("1"), unlike("it has another version of the config"));
    // Once it has read it again, it is the same.
    serve.signal(Signal::HUP);
    awaited("it is used again", || {
        (says("1") == format!("info: using toolbus serve (pid {pid})")).then_some(())
    });
    fs::write(bench.scratch.file("toolbus.lock"), "").unwrap();
    fs::remove_file(bench.scratch.file("toolbus.lock")).unwrap();
    assert_eq!(says("1"), format!("info: using toolbus serve (pid {pid})"));
    serve.signal(Signal::TERM);
    assert_eq!(serve.wait().code(), Some(0));
    assert!(bench.has_no_socket());
    assert_eq!(says("1"), "info: no toolbus serve runs for this config");
}

#[test]
fn flags_that_say_how_a_peer_is_started_or_reached_use_none() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let is_told = |page: &str| page.contains("toolbus serve");
    let ways: [&[&str]; 12] = [
        &["call", "--no-daemon"],
        &["call", "--env", "A=b"],
        &["call", "--env-pass", "A"],
        &["call", "--header", "A: b"],
        &["call", "--token-env", "HOME"],
        &["call", "--allow-shell"],
        &["call", "--start-timeout", "20s"],
        &["call", "--reply-max", "1MiB"],
        &["call", "--era", "legacy"],
        &["call", "--root", "/"],
        &["describe", "--no-daemon"],
        &["tools", "--no-daemon"],
    ];
    for way in ways {
        let rest: &[&str] = match way[0] {
            "call" => &["-v", "try.add", "a=1", "b=2"],
            "describe" => &["-v", "try.add"],
            _ => &["-v"],
        };
        let page = bench.page(&[way, rest].concat()).run();
        assert_eq!(page.status.code(), Some(0), "{way:?}: {page}");
        assert!(!is_told(&page.stderr), "{way:?}: {page}");
    }
    let page = bench.page(&["call", "-v", "builtin:", "add", "a=1", "b=2"]).process().run();
    assert!(!is_told(&page.stderr), "{page}");
    let page = bench.page(&["call", "-v", "try.add", "a=1", "b=2"]).env("TOOLBUS_NO_DAEMON", "x");
    assert!(!is_told(&page.run().stderr));
    for words in [&["doctor", "-v"][..], &["lock", "--dry-run", "-v"]] {
        assert!(!is_told(&bench.page(words).run().stderr), "{words:?}");
    }
    for words in [
        &["tools", "-v"][..],
        &["describe", "-v", "try.add"],
        &["search", "-v", "add"],
        &["prompt", "list", "-v", "s"],
        &["prompt", "get", "-v", "s", "hello"],
        &["resource", "list", "-v", "s"],
        &["resource", "read", "-v", "s", "note://1"],
    ] {
        let said = bench.page(words).run().stderr;
        let used = format!("info: using toolbus serve (pid {})\n", serve.id());
        assert_eq!(said.matches("toolbus serve").count(), 1, "{words:?}: {said}");
        assert!(said.contains(&used), "{words:?}: {said}");
    }
}

#[test]
fn the_greeting_says_whose_it_is() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let socket = bench.socket();
    let name = socket.file_name().unwrap().to_str().unwrap().to_owned();
    let id = name.strip_suffix(".sock").unwrap();
    assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    let mode = |path: &std::path::Path| fs::symlink_metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&socket) & 0o777, 0o600);
    assert_eq!(mode(socket.parent().unwrap()) & 0o777, 0o700);
    let greeting = super::attacks::greeting(&socket);
    let said: Value = serde_json::from_str(&greeting).unwrap();
    let members: Vec<_> = said.as_object().unwrap().keys().cloned().collect();
    assert_eq!(members.len(), 6, "{said}");
    assert_eq!(said["protocol"], 1);
    assert_eq!(said["pid"], serve.id());
    let config = fs::canonicalize(bench.config()).unwrap();
    assert_eq!(said["config"], config.to_str().unwrap());
    for name in ["digest", "env"] {
        let digest = said[name].as_str().unwrap().strip_prefix("sha256:").unwrap();
        assert_eq!(digest.len(), 64);
    }
    assert!(serve.urls[0].starts_with("http://"));
}

#[test]
fn a_second_server_leaves_the_socket_of_the_first() {
    let bench = Bench::of("");
    let (first, second) = (bench.serve(), bench.serve_with(&["-v"], &[]));
    let ino = fs::metadata(bench.socket()).unwrap().ino();
    let using = format!("info: using toolbus serve (pid {})", first.id());
    assert_eq!(bench.says(&CALL), using);
    second.signal(Signal::TERM);
    let said = second.end();
    assert!(said.contains("info: no run socket: another `toolbus serve`"), "{said}");
    assert_eq!(fs::metadata(bench.socket()).unwrap().ino(), ino);
    assert_eq!(bench.says(&CALL), using);
    // One that was killed leaves its socket behind, which is replaced.
    first.signal(Signal::KILL);
    drop(first);
    assert_eq!(bench.says(&CALL), "info: no toolbus serve runs for this config");
    let third = bench.serve();
    assert_eq!(bench.says(&CALL), format!("info: using toolbus serve (pid {})", third.id()));
}

#[test]
fn there_is_none_where_none_is_wanted_or_can_be() {
    let bench = Bench::of("");
    let serve = bench.serve_with(&["--no-run-socket"], &[]);
    assert!(bench.has_no_socket());
    drop(serve);
    let long = bench.scratch.file(&"x".repeat(90));
    let serve = bench.serve_with(&["-v"], &[("XDG_RUNTIME_DIR", &long)]);
    serve.signal(Signal::TERM);
    let said = serve.end();
    assert!(said.contains("info: no run socket: the path `"), "{said}");
    // Without a folder of the session it is that of our state.
    let state = bench.scratch.file("state");
    let _serve = bench.serve_with(&[], &[("XDG_RUNTIME_DIR", ""), ("XDG_STATE_HOME", &state)]);
    assert_eq!(fs::read_dir(format!("{state}/toolbus/run")).unwrap().count(), 1);
}

#[test]
fn others_are_told_of_the_server() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let added = bench.page(&["add", "--no-try", "more", "--", "cat"]).run();
    let hint = format!(
        "hint: `toolbus serve` runs with this config: `kill -HUP {}` makes it read the change\n",
        serve.id()
    );
    assert_eq!(added.stderr, hint);
    let home = bench.scratch.file("home");
    fs::create_dir_all(format!("{home}/.cursor")).unwrap();
    for flag in [&[][..], &["--url"]] {
        let words = [&["link", "--dry-run", "cursor"], flag].concat();
        let linked = bench.page(&words).env("HOME", &home).run();
        assert!(linked.stdout.contains(&format!("\"url\": \"{}\"", serve.url())), "{linked}");
    }
    let words = ["link", "--dry-run", "cursor", "--command"];
    let linked = bench.page(&words).env("HOME", &home).run();
    assert!(linked.stdout.contains("\"command\": "), "{linked}");
}

#[test]
fn a_terminal_shows_the_same() {
    let bench = Bench::of("");
    let _serve = bench.serve();
    let shown = |words: &[&str], is_alone: &'static str| {
        let mut command = bench.command(words);
        command.env("TOOLBUS_NO_DAEMON", is_alone).env("TERM", "xterm").env("NO_COLOR", "1");
        Terminal::of(80).shows(command)
    };
    for words in [&["tools"][..], &["call", "s.numbers"], &["resource", "read", "s", "note://2"]] {
        let shown = |is_alone| without_spinner(&shown(words, is_alone));
        assert_eq!(shown(""), shown("1"), "{words:?}");
    }
    expect!["3\n"].assert_eq(&shown(&CALL, ""));
}
