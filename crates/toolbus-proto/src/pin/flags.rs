//! What looks as if it were meant to deceive: told, never a reason to refuse.

use std::collections::{BTreeSet, HashMap};

use super::compare::{Change, How};
use super::definition::{Definition, Held, PinKind};
use super::hidden::{escaped, hidden_in};
use super::lock::{Lock, Pinned};

/// Something that a person should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Whose it is.
    pub back: String,
    /// What it is; `None` for the back itself.
    pub kind: Option<PinKind>,
    /// Its name, where it is not the back itself.
    pub name: Option<String>,
    /// `hidden`, `look_alike` or `mentions`.
    pub flag: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// A name that is shorter is a word that others use, too.
const MENTIONED_CHARS_MIN: usize = 8;

/// What is to be said of all that has been added or changed.
pub fn flags(new: &Lock, changes: &[Change]) -> Vec<Flag> {
    let lock = Searched::new(new);
    let mut flags = Vec::new();
    for change in changes {
        let Some((name, back)) = new.backs.get_key_value(change.back()) else { continue };
        match change {
            Change::Added { .. } => {
                lock.back(name, back, &mut flags);
                for kind in PinKind::ALL {
                    for definition in back.shown.of(kind).values() {
                        lock.definition(name, back, kind, definition, &mut flags);
                    }
                }
            }
            Change::Changed { what: "instructions", .. } => lock.back(name, back, &mut flags),
            Change::Entry { kind, name: of, how, .. } => {
                let of = match how {
                    How::Added | How::Changed(_) => of,
                    How::Renamed(to) => to,
                    How::Removed => continue,
                };
                if let Some(definition) = back.shown.of(*kind).get(of) {
                    lock.definition(name, back, *kind, definition, &mut flags);
                }
            }
            Change::Removed { .. } | Change::Changed { .. } | Change::Noted { .. } => {}
        }
    }
    flags
}

