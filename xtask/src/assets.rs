//! What the page of a bus is made of: no way by which what a tool says could become more than
//! text, and not more of it than a browser loads at once.

use std::fs;
use std::io;
use std::path::Path;

use crate::walls::{Breach, read};

const FOLDER: &str = "crates/toolbus/src/bus/admin/page/assets";
/// Where they are named, each by a line.
const NAMED: &str = "crates/toolbus/src/bus/admin/page/assets.rs";
/// All of them together.
const BYTES_MAX: u64 = 122_880;
/// What makes code, links or documents of text, or keeps what must not be kept.
const FORBIDDEN: [&str; 10] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval",
    "new Function",
    "setAttribute(\"on",
    ".href =",
    "localStorage",
    "document.cookie",
];

pub(crate) fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let mut found = Vec::new();
    let named = read(&root.join(NAMED))?;
    let mut bytes = 0;
    for entry in fs::read_dir(root.join(FOLDER))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let place = format!("{FOLDER}/{name}");
        bytes += entry.metadata()?.len();
        found.extend(text_breaches(&place, &read(&entry.path())?));
        if !named.contains(&format!("(\"assets/{name}\")")) {
            let what = format!("is not named in `{NAMED}`");
            found.push(Breach { place, what });
        }
    }
    if BYTES_MAX < bytes {
        let what = format!("{bytes} bytes, more than {BYTES_MAX}");
        found.push(Breach { place: FOLDER.to_owned(), what });
    }
    Ok(found)
}

fn text_breaches(place: &str, text: &str) -> Vec<Breach> {
    let lines = (1..).zip(text.lines());
    let breach = |(at, line): (usize, &str)| {
        let word = FORBIDDEN.into_iter().find(|word| line.contains(word))?;
        let what = format!("`{word}` has no place on the page");
        Some(Breach { place: format!("{place}:{at}"), what })
    };
    lines.filter_map(breach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_found() {
        let told = text_breaches("x.js", "a.textContent = b;\na.innerHTML = b;\nlink.href = c;\n");
        let places: Vec<_> = told.iter().map(|breach| breach.place.as_str()).collect();
        assert_eq!(places, ["x.js:2", "x.js:3"]);
    }
}
