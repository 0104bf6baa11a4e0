//! On a terminal: what is under way is drawn below the lines that stay.

use std::fs::{self, File};
use std::io::Read as _;
use std::process::Stdio;

use toolbus_testkit::terminal;

use super::{Folder, without_chance};

/// Is it said for how many seconds it runs?
fn is_seen(shown: &str) -> bool {
    shown.split(" action.exec_run.a ").skip(1).any(|behind| {
        let rest = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < behind.len() && (rest.starts_with("s\n") || rest.starts_with("s\r\n"))
    })
}

#[test]
fn what_runs_is_shown_and_wiped() {
    let folder = Folder::new();
    let go = folder.0.file("go");
    let text = r#"scenario "slow" {
  required_providers {
    x = { source = "builtin/exec" }
  }
  action "exec_run" "a" {
    command = "sh"
    args    = ["-c", "until [ -e GO ]; do sleep 0.05; done"]
  }
}
"#;
    folder.write("slow.hcl", &text.replace("GO", &go));
    let (ours, theirs) = terminal::open();
    let mut command = folder.command(&["run", "slow.hcl", "--no-record"]);
    command
        .stdin(Stdio::null())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .env("TERM", "xterm");
    let mut child = command.spawn().unwrap();
    drop(command);
    let (mut screen, mut shown, mut bytes) = (File::from(ours), Vec::new(), [0; 4096]);
    // The end of a terminal is an error.
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        shown.extend_from_slice(&bytes[..count]);
        // It runs until it was seen to, and however long that is.
        if is_seen(&String::from_utf8_lossy(&shown)) {
            fs::write(&go, "").unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let shown = String::from_utf8_lossy(&shown).replace("\r\n", "\n");
    assert!(is_seen(&shown), "{shown:?}");
    assert!(shown.contains("\x1b[1A\r\x1b[J"), "{shown:?}");
    let green = "\x1b[32mok\x1b[0m action.exec_run.a (Nms)";
    assert!(without_chance(&shown).ends_with(&format!("\x1b[1A\r\x1b[J{green}\n")), "{shown:?}");
}