/// The names of all tools, as they are looked for.
struct Searched<'a> {
    /// Backs and tools of each skeleton.
    alike: HashMap<String, Vec<(&'a str, &'a str)>>,
    /// The names that may be mentioned, with the backs that have such a tool.
    mentioned: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Searched<'a> {
    fn new(lock: &'a Lock) -> Searched<'a> {
        let mut alike: HashMap<String, Vec<_>> = HashMap::new();
        let mut mentioned: HashMap<&str, Vec<_>> = HashMap::new();
        for (back, pinned) in &lock.backs {
            for tool in pinned.shown.tools.keys() {
                alike.entry(skeleton(tool)).or_default().push((back.as_str(), tool.as_str()));
                if may_be_mentioned(tool) {
                    mentioned.entry(tool).or_default().push(back.as_str());
                }
            }
        }
        Searched { alike, mentioned }
    }

    fn back(&self, name: &str, back: &Pinned, flags: &mut Vec<Flag>) {
        let Some(instructions) = &back.shown.instructions else { return };
        let held = Held::Text(instructions.clone());
        let mut say = |flag, message| {
            let back = name.to_owned();
            flags.push(Flag { back, kind: None, name: None, flag, message });
        };
        if let Some(hidden) = hidden(&held) {
            say("hidden", format!("{name}: {hidden} in instructions: {}", listed(&held)));
        }
        for (back, tool) in self.mentions(name, back, &held) {
            let message =
                format!("{name}: its instructions name {back}.{tool}, a tool of another back");
            say("mentions", message);
        }
    }

    fn definition(
        &self,
        back_name: &str,
        back: &Pinned,
        kind: PinKind,
        definition: &Definition,
        flags: &mut Vec<Flag>,
    ) {
        let shown = match kind {
            PinKind::Tool => format!("{back_name}.{}", escaped(&definition.name)),
            PinKind::Prompt | PinKind::Template => {
                format!("{back_name} {} {}", kind.as_str(), escaped(&definition.name))
            }
        };
        let mut say = |flag, message| {
            flags.push(Flag {
                back: back_name.to_owned(),
                kind: Some(kind),
                name: Some(definition.name.clone()),
                flag,
                message,
            });
        };
        let own_name = Held::Text(definition.name.clone());
        for (key, held) in std::iter::once(("name", &own_name)).chain(definition.members()) {
            if let Some(hidden) = hidden(held) {
                say("hidden", format!("{shown}: {hidden} in {key}: {}", listed(held)));
            }
        }
        if kind == PinKind::Tool {
            let alike = self.alike.get(&skeleton(&definition.name)).into_iter().flatten();
            for (other, tool) in alike {
                if *other != back_name && *tool != definition.name {
                    say("look_alike", format!("{shown} looks like {other}.{}", escaped(tool)));
                }
            }
        }
        for (key, held) in definition.members() {
            for (other, tool) in self.mentions(back_name, back, held) {
                let verb = if key.ends_with('s') { "name" } else { "names" };
                let message =
                    format!("{shown}: its {key} {verb} {other}.{tool}, a tool of another back");
                say("mentions", message);
            }
        }
    }

    /// The tools of other backs that a text names, which its own back does not have.
    fn mentions(&self, name: &str, back: &Pinned, held: &Held) -> BTreeSet<(&'a str, &'a str)> {
        let mut found = BTreeSet::new();
        held.each_text(&mut |text| {
            for is_inside in [is_of_word as fn(char) -> bool, is_of_path] {
                for word in text.split(|c| !is_inside(c)) {
                    let word = word.trim_matches(['.', '/', ':']);
                    let Some((tool, backs)) = self.mentioned.get_key_value(word) else { continue };
                    let other = backs.iter().find(|other| **other != name);
                    if let Some(other) = other.filter(|_| !back.shown.tools.contains_key(word)) {
                        found.insert((*other, *tool));
                    }
                }
            }
        });
        found
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

fn is_of_path(c: char) -> bool {
    is_of_word(c) || matches!(c, '.' | '/' | ':')
}

fn may_be_mentioned(tool: &str) -> bool {
    let has_hump = || {
        tool.as_bytes().windows(2).any(|two| {
            (two[0].is_ascii_lowercase() || two[0].is_ascii_digit()) && two[1].is_ascii_uppercase()
        })
    };
    MENTIONED_CHARS_MIN <= tool.chars().count() && (tool.contains(['_', '-']) || has_hump())
}

/// `2 hidden characters`, if there are any.
fn hidden(held: &Held) -> Option<String> {
    let mut count = 0;
    held.each_text(&mut |text| count += hidden_in(text).len());
    match count {
        0 => None,
        1 => Some("1 hidden character".to_owned()),
        count => Some(format!("{count} hidden characters")),
    }
}

/// Each hidden character once, in the order they stand in: `U+200B, U+202E`.
fn listed(held: &Held) -> String {
    let mut found: Vec<char> = Vec::new();
    held.each_text(&mut |text| {
        for c in hidden_in(text) {
            if !found.contains(&c) {
                found.push(c);
            }
        }
    });
    found.iter().map(|c| format!("U+{:04X}", u32::from(*c))).collect::<Vec<_>>().join(", ")
}

/// What is left of a name when all is taken for one that the eye takes for one.
fn skeleton(name: &str) -> String {
    let plain = name.chars().flat_map(|c| {
        let ascii = match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            _ => c,
        };
        ascii.to_lowercase()
    });
    let plain = plain.filter(|c| !matches!(c, '_' | '-' | '.')).map(|c| {
        let latin = LOOK_ALIKE.iter().find(|(foreign, _)| *foreign == c);
        match latin.map_or(c, |(_, latin)| *latin) {
            '0' => 'o',
            '1' | 'i' => 'l',
            c => c,
        }
    });
    plain.collect::<String>().replace("rn", "m").replace("vv", "w")
}

/// Cyrillic, then Greek.
const LOOK_ALIKE: &[(char, char)] = &[
    ('а', 'a'),
    ('е', 'e'),
    ('о', 'o'),
    ('р', 'p'),
    ('с', 'c'),
    ('у', 'y'),
    ('х', 'x'),
    ('і', 'i'),
    ('ј', 'j'),
    ('ѕ', 's'),
    ('һ', 'h'),
    ('к', 'k'),
    ('м', 'm'),
    ('т', 't'),
    ('в', 'b'),
    ('н', 'h'),
    ('ԁ', 'd'),
    ('ӏ', 'l'),
    ('α', 'a'),
    ('ε', 'e'),
    ('ο', 'o'),
    ('ρ', 'p'),
    ('ν', 'v'),
    ('υ', 'u'),
    ('κ', 'k'),
    ('τ', 't'),
    ('ι', 'i'),
    ('χ', 'x'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_have_one_skeleton() {
        for (one, other) in [
            ("send_emall", "send_email"),
            ("sendEmail", "send-email"),
            ("SEND.EMAIL", "send_email"),
            ("s\u{0435}nd_email", "send_email"),
            ("ｓend_email", "send_email"),
            ("send_ernail", "send_email"),
            ("vvrite", "write"),
            ("g0ogle", "goog1e"),
        ] {
            assert_eq!(skeleton(one), skeleton(other), "{one} {other}");
        }
        assert_ne!(skeleton("send_mail"), skeleton("send_email"));
    }
}
