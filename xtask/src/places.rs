//! What is done in one place, or in few: who adds another looks first whether those will do.

use std::io;
use std::path::Path;

use crate::tokens::{Token, tokens};
use crate::walls::{Breach, read, rust_files};

/// What all hands are in, the library and what stands beside it.
const HANDS: &[&str] = &["toolbus-engine", "toolbus", "toolbus-check", "toolbus-orchard"];
const ALL: &[&str] =
    &["toolbus-proto", "toolbus-engine", "toolbus", "toolbus-check", "toolbus-orchard"];

/// Some words that follow each other, in which crates, and the files that may have them.
const PLACES: [(&[&str], &[&str], &[&str]); 9] = [
    // A program is run for a while, supervised, or called without a runtime.
    (
        &["Process", "::", "spawn"],
        HANDS,
        &[
            "toolbus-engine/src/child/process.rs",
            "toolbus-engine/src/child/running/mod.rs",
            "toolbus-engine/src/engine/blocking/calling.rs",
        ],
    ),
    (
        &["Process", "::", "spawn_with"],
        HANDS,
        &["toolbus-engine/src/engine/program/processes.rs", "toolbus-engine/src/child/process.rs"],
    ),
    // The clock of a machine.
    (&["armed", ":"], HANDS, &["toolbus-engine/src/engine/alarm.rs"]),
    // What the loop of a stream drives.
    (&["Drivable", "for"], HANDS, &["toolbus-engine/src/engine/joint.rs"]),
    (&["fn", "era_of"], ALL, &["toolbus-proto/src/mcp/calling/mod.rs"]),
    // The library prints nothing, but where it is the whole of an author's program.
    (&["eprintln", "!"], HANDS, &[]),
    (&["println", "!"], HANDS, &[]),
    (&["io", "::", "stderr"], HANDS, &["toolbus/src/author/console.rs"]),
    // Nor does it look at the words of the program, but for that and for what the guard is told by.
    (
        &["args_os"],
        HANDS,
        &["toolbus/src/author/command_line.rs", "toolbus-engine/src/child/guard.rs"],
    ),
];

pub(crate) fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let mut found = Vec::new();
    let crates = root.join("crates");
    for name in ALL {
        for file in rust_files(&crates.join(name).join("src"))? {
            let place = file.strip_prefix(&crates).unwrap_or(&file).display().to_string();
            found.extend(source_breaches(name, &place, &tokens(&read(&file)?)));
        }
    }
    Ok(found)
}

fn source_breaches(name: &str, place: &str, tokens: &[Token<'_>]) -> Vec<Breach> {
    let kept =
        PLACES.iter().filter(|(_, crates, may)| crates.contains(&name) && !may.contains(&place));
    let breaches = kept.flat_map(|(words, _, may)| {
        let is_here =
            |at: &[Token<'_>]| at.iter().map(|token| token.text).eq(words.iter().copied());
        let here = tokens.windows(words.len()).filter(move |at| is_here(at));
        here.map(|at| Breach {
            place: format!("crates/{place}:{}", at[0].line),
            what: format!("`{}` belongs to {}", words.concat(), may.join(", ")),
        })
    });
    breaches.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_its_place_is_nowhere_else() {
        let source = "fn f() { Process::spawn(x); }";
        let told = |place: &str| source_breaches("toolbus", place, &tokens(source));
        assert_eq!(told("toolbus/src/x.rs").len(), 1);
        assert!(told("toolbus-engine/src/child/running/mod.rs").is_empty());
    }
}
