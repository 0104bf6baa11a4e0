//! Holds what a run does against a conversation that shows only what matters of it.
//!
//! What leaves must leave in the order that is shown, and have left by then. A conversation may
//! leave out header fields, in `http` also bodies, and most of standard error; there it may also
//! show several arrivals before what came of them. Everywhere else what came of an arrival
//! stands before the next one.

use std::collections::VecDeque;
use std::path::Path;

use toolbus_testkit::transcript::{self, Arrival, Player};

/// How the bytes that arrive are cut into reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Each event comes by itself.
    Nowhere,
    /// All events that stand together come in one read.
    Joined,
    /// Each byte comes by itself.
    EveryByte,
}

/// Replays a file with a new player for each conversation in it.
pub(super) fn hold<P: Player>(file: &Path, cut: &Cut, mut make_player: impl FnMut() -> P) {
    let text = transcript::read(file);
    let is_http = file.parent().is_some_and(|folder| folder.ends_with("http"));
    for conversation in text.split("\n\n") {
        let mut held = Held {
            player: make_player(),
            cut,
            is_http,
            waiting: Vec::new(),
            shown: Vec::new(),
            left: VecDeque::new(),
            told: Vec::new(),
        };
        for line in conversation.lines() {
            held.line(line, &format!("{}, {cut:?}: {line}", file.display()));
        }
        held.flush();
        held.skip();
        assert!(held.left.is_empty(), "{}, {cut:?}: also {:?}", file.display(), held.left);
    }
}

struct Held<'a, P> {
    player: P,
    cut: &'a Cut,
    is_http: bool,
    /// Bytes that come with the next read.
    waiting: Vec<u8>,
    /// What is shown to come of them, and where that stands.
    shown: Vec<(String, String)>,
    /// What left and was not shown yet.
    left: VecDeque<String>,
    /// Every line of standard error.
    told: Vec<String>,
}

impl<P: Player> Held<'_, P> {
    fn line(&mut self, line: &str, place: &str) {
        let (arrow, rest) = line.split_at_checked(3).unwrap_or((line, ""));
        match arrow.trim_end() {
            "--" => {
                self.flush();
                if rest == "connection refused" {
                    // The request was made, and never left.
                    self.left.clear();
                }
                let came = self.player.happen(rest);
                self.take(came);
            }
            "<<" => {
                if !self.is_http && *self.cut != Cut::Joined {
                    self.skip();
                    assert!(self.left.is_empty(), "{place}: before it, {:?}", self.left);
                }
                for arrival in self.player.arrival("", rest) {
                    self.arrive(arrival);
                }
            }
            ">>" | "==" if !self.waiting.is_empty() => {
                self.shown.push((line.to_owned(), place.to_owned()));
            }
            ">>" | "==" => self.expect(line, place),
            _ => {}
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Event(words) => {
                self.flush();
                let came = self.player.happen(&words);
                self.take(came);
            }
            Arrival::Bytes(bytes) if *self.cut == Cut::Joined => self.waiting.extend(bytes),
            Arrival::Bytes(bytes) => {
                let read = if *self.cut == Cut::EveryByte { 1 } else { bytes.len().max(1) };
                for piece in bytes.chunks(read) {
                    let came = self.player.bytes("", piece);
                    self.take(came);
                }
            }
        }
    }

    /// Gives what waits as one read, and then looks for what is shown to come of it.
    fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            let came = self.player.bytes("", &waiting);
            self.take(came);
        }
        for (line, place) in std::mem::take(&mut self.shown) {
            self.expect(&line, &place);
        }
    }

    fn take(&mut self, came: Vec<String>) {
        for line in came {
            match line.starts_with("== stderr ") {
                true => self.told.push(line),
                false => self.left.push_back(line),
            }
        }
    }

    fn expect(&mut self, line: &str, place: &str) {
        if let Some(told) = line.strip_prefix("== stderr has ") {
            assert!(self.told.iter().any(|known| known.contains(told)), "{place}: {:?}", self.told);
            return;
        }
        while let Some(next) = self.left.front()
            && !matches(line, next)
            && self.is_optional(next)
        {
            self.left.pop_front();
        }
        let next = self.left.pop_front();
        let is_it = next.as_deref().is_some_and(|next| matches(line, next));
        assert!(is_it, "{place}: instead {next:?}");
    }

    /// Drops what need not be shown.
    fn skip(&mut self) {
        while self.left.front().is_some_and(|next| self.is_optional(next)) {
            self.left.pop_front();
        }
    }

    fn is_optional(&self, line: &str) -> bool {
        let Some(line) = line.strip_prefix(">> ") else { return false };
        let is_header = !line.starts_with(['{', '"'])
            && line.split_once(": ").is_some_and(|(name, _)| !name.contains(' '));
        // Who asks is always shown.
        let is_header = is_header && !line.starts_with("authorization: ");
        is_header || (self.is_http && line.starts_with("{\"model\":"))
    }
}

/// Is it the line that is shown, where `<names X>` stands for any text with X in it?
fn matches(shown: &str, line: &str) -> bool {
    if let Some(members) = shown.strip_prefix("== file auth.json has ") {
        return line.strip_prefix("== file auth.json: ").is_some_and(|file| is_file(members, file));
    }
    let Some((before, rest)) = shown.split_once("<names ") else { return shown == line };
    let (name, behind) = rest.split_once('>').expect("`<names` ends");
    let between = line.strip_prefix(before).and_then(|line| line.strip_suffix(behind));
    between.is_some_and(|between| between.contains(name))
}

/// `tokens.access_token "tok2", …, the rest as before, mode 0600`: the mode is for the hands.
fn is_file(members: &str, file: &str) -> bool {
    let file: serde_json::Value = serde_json::from_str(file).expect("it is JSON");
    members.split(", ").filter_map(|member| member.split_once(" \"")).all(|(path, value)| {
        let pointer = format!("/{}", path.replace('.', "/"));
        file.pointer(&pointer).and_then(|found| found.as_str()) == value.strip_suffix('"')
    }) && file.pointer("/tokens/account_id").is_some_and(|id| id == "acct_1")
}
