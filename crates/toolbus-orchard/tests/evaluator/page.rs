//! `docs/expressions.md`: its examples hold, and no function is missing. `docs/orchard.md`: its
//! tables are those of the program.

use toolbus_orchard::{builtin, model};

use crate::evaluator::evaluating::shown;

const EXPRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/expressions.md");
const ORCHARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/orchard.md");

fn page() -> String {
    std::fs::read_to_string(EXPRESSIONS).expect("the page is there")
}

/// The part of the page between the marks of this name is this text, or becomes it if
/// `UPDATE_EXPECT` is set.
fn check_part(name: &str, text: &str) {
    let page = std::fs::read_to_string(ORCHARD).expect("the page is there");
    let begin = page.find(&format!("<!-- {name}: ")).expect("a mark");
    let begin = begin + page[begin..].find("-->\n\n").expect("the end of a mark") + "-->\n\n".len();
    let end = page.find(&format!("<!-- end of {name} -->")).expect("the second mark");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(ORCHARD, format!("{}{text}{}", &page[..begin], &page[end..])).unwrap();
    } else {
        assert_eq!(&page[begin..end], text, "`UPDATE_EXPECT=1` writes it anew");
    }
}

#[test]
fn the_tables_of_blocks() {
    check_part("blocks", &model::grammar::markdown());
}

#[test]
fn the_tables_of_built_in_providers() {
    let mut text = String::new();
    for name in ["exec", "http"] {
        let schema = builtin::schema(name).unwrap();
        text.push_str(&format!("### `builtin/{name}`\n\n"));
        if !schema.config.is_empty() {
            text.push_str(&format!("Its config:\n\n{}", attrs(&schema.config)));
        }
        for (name, action) in &schema.actions {
            let description = action.description.as_deref().unwrap_or_default();
            text.push_str(&format!("`{name}` {description}.\n\n{}", attrs(&action.attrs)));
            let outputs = &action.outputs.as_ref().unwrap().ty;
            text.push_str(&format!("It gives `{outputs}`.\n\n"));
        }
    }
    check_part("providers", &text);
}

fn attrs(attrs: &toolbus_proto::orchard::schema::Attrs) -> String {
    let mut table = "| attribute | type | |\n|---|---|---|\n".to_owned();
    for (name, attr) in attrs {
        let presence = match (&attr.default, attr.required) {
            (Some(default), _) => format!("`{default}` if left out; "),
            (None, true) => "required; ".to_owned(),
            (None, false) => String::new(),
        };
        let description = attr.description.as_deref().unwrap_or_default();
        let meaning = format!("{presence}{description}");
        let meaning = meaning.trim_end_matches("; ");
        table.push_str(&format!("| `{name}` | `{}` | {meaning} |\n", attr.ty));
    }
    table + "\n"
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
