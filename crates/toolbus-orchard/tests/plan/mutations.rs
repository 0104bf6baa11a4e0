//! Every file of the corpus, damaged in many ways: nothing of it may panic.

use std::fs;

use proptest::prelude::*;

use crate::plan::corpus::{Asked, planned, scenarios};

/// How a file is damaged.
#[derive(Debug, Clone)]
enum Damage {
    Cut(usize, usize),
    Swap(usize, usize),
    Insert(usize, &'static str),
    Double(usize, usize),
}

/// What stands in scenarios, and what should not.
const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "${",
    "%{",
    "=",
    "\n",
    "null",
    "each.key",
    "self",
    "var.",
    "local.a",
    "action.echo.a",
    "component.x.y",
    "for_each = toset([\"a\"])\n",
    "-1",
    "1e400",
    "0",
    "...",
    "[*]",
    "\\",
    "\u{feff}",
    "é",
    "\r\n",
    "<<E\n",
    "true",
    "lifecycle {\n",
    "variable \"v\" {}\n",
    "depends_on = [action.echo.a]\n",
    "/",
    "%",
    "?",
    ":",
    "!",
    "type = list\n",
    "timeout = \"1s\"\n",
];

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<usize>(), 0usize..40).prop_map(|(at, len)| Damage::Cut(at, len)),
        (any::<usize>(), any::<usize>()).prop_map(|(one, other)| Damage::Swap(one, other)),
        (any::<usize>(), prop::sample::select(PIECES)).prop_map(|(at, it)| Damage::Insert(at, it)),
        (any::<usize>(), 1usize..80).prop_map(|(at, len)| Damage::Double(at, len)),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let count = bytes.len() + 1;
        match damage {
            Damage::Cut(at, len) => {
                let at = at % count;
                bytes.drain(at..(at + len).min(bytes.len()));
            }
            Damage::Swap(one, other) if 1 < count => {
                let (one, other) = (one % (count - 1), other % (count - 1));
                bytes.swap(one, other);
            }
            Damage::Swap(..) => {}
            Damage::Insert(at, piece) => {
                let at = at % count;
                bytes.splice(at..at, piece.bytes());
            }
            Damage::Double(at, len) => {
                let at = at % count;
                let part = bytes[at..(at + len).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_makes_us_panic(damages in prop::collection::vec(damage(), 1..6)) {
        for path in scenarios("plans").into_iter().chain(scenarios("problems")) {
            let bytes = fs::read(&path).unwrap();
            let asked = Asked::read(&path, &bytes);
            let (_, planned) = planned(&path, &damaged(bytes, &damages), &asked);
            prop_assert!(planned.plan.is_some() || !planned.problems.is_empty());
        }
    }
}
