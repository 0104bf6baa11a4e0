//! Rule 8: who may name a wire.
//!
//! Its room, its folder, the folder of its own command, and the lines by which they are
//! registered. Comments may say what they like; identifiers and literals may not.

use std::io;
use std::path::Path;

use crate::tokens::{Token, tokens_and_literals};
use crate::walls::{Breach, read, rust_files};

/// Whose sources are looked at.
const CRATES: [&str; 4] = ["toolbus-proto", "toolbus-engine", "toolbus", "toolbus-cli"];

/// The folders in which each wire has one of its own.
const FOLDERS: [&str; 3] =
    ["crates/toolbus-proto/src", "crates/toolbus/src/wire", "crates/toolbus-cli/src/command/wire"];

/// Where each wire has its line.
const REGISTRIES: [&str; 3] = [
    "crates/toolbus/src/wire/compiled_in.rs",
    "crates/toolbus/src/wire/authors.rs",
    "crates/toolbus-cli/src/command/wire/mod.rs",
];

/// Where a wire may be a `mod` or a feature.
const MODULES: [&str; 3] = [
    "crates/toolbus-proto/src/lib.rs",
    "crates/toolbus/src/lib.rs",
    "crates/toolbus/src/wire/mod.rs",
];

/// Examples for people, which have to show some wire.
const EXAMPLES: [(&str, &[&str]); 5] = [
    ("crates/toolbus-cli/src/command/call/mod.rs", &["oracle"]),
    ("crates/toolbus-cli/src/command/check.rs", &["oracle"]),
    ("crates/toolbus-cli/src/command/man.rs", &["oracle"]),
    ("crates/toolbus-cli/src/command/tools.rs", &["oracle"]),
    ("crates/toolbus-cli/src/command/wire/mediocre/mod.rs", &["oracle"]),
];

pub(crate) fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let wires = wires(root)?;
    let mut found = Vec::new();
    for name in CRATES {
        for file in rust_files(&root.join("crates").join(name).join("src"))? {
            let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            found.extend(source_breaches(&wires, &place, &read(&file)?));
        }
    }
    Ok(found)
}

/// Each wire that has a folder.
fn wires(root: &Path) -> io::Result<Vec<String>> {
    let mut wires = Vec::new();
    for entry in std::fs::read_dir(root.join("crates/toolbus/src/wire"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_room = root.join("crates/toolbus-proto/src").join(&name).join("mod.rs").exists();
        if is_room {
            wires.push(name);
        }
    }
    wires.sort();
    Ok(wires)
}

fn source_breaches(wires: &[String], place: &str, source: &str) -> Vec<Breach> {
    if REGISTRIES.contains(&place) {
        return Vec::new();
    }
    let mut tokens = tokens_and_literals(source);
    if MODULES.contains(&place) {
        tokens = without_modules_and_features(&tokens);
    }
    let may_name = |wire: &str| {
        FOLDERS.iter().any(|folder| place.starts_with(&format!("{folder}/{wire}/")))
            || EXAMPLES.iter().any(|(file, shown)| *file == place && shown.contains(&wire))
    };
    let mut found = Vec::new();
    for token in tokens {
        let text = token.text.to_ascii_lowercase();
        for wire in wires.iter().filter(|wire| text.contains(*wire) && !may_name(wire)) {
            if parts(token.text).any(|part| part.eq_ignore_ascii_case(wire)) {
                let what = format!("names the wire `{wire}`, which only its own folders may");
                found.push(Breach { place: format!("{place}:{}", token.line), what });
            }
        }
    }
    found
}

/// The words within an identifier or a literal: `McpKind` has two, `mcp_http` and `"mcp+http"`
/// as well.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(humps)
}

fn humps(word: &str) -> impl Iterator<Item = &str> {
    let bytes = word.as_bytes();
    let begins = |&at: &usize| {
        at == 0 || (bytes[at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase())
    };
    let starts: Vec<usize> = (0..bytes.len()).filter(begins).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([bytes.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| &word[start..end])
}

/// Without `mod x;` and `feature = "x"`.
fn without_modules_and_features<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let is_allowed = |at: usize| {
        (0 < at && text(at - 1) == "mod" && text(at + 1) == ";")
            || (1 < at && text(at - 2) == "feature" && text(at - 1) == "=")
    };
    let kept = (0..tokens.len()).filter(|&at| !is_allowed(at));
    kept.map(|at| tokens[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(place: &str, source: &str, lines: &[usize]) {
        let wires = ["mcp", "oracle", "orchard"].map(str::to_owned);
        let found = source_breaches(&wires, place, source);
        let expected: Vec<String> = lines.iter().map(|line| format!("{place}:{line}")).collect();
        assert_eq!(found.iter().map(|breach| breach.place.clone()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_wire_is_named_in_its_own_folders_alone() {
        check("crates/toolbus/src/bus/mod.rs", "use crate::wire::mcp;", &[1]);
        check("crates/toolbus/src/bus/mod.rs", "fn named_for_mcp() {}\nstruct McpNames;", &[1, 2]);
        check("crates/toolbus/src/bus/mod.rs", "x(\n\"mcp+stdio:\")", &[2]);
        check("crates/toolbus/src/bus/mod.rs", "// mcp\nfn compact() {}", &[]);
        check("crates/toolbus/src/bus/mod.rs", "#[cfg(test)] mod tests { use mcp; }", &[]);
        check("crates/toolbus/src/wire/mcp/back.rs", "use toolbus_proto::mcp;", &[]);
        check("crates/toolbus/src/wire/mcp/back.rs", "use toolbus_proto::oracle;", &[1]);
        check("crates/toolbus-proto/src/oracle/wire.rs", "const WIRE: X = \"oracle\";", &[]);
        check("crates/toolbus-cli/src/command/wire/mcp/mod.rs", "mcp", &[]);
    }

    #[test]
    fn it_is_registered_by_lines_of_their_own() {
        check("crates/toolbus/src/wire/compiled_in.rs", "&super::mcp::MCP,", &[]);
        check(
            "crates/toolbus/src/wire/mod.rs",
            "#[cfg(feature = \"mcp\")]\npub mod mcp;\nuse mcp::Mcp;",
            &[3, 3],
        );
    }
}
