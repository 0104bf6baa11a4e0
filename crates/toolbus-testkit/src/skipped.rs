//! Tests that cannot look, because what they look at is not on this machine. They say so in the
//! output of `cargo test`, where it is seen although they pass, and fail where `CI=true`.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::{env, thread};

/// Does this command work here? If not, the test is skipped, and says that `words[0]` is missing.
#[track_caller]
pub fn is_there(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = command.status().is_ok_and(|status| status.success());
    if !is_there {
        let why = format!("`{}` does not work here", words.join(" "));
        assert!(env::var_os("CI").is_none_or(|value| value != "true"), "cannot look: {why}");
        skipped(&why);
    }
    is_there
}

/// Says why the test that runs cannot look. For what a machine has or has not, and can not be
/// installed: this fails nowhere.
pub fn skipped(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not by `println!`, of which a test that passes shows nothing.
    let _ = writeln!(io::stderr(), "skipped: {test}: {why}");
}
