//! What came of comparing a back with the lock.

use std::collections::BTreeMap;

use toolbus_proto::pin::{Definition, PinKind, Pinned, Visible};

/// How something stands to the lock, where it is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stand {
    /// It says something else; the keys of the file that differ.
    Changed(Vec<&'static str>),
    /// The lock does not have it.
    New,
    /// The back does not have it any more.
    Gone,
}

/// What came of the last comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// All that is not the same.
    stands: BTreeMap<(PinKind, String), Stand>,
    /// The instructions say something else.
    pub(super) has_other_instructions: bool,
    /// What the back shows now, of what is not the same.
    now: BTreeMap<(PinKind, String), Definition>,
    /// Its instructions now.
    pub(super) instructions: Option<String>,
}

impl Verdict {
    /// Compares what is shown now, to a legacy caller or to another; of instructions only if those
    /// are known.
    pub(super) fn of(
        pinned: &Pinned,
        now: Visible,
        is_legacy: bool,
        are_instructions_known: bool,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        if are_instructions_known {
            let before = match is_legacy {
                true => pinned.legacy_instructions(),
                false => pinned.shown.instructions.as_deref(),
            };
            verdict.has_other_instructions = before != now.instructions.as_deref();
            verdict.instructions.clone_from(&now.instructions);
        }
        for kind in PinKind::ALL {
            for (name, known) in pinned.shown.of(kind) {
                let known = match is_legacy {
                    true => pinned.legacy_definition(kind, name).unwrap_or(known),
                    false => known,
                };
                let stand = match now.of(kind).get(name) {
                    None => Stand::Gone,
                    Some(now) if now.digest == known.digest => continue,
                    Some(now) => Stand::Changed(known.differing(now)),
                };
                verdict.stands.insert((kind, name.clone()), stand);
            }
            for name in
                now.of(kind).keys().filter(|name| !pinned.shown.of(kind).contains_key(*name))
            {
                verdict.stands.insert((kind, name.clone()), Stand::New);
            }
            for (name, definition) in now.of(kind) {
                let key = (kind, name.clone());
                if verdict.stands.contains_key(&key) {
                    verdict.now.insert(key, definition.clone());
                }
            }
        }
        verdict
    }

    /// What is not the same by this verdict or by the other one.
    pub(super) fn with(&self, other: &Verdict) -> Verdict {
        let mut both = other.clone();
        both.stands.extend(self.stands.clone());
        both.now.extend(self.now.clone());
        both.has_other_instructions |= self.has_other_instructions;
        both.instructions = self.instructions.clone().or(both.instructions);
        both
    }

    /// How this one stands to the lock, if it is not the same.
    pub(super) fn stand(&self, kind: PinKind, name: &str) -> Option<&Stand> {
        self.stands.get(&(kind, name.to_owned()))
    }

    /// What it says now, if that is not the same.
    pub(super) fn now(&self, kind: PinKind, name: &str) -> Option<&Definition> {
        self.now.get(&(kind, name.to_owned()))
    }

    /// All that is not the same, of a kind, with its name.
    pub(super) fn of_kind(&self, kind: PinKind) -> impl Iterator<Item = (&str, &Stand)> {
        let of_kind = self.stands.iter().filter(move |((of, _), _)| *of == kind);
        of_kind.map(|((_, name), stand)| (name.as_str(), stand))
    }

    /// All that is not the same.
    pub(super) fn all(&self) -> impl Iterator<Item = (PinKind, &str, &Stand)> {
        self.stands.iter().map(|((kind, name), stand)| (*kind, name.as_str(), stand))
    }

    /// Names with what differs of each, for people: at most twenty.
    pub(super) fn listed(&self, is_meant: impl Fn(&Stand) -> bool) -> Option<String> {
        let shown = |(_, name, stand): (PinKind, &str, &Stand)| {
            let name = toolbus_proto::pin::escaped(name);
            match stand {
                Stand::Changed(keys) => format!("{name} ({})", keys.join(", ")),
                Stand::New | Stand::Gone => name,
            }
        };
        let meant: Vec<_> = self.all().filter(|(.., stand)| is_meant(stand)).map(shown).collect();
        match meant.len() {
            0 => None,
            count if NAMES_MAX < count => {
                let rest = count - NAMES_MAX;
                Some(format!("{} and {rest} more", meant[..NAMES_MAX].join(", ")))
            }
            _ => Some(meant.join(", ")),
        }
    }

    /// How many tools are not the same.
    pub(super) fn tools(&self) -> usize {
        self.of_kind(PinKind::Tool).count()
    }
}

/// How many names are told at once.
const NAMES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use toolbus_proto::json::Json;

    use super::*;
    use crate::peer::Registry;

    /// A definition with every member that some wire has.
    const WHOLE: &str = r#"{"name":"a","title":"t","description":"d","signature":"a() -> u8","inputSchema":{"i":["j"]},"outputSchema":{"o":1},"input":{"i":["j"]},"output":{"o":1},"attrs":{"k":{"l":"m"}},"outputs":{"n":"p"},"annotations":{"q":true},"hints":{"r":false},"_meta":{"s":"t"}}"#;

    /// While toolbus runs, too, one character is enough in the words of every wire.
    #[test]
    fn one_character_is_a_change() {
        let mut kinds = 0;
        for kind in Registry::default().kinds() {
            let Some(pins) = kind.pins() else { continue };
            kinds += 1;
            let layouts = pins.layouts();
            let read = |text: &str| Definition::read(&layouts.tool, text, &|_| None);
            let visible = |text: &str| {
                let definition = read(text)?;
                let mut shown = Visible::default();
                shown.tools.insert(definition.name.clone(), definition);
                Some(shown)
            };
            let pinned = Pinned { shown: visible(WHOLE).unwrap(), ..Pinned::default() };
            let same = Verdict::of(&pinned, pinned.shown.clone(), false, true);
            assert_eq!(same.tools(), 0);
            for (at, c) in WHOLE.char_indices().filter(|(_, c)| c.is_alphanumeric()) {
                let other = if c == '1' { '2' } else { 'z' };
                let text = format!("{}{other}{}", &WHOLE[..at], &WHOLE[at + 1..]);
                if Json::parse(text.clone()).is_err() {
                    continue;
                }
                let Some(now) = visible(&text) else { continue };
                let verdict = Verdict::of(&pinned, now, false, true);
                match verdict.stand(PinKind::Tool, "a") {
                    Some(Stand::Changed(keys)) => assert!(!keys.is_empty(), "{text}"),
                    Some(Stand::Gone) => assert_eq!(verdict.tools(), 2, "{text}"),
                    stand => panic!("{text}: {stand:?}"),
                }
            }
        }
        // Those of the wires that every build with a bus has by default.
        assert!(5 <= kinds, "{kinds}");
    }
}
