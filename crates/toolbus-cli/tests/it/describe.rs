//! `toolbus describe`: one tool for people, a line for scripts; and lists on a terminal.

use expect_test::expect;

use crate::page::{Page, check, mcp_ourselves};
use crate::terminal::Terminal;

#[test]
fn a_tool_for_people() {
    check(
        "describe builtin: count",
        expect![[r#"
            stdout
            count

              Count from 0 up to n - 1, one element after the other

            Arguments:
              n        integer, required, from 0
              ms       integer, from 0
              fail_at  integer, from 0

            Answer:
              object with elements: array of integer

            Example:
              toolbus call builtin: count n=0
            exit 0
        "#]],
    );
    check(
        "describe builtin: echo",
        expect![[r#"
        stdout
        echo

          Give back what came

        Arguments:
          any JSON value

        Example:
          toolbus call builtin: echo
        exit 0
    "#]],
    );
    let numbers = "[back.my]\nconnect = \"builtin:\"\n";
    Page::of(&["describe", "my.sleep"]).config("describe_config", numbers).check(expect![[r#"
        stdout
        my.sleep

          Wait this many milliseconds

        Arguments:
          ms  integer, required, from 0 to 86400000

        Answer:
          object with slept_ms: integer

        Example:
          toolbus call my.sleep ms=0
        exit 0
    "#]]);
}

#[test]
fn a_tool_for_scripts() {
    check(
        "describe --json builtin: add",
        expect![[r#"
        stdout
        {"name":"add","description":"Add two numbers","input":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},"output":{"type":"number"},"address":"builtin:"}
        exit 0
    "#]],
    );
}

#[test]
fn a_tool_that_is_not_there() {
    check(
        "describe builtin: ad",
        expect![[r#"
        stderr
        error: no such tool: `ad`
        hint: did you mean `add`?
        exit 2
    "#]],
    );
    check(
        "describe builtn add",
        expect![[r#"
            stderr
            error: `builtn` stands before the tool and is no address
            usage: toolbus describe [OPTIONS] [ADDRESS] TOOL
            hint: a tool of the config is one word, `<back>.<tool>`
            exit 2
        "#]],
    );
    let config = "[back.my]\nconnect = \"builtin:\"\n";
    for command in ["describe", "call"] {
        let page = Page::of(&[command, "add"]).config("describe_no_back", config).run();
        let told = "error: no such tool: `add`\nhint: a tool of the config is `<back>.<tool>`; `toolbus tools` lists them\n";
        assert_eq!((page.stderr.as_str(), page.status.code()), (told, Some(2)));
    }
    check(
        "describe builtin:",
        expect![[r#"
            stderr
            error: TOOL is missing
            usage: toolbus describe [OPTIONS] [ADDRESS] TOOL
            hint: `toolbus tools` lists what can be described
            exit 2
        "#]],
    );
    Page::of(&["describe", &mcp_ourselves(&["builtin:"]), "uppr"]).check(expect![[r#"
        stderr
        error: no such tool: `uppr`
        hint: did you mean `upper`?
        exit 2
    "#]]);
}

#[test]
fn a_list_fits_the_terminal() {
    let shown = Terminal::of(40).shown(&["tools", "builtin:"]);
    expect![[r#"
        add    a, b              Add two numbers
        blob   bytes, seed?      Give that many…
        count  n, ms?, fail_at?  Count from 0 u…
        early                    Answer before…
        echo                     Give back what…
        fail   message, code?    Fail with this…
        sink   elements?, hash?  Count the elem…
        sleep  ms                Wait this many…
        upper  text              Put a text in…
    "#]]
    .assert_eq(&shown);
}
