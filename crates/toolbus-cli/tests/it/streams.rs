//! Standard error that is not read, and a terminal that must not be painted by a peer.

use std::io::Read as _;
use std::process::Stdio;

use toolbus_testkit::patience::awaited;

use crate::page::{command, our_command};
use crate::terminal::Terminal;

/// An oracle that first writes so many bytes of noise to its standard error. Not an MCP server:
/// how that answers depends on its era, and so on how soon it was there.
fn noisy(bytes: usize) -> String {
    let server = our_command(&["oracle", "serve", "builtin:"]);
    format!("stdio:sh -c \"yes 'working on it' | head -c {bytes} >&2; exec {server}\"")
}

#[test]
fn a_standard_error_that_is_not_read_stops_nothing() {
    let mut command = command(&["-v", "call", &noisy(4 << 20), "add", "a=1", "b=2"]);
    let (stderr, unread) = std::io::pipe().unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(unread);
    let mut child = command.spawn().unwrap();
    drop(command);
    let status = awaited("it ends", || child.try_wait().unwrap());
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!((status.code(), answer.as_str()), (Some(0), "3\n"));
    // The pipe holds the first of it, and only whole lines were left out.
    let mut told = String::new();
    { stderr }.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("info: sh: started, process "), "{told:.200}");
    assert!(told.contains("info: sh: working on it\ninfo: sh: working on it\n"), "{told:.200}");
    assert!(told.len() < 1 << 20, "{} bytes", told.len());
}

/// All that is shown on a terminal by `toolbus` with these words.
fn shown(words: &[&str]) -> String {
    Terminal::of(0).env("NO_COLOR", "1").shown(words)
}

#[test]
fn what_a_peer_says_does_not_paint_the_terminal() {
    let evil = r#"{"text":"a\u001b[2J\u009b31m\u202eb\u007f"}"#;
    for flags in [&["--text"][..], &["--stream"], &[]] {
        let words = [&["call"], flags, &["builtin:", "upper", evil]].concat();
        let spelled = shown(&words);
        assert!(spelled.contains(r"A\u001b[2J\u009b31M\u202eB\u007f"), "{flags:?}: {spelled:?}");
        let harmful = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!spelled.contains(harmful), "{flags:?}: {spelled:?}");
    }
}

#[test]
fn in_a_pipe_data_stays_data() {
    let evil = r#"{"text":"a\u001b[2J\u202eb"}"#;
    let mut command = command(&["call", "--text", "builtin:", "upper", evil]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "A\x1b[2J\u{202e}B\n");
}
