//! `cargo xtask walls`: the rules of the house that source and manifests can show.
//!
//! Also a test, so that `cargo test --workspace` keeps them. ARCHITECTURE.md says why they
//! are there.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::assets;
use crate::ladder;
use crate::manifest::{dependencies, locked};
use crate::names;
use crate::places;
use crate::rooms;
use crate::surface;
use crate::tokens::{Token, tokens};
use crate::words;

/// What `toolbus-proto` must not name: it is told what happened and when, it never looks.
const NOT_IN_THE_RULES: [&[&str]; 8] = [
    &["tokio"],
    &["std", "env"],
    &["std", "fs"],
    &["std", "net"],
    &["std", "process"],
    &["std", "thread"],
    &["Instant", "now"],
    &["SystemTime", "now"],
];

/// What `toolbus-proto` must not depend on, however indirectly.
const NOT_BELOW_THE_RULES: [&str; 8] =
    ["async-io", "async-std", "futures-executor", "hyper", "mio", "quinn", "smol", "tokio"];

/// Each crate and those of ours it may use; tests may use more.
const ONE_WAY: [(&str, &[&str]); 7] = [
    ("toolbus-proto", &[]),
    ("toolbus-engine", &["toolbus-proto"]),
    ("toolbus", &["toolbus-proto", "toolbus-engine"]),
    ("toolbus-check", &["toolbus-proto", "toolbus-engine", "toolbus"]),
    ("toolbus-orchard", &["toolbus-proto", "toolbus-engine", "toolbus"]),
    (
        "toolbus-cli",
        &["toolbus-proto", "toolbus-engine", "toolbus", "toolbus-check", "toolbus-orchard"],
    ),
    ("toolbus-testkit", &["toolbus-proto", "toolbus", "toolbus-orchard"]),
];

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let breaches = breaches(root).map_err(|error| format!("error: {error}"))?;
    if breaches.is_empty() {
        println!("the walls stand");
        return Ok(());
    }
    let lines: Vec<String> = breaches.iter().map(|breach| format!("error: {breach}")).collect();
    Err(lines.join("\n"))
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// `path` or `path:line`.
    pub(crate) place: String,
    pub(crate) what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let mut found = Vec::new();
    let rules = root.join("crates/toolbus-proto/src");
    for file in rust_files(&rules)? {
        let source = read(&file)?;
        let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        found.extend(source_breaches(&place, &source));
    }
    for (name, may_use) in ONE_WAY {
        let manifest = root.join("crates").join(name).join("Cargo.toml");
        if manifest.exists() {
            found.extend(direction_breaches(name, may_use, &read(&manifest)?));
        }
    }
    let manifest = read(&root.join("crates/toolbus-proto/Cargo.toml"))?;
    let lock = read(&root.join("Cargo.lock"))?;
    found.extend(runtime_breaches(&dependencies(&manifest), &lock));
    found.extend(names::breaches(root)?);
    found.extend(ladder::breaches(root)?);
    found.extend(surface::breaches(root)?);
    found.extend(rooms::breaches(root)?);
    found.extend(words::breaches(root)?);
    found.extend(places::breaches(root)?);
    found.extend(assets::breaches(root)?);
    Ok(found)
}

/// Rules 1 and 2 in one file of `toolbus-proto`.
fn source_breaches(place: &str, source: &str) -> Vec<Breach> {
    let tokens = tokens(source);
    let breach = |line: usize, what: String| Breach { place: format!("{place}:{line}"), what };
    let mut found = Vec::new();
    for path in NOT_IN_THE_RULES {
        let lines = (0..tokens.len()).filter(|&at| names(&tokens[at..], path));
        found.extend(lines.map(|at| {
            breach(tokens[at].line, format!("toolbus-proto must not use `{}`", path.join("::")))
        }));
    }
    if !place.ends_with("/wire.rs") {
        let lines = (0..tokens.len()).filter(|&at| derives_serde(&tokens[at..]));
        found.extend(lines.map(|at| {
            breach(tokens[at].line, "only `wire.rs` may derive serde for a protocol".to_owned())
        }));
    }
    found
}

/// Whether the tokens begin with this path, written out or as one of a group: `std::{fs, io}`.
pub(crate) fn names(tokens: &[Token<'_>], path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return true;
    };
    if tokens.first().is_none_or(|token| token.text != *first) {
        return false;
    }
    let Some(next) = rest.first() else {
        return true;
    };
    let text = |at: usize| tokens.get(at).map(|token| token.text);
    match (text(1), text(2)) {
        (Some("::"), Some("{")) => {
            let mut depth = 0;
            for (at, token) in tokens.iter().enumerate().skip(2) {
                match token.text {
                    "{" => depth += 1,
                    "}" if depth == 1 => return false,
                    "}" => depth -= 1,
                    word if depth == 1 && word == *next && text(at - 1) != Some("::") => {
                        return true;
                    }
                    _ => {}
                }
            }
            false
        }
        (Some("::"), Some(word)) => word == *next,
        _ => false,
    }
}

