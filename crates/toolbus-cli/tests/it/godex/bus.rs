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
fn the_journal_of_the_config_has_each_tool_that_is_called() {
    let folder = Scratch::new();
    let config = "[back.try]\nconnect = \"builtin:\"\n[journal]\npath = \"calls.jsonl\"\n";
    fs::write(folder.file("toolbus.toml"), config).unwrap();
    for from in [&["--bus"][..], &["--bus", "--tools-from", "builtin:"]] {
        let words = [&["exec", "hi", "--mock", "--mock-mode", "tool-loop"], from].concat();
        let mut command = command(&words);
        command.current_dir(folder.path());
        Program::of(command).run();
    }
    expect![[r#"
        exec try add ok
        exec builtin add ok
    "#]]
    .assert_eq(&crate::journal::told(&folder.file("calls.jsonl"), 2));
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

#[test]
fn a_back_that_is_down_is_left_out_unless_there_is_no_other() {
    let folder = Scratch::new();
    let down = "[back.down]\nconnect = \"stdio:sh -c 'echo no licence >&2; exit 3'\"\n";
    let other = "[back.try]\nconnect = \"builtin:\"\n";
    fs::write(folder.file("toolbus.toml"), format!("{down}{other}")).unwrap();
    check(
        &folder,
        &["--bus"],
        expect![[r#"
            stdout
            mock tool result: 0
            (no newline)
            stderr
            warning: down: left out: `down` ended with exit status 3 before it was ready
            [down] no licence
            exit 0
        "#]],
    );
    fs::write(folder.file("toolbus.toml"), down).unwrap();
    check(
        &folder,
        &["--bus"],
        expect![[r#"
            stderr
            error: cannot use `stdio:sh -c 'echo no licence >&2; exit 3'`: `down` ended with exit status 3 before it was ready
            exit status 3
              | no licence
            exit 3
        "#]],
    );
}

#[test]
fn the_model_is_offered_what_is_allowed() {
    let folder = Scratch::new();
    fs::write(folder.file("toolbus.toml"), "[back.try]\nconnect = \"builtin:\"\n").unwrap();
    // As toolbus lists it, and as the model says it.
    for pattern in ["try.f?il", "try_fa*"] {
        check(
            &folder,
            &["--bus", "--allow", "nothing*", "--allow", pattern],
            expect![[r#"
                stdout
                mock tool result: error: failed: 
                (no newline)
                stderr
                warning: `--allow nothing*` matches no tool
                exit 0
            "#]],
        );
    }
    check(
        &folder,
        &["--tools-from", "builtin:", "--allow", "uper", "--dry-run", "--session-id", "s"],
        expect![[r#"
            stdout
            {"model":"gpt-5.2-codex","instructions":"You are a helpful assistant.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}],"tool_choice":"auto","store":false,"stream":true,"prompt_cache_key":"s"}
            stderr
            warning: `--allow uper` matches no tool, did you mean `upper`?
            exit 0
        "#]],
    );
    for (words, why) in [
        (&["--allow", "x"][..], "--allow is of use only with --tools-from or --bus"),
        (&["--ask"], "--ask is of use only with --tools-from or --bus"),
        (&["--bus", "--allow", " "], "--allow is blank"),
        (
            &["--bus", "--ask"],
            "--ask needs a terminal: there is nobody here who could answer its questions",
        ),
    ] {
        let mut command = command(&[&["exec", "hi", "--mock"], words].concat());
        command.current_dir(folder.path());
        let page = Program::of(command).run();
        assert_eq!(page.to_string(), format!("stderr\nerror: {why}\nexit 2\n"));
    }
}

#[test]
fn one_name_from_two_addresses_is_an_error_that_names_both() {
    let folder = Scratch::new();
    check(
        &folder,
        &["--tools-from", "godex+stdio:one", "--tools-from", "godex+stdio:two"],
        expect![[r#"
            stderr
            error: tool `ask` is offered by both `godex+stdio:one` and `godex+stdio:two`
            hint: name the backs in a config: there their tools are `<back>.<tool>`
            exit 2
        "#]],
    );
}
