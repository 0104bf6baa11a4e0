//! `toolbus call` of a plugin that it starts itself, and what is left when it is killed meanwhile.

use std::fs;
use std::process::Stdio;

use expect_test::expect;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::scratch::Scratch;

use crate::page::{Page, command};

fn plugin() -> String {
    format!("orchestra+plugin:{} plugin builtin:", env!("CARGO_BIN_EXE_toolbus"))
}

#[test]
fn text_is_the_string_text_or_else_the_whole_line() {
    Page::of(&["call", "--text", &plugin(), "upper", "text=hi"]).check(expect![[r#"
        stdout
        HI
        exit 0
    "#]]);
    Page::of(&["call", "--text", &plugin(), "echo", r#"{"text":1,"a":"b"}"#]).check(expect![[r#"
        stdout
        {"a":"b","text":1}
        exit 0
    "#]]);
}

/// The folder with the key of a CA is the guard's to remove.
#[test]
fn killed_it_leaves_no_key_among_temporary_files() {
    let temporary = Scratch::new();
    let ours = || {
        let entries = fs::read_dir(temporary.path()).expect("is there").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("toolbus-scratch-")).collect::<Vec<_>>()
    };
    let mut command = command(&["call", &plugin(), "sleep", "ms=600000"]);
    command.env("TMPDIR", temporary.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().expect("was built for this test");
    let has_key = |folder: &String| {
        let inside = fs::read_dir(temporary.path().join(folder)).into_iter().flatten().flatten();
        { inside }.any(|certificates| certificates.path().join("ca.key").exists())
    };
    eventually("a key is made", || ours().iter().any(has_key));
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    eventually("nothing is left", || ours().is_empty());
}
