//! What a client is shown of one entry of a list: whether it is there, and under which name and
//! texts. Only what a view speaks of changes; every other byte stays.

use std::borrow::Cow;

use crate::json::{Json, edit};
use crate::mcp::wire::{Revision, quoted};
use crate::tool::Hints;
use crate::view::{Rule, without_fixed};

/// What a server says of its tool besides its name.
pub(super) fn hints(entry: &str) -> Option<Hints> {
    let annotations = edit::member(entry, "annotations")?;
    let hint = |name| match edit::member(annotations, name) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    Some(Hints {
        read_only: hint("readOnlyHint"),
        idempotent: hint("idempotentHint"),
        destructive: hint("destructiveHint"),
    })
}

/// The entry of a tool under this name, changed as the rule says.
pub(in crate::mcp) fn tool(
    entry: &str,
    name: &str,
    rule: Option<&Rule>,
    revision: Revision,
) -> String {
    let own = edit::text(entry, "name").unwrap_or_default();
    let mut entry = match *own == *name {
        true => Cow::Borrowed(entry),
        false => put(entry, "name", name, &[]),
    };
    let Some(rule) = rule else { return entry.into_owned() };
    if let Some(title) = &rule.title {
        entry = titled(&entry, title, revision).into();
    }
    if rule.description.is_some() || rule.append.is_some() {
        let own = edit::text(&entry, "description");
        let description = rule.description_of(own.as_deref()).unwrap_or_default();
        entry = put(&entry, "description", &description, &["title", "name"]).into_owned().into();
    }
    if !rule.fixed.is_empty()
        && let Some(schema) = edit::member(&entry, "inputSchema")
        && let changed = without_fixed(schema, &rule.fixed)
        && changed != schema
        && let Some(changed) = edit::replaced(&entry, "inputSchema", &changed)
    {
        entry = changed.into();
    }
    entry.into_owned()
}

fn titled(entry: &str, title: &str, revision: Revision) -> String {
    let behind: &[&str] = if revision < Revision::V2025_06_18 { &[] } else { &["name"] };
    let mut entry = put(entry, "title", title, behind).into_owned();
    let annotations = edit::member(&entry, "annotations").unwrap_or_default();
    if edit::member(annotations, "title").is_some() {
        let changed = put(annotations, "title", title, &[]);
        entry = edit::replaced(&entry, "annotations", &changed).unwrap_or(entry);
    }
    entry
}

/// The object with this text as its member `name`: in its place, else behind the first of these
/// that it has, if it has one. An empty text takes the member out.
fn put<'a>(object: &'a str, name: &str, text: &str, behind: &[&str]) -> Cow<'a, str> {
    if text.is_empty() {
        let mut left = Cow::Borrowed(object);
        while let Some(less) = edit::removed(&left, name) {
            left = less.into();
        }
        return left;
    }
    let value = Json::of(text);
    let value = value.as_str();
    let put = edit::replaced(object, name, value)
        .or_else(|| behind.iter().find_map(|after| edit::with_behind(object, after, name, value)));
    put.map_or(Cow::Borrowed(object), Cow::Owned)
}

/// Does the path of a resource lead elsewhere than it says, by `.` or `..`?
pub(super) fn is_devious(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let plain = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    plain.split('/').any(|segment| matches!(segment, "." | ".."))
}

/// A text of ours as JSON.
pub(super) fn json_text(text: &str) -> String {
    String::from_utf8(quoted(text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"{"x":1e400, "n\u0061me" : "l\u006fg","description":"shows\u00e9 it","inputSchema":{"type":"object","properties":{"repo":{"maximum":1e400},"n":{ }},"required":["n","repo"]},"annotations":{"title":"Log","readOnlyHint":true},"_meta":{"a":[1.0]}}"#;

    fn shown(rule: Rule, revision: Revision) -> String {
        let name = rule.rename.clone().unwrap_or_else(|| "log".to_owned());
        tool(ENTRY, &name, Some(&rule), revision)
    }

    #[test]
    fn only_what_is_spoken_of_changes() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(shown(Rule::default(), Revision::MODERN), ENTRY);
        assert_eq!(tool(ENTRY, "log", None, Revision::MODERN), ENTRY);
        let renamed = Rule { rename: text("history"), ..Rule::default() };
        assert_eq!(
            shown(renamed, Revision::MODERN),
            ENTRY.replace(r#""l\u006fg""#, r#""history""#)
        );
        let titled = Rule { title: text("The \"log\""), ..Rule::default() };
        let inside = ENTRY.replace(r#""title":"Log""#, r#""title":"The \"log\"""#);
        assert_eq!(shown(titled.clone(), Revision::V2025_03_26), inside);
        let put = inside.replace(r#""l\u006fg","#, r#""l\u006fg","title":"The \"log\"","#);
        assert_eq!(shown(titled, Revision::V2025_06_18), put);
        let appended = Rule { append: text("More."), ..Rule::default() };
        assert_eq!(
            shown(appended, Revision::MODERN),
            ENTRY.replace(r#""shows\u00e9 it""#, r#""showsé it\n\nMore.""#)
        );
        let none = Rule { title: text(""), description: text(""), ..Rule::default() };
        let without = ENTRY
            .replace(r#""description":"shows\u00e9 it","#, "")
            .replace(r#""title":"Log","#, "");
        assert_eq!(shown(none, Revision::MODERN), without);
        let fixed = [("repo".to_owned(), Json::null())].into_iter().collect();
        let fixed = Rule { fixed, ..Rule::default() };
        let less = ENTRY
            .replace(r#""repo":{"maximum":1e400},"#, "")
            .replace(r#"["n","repo"]"#, r#"["n"]"#);
        assert_eq!(shown(fixed, Revision::MODERN), less);
        let described = Rule { description: text("d"), ..Rule::default() };
        assert_eq!(
            tool(r#"{"name":"a","title":"A","x":1}"#, "a", Some(&described), Revision::MODERN),
            r#"{"name":"a","title":"A","description":"d","x":1}"#
        );
    }

    #[test]
    fn a_path_must_lead_where_it_says() {
        for uri in [
            "file:///srv/docs/../secret",
            "file:///srv/docs/%2e%2E/secret",
            "file:///srv/docs/.%2e%2fsecret",
            "file:///srv/docs/..\\secret",
            "file:///srv/docs/..%5Csecret",
            "file:///srv/./a",
            "file:///srv/..",
            "../a",
        ] {
            assert!(is_devious(uri), "{uri}");
        }
        for uri in ["file:///srv/docs/a..b", "file:///srv/...", "git://a/b.c", "x:a?b=/../", ""] {
            assert!(!is_devious(uri), "{uri}");
        }
    }
}
