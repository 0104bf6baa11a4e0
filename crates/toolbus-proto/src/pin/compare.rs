//! What has changed between two locks: the one that was approved, and what is shown now.

use std::collections::BTreeSet;

use super::definition::{Definition, KEYS, PinKind};
use super::lock::{Lock, Pinned};

/// How many tools, prompts and templates there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts(pub [usize; 3]);

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A back is new.
    Added {
        /// Its name.
        back: String,
        /// What it has.
        counts: Counts,
    },
    /// A back is gone.
    Removed {
        /// Its name.
        back: String,
    },
    /// Something of the back itself has changed: `connect`, `wire` or `instructions`.
    Changed {
        /// Its name.
        back: String,
        /// What.
        what: &'static str,
    },
    /// Something differs that does no harm.
    Noted {
        /// Its name.
        back: String,
        /// The key in the file.
        key: &'static str,
        /// What the file has.
        old: Option<String>,
        /// What there is now.
        new: Option<String>,
    },
    /// A tool, prompt or template.
    Entry {
        /// Whose it is.
        back: String,
        /// What it is.
        kind: PinKind,
        /// Its name; of a renamed one the old one.
        name: String,
        /// How it differs.
        how: How,
    },
}

/// How a tool, prompt or template differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It says something else; the keys of the file that differ, in their order.
    Changed(Vec<&'static str>),
    /// It has another name, and says the same.
    Renamed(String),
}

impl Change {
    /// Whose it is.
    pub fn back(&self) -> &str {
        match self {
            Change::Added { back, .. }
            | Change::Removed { back }
            | Change::Changed { back, .. }
            | Change::Noted { back, .. }
            | Change::Entry { back, .. } => back,
        }
    }
}

impl Pinned {
    /// How much there is of each kind.
    pub fn counts(&self) -> Counts {
        Counts(PinKind::ALL.map(|kind| self.shown.of(kind).len()))
    }
}

/// What differs, by back; of each what is its own first, then tools, prompts and templates by
/// name.
pub fn changes(old: &Lock, new: &Lock) -> Vec<Change> {
    let names: BTreeSet<&String> = old.backs.keys().chain(new.backs.keys()).collect();
    let mut changes = Vec::new();
    for name in names {
        match (old.backs.get(name), new.backs.get(name)) {
            (None, Some(new)) => {
                changes.push(Change::Added { back: name.clone(), counts: new.counts() });
            }
            (Some(_), None) => changes.push(Change::Removed { back: name.clone() }),
            (Some(old), Some(new)) => back(name, old, new, &mut changes),
            (None, None) => {}
        }
    }
    changes
}

fn back(name: &str, old: &Pinned, new: &Pinned, changes: &mut Vec<Change>) {
    let has_other_instructions = old.shown.instructions != new.shown.instructions
        || old.legacy_instructions() != new.legacy_instructions();
    for (what, is_changed) in [
        ("connect", old.connect != new.connect),
        ("wire", old.wire != new.wire),
        ("instructions", has_other_instructions),
    ] {
        if is_changed {
            changes.push(Change::Changed { back: name.to_owned(), what });
        }
    }
    for ((key, old), (_, new)) in old.noted.entries().into_iter().zip(new.noted.entries()) {
        if old != new {
            let (old, new) = (old.map(str::to_owned), new.map(str::to_owned));
            changes.push(Change::Noted { back: name.to_owned(), key, old, new });
        }
    }
    for kind in PinKind::ALL {
        entries(name, kind, old, new, changes);
    }
}

fn entries(back: &str, kind: PinKind, old: &Pinned, new: &Pinned, changes: &mut Vec<Change>) {
    let (was, is) = (old.shown.of(kind), new.shown.of(kind));
    let gone: Vec<_> = was.values().filter(|one| !is.contains_key(&one.name)).collect();
    let mut came: Vec<_> = is.values().filter(|one| !was.contains_key(&one.name)).collect();
    let mut found: Vec<(String, How)> = Vec::new();
    for gone in gone {
        let renamed = came.iter().position(|came| came.is_renamed(gone));
        found.push(match renamed.map(|at| came.remove(at)) {
            Some(came) => (gone.name.clone(), How::Renamed(came.name.clone())),
            None => (gone.name.clone(), How::Removed),
        });
    }
    found.extend(came.into_iter().map(|came| (came.name.clone(), How::Added)));
    for (name, now) in is {
        let Some(before) = was.get(name) else { continue };
        let keys = differing(old, before, new, now, kind);
        if let Some(keys) = keys {
            found.push((name.clone(), How::Changed(keys)));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
    let entry = |(name, how)| Change::Entry { back: back.to_owned(), kind, name, how };
    changes.extend(found.into_iter().map(entry));
}

/// The keys at which a definition differs, also as legacy callers are shown it; `None` if it does
/// not.
fn differing(
    old: &Pinned,
    before: &Definition,
    new: &Pinned,
    now: &Definition,
    kind: PinKind,
) -> Option<Vec<&'static str>> {
    let legacy = [old, new].map(|back| back.legacy_definition(kind, &now.name));
    let is_same = |one: &Definition, other: &Definition| one.digest == other.digest;
    let is_same_legacy = match legacy {
        [Some(before), Some(now)] => is_same(before, now),
        [before, now] => before.is_some() == now.is_some(),
    };
    if is_same(before, now) && is_same_legacy {
        return None;
    }
    let mut keys = before.differing(now);
    if let [Some(before), Some(now)] = legacy {
        keys.extend(before.differing(now));
    }
    let order = KEYS.iter().map(|(key, _)| *key);
    Some(order.filter(|key| keys.contains(key)).collect())
}
