//! What people wrote stays as it was: what is put into a text and taken out again leaves no trace.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolbus_proto::edit::jsonc::Document;
use toolbus_proto::edit::toml::{TablePlace, Tables};

/// Blanks and comments between the words of a JSON text.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        3 => Just(" ".to_owned()),
        3 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" /* } , \" */ ".to_owned()),
        1 => Just(" // { \"\n".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("-2.5e3".to_owned()),
        Just("\"a \\\" // b\"".to_owned()),
        Just("[1, [ ], {\"x\" : null,},]".to_owned()),
        Just("{}".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| object(inner, "m"))
}

/// An object whose members are called `m0`, `m1` and so on.
fn object(
    value: impl Strategy<Value = String>,
    name: &'static str,
) -> impl Strategy<Value = String> {
    let member = (gap(), gap(), gap(), value, gap());
    (proptest::collection::vec(member, 0..4), any::<bool>(), gap()).prop_map(
        move |(members, has_comma, end)| {
            let count = members.len();
            let member =
                |(at, (a, b, c, value, d)): (usize, (String, String, String, String, String))| {
                    let comma = if at + 1 < count || has_comma { "," } else { "" };
                    format!("{a}\"{name}{at}\"{b}:{c}{value}{d}{comma}")
                };
            let members: String = members.into_iter().enumerate().map(member).collect();
            format!("{{{members}{end}}}")
        },
    )
}

/// The config of a client: with servers, or without.
fn config() -> impl Strategy<Value = String> {
    let servers = object(value(), "s");
    (gap(), proptest::option::of(servers), object(value(), "o"), gap()).prop_map(
        |(before, servers, others, behind)| {
            let members = others[1..].to_owned();
            let is_alone = !members.contains('"');
            let servers = servers.map(|servers| match is_alone {
                true => format!("\"mcpServers\": {servers}"),
                false => format!("\"mcpServers\": {servers},"),
            });
            format!("{before}{{{}{members}{behind}", servers.unwrap_or_default())
        },
    )
}

fn comments_closed(text: &str) -> bool {
    Document::read(text).is_ok()
}

proptest! {
    #[test]
    fn a_member_that_is_put_in_is_there_and_all_else_stays(text in config()) {
        prop_assume!(comments_closed(&text));
        let path = ["mcpServers", "toolbus"];
        let entry = json!({"command": "/usr/bin/toolbus", "args": ["mcp", "--config", "/a b"]});
        let before = Document::read(&text).unwrap();
        let with = before.with(&path, &entry).unwrap();
        // One insertion, and nothing else.
        let head = text.bytes().zip(with.bytes()).take_while(|(one, other)| one == other).count();
        let tail = text.bytes().rev().zip(with.bytes().rev()).take_while(|(one, other)| one == other);
        prop_assert!(text.len() <= head + tail.count());
        let after = Document::read(&with).unwrap();
        prop_assert_eq!(after.value(&path).unwrap(), Some(entry));
        let without = after.without(&path).unwrap();
        match before.is_object(&path[..1]) {
            true => prop_assert_eq!(&without, &text),
            false => {
                let left = Document::read(&without).unwrap();
                prop_assert_eq!(left.value(&path[..1]).unwrap(), Some(json!({})));
            }
        }
    }

    #[test]
    fn what_is_taken_out_takes_nothing_with_it(text in config(), at in 0..4_usize) {
        prop_assume!(comments_closed(&text));
        let name = format!("s{at}");
        let path = ["mcpServers", name.as_str()];
        let before = Document::read(&text).unwrap();
        let without = before.without(&path).unwrap();
        let mut expected = before.value(&[]).unwrap().unwrap();
        if let Some(servers) = expected.get_mut("mcpServers").and_then(Value::as_object_mut) {
            servers.remove(&name);
        }
        let after = Document::read(&without).map_err(|error| TestCaseError::fail(format!("{error:?}: {without}")))?;
        prop_assert_eq!(after.value(&[]).unwrap().unwrap(), expected);
    }

    #[test]
    fn a_table_that_is_added_and_taken_out_leaves_no_trace(
        pieces in proptest::collection::vec(0..10_usize, 0..8),
        crlf in any::<bool>(),
        has_mark in any::<bool>(),
    ) {
        let mut names = 0;
        let mut text = String::new();
        let mut is_root = true;
        for piece in pieces {
            names += 1;
            let piece = match piece {
                0 => "# a comment\n".to_owned(),
                1 => "\n".to_owned(),
                2 if is_root => format!("k{names} = [ 1, # one\n  2 ]\n"),
                2 => format!("k{names} = '''\n[back.x]\n# y'''\n"),
                3 => format!("[back.b{names}] # c\nconnect = \"builtin:\"\n"),
                4 => format!("[back.b{names}]\nconnect = \"x\"\n[back.b{names}.oauth]\nscopes = [\n\"a\"]\n"),
                5 => format!("[front.f{names}]\nserve = \"x\"\n\n"),
                6 => "  # far\n\n# near\n".to_owned(),
                7 => "#:schema https://x\n".to_owned(),
                8 if is_root => format!("back.d{names}.connect = 'x'\n"),
                8 => format!("[view.v{names}]\nshow = [\"a.*\"]\n"),
                _ => format!("[back.\"q{names}\"]\nenv = {{ A = \"b\" }}\n# end\n"),
            };
            is_root &= !piece.contains("\n[") && !piece.starts_with('[');
            text.push_str(&piece);
        }
        if crlf {
            text = text.replace('\n', "\r\n");
        }
        if has_mark {
            text.insert(0, '\u{feff}');
        }
        let table = "# io.example/x 1.0: does it\n[back.new]\nconnect = \"mcp+stdio:x\"\nenv = { A = \"b\" }\n";
        let before = Tables::read(&text).unwrap();
        let with = before.with("back", table, TablePlace::BehindItsFamily).unwrap();
        let after = Tables::read(&with).unwrap();
        prop_assert!(after.has("back", "new"));
        prop_assert_eq!(after.without("back", "new"), text.clone());
        let again = after.replaced("back", "new", "[back.new]\nconnect = \"y\"\n", TablePlace::BehindItsFamily);
        prop_assert_eq!(Tables::read(&again.unwrap()).unwrap().without("back", "new"), text.clone());
        let end = before.with("mcp_servers", "[mcp_servers.toolbus]\nurl = \"x\"\n", TablePlace::AtTheEnd).unwrap();
        prop_assert_eq!(Tables::read(&end).unwrap().without("mcp_servers", "toolbus"), text);
    }
}
