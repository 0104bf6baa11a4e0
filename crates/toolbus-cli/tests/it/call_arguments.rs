//! `toolbus call`: what the words behind a tool mean, and names that no peer has.

use std::fs;

use expect_test::expect;
use toolbus_check::fixture::FIXTURES;
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::side_by_side::side_by_side;

use crate::mcp::DISCOVERED;
use crate::page::{Page, check, mcp_ourselves, mcp_server, our_command, ourselves};

#[test]
fn a_word_is_what_the_schema_says() {
    check(
        "call builtin: upper text=12",
        expect![[r#"
            stdout
            "12"
            exit 0
        "#]],
    );
    Page::of(&["call", &mcp_ourselves(&["builtin:"]), "upper", "text=true"]).check(expect![[r#"
        stdout
        "TRUE"
        exit 0
    "#]]);
    check(
        "call builtin: echo a=1 b=one c:=\"1\"",
        expect![[r#"
            stdout
            {"a":1,"b":"one","c":"1"}
            exit 0
        "#]],
    );
    check(
        "call builtin: upper text:=12",
        expect![[r#"
            stderr
            error: argument `text` must be a string
            exit 2
        "#]],
    );
}

#[test]
fn arguments_in_files() {
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (note, all) =
        (file("note.txt", "two\nlines\n"), file("all.json", "{\"a\": 1,\n\"b\": 2}\n"));
    Page::of(&["call", "builtin:", "upper", &format!("text=@{note}")]).check(expect![[r#"
        stdout
        "TWO\nLINES\n"
        exit 0
    "#]]);
    Page::of(&["call", "builtin:", "add", &format!("@{all}")]).check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    Page::of(&["call", "builtin:", "echo", &format!("x:=@{all}")]).check(expect![[r#"
        stdout
        {"x":{"a":1,"b":2}}
        exit 0
    "#]]);
    Page::of(&["call", "builtin:", "add", "-"]).stdin("{\"a\":1,\"b\":2}\n").check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    check(
        "call builtin: upper text=@nowhere.txt",
        expect![[r#"
            stderr
            error: cannot read `nowhere.txt`
              caused by: No such file or directory (os error 2)
            hint: `@` names a file; the text itself is `text:='"@nowhere.txt"'`
            exit 2
        "#]],
    );
    Page::of(&["call", "builtin:", "add", "-"]).stdin("a=1").check(expect![[r#"
        stderr
        error: argument `standard input` is not valid JSON
          caused by: expected value at line 1 column 1
        hint: give one JSON value (`'{"a":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)
        exit 2
    "#]]);
}

#[test]
fn an_argument_that_a_tool_does_not_take() {
    let provider = format!("orchard+stdio:{}", our_command(&["provider", "builtin:"]));
    Page::of(&["call", &provider, "upper", "tex=hi"]).check(expect![[r#"
        stderr
        error: `upper` takes no argument `tex`
        hint: did you mean `text`?
        exit 2
    "#]]);
    Page::of(&["call", "--json", &ourselves(&["builtin:"]), "upper", "text=hi", "colour=red"])
        .check(expect![[r#"
            stdout
            {"error":{"kind":"invalid_arguments","message":"`upper` takes no argument `colour`"}}
            stderr
            error: `upper` takes no argument `colour`
            hint: it takes `text`
            exit 2
        "#]]);
}

/// An MCP server of the new era with one tool; what it is called with it says on standard error.
fn described(then: &[&str]) -> String {
    let schema = r#"{"type":"object","properties":{"level":{"type":"string","enum":["error","success","debug"]},"n":{"type":"integer","minimum":1,"maximum":5},"entities":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}},"required":["level"],"additionalProperties":false}"#;
    let tools = format!(
        r#"{{"resultType":"complete","tools":[{{"name":"f","inputSchema":{schema}}}],"ttlMs":0,"cacheScope":"private"}}"#
    );
    let steps = ["read", "answer", DISCOVERED, "read", "answer", &tools];
    mcp_server(&[&steps[..], then, &["readall"]].concat())
}

#[test]
fn arguments_of_an_mcp_tool_are_judged_before_they_are_sent() {
    let way_out =
        "`toolbus describe` shows what it takes, `--no-check` sends the arguments as they are";
    let cases: [(&[&str], &str, &str); 8] = [
        (&[], "argument `level` is missing", way_out),
        (&["n=1"], "argument `level` is missing", way_out),
        (&["levl=error"], "`f` takes no argument `levl`", "did you mean `level`?"),
        (
            &["level=sucess"],
            "argument `level` must be `error`, `success` or `debug`",
            "did you mean `success`?",
        ),
        (&["level=debug", "n=9"], "argument `n` must be an integer from 1 to 5", way_out),
        (&[r#"{"level":"debug","n":"1"}"#], "argument `n` must be an integer from 1 to 5", way_out),
        (
            &["level=debug", r#"entities=[{"name":"a",}]"#],
            "argument `entities` is not valid JSON: trailing comma at line 1 column 14",
            "it must be an array: `entities='[…]'`",
        ),
        (
            &["level=debug", r#"entities=[{"nme":"a"}]"#],
            "argument `entities[0].name` is missing",
            "did you mean `entities[0].name` by `nme`?",
        ),
    ];
    side_by_side(&cases, |(words, error, hint)| {
        let server = described(&[]);
        let words: Vec<_> =
            ["call", &server, "f"].into_iter().chain(words.iter().copied()).collect();
        let page = Page::of(&words).run();
        let told = format!("error: {error}\nhint: {hint}\n");
        assert_eq!((page.stderr.as_str(), page.status.code()), (&*told, Some(2)), "{page}");
    });
}

#[test]
fn arguments_are_sent_as_they_are_if_the_user_wants_that() {
    let done = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;
    let server = described(&["read", "err", "$LINE", "answer", done]);
    let words = ["-v", "call", "--no-check", &server, "f", "levl=1", "entities=[1,"];
    let page = Page::of(&words).run();
    assert_eq!((page.stdout.as_str(), page.status.code()), ("\"done\"\n", Some(0)), "{page}");
    assert!(page.stderr.contains(r#""arguments":{"levl":1,"entities":"[1,"}"#), "{page}");
    // What is no word needs no schema, and none is asked for.
    let server = mcp_server(&["read", "answer", DISCOVERED, "read", "answer", done, "readall"]);
    Page::of(&["call", "--no-check", &server, "f", "{}"]).check(expect![[r#"
        stdout
        "done"
        exit 0
    "#]]);
}

#[test]
fn a_misspelt_tool_is_told_alike_on_every_wire() {
    let wires = FIXTURES.into_iter();
    let mut tried = 0;
    for (wire, fixture) in wires {
        let words: Vec<_> = fixture.words.iter().copied().chain(["builtin:"]).collect();
        let address = format!("{}{}", fixture.scheme, our_command(&words));
        for arguments in ["text=hi", r#"{"text":"hi"}"#] {
            let page = Page::of(&["call", &address, "uppr", arguments]).run();
            let told = "error: no such tool: `uppr`\nhint: did you mean `upper`?\n";
            assert_eq!((page.stderr.as_str(), page.status.code()), (told, Some(2)), "{wire}");
        }
        tried += 1;
    }
    assert!(tried > 3, "{tried}");
}
