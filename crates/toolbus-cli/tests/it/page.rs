//! A page: one run of the program, compared whole.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::Expect;

/// Runs `toolbus` with these words, separated by blanks, and compares all that came of it.
pub(crate) fn check(words: &str, expect: Expect) {
    let words: Vec<&str> = words.split_whitespace().collect();
    Page::of(&words).check(expect);
}

pub(crate) struct Page {
    command: Command,
}

impl Page {
    pub(crate) fn of(words: &[&str]) -> Page {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolbus"));
        // Not in a folder where somebody keeps a config.
        command.args(words).stdin(Stdio::null()).current_dir(env!("CARGO_TARGET_TMPDIR"));
        // What the tester's own shell has set must not show on a page.
        for name in ["COLUMNS", "NO_COLOR", "TOOLBUS_TIMEOUT"] {
            command.env_remove(name);
        }
        Page { command }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Page {
        self.command.env(name, value);
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

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    pub(crate) fn check(self, expect: Expect) {
        expect.assert_eq(&self.run().text());
    }

    pub(crate) fn run(mut self) -> Ran {
        let output = self.command.output().expect("the program was built for this test");
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        Ran {
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            exit: output.status.code().expect("no signal ended the program"),
        }
    }
}

pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: i32,
}

impl Ran {
    /// Standard output, then standard error behind a `!`, then the exit code unless it is 0.
    fn text(&self) -> String {
        let mut text = self.stdout.clone();
        for line in self.stderr.lines() {
            text.push_str(format!("! {line}").trim_end());
            text.push('\n');
        }
        if self.exit != 0 {
            text.push_str(&format!("exit {}\n", self.exit));
        }
        text.replace('\x1b', "␛")
    }
}
