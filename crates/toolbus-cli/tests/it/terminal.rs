//! `toolbus` on a terminal: all that it shows there.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use rustix::termios::{Winsize, tcsetwinsize};
use toolbus_testkit::patience::awaited;
use toolbus_testkit::terminal;

use crate::page::command;

/// What a test does meanwhile.
type Act = Box<dyn FnOnce()>;

/// A terminal and what is typed on it.
pub(crate) struct Terminal {
    columns: u16,
    typed: Vec<(&'static str, String)>,
    env: Vec<(&'static str, &'static str)>,
    done: Option<(&'static str, Act)>,
}

impl Terminal {
    pub(crate) fn of(columns: u16) -> Terminal {
        Terminal { columns, typed: Vec::new(), env: Vec::new(), done: None }
    }

    /// Types a line once this was shown.
    pub(crate) fn types(mut self, after: &'static str, line: &'static str) -> Terminal {
        self.typed.push((after, format!("{line}\n")));
        self
    }

    /// Presses keys that end no line once this was shown.
    pub(crate) fn presses(mut self, after: &'static str, keys: &str) -> Terminal {
        self.typed.push((after, keys.to_owned()));
        self
    }

    /// Does this once that was shown.
    pub(crate) fn does(mut self, after: &'static str, act: impl FnOnce() + 'static) -> Terminal {
        self.done = Some((after, Box::new(act)));
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: &'static str) -> Terminal {
        self.env.push((name, value));
        self
    }

    /// All that is shown by `toolbus` with these words.
    pub(crate) fn shown(self, words: &[&str]) -> String {
        let mut command = command(words);
        command.env("TERM", "xterm").envs(self.env.iter().copied());
        self.shows(command)
    }

    /// All that is shown by this command.
    pub(crate) fn shows(self, mut command: Command) -> String {
        let (screen, terminal) = terminal::open();
        let size = Winsize { ws_row: 24, ws_col: self.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let stdin = match self.typed.is_empty() {
            true => Stdio::null(),
            false => terminal.try_clone().unwrap().into(),
        };
        command.stdin(stdin).stdout(terminal.try_clone().unwrap()).stderr(terminal);
        let mut child = command.spawn().unwrap();
        // It holds the other end of the terminal.
        drop(command);
        let mut screen = File::from(screen);
        let (mut shown, mut bytes) = (Vec::new(), [0; 4096]);
        let (mut typed, mut looked) = (self.typed.into_iter().peekable(), 0);
        let mut done = self.done;
        // A terminal whose other end is closed says so by an error.
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            shown.extend_from_slice(&bytes[..count]);
            let text = String::from_utf8_lossy(&shown[looked..]).into_owned();
            if let Some((_, act)) = done.take_if(|(after, _)| text.contains(*after)) {
                act();
            }
            if let Some((_, keys)) = typed.next_if(|(after, _)| text.contains(after)) {
                looked = shown.len();
                screen.write_all(keys.as_bytes()).unwrap();
            }
        }
        awaited("it ends", || child.try_wait().unwrap());
        String::from_utf8(shown).unwrap().replace("\r\n", "\n")
    }
}
