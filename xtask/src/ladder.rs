//! Rule 9: the modules of `toolbus-engine` and of `toolbus` stand on each other in one order. That
//! the crates do is kept by their manifests.

use std::io;
use std::path::Path;

use crate::tokens::tokens;
use crate::walls::{Breach, names, read, rust_files};

/// From the ground up, by crate: each module may use those below it and those beside it. The wires
/// are said to the modules below them where they are listed, in `wire`.
const LADDERS: [(&str, &[&[&str]]); 2] = [
    (
        "toolbus-engine",
        &[
            &[
                "account", "causes", "chance", "panics", "scope", "secrets", "task", "time",
                "units", "wake",
            ],
            &["transport"],
            &["child"],
            &["engine"],
        ],
    ),
    ("toolbus", &[&["address", "author", "bus", "local", "oauth", "peer"], &["wire"]]),
];

pub(crate) fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let mut found = Vec::new();
    for (name, rungs) in LADDERS {
        let folder = root.join("crates").join(name).join("src");
        for file in rust_files(&folder)? {
            let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let module = file.strip_prefix(&folder).unwrap_or(&file).iter().next();
            let module = module.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let module = module.trim_end_matches(".rs");
            if module != "lib" {
                found.extend(source_breaches(rungs, &place, module, &read(&file)?));
            }
        }
    }
    Ok(found)
}

fn source_breaches(rungs: &[&[&str]], place: &str, module: &str, source: &str) -> Vec<Breach> {
    let Some(own) = rungs.iter().position(|rung| rung.contains(&module)) else {
        let what = format!("`{module}` has no place on the ladder of `xtask/src/ladder.rs`");
        return vec![Breach { place: place.to_owned(), what }];
    };
    let tokens = tokens(source);
    let above = rungs[own + 1..].iter().flat_map(|rung| rung.iter());
    let breach = |at: usize, used: &str| Breach {
        place: format!("{place}:{}", tokens[at].line),
        what: format!("`{module}` must not use `{used}`, which stands above it"),
    };
    let uses = above.flat_map(|used| {
        let lines = (0..tokens.len()).filter(|&at| names(&tokens[at..], &["crate", used]));
        lines.map(|at| breach(at, used)).collect::<Vec<_>>()
    });
    uses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a module of the crate that has a ladder with it.
    fn told(module: &str, source: &str) -> Vec<String> {
        let has = |rungs: &[&[&str]]| rungs.iter().any(|rung| rung.contains(&module));
        let ladder = LADDERS.iter().find(|(_, rungs)| has(rungs)).unwrap_or(&LADDERS[0]);
        source_breaches(ladder.1, "x.rs", module, source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_stands_above_must_not_be_used() {
        let source = "use crate::wake::Wake;\nuse crate::{engine::Route, task};\nuse crate::child;";
        assert_eq!(
            told("transport", source),
            [
                "x.rs:3: `transport` must not use `child`, which stands above it",
                "x.rs:2: `transport` must not use `engine`, which stands above it",
            ]
        );
        assert_eq!(told("child", source).len(), 1);
        assert!(told("engine", source).is_empty());
        assert_eq!(told("bus", "use crate::wire::mcp;").len(), 1);
    }

    #[test]
    fn comments_may_look_up() {
        assert!(told("child", "//! For the [engine](crate::engine).\n").is_empty());
    }

    #[test]
    fn every_module_has_a_place() {
        let said = "x.rs: `attic` has no place on the ladder of `xtask/src/ladder.rs`";
        assert_eq!(told("attic", ""), [said]);
    }
}
