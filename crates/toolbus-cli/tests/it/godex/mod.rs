//! `toolbus exec` and `godex+stdio:` as users and servers meet them.

mod ask;
pub(crate) mod bridges;
mod bus;
mod children;
mod files;
pub(crate) mod killed;
mod live;
mod many;
mod replay;
mod server;
mod terminal;
mod whole;
mod words;

use std::process::Command;

use crate::page;

/// The words of a command line, where `'…'` is one.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut is_quoted = false;
    for char in line.chars() {
        match char {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// The program without any credential, proxy or server of the tester's own.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = page::command(words);
    for name in [
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "CODEX_HOME",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    ] {
        command.env_remove(name);
    }
    command
}
