//! On a terminal: what is under way is drawn below the lines that stay.

use std::io::Read as _;
use std::process::Stdio;

use toolbus_testkit::terminal;

use super::{Folder, without_chance};

#[test]
fn what_runs_is_shown_and_wiped() {
    let folder = Folder::new();
    folder.write(
        "slow.hcl",
        r#"scenario "slow" {
  required_providers {
    x = { source = "builtin/exec" }
  }
  action "exec_run" "a" {
    command = "sleep"
    args    = ["0.5"]
  }
}
"#,
    );
    let (ours, theirs) = terminal::open();
    let mut command = folder.command(&["run", "slow.hcl", "--no-record"]);
    command
        .stdin(Stdio::null())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .env("TERM", "xterm");
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut shown = Vec::new();
    // The end of a terminal is an error.
    let _ = std::fs::File::from(ours).read_to_end(&mut shown);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let shown = String::from_utf8_lossy(&shown).replace("\r\n", "\n");
    assert!(shown.contains(" action.exec_run.a 0s\n"), "{shown:?}");
    assert!(shown.contains("\x1b[1A\r\x1b[J"), "{shown:?}");
    let green = "\x1b[32mok\x1b[0m action.exec_run.a (Nms)";
    assert!(without_chance(&shown).ends_with(&format!("\x1b[1A\r\x1b[J{green}\n")), "{shown:?}");
}
