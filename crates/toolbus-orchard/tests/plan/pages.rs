//! Each scenario of the corpus gives the page beside it. `UPDATE_EXPECT=1` writes them anew.

use std::collections::BTreeSet;
use std::fs;

use toolbus_orchard::diagnostic::Code;

use crate::plan::corpus::{page, scenarios};

fn compare(part: &str) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut wrong = Vec::new();
    for path in scenarios(part) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let page = page(&path);
        let golden = path.with_extension("txt");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&golden, &page).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if expected != page {
            wrong.push(format!("{name}: expected\n{expected}\ngot\n{page}"));
        }
        pages.push((name, page));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    pages
}

#[test]
fn good_scenarios_have_their_plans() {
    let pages = compare("plans");
    assert!(15 <= pages.len(), "{} are not many", pages.len());
    for (name, page) in pages {
        assert!(page.ends_with("exit: 0\n"), "{name} is not good:\n{page}");
    }
}

#[test]
fn wrong_scenarios_are_told_what_is_wrong() {
    let pages = compare("problems");
    assert!(30 <= pages.len(), "{} are not many", pages.len());
    for (name, page) in &pages {
        assert!(page.ends_with("exit: 2\n"), "{name} is not wrong:\n{page}");
        // `unknown_block_in_retry` is about `unknown_block`.
        let mut about = Code::ALL.iter().filter(|code| name.starts_with(code.as_str()));
        let code = about.next().unwrap_or_else(|| panic!("{name} is about no code"));
        assert!(page.contains(&format!("\n{code}\n")), "{name} does not tell {code}:\n{page}");
    }
    let told: BTreeSet<&str> = Code::ALL
        .iter()
        .map(|code| code.as_str())
        .filter(|code| pages.iter().any(|(name, _)| name.starts_with(code)))
        .collect();
    let missing: Vec<_> =
        Code::ALL.iter().map(|code| code.as_str()).filter(|code| !told.contains(code)).collect();
    assert!(missing.is_empty(), "no scenario is about {missing:?}");
}
