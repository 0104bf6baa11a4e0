//! A run of `toolbus` as a page, which is the testkit's: here is what our own program needs.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use expect_test::Expect;
use toolbus_testkit::page::{self, Program};
use toolbus_testkit::peer::{command_line, faulty_tool};

/// Runs `toolbus` with these words, separated by blanks, and compares all that came of it.
pub(crate) fn check(words: &str, expect: Expect) {
    let words: Vec<&str> = words.split_whitespace().collect();
    Page::of(&words).check(expect);
}

/// `toolbus` with its arguments and surroundings, before it is run.
pub(crate) struct Page {
    command: Command,
    stdin: Vec<u8>,
}

impl Page {
    pub(crate) fn of(words: &[&str]) -> Page {
        Page { command: command(words), stdin: Vec::new() }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Page {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Page {
        self.stdin = bytes.into();
        self
    }

    /// In a folder of this name, with this `toolbus.toml` in it. No two tests share a name.
    pub(crate) fn config(mut self, folder: &str, text: &str) -> Page {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        fs::create_dir_all(&folder).expect("the folder for tests is ours");
        fs::write(folder.join("toolbus.toml"), text).expect("the folder for tests is ours");
        self.command.current_dir(folder);
        self
    }

    /// In this folder.
    pub(crate) fn folder(mut self, folder: &Path) -> Page {
        self.command.current_dir(folder);
        self
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    pub(crate) fn check(self, expect: Expect) {
        let page = self.run().to_string().replace('\x1b', "␛");
        // Where it was built to differs from machine to machine.
        let tool = faulty_tool().to_str().expect("cargo works in folders whose names are text");
        let page = page.replace(tool, "faulty-tool");
        expect.assert_eq(&quiet(&page));
    }

    pub(crate) fn run(self) -> page::Page {
        Program::of(self.command).stdin(self.stdin).run()
    }
}

/// What was said, without the lines of the log that tell of calls and processes: between those and
/// what a process writes to standard error there is no order, and some depend on how fast it is.
pub(crate) fn quiet(page: &str) -> String {
    let is_life = |line: &&str| {
        let line = timeless_line(line);
        let line = line.trim_end();
        // On a machine that is busy even the start of our own program may take so long.
        let is_slow = line.starts_with("warning: waiting for ");
        is_slow
            || line.starts_with("info: ")
                && (line.ends_with(", process ID")
                    || line.ends_with(": ready")
                    || line.ends_with(" in TIME")
                    || line.contains(": ended with ")
                    || line.ends_with(": ended, as we asked"))
    };
    page.lines().filter(|line| !is_life(line)).map(|line| format!("{line}\n")).collect()
}

/// What was said, without what differs from run to run: in the log, how long a call took and the
/// number of a process.
pub(crate) fn timeless(page: &str) -> String {
    page.lines().map(timeless_line).collect()
}

fn timeless_line(line: &str) -> String {
    let cut = |line: &str, before: &str, stands_for: &str| match line.rsplit_once(before) {
        Some((rest, end)) if end.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{rest}{before}{stands_for}")
        }
        _ => line.to_owned(),
    };
    match line.starts_with("info: ") {
        true => cut(&cut(line, " in ", "TIME"), ", process ", "ID") + "\n",
        false => format!("{line}\n"),
    }
}

/// The program before anything is said of its pipes.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolbus"));
    // Not in a folder where the user keeps a config.
    command.args(words).current_dir(env!("CARGO_TARGET_TMPDIR"));
    // What the tester's own shell has set must not show on a page.
    command.env_clear();
    for name in ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER"] {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
        }
    }
    // What one test finds out must not be known to the others.
    command.env("XDG_CACHE_HOME", "/dev/null");
    command
}

/// The address of an oracle that does these steps.
pub(crate) fn oracle(steps: &[&str]) -> String {
    format!("stdio:{}", command_line(steps))
}

/// The address of an MCP server that does these steps.
pub(crate) fn mcp_server(steps: &[&str]) -> String {
    format!("mcp+stdio:{}", command_line(steps))
}

/// The address of an oracle of ours that serves these.
pub(crate) fn ourselves(words: &[&str]) -> String {
    format!("stdio:{}", our_command(&[&["oracle", "serve"], words].concat()))
}

/// The address of an MCP server of ours that serves these.
pub(crate) fn mcp_ourselves(words: &[&str]) -> String {
    format!("mcp+stdio:{}", our_command(&[&["mcp"], words].concat()))
}

/// A command line of ours, to stand in an address.
pub(crate) fn our_command(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    let quoted: Vec<_> = quoted.collect();
    format!("{} {}", env!("CARGO_BIN_EXE_toolbus"), quoted.join(" "))
}
