//! One replay: the happenings are fed, what comes of them is written anew.

use super::{Arrival, Player, Words, unescape};

/// Replays `text`; gives it with what came out in place of what it says should come out.
pub(super) fn replay<P: Player>(
    name: &str,
    text: &str,
    mut make_player: impl FnMut() -> P,
) -> String {
    let mut found = String::new();
    let mut player = make_player();
    for step in steps(text) {
        let _telling = TellWhere { name, step: &step };
        if matches!(step.cause, Cause::Begin) {
            player = make_player();
        }
        let came = play(&mut player, &step.cause, &mut |bytes| vec![bytes.to_vec()]);
        step.write(&mut found, &counted(&came));
    }
    found
}

/// Feeds one cause, its bytes in the pieces that `cut` makes of them.
pub(super) fn play<P: Player>(
    player: &mut P,
    cause: &Cause<'_>,
    cut: &mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>,
) -> Vec<String> {
    let (wire, arrivals) = match *cause {
        Cause::Nothing | Cause::Begin => return Vec::new(),
        Cause::Arrives(wire, text) => (wire, player.arrival(wire, text)),
        Cause::Happens(words) => {
            let bytes = bytes_of(player, words);
            let event = || Arrival::Event(words.to_owned());
            ("", vec![bytes.map_or_else(event, Arrival::Bytes)])
        }
    };
    let mut came = Vec::new();
    for arrival in arrivals {
        match arrival {
            Arrival::Event(words) => came.extend(player.happen(&words)),
            Arrival::Bytes(bytes) => {
                for piece in cut(&bytes) {
                    came.extend(player.bytes(wire, &piece));
                }
            }
        }
    }
    came
}

/// The bytes of a happening that is nothing but bytes.
fn bytes_of(player: &impl Player, words: &str) -> Option<Vec<u8>> {
    let mut words = Words::new(words);
    if words.is("bytes") {
        return Some(unescape(words.rest()));
    }
    if !words.is("lines") {
        return None;
    }
    let count = words.word()?.parse().ok()?;
    match &player.arrival("", words.rest())[..] {
        [Arrival::Bytes(line)] => Some(line.repeat(count)),
        _ => None,
    }
}

/// Writes the same `==` line several times in a row as one, with how often behind it.
pub(super) fn counted(lines: &[String]) -> Vec<String> {
    let mut counted = Vec::new();
    for same in lines.chunk_by(|a, b| a == b && a.starts_with("==")) {
        match same {
            [line] => counted.push(line.clone()),
            [line, ..] => counted.push(format!("{line} {} times", same.len())),
            [] => {}
        }
    }
    counted
}

/// A cause with the lines behind it.
#[derive(Debug)]
pub(super) struct Step<'a> {
    number: usize,
    /// The line of the cause; none where a text begins with remarks.
    line: Option<&'a str>,
    pub(super) cause: Cause<'a>,
    /// What should come of it, and remarks between.
    behind: Vec<&'a str>,
}

/// What makes the machine move.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cause<'a> {
    /// Nothing: only remarks stand here.
    Nothing,
    /// A new conversation begins.
    Begin,
    /// Words behind `--`.
    Happens(&'a str),
    /// The wire, and the text behind `<<`.
    Arrives(&'a str, &'a str),
}

pub(super) fn steps(text: &str) -> Vec<Step<'_>> {
    let mut steps = vec![Step { number: 1, line: None, cause: Cause::Nothing, behind: Vec::new() }];
    // Not `lines`: a carriage return at the end of a line is a byte like any other.
    for (index, line) in text.split_terminator('\n').enumerate() {
        let cause = match line.get(..2) {
            None if line.is_empty() => Cause::Begin,
            Some("--") => Cause::Happens(line[2..].trim_start_matches(' ')),
            Some("<<") => {
                let (wire, text) = wire_and_text(&line[2..]);
                Cause::Arrives(wire, text)
            }
            _ => {
                steps.last_mut().expect("there is always one").behind.push(line);
                continue;
            }
        };
        steps.push(Step { number: index + 1, line: Some(line), cause, behind: Vec::new() });
    }
    steps
}

/// Splits what stands behind an arrow: `c TEXT`, ` [hub 4] TEXT` or ` TEXT`.
fn wire_and_text(behind: &str) -> (&str, &str) {
    let (wire, text) = behind.split_once(' ').unwrap_or((behind, ""));
    let named = text.strip_prefix('[').and_then(|named| named.split_once("] "));
    match named {
        // A JSON array is no name: it begins with a value.
        Some((name, rest)) if name.starts_with(|first: char| first.is_ascii_lowercase()) => {
            (name, rest)
        }
        _ => (wire, text),
    }
}

impl Step<'_> {
    /// The lines that should come of it.
    #[cfg(test)]
    pub(super) fn expected(&self) -> Vec<String> {
        let expected = self.behind.iter().filter(|line| is_outcome(line));
        expected.map(|line| (*line).to_owned()).collect()
    }

    /// Writes the step with what came of it. A line that came as expected is written as it
    /// was expected, so that `…` stays.
    pub(super) fn write(&self, out: &mut String, came: &[String]) {
        let mut came = came.iter().map(String::as_str);
        let mut lines: Vec<&str> = self.line.into_iter().collect();
        for &expected in &self.behind {
            if !is_outcome(expected) {
                lines.push(expected);
            } else if let Some(found) = came.next() {
                lines.push(if matches(expected, found) { expected } else { found });
            }
        }
        lines.extend(came);
        for line in lines {
            out.push_str(line);
            out.push('\n');
        }
    }
}

fn is_outcome(line: &str) -> bool {
    line.starts_with(">>") || line.starts_with("==")
}

/// Is `found` what `expected` says, where `…` stands for any text?
fn matches(expected: &str, found: &str) -> bool {
    let expected = expected.replace(" …", "…").replace("… ", "…");
    let mut pieces = expected.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = found.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Says which line was being replayed if that panics.
pub(super) struct TellWhere<'a> {
    pub(super) name: &'a str,
    pub(super) step: &'a Step<'a>,
}

impl Drop for TellWhere<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Step { number, line, .. } = self.step;
            eprintln!("in {}, line {number}: {}", self.name, line.unwrap_or_default());
        }
    }
}
