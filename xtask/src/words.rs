//! One word, one meaning: how often a name is given to a type.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::tokens::{Token, tokens};
use crate::walls::{Breach, read, rust_files};

const CRATES: [&str; 6] = [
    "toolbus-proto",
    "toolbus-engine",
    "toolbus",
    "toolbus-check",
    "toolbus-orchard",
    "toolbus-cli",
];

/// So many types may have one name.
const TYPES_MAX: usize = 4;

/// What each wire has one of.
const USUAL: [&str; 3] = ["Client", "Server", "Settings"];

/// Names that are given more often, and how often at most: these numbers may only go down.
const TOO_OFTEN: &[(&str, usize)] = &[
    ("Answer", 7),
    ("Asked", 10),
    ("Asking", 9),
    ("Author", 5),
    ("Check", 6),
    ("DecodeArgs", 6),
    ("Entry", 8),
    ("Event", 8),
    ("Face", 7),
    ("Fault", 5),
    ("Form", 6),
    ("Given", 5),
    ("Heard", 10),
    ("InFlight", 6),
    ("Inner", 7),
    ("Input", 5),
    ("Kept", 7),
    ("Key", 7),
    ("Kind", 9),
    ("Known", 5),
    ("Line", 8),
    ("Member", 5),
    ("Options", 13),
    ("Order", 5),
    ("Origin", 5),
    ("Place", 9),
    ("Purpose", 7),
    ("Reader", 10),
    ("Reading", 8),
    ("Refusal", 6),
    ("Reply", 5),
    ("Request", 9),
    ("Run", 6),
    ("Running", 8),
    ("Session", 7),
    ("Source", 8),
    ("Started", 5),
    ("State", 7),
    ("Step", 6),
    ("Stream", 6),
    ("Subject", 8),
    ("Target", 5),
];

pub(crate) fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for name in CRATES {
        for file in rust_files(&root.join("crates").join(name).join("src"))? {
            let source = read(&file)?;
            for name in type_names(&tokens(&source)) {
                *types.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    Ok(types.iter().filter_map(|(name, &count)| breach(name, count)).collect())
}

fn breach(name: &str, count: usize) -> Option<Breach> {
    let known = TOO_OFTEN.iter().find(|(known, _)| *known == name);
    let may = known.map_or(TYPES_MAX, |(_, times)| *times);
    if USUAL.contains(&name) || count <= may {
        return None;
    }
    let what = format!("{count} types are named `{name}`, more than {may}");
    Some(Breach { place: "crates".to_owned(), what })
}

/// The types that are made, but for those that belong to a trait.
fn type_names<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let made = tokens.windows(2).filter(|pair| matches!(pair[0].text, "struct" | "enum" | "trait"));
    made.map(|pair| pair[1].text).filter(|name| name.starts_with(char::is_uppercase)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_names() {
        let source =
            "pub struct A;\nenum B { C }\ntrait D { type E; }\nimpl D for A { type E = B; }";
        assert_eq!(type_names(&tokens(source)), ["A", "B", "D"]);
    }

    #[test]
    fn a_name_may_be_given_a_few_times() {
        assert!(breach("Sparrow", TYPES_MAX).is_none());
        assert_eq!(
            breach("Sparrow", 5).map(|breach| breach.what).as_deref(),
            Some("5 types are named `Sparrow`, more than 4")
        );
        assert!(breach("Client", 11).is_none());
    }
}
