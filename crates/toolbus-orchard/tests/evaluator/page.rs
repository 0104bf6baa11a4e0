//! `docs/expressions.md`: its examples hold, and no function is missing.

use crate::evaluator::evaluating::shown;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/expressions.md");
    std::fs::read_to_string(path).expect("the page is there")
}

#[test]
fn the_examples_hold() {
    let page = page();
    let examples: Vec<(&str, &str)> = page
        .lines()
        .filter(|line| !line.starts_with('|'))
        .filter_map(|line| line.split_once(" → "))
        .collect();
    assert!(60 < examples.len());
    for (text, expected) in examples {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn every_function_is_listed() {
    let page = page();
    for usage in toolbus_orchard::function::usages() {
        assert!(page.contains(&format!("`{usage}`")), "{usage}");
    }
}
