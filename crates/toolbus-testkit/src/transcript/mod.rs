//! Conversations as text: replayed against a machine, they must come out the same.
//!
//! ```text
//! -- something happens on our side        << a line arrives
//! == what our side learns                 >> a line leaves
//! ```
//!
//! Replaying feeds the `--` and `<<` lines to a [`Player`] and writes the others anew. `…` in
//! a `>>` or `==` line stands for any text. An arrow may name its wire, `<<c` or `<< [hub 4]`.
//! Three happenings mean the same everywhere: `bytes X` (these bytes arrive and no more, see
//! [`unescape`]), `lines N X` (the line X arrives N times), and for a [`Clock`] `wait S`. The
//! same `==` line several times in a row is written once, with `N times` behind it. A blank
//! line begins a new conversation with a new player; any other line is a remark.

mod clock;
mod diff;
mod escapes;
mod replay;
mod sweep;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::Expect;

pub use clock::Clock;
pub use escapes::{escape, unescape};
pub use sweep::sweep;
pub use words::Words;

/// Our side of a conversation: a machine, and how what it does is written down.
///
/// Each method gives the `>>` and `==` lines that came of it, arrows included, in order.
pub trait Player {
    /// Something happened: the words behind `--`.
    fn happen(&mut self, words: &str) -> Vec<String>;

    /// Bytes arrived on `wire`, which has no name where there is only one. A conversation
    /// that is swept gives the bytes of one line in several calls.
    fn bytes(&mut self, wire: &str, bytes: &[u8]) -> Vec<String>;

    /// What the text behind `<<` stands for: that line with its newline, unless a wire has
    /// no lines or more than bytes can arrive on it.
    fn arrival(&self, wire: &str, text: &str) -> Vec<Arrival> {
        let _ = wire;
        vec![Arrival::Bytes(format!("{text}\n").into_bytes())]
    }
}

impl<P: Player + ?Sized> Player for Box<P> {
    fn happen(&mut self, words: &str) -> Vec<String> {
        (**self).happen(words)
    }

    fn bytes(&mut self, wire: &str, bytes: &[u8]) -> Vec<String> {
        (**self).bytes(wire, bytes)
    }

    fn arrival(&self, wire: &str, text: &str) -> Vec<Arrival> {
        (**self).arrival(wire, text)
    }
}

/// What arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes, for [`Player::bytes`].
    Bytes(Vec<u8>),
    /// Something that is no bytes, such as their end, in words for [`Player::happen`].
    Event(String),
}

/// Replays the conversation in `expect`; `UPDATE_EXPECT=1` writes down what came out.
#[expect(clippy::needless_pass_by_value, reason = "taken as `expect!` gives it")]
pub fn check<P: Player>(make_player: impl FnMut() -> P, expect: Expect) {
    let expected = dedent(expect.data());
    let found = replay::replay("the conversation", &expected, make_player);
    expect.assert_eq(&found);
}

/// Replays the conversation in a file, its path counted from the root of the workspace.
pub fn check_file<P: Player>(path: impl AsRef<Path>, make_player: impl FnMut() -> P) {
    let differs = differs(path.as_ref(), make_player);
    assert!(differs.is_none(), "{}", differs.unwrap_or_default());
}

/// Replays every conversation (`*.txt`) in a folder and the folders in it.
///
/// The player may depend on the file; its path is given as counted from the root.
pub fn check_folder<P: Player>(folder: impl AsRef<Path>, mut make_player: impl FnMut(&Path) -> P) {
    let files = files(folder.as_ref());
    let differing: Vec<_> =
        files.iter().filter_map(|file| differs(file, || make_player(file))).collect();
    assert!(
        differing.is_empty(),
        "{}\n{} of {} conversations differ",
        differing.join("\n"),
        differing.len(),
        files.len(),
    );
}

/// The text of a conversation in a file, its path counted from the root of the workspace.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The conversations (`*.txt`) in a folder and the folders in it, sorted, counted from the
/// root of the workspace. There must be some: a test of none would always go well.
pub fn files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.as_ref().to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root().join(&folder))
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
        for entry in entries {
            let entry = entry.expect("an entry of a folder that was just opened");
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "txt") {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty(), "no conversations in {}", folder.as_ref().display());
    files.sort();
    files
}

/// How the replay of a file differs from it, for people.
fn differs<P: Player>(path: &Path, make_player: impl FnMut() -> P) -> Option<String> {
    let expected = read(path);
    let found = replay::replay(&path.display().to_string(), &expected, make_player);
    if found == expected {
        return None;
    }
    if is_updating() {
        fs::write(root().join(path), &found).expect("a conversation can be written again");
        return None;
    }
    Some(format!("{}:\n{}", path.display(), diff::diff(&expected, &found)))
}

fn is_updating() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}

fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root.pop();
    root
}

/// The text of an `expect!` without the indentation of the code around it.
fn dedent(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let depth = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let lines = || text.split_inclusive('\n');
    let shared = lines().filter(|line| !line.trim().is_empty()).map(depth).min();
    let shared = shared.unwrap_or(0);
    lines().map(|line| line.get(shared..).unwrap_or_else(|| line.trim_start_matches(' '))).collect()
}

#[cfg(test)]
mod tests;
