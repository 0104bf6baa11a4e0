//! How much `toolbus` promises: what is public without the feature `unstable`, counted, so that it
//! does not grow unseen.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::tokens::{Token, tokens};
use crate::walls::{Breach, read, rust_files};

const LIBRARY: &str = "crates/toolbus/src";

/// So many public items there may be.
const ITEMS_MAX: usize = 329;

/// What says in documentation neither who does something nor what it is to its reader.
const RIDDLES: [&str; 5] = ["everybody", "nobody", "somebody", "uplink", "whoever"];

/// Modules and re-exports are no items of their own.
const ITEMS: [&str; 7] = ["const", "enum", "fn", "static", "struct", "trait", "type"];

pub(crate) fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let mut found = Vec::new();
    let mut items = 0;
    for file in promised(&root.join(LIBRARY))? {
        let source = read(&file)?;
        let tokens = tokens(&source);
        items += public_items(&tokens);
        let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        found.extend(riddles(&source).into_iter().map(|(line, word)| Breach {
            place: format!("{place}:{line}"),
            what: format!("`{word}` in what users read: say who, in the field's own words"),
        }));
        let hidden = (0..tokens.len()).filter(|&at| is_hidden(&tokens[at..]));
        found.extend(hidden.map(|at| Breach {
            place: format!("{place}:{}", tokens[at].line),
            what: "what is public is documented: no `doc(hidden)`".to_owned(),
        }));
    }
    if ITEMS_MAX < items {
        let what = format!(
            "{items} public items, more than {ITEMS_MAX}: make private what nobody is promised, \
             or put it behind the feature `unstable`"
        );
        found.push(Breach { place: LIBRARY.to_owned(), what });
    }
    Ok(found)
}

/// The files of all modules that are not behind the feature.
fn promised(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files = rust_files(folder)?;
    let mut unpromised = BTreeSet::new();
    for file in &files {
        let inside = match file.file_name().is_some_and(|name| name == "mod.rs" || name == "lib.rs")
        {
            true => file.parent().unwrap_or(folder).to_owned(),
            false => file.with_extension(""),
        };
        let source = read(file)?;
        unpromised.extend(unstable_modules(&source).into_iter().map(|name| inside.join(name)));
    }
    let is_promised = |file: &PathBuf| {
        !file.ancestors().any(|part| unpromised.contains(part))
            && !unpromised.contains(&file.with_extension(""))
    };
    Ok(files.into_iter().filter(is_promised).collect())
}

/// The modules of a file that are public with the feature alone.
fn unstable_modules(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let public = |line: &str| {
        line.strip_prefix("pub mod ").and_then(|name| name.strip_suffix(';')).map(str::to_owned)
    };
    let pairs = lines.windows(2).filter(|pair| {
        pair[0].starts_with("#[cfg(")
            && pair[0].contains("feature = \"unstable\"")
            && !pair[0].contains("not(feature = \"unstable\")")
    });
    pairs.filter_map(|pair| public(pair[1])).collect()
}

fn public_items(tokens: &[Token<'_>]) -> usize {
    let begins = |at: usize| {
        let behind = tokens[at + 1..].iter().map(|token| token.text);
        let mut words = behind.skip_while(|word| matches!(*word, "async" | "unsafe"));
        words.next().is_some_and(|word| ITEMS.contains(&word))
    };
    (0..tokens.len()).filter(|&at| tokens[at].text == "pub" && begins(at)).count()
}

/// Where one of the words stands in documentation.
fn riddles(source: &str) -> Vec<(usize, &'static str)> {
    let lines = (1..).zip(source.lines().map(str::trim_start));
    let documented = lines.filter(|(_, line)| line.starts_with("///") || line.starts_with("//!"));
    let first = |line: &str| {
        let words = line.split(|char: char| !char.is_alphanumeric()).map(str::to_lowercase);
        words.into_iter().find_map(|word| RIDDLES.into_iter().find(|riddle| *riddle == word))
    };
    documented.filter_map(|(at, line)| Some((at, first(line)?))).collect()
}

fn is_hidden(tokens: &[Token<'_>]) -> bool {
    let words: Vec<&str> = tokens.iter().take(3).map(|token| token.text).collect();
    words == ["doc", "(", "hidden"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_where_they_are_public() {
        let source = "pub fn a() {}\npub(crate) fn b() {}\npub struct C { pub d: u8 }\nfn e() {}\n\
                      impl C { pub async fn f() {} pub const G: u8 = 1; }\npub use x::{Y, Z};";
        assert_eq!(public_items(&tokens(source)), 4);
    }

    #[test]
    fn modules_behind_the_feature_are_known() {
        let source = "#[cfg(not(feature = \"unstable\"))]\npub(crate) mod a;\n\
                      #[cfg(all(feature = \"bus\", feature = \"unstable\"))]\npub mod a;\npub mod b;";
        assert_eq!(unstable_modules(source), ["a"]);
    }

    #[test]
    fn documentation_says_who() {
        let source = "// nobody\n/// Nobody reads it.\nfn whoever() {}\n//! An uplinks.";
        assert_eq!(riddles(source), [(2, "nobody")]);
    }

    #[test]
    fn nothing_promised_is_hidden() {
        assert!(is_hidden(&tokens("doc(hidden)")));
        assert!(!is_hidden(&tokens("doc(inline)")));
    }
}
