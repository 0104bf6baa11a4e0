//! Rule 9: the modules of `toolbus` stand on each other in one order.

use std::io;
use std::path::Path;

use crate::tokens::tokens;
use crate::walls::{Breach, names, read, rust_files};

/// From the ground up: each may use those below it and those beside it. The wires are said to the
/// modules below them where they are listed, in `wire`.
const RUNGS: [&[&str]; 6] = [
    &["causes", "chance", "panics", "secrets", "task", "time", "units", "wake"],
    &["transport"],
    &["child"],
    &["engine"],
    &["address", "author", "bus", "local", "peer"],
    &["wire"],
];

pub(crate) fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let folder = root.join("crates/toolbus/src");
    let mut found = Vec::new();
    for file in rust_files(&folder)? {
        let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let module = file.strip_prefix(&folder).unwrap_or(&file).iter().next();
        let module = module.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let module = module.trim_end_matches(".rs");
        if module != "lib" {
            found.extend(source_breaches(&place, module, &read(&file)?));
        }
    }
    Ok(found)
}

fn source_breaches(place: &str, module: &str, source: &str) -> Vec<Breach> {
    let Some(own) = RUNGS.iter().position(|rung| rung.contains(&module)) else {
        let what = format!("`{module}` has no place on the ladder of `xtask/src/ladder.rs`");
        return vec![Breach { place: place.to_owned(), what }];
    };
    let tokens = tokens(source);
    let above = RUNGS[own + 1..].iter().flat_map(|rung| rung.iter());
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

    fn told(module: &str, source: &str) -> Vec<String> {
        source_breaches("x.rs", module, source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_stands_above_must_not_be_used() {
        let source = "use crate::wake::Wake;\nuse crate::{bus::Bus, task};\nuse crate::wire::mcp;";
        assert_eq!(
            told("engine", source),
            [
                "x.rs:2: `engine` must not use `bus`, which stands above it",
                "x.rs:3: `engine` must not use `wire`, which stands above it",
            ]
        );
        assert_eq!(told("bus", source).len(), 1);
        assert!(told("wire", source).is_empty());
    }

    #[test]
    fn comments_may_look_up() {
        assert!(told("engine", "//! For the [bus](crate::bus).\n").is_empty());
    }

    #[test]
    fn every_module_has_a_place() {
        let said = "x.rs: `attic` has no place on the ladder of `xtask/src/ladder.rs`";
        assert_eq!(told("attic", ""), [said]);
    }
}
