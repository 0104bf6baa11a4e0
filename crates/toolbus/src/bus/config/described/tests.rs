use std::collections::BTreeSet;

use super::*;
use crate::bus::config::Config;

/// The keys that a table of the config may have, as the error for one that it has not says.
fn known(text: &str) -> BTreeSet<String> {
    let error = Config::parse(text, &|_| None).expect_err("it has a key that is none");
    let hint = error.mistakes.iter().find_map(|mistake| {
        let hint = mistake.hint()?;
        Some(hint.strip_prefix("it can be ")?.to_owned())
    });
    let hint = hint.unwrap_or_else(|| panic!("no hint for {text}"));
    hint.split(", ").map(str::to_owned).collect()
}

/// What the parser takes has to be described, so that the schema never refuses what it takes; and
/// what is described has to be taken by some address.
#[test]
fn what_is_described_is_what_is_taken() {
    let back = |connect: &str| format!("[back.x]\nconnect = \"{connect}\"\nqqqqqqqqqq = 1\n");
    let front = |serve: &str| format!("[front.x]\nserve = \"{serve}\"\nqqqqqqqqqq = 1\n");
    let one = |table: &str| vec![format!("[{table}]\nqqqqqqqqqq = 1\n")];
    let cases = [
        (
            "back",
            [
                "builtin:",
                "stdio:x",
                "mcp+stdio:x",
                "mcp+http://127.0.0.1:1/mcp",
                "orchard+stdio:x",
                "mediocre+stdio:x",
                "mediocre+http://127.0.0.1:1/",
                "mediocre+tcp://127.0.0.1:1",
                "godex+stdio:x",
                "x",
                "shell:",
            ]
            .map(back)
            .to_vec(),
        ),
        (
            "front",
            [
                "mcp+http://127.0.0.1:1/mcp",
                "mediocre+http://127.0.0.1:1/",
                "mediocre+tcp://127.0.0.1:1",
            ]
            .map(front)
            .to_vec(),
        ),
        ("view", one("view.x")),
        ("caller", one("caller.x")),
        ("lock", one("lock")),
        ("journal", one("journal")),
        ("admin", one("admin")),
        ("serve", one("serve")),
    ];
    for table in tables(&Registry::default()) {
        let (_, texts) = cases.iter().find(|(name, _)| *name == table.name).expect("a case each");
        let described: BTreeSet<_> = table.keys.iter().map(|key| key.name.to_owned()).collect();
        let taken: BTreeSet<_> = texts.iter().flat_map(|text| known(text)).collect();
        let lacking: Vec<_> = taken.difference(&described).collect();
        assert!(lacking.is_empty(), "{}: taken, but not described: {lacking:?}", table.name);
    }
}

#[test]
fn every_key_has_a_sentence_and_a_default_of_its_kind() {
    for table in tables(&Registry::default()) {
        for key in &table.keys {
            assert!(!key.doc.is_empty() && !key.doc.ends_with('.'), "{}.{}", table.name, key.name);
            let name = format!("{}.{}", table.name, key.name);
            match key.shape {
                _ if key.default.is_empty() => {}
                Shape::Bool => assert!(["true", "false"].contains(&key.default), "{name}"),
                Shape::Choice(words) => assert!(words.contains(&key.default), "{name}"),
                _ => {}
            }
        }
    }
}
