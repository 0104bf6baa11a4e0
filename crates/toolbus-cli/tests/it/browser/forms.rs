//! Forms of every kind of schema, the raw text in their place, and what comes of a call.

use serde_json::{Value, json};
use toolbus_testkit::scratch::Scratch;

use super::{Shown, TCP, admin, offering, python};

const TYPED: &str = r##"{"type":"object","required":["city","days","sure"],"properties":{
"city":{"type":"string","description":"Where","minLength":2,"maxLength":5},
"days":{"type":"integer","minimum":1,"maximum":18446744073709551615},
"rate":{"type":"number"},
"sure":{"type":"boolean"},
"maybe":{"type":"boolean"},
"unit":{"enum":["metric","imperial",7]},
"only":{"const":{"a":1}},
"note":{"type":["string","null"],"default":"so\nit is"},
"tags":{"type":"array","items":{"type":"string"}},
"place":{"type":"object","properties":{"lat":{"type":"number"},"deep":{"type":"object","properties":{"er":{"type":"string"}}}}},
"named":{"$ref":"#/$defs/named"},
"itself":{"$ref":"#/$defs/itself"},
"any":{},
"either":{"anyOf":[{"type":"string"},{"type":"number"}]},
"several":{"type":["string","number"]},
"__proto__":{"type":"string"},
"a/b~c":{"type":"string"}},
"$defs":{"named":{"type":"string"},"itself":{"type":"object","properties":{"again":{"$ref":"#/$defs/itself"}}}}}"##;

/// A tool with this schema, chosen on a page that may call.
fn chosen(input: &str) -> Option<Shown> {
    let input: Value = serde_json::from_str(input).expect("is JSON");
    let result = json!({"content":[{"type":"text","text":"done"}]});
    let back = offering("one", &json!([{"name":"tool","inputSchema":input}]), &result);
    let shown = Shown::of(&format!("{back}{TCP}{}", admin("page = \"call\"")), 1)?;
    shown.go("view=tools&tool=one.tool");
    shown.until_there("form[data-form=\"one.tool\"]");
    // The arguments as they are sent, whatever becomes of them.
    shown.tab.run("const real = fetch; window.sent = []; window.fetch = (path, options) => \
                   { if (path === '/api/call') sent.push(options.body); return real(path, options) }");
    Some(shown)
}

fn field(pointer: &str) -> String {
    format!("[data-field=\"{pointer}\"]")
}

fn sent(shown: &Shown) -> String {
    shown.tab.until("sent.length");
    shown.tab.text("sent.pop()")
}

#[test]
fn each_kind_of_schema_has_its_field() {
    let Some(shown) = chosen(TYPED) else { return };
    let kind = |pointer: &str| {
        let found = json!(field(pointer));
        shown.tab.text(&format!(
            "(one => [one.localName, one.type ?? '', one.inputMode ?? '', one.dataset.kind ?? '', \
             one.required ? 'required' : ''].filter(Boolean).join(' '))(document.querySelector({found}))"
        ))
    };
    let kinds = [
        ("/city", "textarea textarea required"),
        ("/days", "input text numeric required"),
        ("/rate", "input text decimal"),
        ("/sure", "input checkbox required"),
        ("/maybe", "select select-one"),
        ("/unit", "select select-one"),
        ("/only", "select select-one"),
        ("/note", "textarea textarea"),
        ("/tags", "fieldset fieldset"),
        ("/place", "fieldset fieldset"),
        ("/place/lat", "input text decimal"),
        ("/place/deep", "fieldset fieldset"),
        ("/place/deep/er", "textarea textarea"),
        ("/named", "textarea textarea"),
        ("/itself/again", "textarea textarea json"),
        ("/any", "textarea textarea json"),
        ("/either", "textarea textarea json"),
        ("/several", "textarea textarea json"),
        ("/__proto__", "textarea textarea"),
        ("/a~1b~0c", "textarea textarea"),
    ];
    for (pointer, is) in kinds {
        assert_eq!(kind(pointer), is, "{pointer}");
    }
    let options = |pointer: &str| {
        shown.tab.get(&format!(
            "[...document.querySelector({}).options].map(one => one.value)",
            json!(field(pointer))
        ))
    };
    assert_eq!(options("/unit"), json!(["", "\"metric\"", "\"imperial\"", "7"]));
    assert_eq!(options("/maybe"), json!(["", "true", "false"]));
    assert_eq!(
        shown.tab.text(&format!("document.querySelector('{}').value", field("/note"))),
        "so\nit is"
    );
    // Each has a label and tells its errors to those who do not see.
    let alone = "[...document.querySelectorAll('[data-field]:not(fieldset)')].filter(one => !one.labels.length || \
                 !document.getElementById(one.getAttribute('aria-describedby').split(' ').pop()).dataset.fieldError)";
    assert_eq!(shown.tab.get(&format!("{alone}.map(one => one.dataset.field)")), json!([]));
    shown.assert_quiet();
}

