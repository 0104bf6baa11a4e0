//! An author's tools behind a bus, without any wire.

use expect_test::{Expect, expect};
use toolbus_proto::channel::Up;
use toolbus_proto::json;
use toolbus_proto::tool::{Call, Code, Outcome, Part};
use toolbus_testkit::runtime::run;

use super::*;
use crate::bus::back::Back;
use crate::engine::calls::Inbox;

fn json(text: &'static str) -> json::Json {
    json::Json::parse(text).unwrap()
}

/// What a tool answers to a call with these arguments and with what follows them.
#[track_caller]
fn check(tool: Tool, arguments: Option<&'static str>, behind: &[Up], expected: Expect) {
    let now = tokio::time::Instant::now().into_std();
    let mut call = Call::tool(now, tool.spec.name.clone(), arguments.map(json));
    call.options.sends_parts = !behind.is_empty();
    check_call(tool, call, behind, expected);
}

#[track_caller]
fn check_call(tool: Tool, call: Call, behind: &[Up], expected: Expect) {
    let tools = Tools::new("test", "0").with(tool).into_back();
    run(async {
        let (inbox, reply_to) = Inbox::new();
        let running = Back::start(&tools, call, reply_to);
        for up in behind {
            let _ = running.send(up.clone());
        }
        let told = match inbox.whole(running).await {
            Ok(Outcome::Text(text)) => format!("text {text}"),
            Ok(Outcome::Value(json)) => format!("value {json}"),
            Ok(other) => format!("{other:?}"),
            Err(failure) => format!("{} {failure}", failure.kind),
        };
        expected.assert_eq(&told);
    });
}

#[test]
fn a_tool_sees_what_is_for_traces_and_logs() {
    let tools = [
        || Tool::with_context("t", |_: Nothing, context: &mut Context<'_>| told(context.debug())),
        || {
            Tool::async_with_context("t", async |_: Nothing, context: AsyncContext| {
                told(context.debug())
            })
        },
    ];
    for tool in tools {
        let mut call = Call::tool(tokio::time::Instant::now().into_std(), "t", None);
        check_call(tool(), call.clone(), &[], expect!["text none"]);
        call.debug = Some(Box::new(json(r#"{"id": 1.0}"#)));
        check_call(tool(), call, &[], expect![[r#"text {"id": 1.0}"#]]);
    }
}

fn told(debug: Option<&str>) -> String {
    debug.unwrap_or("none").to_owned()
}

#[test]
fn parts_of_an_async_tool_go_before_what_it_returns() {
    let tool = Tool::async_with_context("t", async |_: Nothing, context: AsyncContext| {
        context.text("a").await;
        context.json(&[1, 2]).await;
        context.bytes("hi", "text/plain").await;
        "end"
    });
    let expected = expect![[r#"value {"elements":["a",[1,2],{"$bytes":"aGk="}],"tail":"end"}"#]];
    check(tool, None, &[], expected);
}

#[test]
fn parts_of_a_tool_in_place_have_a_limit() {
    let tool = |bytes: usize| {
        Tool::with_context("t", move |_: Nothing, context: &mut Context<'_>| {
            context.text("x".repeat(bytes));
            context.is_cancelled()
        })
    };
    check(tool(3), None, &[], expect![[r#"value {"elements":["xxx"],"tail":false}"#]]);
    check(
        tool(17 << 20),
        None,
        &[],
        expect!["too_large the reply is over the limit of 16 MiB (16777216 bytes)"],
    );
}

#[test]
fn input_that_comes_in_parts_is_collected() {
    let behind = [Up::Part(Part::Json(json("1"))), Up::Part(Part::Text("b".into())), Up::End(None)];
    let raw = || Tool::new("t", |arguments: Raw| arguments);
    check(
        raw(),
        Some(r#"{"a":1}"#),
        &behind,
        expect![[r#"value {"args":{"a":1},"elements":[1,"b"]}"#]],
    );
    check(raw(), Some(r#"{"a":1}"#), &[Up::End(None)], expect![[r#"value {"a":1}"#]]);
}

#[test]
fn errors_are_what_they_display_and_failures_stay_what_they_are() {
    let fails = |_: Nothing| Err::<String, _>("no".parse::<u8>().unwrap_err());
    check(Tool::new("t", fails), None, &[], expect!["failed invalid digit found in string"]);
    let fails = |_: Nothing| {
        let failure = Failure::new(FailureKind::Unavailable, "not today");
        Err::<(), _>(Failure { code: Some(Code::Number(7)), ..failure })
    };
    check(Tool::new("t", fails), None, &[], expect!["unavailable 7: not today"]);
    let panics = async |_: Nothing| -> String { panic!("as asked") };
    check(Tool::new_async("t", panics), None, &[], expect!["failed the tool panicked: as asked"]);
}

#[test]
fn plain_values_are_json_and_have_a_schema() {
    let tool = Tool::new("t", |_: Nothing| -> Result<f64, String> { Ok(0.5) });
    assert_eq!(tool.spec.output, Some(json(r#"{"type":"number","format":"double"}"#)));
    check(tool, None, &[], expect!["value 0.5"]);
    check(Tool::new("t", |_: Nothing| true), None, &[], expect!["value true"]);
    check(Tool::new("t", |_: Nothing| ()), None, &[], expect!["value null"]);
}

#[test]
fn a_member_is_found_however_its_name_is_spelled() {
    let raw = Raw::parse(r#"{"a":1,"\u0061":"b\"c","d":[{"a":2}]}"#).unwrap();
    assert_eq!(raw.member("a").unwrap().text().as_deref(), Some("b\"c"));
    assert_eq!(raw.member("d").unwrap().as_str(), r#"[{"a":2}]"#);
    assert_eq!(raw.member("e"), None);
    assert_eq!(raw.member("d").unwrap().member("a"), None);
}

#[test]
#[should_panic(expected = "there are two tools of the name `t`")]
fn two_tools_of_one_name_are_the_authors_mistake() {
    let _ = Tools::new("test", "0").tool("t", |_: Nothing| "a").tool("t", |_: Nothing| "b");
}