fn derives_serde(tokens: &[Token<'_>]) -> bool {
    if tokens.len() < 2 || tokens[0].text != "derive" || tokens[1].text != "(" {
        return false;
    }
    let derived = tokens.iter().take_while(|token| token.text != ")");
    derived.into_iter().any(|token| matches!(token.text, "Serialize" | "Deserialize"))
}

fn direction_breaches(name: &str, may_use: &[&str], manifest: &str) -> Vec<Breach> {
    let ours = dependencies(manifest).into_iter().filter(|name| name.starts_with("toolbus"));
    ours.filter(|used| !may_use.contains(&used.as_str()))
        .map(|used| Breach {
            place: format!("crates/{name}/Cargo.toml"),
            what: format!("`{name}` must not depend on `{used}`"),
        })
        .collect()
}

fn runtime_breaches(direct: &[String], lock: &str) -> Vec<Breach> {
    let packages = locked(lock);
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<(String, String)> =
        direct.iter().map(|name| (name.clone(), "toolbus-proto".to_owned())).collect();
    let mut found = Vec::new();
    while let Some((name, by)) = ahead.pop() {
        if !reached.insert(name.clone()) {
            continue;
        }
        if NOT_BELOW_THE_RULES.contains(&name.as_str()) {
            found.push(Breach {
                place: "crates/toolbus-proto/Cargo.toml".to_owned(),
                what: format!("toolbus-proto must not depend on `{name}`, but `{by}` does"),
            });
        }
        let below = packages.get(&name).into_iter().flatten();
        ahead.extend(below.map(|below| (below.clone(), name.clone())));
    }
    found
}

/// All source files below a folder but tests, in a steady order.
pub(crate) fn rust_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walls_stand() {
        let found = breaches(&crate::root()).expect("the sources can be read");
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    fn check(place: &str, source: &str, expected: &[&str]) {
        let found: Vec<String> =
            source_breaches(place, source).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_rules_look_at_nothing_by_themselves() {
        let fs = "a.rs:1: toolbus-proto must not use `std::fs`";
        check("a.rs", "use std::fs;", &[fs]);
        check("a.rs", "use std::{io, fs::File};", &[fs]);
        check("a.rs", "use std::{collections::{BTreeMap, fs}, io};", &[]);
        check("a.rs", "use std::{collections::fs, io};", &[]);
        check("a.rs", "std::io::Error; // std::fs", &[]);
        check(
            "a.rs",
            "let now =\n Instant::now();",
            &["a.rs:2: toolbus-proto must not use `Instant::now`"],
        );
        check("a.rs", "tokio::spawn", &["a.rs:1: toolbus-proto must not use `tokio`"]);
        check("a.rs", "#[cfg(test)] mod tests { use std::fs; }", &[]);
    }

    #[test]
    fn only_wires_derive_serde() {
        let derive = "#[derive(Debug, serde::Serialize)] struct A;";
        check("oracle/wire.rs", derive, &[]);
        check("tool.rs", derive, &["tool.rs:1: only `wire.rs` may derive serde for a protocol"]);
        check("tool.rs", "#[derive(Debug)] struct A; impl Serialize for A {}", &[]);
    }

    #[test]
    fn dependencies_go_one_way() {
        let manifest = "[package]\nname = \"toolbus\"\n[dependencies]\ntoolbus-cli.workspace = true\n\
                        toolbus-proto = { path = \"x\" }\n[dev-dependencies]\ntoolbus-testkit = \"1\"\n";
        assert_eq!(
            direction_breaches("toolbus", &["toolbus-proto"], manifest),
            [Breach {
                place: "crates/toolbus/Cargo.toml".to_owned(),
                what: "`toolbus` must not depend on `toolbus-cli`".to_owned(),
            }]
        );
    }

    #[test]
    fn a_runtime_is_found_however_deep() {
        let lock = "[[package]]\nname = \"a\"\ndependencies = [\n \"b 1.0.0\",\n]\n\n\
                    [[package]]\nname = \"b\"\nversion = \"1.0.0\"\ndependencies = [\n \"a\",\n \"tokio\",\n]\n";
        let found = runtime_breaches(&["a".to_owned()], lock);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("`tokio`, but `b` does"), "{}", found[0]);
        assert_eq!(runtime_breaches(&["c".to_owned()], lock), []);
    }
}