#[test]
fn what_is_typed_is_checked_and_sent_as_it_was_typed() {
    let Some(shown) = chosen(TYPED) else { return };
    let tab = &shown.tab;
    let refused = |pointer: &str, why: &str| {
        tab.click("[data-action=call]");
        shown.until_says(&format!("[data-field-error=\"{pointer}\"]"), why);
        tab.until(&format!("document.activeElement.dataset.field === '{pointer}'"));
    };
    refused("/city", "at least 2 characters");
    tab.fill(&field("/city"), "Reykjavik");
    refused("/city", "at most 5 characters");
    tab.fill(&field("/city"), "Oslo");
    refused("/days", "is required");
    tab.fill(&field("/days"), "1.5");
    refused("/days", "must be a whole number");
    tab.fill(&field("/days"), "0");
    refused("/days", "must be at least 1");
    tab.fill(&field("/days"), "18446744073709551616");
    refused("/days", "must be at most 18446744073709551615");
    tab.fill(&field("/days"), "18446744073709551615");
    tab.fill(&field("/any"), "{\"not");
    refused("/any", "no JSON");
    assert_eq!(tab.get("sent.length"), 0);
    tab.fill(&field("/any"), "[1.0, 1e3]");
    tab.fill(&field("/rate"), "1.0");
    tab.click(&field("/sure"));
    tab.run(&format!("document.querySelector('{}').value = '7'", field("/unit")));
    tab.fill(&field("/__proto__"), "own");
    tab.fill(&field("/a~1b~0c"), "odd");
    tab.click("[data-action=add][data-for=\"/tags\"]");
    tab.fill(&field("/tags/0"), "first");
    tab.click("[data-action=add][data-for=\"/tags\"]");
    tab.fill(&field("/tags/1"), "second");
    tab.click("[data-action=remove][data-for=\"/tags/0\"]");
    tab.until(&format!("document.querySelector('{}').value === 'second'", field("/tags/0")));
    tab.key("Control+Enter");
    let all = r#"{"tool":"one.tool","arguments":{"city":"Oslo","days":18446744073709551615,"rate":1.0,"sure":true,"unit":7,"note":"so\nit is","tags":["second"],"any":[1.0, 1e3],"__proto__":"own","a/b~c":"odd"}}"#;
    let sorted = |text: &str| serde_json::from_str::<Value>(text).expect("is JSON").to_string();
    let body = sent(&shown);
    for typed in ["18446744073709551615", "\"rate\":1.0", "[1.0, 1e3]"] {
        assert!(body.contains(typed), "{body}");
    }
    assert_eq!(sorted(&body), sorted(all));
    shown.until_there("[data-output][data-outcome=ok]");
    shown.until_says("[data-output] [data-part=answer]", "done");
    shown.assert_quiet();
}

#[test]
fn raw_text_and_form_carry_what_was_typed_both_ways() {
    let Some(shown) = chosen(TYPED) else { return };
    let tab = &shown.tab;
    tab.fill(&field("/city"), "Oslo");
    tab.fill(&field("/days"), "3.0");
    tab.click("[data-action=raw]");
    let raw = tab.text("document.querySelector('textarea[data-raw]').value");
    assert!(raw.contains("\"city\": \"Oslo\"") && raw.contains("\"days\": 3.0"), "{raw}");
    tab.fill("textarea[data-raw]", "{\"city\":");
    tab.click("[data-action=raw]");
    shown.until_says("[data-field-error=\"\"]", "this is no JSON: it ends too early");
    tab.click("[data-action=call]");
    assert_eq!(tab.get("sent.length"), 0);
    tab.fill("textarea[data-raw]", "{\"city\":\"Rome\",\"days\":4,\"sure\":true,\"more\":[1.50]}");
    tab.click("[data-action=raw]");
    tab.until(&format!("document.querySelector('{}').value === 'Rome'", field("/city")));
    tab.click("[data-action=call]");
    let body = sent(&shown);
    // What the schema does not name is kept, too.
    assert!(body.contains("\"more\":[1.50]"), "{body}");
    shown.until_there("[data-output][data-outcome=ok]");
    shown.assert_quiet();
}

