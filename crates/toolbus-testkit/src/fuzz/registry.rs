//! The answer of a registry of MCP servers, as whoever keeps it may write it.

use toolbus_proto::registry::{Document, Reached, Wish, may_be_called};

/// All that may be run, whatever a document says.
const RUNNERS: [&str; 6] = ["npx", "bunx", "uvx", "pipx", "docker", "podman"];

/// A server document: the program that is run is one of ours, and nothing of it can end a line.
pub fn document(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(document) = Document::find(text, "a.b/c", None) else { return };
    assert!(!document.comment().contains(char::is_control), "{text}");
    let set = [("path".to_owned(), "/p".to_owned())];
    for (set, remote) in [(&set[..], false), (&[], false), (&[], true)] {
        let wish = Wish { remote, set, ..Wish::default() };
        let Ok(described) = document.back(wish, &|program| program != "docker") else { continue };
        match &described.reached {
            Reached::Command(words) => {
                assert!(RUNNERS.contains(&words[0].as_str()), "{words:?}");
                assert!(!words.iter().any(|word| word.contains(char::is_control)), "{words:?}");
            }
            Reached::Url { url, .. } => assert!(may_be_called(url), "{url}"),
        }
        for (name, value) in described.env.iter().chain(&described.headers) {
            assert!(!name.contains(char::is_control), "{name:?}");
            assert!(!value.contains(char::is_control), "{value:?}");
        }
    }
}
