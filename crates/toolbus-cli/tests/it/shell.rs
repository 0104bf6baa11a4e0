//! `shell:`: one tool that runs any command, off unless the user allows it.

use expect_test::expect;

use crate::page::Page;

const EXEC: &str = "exec(command: ByteArray) -> (i32, ByteArray)";

#[test]
fn a_command_is_run_and_its_exit_code_is_no_failure() {
    let words = ["oracle", "invoke", "--allow-shell", "--fn", EXEC, "shell:", "exec"];
    Page::of(&[&words[..], &["printf hi; exit 3"]].concat()).check(expect![[r#"
        stdout
        [3,"hi"]
        exit 0
    "#]]);
    Page::of(&[&words[..], &["kill -9 $$"]].concat()).check(expect![[r#"
        stdout
        [137,""]
        exit 0
    "#]]);
}

#[test]
fn it_is_a_tool_named_exec() {
    let words = ["call", "--allow-shell", "shell:", "exec", "command=echo hey"];
    Page::of(&words).check(expect![[r#"
        stdout
        [0,"hey\n"]
        exit 0
    "#]]);
}

#[test]
fn it_is_off_unless_it_is_allowed() {
    Page::of(&["oracle", "invoke", "shell:", "exec"]).check(expect![[r#"
        stderr
        error: `shell:` is off: whoever calls it can run any command
        hint: allow it by `--allow-shell`, or `allow_shell = true` in the config
        exit 2
    "#]]);
}

#[test]
fn another_selector_or_calldata_is_refused_as_an_oracle_would() {
    let words = ["oracle", "invoke", "--allow-shell", "shell:"];
    Page::of(&[&words[..], &["nope"]].concat()).check(expect![[r#"
        stderr
        error: -32602: unknown selector: "nope", this oracle provides: "exec"
        exit 1
    "#]]);
    Page::of(&[&words[..], &["exec", "0x1"]].concat()).check(expect![[r#"
        stderr
        error: -32602: parameter `command` has the length 0x1 in felt 0, but only 0 felts follow
        exit 1
    "#]]);
}

#[test]
fn a_command_that_takes_too_long_is_killed() {
    let words = ["oracle", "invoke", "--allow-shell", "--timeout", "100ms", "--fn", EXEC];
    Page::of(&[&words[..], &["shell:", "exec", "sleep 1000"]].concat()).check(expect![[r#"
        stderr
        error: no answer within 100ms
        exit 4
    "#]]);
}
