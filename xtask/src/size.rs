//! `cargo xtask size`: how many lines of code there are, by crate and folder.
//!
//! A line counts if something of it is compiled into the program: no blanks, no comments, no tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::tokens::tokens_and_literals;
use crate::walls::{read, rust_files};

/// What the hands are, of all crates.
const HANDS: [&str; 2] = ["toolbus", "toolbus-engine"];

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let sizes = sizes(root).map_err(|error| format!("error: {error}"))?;
    let mut crates: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, lines) in &sizes {
        *crates.entry(place.split('/').next().unwrap_or(place)).or_default() += lines;
    }
    for (name, lines) in &crates {
        println!("{lines:>7}  {name}");
        let inside = |place: &str| place.strip_prefix(name)?.strip_prefix('/').map(str::to_owned);
        for (place, lines) in &sizes {
            if let Some(folder) = inside(place) {
                println!("{lines:>7}    {folder}");
            }
        }
    }
    let hands: usize = HANDS.iter().filter_map(|name| crates.get(name)).sum();
    println!("{hands:>7}  the hands ({})", HANDS.join(", "));
    println!("{:>7}  in all", crates.values().sum::<usize>());
    Ok(())
}

/// By crate and folder, wires by themselves.
fn sizes(root: &Path) -> io::Result<BTreeMap<String, usize>> {
    let crates = root.join("crates");
    let mut sizes = BTreeMap::new();
    for file in rust_files(&crates)? {
        let place = file.strip_prefix(&crates).unwrap_or(&file);
        let parts: Vec<_> = place.iter().map(|part| part.to_string_lossy()).collect();
        let [name, src, within @ ..] = parts.as_slice() else { continue };
        if src != "src" {
            continue;
        }
        let (_, folders) = within.split_last().unwrap_or((src, &[]));
        let depth = if folders.last().is_some_and(|_| folders.iter().any(|it| it == "wire")) {
            3
        } else {
            1
        };
        let folders = folders.iter().take(depth).map(AsRef::as_ref);
        let folder: Vec<&str> = folders.collect();
        let folder = if folder.is_empty() { ".".to_owned() } else { folder.join("/") };
        *sizes.entry(format!("{name}/{folder}")).or_default() += lines(&read(&file)?);
    }
    Ok(sizes)
}

fn lines(source: &str) -> usize {
    let tokens = tokens_and_literals(source);
    let spans =
        tokens.iter().map(|token| token.line..=token.line + token.text.matches('\n').count());
    spans.flatten().collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn what_is_compiled_counts() {
        assert_eq!(lines("//! A.\n\nuse b; // c\nfn d() {\n    \"e\nf\"\n}\n"), 5);
        assert_eq!(lines("a;\n#[cfg(test)]\nmod tests {\n    b;\n}\n"), 1);
    }
}
