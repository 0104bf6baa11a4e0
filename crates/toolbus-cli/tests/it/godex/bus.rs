//! `--bus`: the tools of the config.

use std::fs;

use expect_test::{Expect, expect};
use toolbus_testkit::page::Program;
use toolbus_testkit::scratch::Scratch;

use super::command;

/// A run in this folder.
#[expect(clippy::needless_pass_by_value, reason = "taken as `expect!` gives it")]
fn check(folder: &Scratch, words: &[&str], expected: Expect) {
    let words = [&["exec", "hi", "--mock", "--mock-mode", "tool-loop"], words].concat();
    let mut command = command(&words);
    command.current_dir(folder.path());
    expected.assert_eq(&Program::of(command).run().to_string());
}

#[test]
fn the_tools_of_the_config_have_the_names_of_their_backs() {
    let folder = Scratch::new();
    fs::write(folder.file("toolbus.toml"), "[back.try]\nconnect = \"builtin:\"\n").unwrap();
    check(
        &folder,
        &["--bus", "--json"],
        expect![[r#"
            stdout
            {"type":"response.output_item.added","item":{"id":"fc_mock","type":"function_call","call_id":"call_mock","name":"try_add"}}
            {"type":"response.function_call_arguments.delta","item_id":"fc_mock","delta":"{\"a\":0,\"b\":0}"}
            {"type":"response.output_item.done","item":{"id":"fc_mock","type":"function_call","call_id":"call_mock","name":"try_add","arguments":"{\"a\":0,\"b\":0}"}}
            {"type":"response.output_text.delta","delta":"mock tool result: 0"}
            {"type":"response.completed","response":{"id":"mock-response","object":"response","status":"completed","usage":{"input_tokens":13,"output_tokens":5,"cached_tokens":0}}}
            exit 0
        "#]],
    );
    // Beside them, the tools of an address keep their own names.
    check(
        &folder,
        &["--bus", "--tools-from", "builtin:", "--tool-choice", "function:try_upper"],
        expect![[r#"
            stdout
            mock tool result: 0
            (no newline)
            exit 0
        "#]],
    );
    check(
        &folder,
        &["--bus", "--tool", "try_add:inline={}"],
        expect![[r#"
            stderr
            error: `--tool try_add` and the tool `try.add` would both be the function `try_add`
            exit 2
        "#]],
    );
    fs::rename(folder.file("toolbus.toml"), folder.file("other.toml")).unwrap();
    check(
        &folder,
        &["--bus", "--config", "other.toml"],
        expect![[r#"
            stdout
            mock tool result: 0
            (no newline)
            exit 0
        "#]],
    );
}

#[test]
fn a_config_that_is_not_there_is_named() {
    let folder = Scratch::new();
    check(
        &folder,
        &["--bus", "--json"],
        expect![[r#"
            stdout
            {"type":"error","message":"--bus: there is no `toolbus.toml` here; name a config by --config","code":"usage"}
            stderr
            error: --bus: there is no `toolbus.toml` here; name a config by --config
            exit 2
        "#]],
    );
    check(
        &folder,
        &["--bus", "--config", "other.toml"],
        expect![[r#"
            stderr
            error: cannot read the config `other.toml`: No such file or directory (os error 2)
            exit 2
        "#]],
    );
}
