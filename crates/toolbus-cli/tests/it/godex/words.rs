//! Command lines that are wrong, and what is said about them.

use expect_test::{Expect, expect};
use toolbus_testkit::page::Program;
use toolbus_testkit::scratch::Scratch;

use super::command;

#[expect(clippy::needless_pass_by_value, reason = "taken as `expect!` gives it")]
fn check(words: &[&str], expected: Expect) {
    expected.assert_eq(&Program::of(command(words)).run().to_string());
}

#[test]
fn a_flag_that_is_true_or_false_takes_nothing_else() {
    check(
        &["exec", "--json=maybe", "hi"],
        expect![[r#"
            stderr
            error: `--json` cannot be `maybe`
            hint: it can be true, false
            exit 2
        "#]],
    );
}

#[test]
fn counts_are_whole_numbers() {
    check(
        &["exec", "--json", "hi", "--retries", "-1"],
        expect![[r#"
            stdout
            {"type":"error","message":"`--retries`: `-1` is no count: give a whole number, 0 for none","code":"usage"}
            stderr
            error: `--retries`: `-1` is no count: give a whole number, 0 for none
            exit 2
        "#]],
    );
    check(
        &["exec", "hi", "--max-turns", "0"],
        expect![[r#"
            stderr
            error: `--max-turns`: `0` is no count: give a whole number, 1 or more
            exit 2
        "#]],
    );
}

#[test]
fn an_address_that_is_spelled_wrong_is_told_with_the_right_one() {
    check(
        &["exec", "--json", "hi", "--tools-from", "buildin:"],
        expect![[r#"
            stdout
            {"type":"error","message":"unsupported connection scheme: \"buildin:\"; did you mean `builtin:`?","code":"usage"}
            stderr
            error: unsupported connection scheme: "buildin:"; did you mean `builtin:`?
            exit 2
        "#]],
    );
    check(
        &["exec", "hi", "--tools-from", "npx 'server"],
        expect![[r#"
            stderr
            error: the command `npx 'server` has a quote that is not closed
            exit 2
        "#]],
    );
}

#[test]
fn a_wrong_tool_is_told_by_its_value() {
    check(
        &["exec", "--mock", "hi", "--tool", "a:inline={x}"],
        expect![[r#"
            stderr
            error: --tool a:inline={x}: not JSON: unexpected `x` at line 1 column 2
            exit 2
        "#]],
    );
    check(
        &["exec", "--mock", "hi", "--tool", "a:inline={}", "--tool", "a:inline={\"b\":1}"],
        expect![[r#"
            stderr
            error: --tool a:inline={"b":1}: there are two functions `a`
            exit 2
        "#]],
    );
}

#[test]
fn godex_says_what_it_is() {
    let scratch = Scratch::new();
    let link = scratch.file("godex");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolbus"), &link).unwrap();
    let page = Program::new(&link).args(["--help"]).run();
    assert!(page.stdout.starts_with("Ask a model, and let it use your tools\n"), "{page}");
}