#[test]
fn schemas_that_no_form_fits_are_raw() {
    let many: String = (0..501).map(|n| format!("\"p{n}\":{{\"type\":\"string\"}},")).collect();
    let many = format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", many.trim_end_matches(','));
    for input in [r#"{"type":"object"}"#, &many] {
        let Some(shown) = chosen(input) else { return };
        shown.until_there("form[data-form] textarea[data-raw][data-kind=json]");
        shown.tab.click("[data-action=call]");
        assert_eq!(sent(&shown), r#"{"tool":"one.tool"}"#);
        shown.until_there("[data-output][data-outcome=ok]");
        shown.tab.fill("textarea[data-raw]", "{ \"a\" : 1.0 }");
        shown.tab.click("[data-action=call]");
        assert_eq!(sent(&shown), r#"{"tool":"one.tool","arguments":{ "a" : 1.0 }}"#);
        shown.assert_quiet();
    }
}

#[test]
fn answers_come_as_they_come_and_can_be_cancelled() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    shown.go("view=tools&tool=try.count");
    shown.until_there("form[data-form=\"try.count\"]");
    tab.fill(&field("/n"), "3");
    tab.click("[data-action=call]");
    shown.until_there("[data-output][data-outcome=ok]");
    tab.until("document.querySelectorAll('[data-output] [data-event=part]').length === 3");
    shown.until_there("[data-output] [data-event=begin]");
    shown.until_there("[data-output] [data-event=end]");
    shown.until_says("[data-output] [data-part=answer]", "\"elements\"");
    // Parts are there while it runs, which it would do for a day.
    tab.fill(&field("/n"), "1000000");
    tab.fill(&field("/ms"), "86");
    tab.click("[data-action=call]");
    shown.until_there("[data-output][data-outcome=running] [data-event=part]");
    tab.click("[data-action=cancel]");
    shown.until_there("[data-output][data-outcome=cancelled]");
    shown.go("view=tools&tool=try.sleep");
    shown.until_there("form[data-form=\"try.sleep\"]");
    tab.fill(&field("/ms"), "86400000");
    tab.click("[data-action=call]");
    shown.until_there("[data-output][data-outcome=running]");
    assert_eq!(tab.get("document.querySelector('[data-action=call]').disabled"), true);
    tab.click("[data-action=cancel]");
    shown.until_there("[data-output][data-outcome=cancelled]");
    tab.until("!document.querySelector('[data-action=cancel]') && !document.querySelector('[data-action=call]').disabled");
    // The bus has cancelled it, too, and says so to those who do not see.
    shown.until_says("[aria-live=polite]", "cancelled");
    shown.go("view=calls");
    shown.until_there("tr[data-call=\"3\"][data-outcome=cancelled]");
    shown.go("view=tools&tool=try.fail");
    shown.until_there("form[data-form=\"try.fail\"]");
    tab.fill(&field("/message"), "not <b>today</b>");
    tab.click("[data-action=call]");
    shown.until_there("[data-output][data-outcome=failed]");
    shown.until_says("[data-output] [data-part=failure]", "not <b>today</b>");
    shown.go("view=tools&tool=try.blob");
    shown.until_there("form[data-form=\"try.blob\"]");
    tab.fill(&field("/bytes"), "1000");
    tab.click("[data-action=call]");
    shown.until_says("[data-output] [data-event=part]", "1000 B of application/octet-stream");
    shown.until_there("[data-output] [data-event=part] [data-action=download]");
    shown.assert_quiet();
}

#[test]
fn a_question_of_a_tool_is_a_form_and_is_answered() {
    let scratch = Scratch::new();
    let tools = json!([{"name":"book","inputSchema":{"type":"object","properties":{}}}]);
    let Some(back) = python(&scratch, "trip", &tools) else { return };
    let Some(shown) = Shown::of(&format!("{back}{TCP}{}", admin("page = \"call\"")), 1) else {
        return;
    };
    let tab = &shown.tab;
    shown.go("view=tools&tool=trip.book");
    tab.click("[data-action=call]");
    shown.until_says("form[data-ask]", "Which <b>city</b>?");
    let of = |pointer: &str| format!("form[data-ask] {}", field(pointer));
    assert_eq!(tab.text(&format!("document.querySelector('{}').value", of("/days"))), "3");
    tab.fill(&of("/city"), "Ulm");
    tab.click("form[data-ask] [data-action=accept]");
    shown.until_there("[data-output][data-outcome=ok]");
    shown.until_says("[data-output] [data-part=answer]", "Ulm");
    tab.until("!document.querySelector('form[data-ask]')");
    tab.click("[data-action=call]");
    tab.click("form[data-ask] [data-action=decline]");
    shown.until_says("[data-output][data-outcome=ok] [data-part=answer]", "decline");
    shown.until_there("[data-output] [data-event=ask]");
    shown.assert_quiet();
}

#[test]
fn a_page_that_may_only_look_has_no_forms() {
    let config = format!("{}{TCP}{}", crate::serve::BUILTIN, admin("page = \"look\""));
    let Some(shown) = Shown::of(&config, 1) else { return };
    shown.go("view=tools&tool=try.add");
    shown.until_there("[data-schema]");
    assert_eq!(shown.tab.text("document.documentElement.dataset.page"), "look");
    let forms = "document.querySelectorAll('[data-form], [data-action=call], [data-action=raw], [data-action=again]').length";
    assert_eq!(shown.tab.get(forms), 0);
    // A reload of the config lets it call, without another word.
    let config = format!("{}{TCP}{}", crate::serve::BUILTIN, admin("page = \"call\""));
    shown.config.reload(&shown.server, &config);
    shown.until_there("form[data-form=\"try.add\"]");
    shown.assert_quiet();
}
