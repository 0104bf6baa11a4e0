//! Files of others that one thing is put into and taken out of, whatever they hold.

use serde_json::json;
use toolbus_proto::edit::jsonc::Document;
use toolbus_proto::edit::toml::{TablePlace, Tables};

/// The config of an editor: what is put in is there, and is gone when it is taken out.
pub fn jsonc(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(before) = Document::read(text) else { return };
    let path = ["mcpServers", "toolbus"];
    let entry = json!({"command": "/t", "args": ["mcp", "a \"b\"\n"]});
    let Ok(there) = before.value(&path) else { return };
    let with = before.with(&path, &entry).expect("the way there is free");
    let after = Document::read(&with).expect("what we write can be read");
    assert_eq!(after.value(&path).expect("the way there is free"), Some(entry), "{with}");
    let without = after.without(&path).expect("the way there is free");
    let left = Document::read(&without).expect("what we write can be read");
    assert_eq!(left.value(&path).expect("the way there is free"), None, "{without}");
    if there.is_none() && before.is_object(&path[..1]) {
        assert_eq!(without, text, "{with}");
    }
}

/// A config: a table that is added and taken out leaves at most the end of the last line.
pub fn tables(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(before) = Tables::read(text) else { return };
    if before.has("back", "new") {
        let _ = before.without("back", "new");
        return;
    }
    let table = "# c\n[back.new]\nconnect = \"x\"\n";
    let Ok(with) = before.with("back", table, TablePlace::BehindItsFamily) else { return };
    let after = Tables::read(&with).expect("what we write can be read");
    assert!(after.has("back", "new"), "{with}");
    let without = after.without("back", "new");
    let end = without.strip_prefix(text);
    assert!(matches!(end, Some("" | "\n" | "\r\n")), "{text:?} {without:?}");
}
