//! `toolbus call`: what the words behind a tool mean, and names that no peer has.

use std::fs;

use expect_test::expect;
use toolbus::wire::Registry;
use toolbus_testkit::scratch::Scratch;

use crate::page::{Page, check, mcp_ourselves, our_command, ourselves};

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

#[test]
fn a_misspelt_tool_is_told_alike_on_every_wire() {
    let registry = Registry::default();
    let wires = registry.wires().filter_map(|kind| Some((kind.name(), kind.fixture()?)));
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
