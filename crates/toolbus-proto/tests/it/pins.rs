//! What is pinned of a tool, prompt or template, in the words of each wire: whichever character of
//! its definition is another one, its digest is; in whichever order its members come, it is not.

use toolbus_proto::json::Json;
use toolbus_proto::pin::{Definition, Layout, SPEC, digest};
use toolbus_proto::{listing, mcp, oracle, orchard};

/// A definition of each kind with all the members it may have, as its wire writes it.
fn definitions() -> Vec<(&'static str, Layout, String)> {
    let mcp = mcp::pin::LAYOUTS;
    let tool = r#"{"name":"a","title":"A","description":"Do a.\nThen b.","inputSchema":{"type":"object","properties":{"p":{"enum":["e",""],"maximum":1.50e1}},"required":["p"],"additionalProperties":false},"outputSchema":{"type":"string"},"annotations":{"title":"T","readOnlyHint":true},"icons":[{"src":"a:b"}],"_meta":{"k":[null,-0.0]},"x-cost":18446744073709551615}"#;
    let prompt = r#"{"name":"p","title":"P","description":"d","arguments":[{"name":"n","description":"d","required":true}],"_meta":{"k":1}}"#;
    let template = r#"{"uriTemplate":"a://{b}","name":"n","title":"t","description":"d","mimeType":"m","annotations":{"audience":["user"],"priority":0.5}}"#;
    let signature =
        r#"{"name":"f","signature":"f(a: u8, b: Array<felt252>) -> Option<ByteArray>"}"#;
    let action = r#"{"name":"run","description":"d","attrs":{"a":{"type":"string","required":true,"sensitive":true},"b":{"type":"list(number)","default":[1.0]}},"outputs":{"type":"any"}}"#;
    // What mediocre-rpc, Orchestra and NATS list is told in the words of toolbus.
    let spec = r#"{"name":"s","title":"S","description":"d","input":{"type":"object","properties":{"q":{"minimum":0}}},"output":{"type":"number"},"hints":{"read_only":true,"idempotent":false}}"#;
    let listed = listing::tool(&listing::read(&Json::from_trusted(spec)).expect("a tool"));
    vec![
        ("mcp tool", mcp.tool, tool.to_owned()),
        ("mcp prompt", mcp.prompt, prompt.to_owned()),
        ("mcp template", mcp.template, template.to_owned()),
        ("oracle", oracle::pin::LAYOUTS.tool, signature.to_owned()),
        ("orchard", orchard::pin::LAYOUTS.tool, action.to_owned()),
        ("mediocre, orchestra, nats", SPEC.tool, listed.to_string()),
    ]
}

fn plain(_: &str) -> Option<String> {
    None
}

/// The text with each of its characters in turn another one, as far as that still is JSON.
fn each_changed(text: &str) -> Vec<String> {
    let changed = |(at, c): (usize, char)| {
        let other = match c {
            '0'..='8' => char::from(c as u8 + 1),
            '9' | 'x' => '1',
            _ => 'x',
        };
        let text = format!("{}{other}{}", &text[..at], &text[at + c.len_utf8()..]);
        Json::parse(text.clone()).ok().map(|_| text)
    };
    let words =
        [("true", "false"), ("false", "true"), ("null", "0"), ("[", "[7,"), ("-0.0", "0.0")];
    let swapped = words.iter().flat_map(|(one, other)| {
        let all = text.match_indices(one).map(|(at, _)| at);
        all.map(move |at| format!("{}{other}{}", &text[..at], &text[at + one.len()..]))
    });
    let swapped = swapped.filter(|text| Json::parse(text.clone()).is_ok());
    text.char_indices().filter_map(changed).chain(swapped).collect()
}

#[test]
fn each_character_of_each_wire_counts() {
    for (what, layout, text) in definitions() {
        let known = Definition::read(&layout, &text, &plain).expect(what);
        let all = each_changed(&text);
        // Nearly every one can be changed: signs of JSON alone cannot.
        assert!(text.len() / 2 < all.len(), "{what}: {} of {}", all.len(), text.len());
        for changed in all {
            assert_ne!(digest(&changed).ok(), Some(known.digest), "{what}: {changed}");
            let Some(now) = Definition::read(&layout, &changed, &plain) else { continue };
            assert!(now.digest != known.digest, "{what}: {changed}");
            // People are told which member it is.
            assert!(now.name != known.name || !known.differing(&now).is_empty(), "{changed}");
        }
    }
}

/// The members of the object the other way round, and those of the objects in it.
fn reversed(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(all) => {
            format!("[{}]", all.iter().map(reversed).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Object(members) => {
            let member =
                |(name, value)| format!("{}: {}", serde_json::json!(name), reversed(value));
            let mut members: Vec<_> = members.iter().map(member).collect();
            members.sort_by(|one, other| other.cmp(one));
            format!("{{ {} }}", members.join(" ,"))
        }
        other => other.to_string(),
    }
}

#[test]
fn the_order_of_members_does_not_count() {
    for (what, layout, text) in definitions() {
        // Numbers keep their text, which this reader does not.
        let text = text.replace("1.50e1", "15").replace("-0.0", "0").replace("1.0", "1");
        let known = Definition::read(&layout, &text, &plain).expect(what);
        let value = serde_json::from_str(&text).expect("it is JSON");
        let now = Definition::read(&layout, &reversed(&value), &plain).expect(what);
        assert_eq!(now.digest, known.digest, "{what}");
        assert!(known.differing(&now).is_empty(), "{what}");
    }
}
