//! A run of `toolbus` as a page, which is the testkit's: here is what our own program needs.
//!
//! Most pages are of a process. Those of commands that only read and print run inside the test,
//! by [`toolbus_cli::run`]: they are the same, which `inside.rs` proves, and cost a tenth.

use std::cell::RefCell;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use expect_test::Expect;
use toolbus_cli::{Input, Output};
use toolbus_testkit::page::{self, Program};
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::peer::{command_line, faulty_tool};

/// Commands that only read and print: they run inside the test, unless it gives them a folder or an
/// environment of their own.
const READERS: [&str; 5] = ["completions", "decode", "help", "log", "man"];
/// The same for those that meet peers, where `builtin:` is the only one.
const CALLERS: [&str; 3] = ["call", "describe", "tools"];
/// What asks any command only for what it is.
const QUESTIONS: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// The variable that says after how many milliseconds `-v` tells what is waited for.
pub(crate) const WAITS_TOLD_AFTER: &str = "TOOLBUS_TEST_WAITS_TOLD_AFTER";
const NEVER: &str = "86400000";

/// Runs `toolbus` with these words, separated by blanks, and compares all that came of it.
pub(crate) fn check(words: &str, expect: Expect) {
    let words: Vec<&str> = words.split_whitespace().collect();
    Page::of(&words).check(expect);
}

/// The same for words that make no sense, of any command: nothing is started, so no process is
/// needed.
pub(crate) fn check_usage(words: &str, expect: Expect) {
    let words: Vec<&str> = words.split_whitespace().collect();
    Page::of(&words).inside().check(expect);
}

/// `toolbus` with its arguments and surroundings, before it is run.
pub(crate) struct Page {
    words: Vec<String>,
    command: Command,
    stdin: Vec<u8>,
    is_inside: bool,
}

impl Page {
    pub(crate) fn of(words: &[&str]) -> Page {
        let command = command(words);
        let is_inside = needs_no_process(words);
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Page { words, command, stdin: Vec::new(), is_inside }
    }

    /// Inside the test, whatever command it is.
    pub(crate) fn inside(self) -> Page {
        Page { is_inside: true, ..self }
    }

    /// As a process, whatever command it is.
    pub(crate) fn process(self) -> Page {
        Page { is_inside: false, ..self }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Page {
        self.command.env(name, value);
        self.process()
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Page {
        self.stdin = bytes.into();
        self
    }

    /// In a folder of this name, with this `toolbus.toml` in it. No two tests share a name.
    pub(crate) fn config(self, folder: &str, text: &str) -> Page {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        fs::create_dir_all(&folder).expect("the folder for tests is ours");
        fs::write(folder.join("toolbus.toml"), text).expect("the folder for tests is ours");
        self.folder(&folder)
    }

    /// In this folder.
    pub(crate) fn folder(mut self, folder: &Path) -> Page {
        self.command.current_dir(folder);
        self.process()
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    pub(crate) fn check(self, expect: Expect) {
        let tells_all = is_verbose(&self.words);
        let page = self.run().to_string().replace('\x1b', "␛");
        // Where it was built to differs from machine to machine.
        let tool = faulty_tool().to_str().expect("cargo works in folders whose names are text");
        let page = page.replace(tool, "faulty-tool");
        expect.assert_eq(&if tells_all { with_life_apart(&page) } else { page });
    }

    pub(crate) fn run(self) -> page::Page {
        match self.is_inside {
            true => run_inside(self.words, self.stdin),
            false => Program::of(self.command).stdin(self.stdin).run(),
        }
    }
}

fn needs_no_process(words: &[&str]) -> bool {
    // It has a say in what some commands do, and cannot be taken away from a test alone.
    if env::var_os("TOOLBUS_TIMEOUT").is_some() {
        return false;
    }
    let asks = words.iter().any(|word| QUESTIONS.contains(word));
    asks || words.split_first().is_some_and(|(command, words)| {
        let is_builtin = |word: &&str| *word == "builtin:";
        READERS.contains(command) || CALLERS.contains(command) && words.iter().any(is_builtin)
    })
}

/// Calls the program. Like a process it may take no longer than the patience of all tests.
fn run_inside(words: Vec<String>, stdin: Vec<u8>) -> page::Page {
    let (tell, told) = mpsc::channel();
    let asked = words.join(" ");
    let running = thread::spawn(move || {
        let (stdout, stderr) = (Written::default(), Written::default());
        let words = ["toolbus".to_owned()].into_iter().chain(words);
        let stdin = Input::Given(Box::new(io::Cursor::new(stdin)));
        let exit = toolbus_cli::run(words, stdin, stdout.output(), stderr.output());
        let page = page::Page::of_call(&stdout.0.take(), &stderr.0.take(), exit.code());
        // A test that has given up does not hear it.
        let _ = tell.send(page);
    });
    match told.recv_timeout(PATIENCE) {
        Ok(page) => page,
        Err(RecvTimeoutError::Timeout) => panic!("did not end within {PATIENCE:?}: {asked}"),
        Err(RecvTimeoutError::Disconnected) => match running.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it ends with its page"),
        },
    }
}

/// What was written, in memory.
#[derive(Clone, Default)]
struct Written(Rc<RefCell<Vec<u8>>>);

impl Written {
    fn output(&self) -> Output {
        Output::Given(Box::new(self.clone()))
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_verbose(words: &[impl AsRef<str>]) -> bool {
    words.iter().any(|word| matches!(word.as_ref(), "-v" | "-vv" | "--verbose"))
}

/// What was said, and under it in an order of its own the lines of the log that tell of calls and
/// processes, without times and numbers: between those and what a process writes to its standard
/// error there is no order.
pub(crate) fn with_life_apart(page: &str) -> String {
    let (mut said, life) = life_apart(page);
    if !life.is_empty() {
        let exit = said.trim_end().rfind('\n').map_or(0, |at| at + 1);
        said.insert_str(exit, &format!("log\n{life}"));
    }
    said
}

/// The same as two texts.
pub(crate) fn life_apart(text: &str) -> (String, String) {
    let is_life = |line: &str| {
        let line = line.trim_end();
        line.starts_with("info: ")
            && (line.ends_with(", process ID")
                || line.ends_with(": ready")
                || line.ends_with(" in TIME")
                || line.contains(": ended with ")
                || line.ends_with(": ended, as we asked"))
    };
    let (mut said, mut life) = (String::new(), String::new());
    for line in text.lines() {
        let timeless = timeless_line(line);
        match is_life(&timeless) {
            true => life.push_str(&timeless),
            false => said.push_str(&format!("{line}\n")),
        }
    }
    (said, life)
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
    if is_verbose(words) {
        // On a machine that is busy even the start of our own program may take so long that it is
        // told what is waited for.
        command.env(WAITS_TOLD_AFTER, NEVER);
    }
    for name in ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER"] {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
        }
    }
    // What one test finds out must not be known to the others.
    command.env("XDG_CACHE_HOME", "/dev/null");
    // Nor may the tester be signed in anywhere, or have a bus that is served.
    command.env("XDG_STATE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"));
    // Nor may what one test serves do the work of another.
    command.env("XDG_RUNTIME_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/run"));
    command.env("TOOLBUS_NO_DAEMON", "1");
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
