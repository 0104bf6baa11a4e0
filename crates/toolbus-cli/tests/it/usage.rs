//! Command lines that make no sense: exit code 2, what is wrong, what was probably meant.

use expect_test::expect;

use crate::page::{Page, check_usage as check};

#[test]
fn no_command() {
    check(
        "",
        expect![[r#"
            stderr
            error: a command is missing
            hint: `--help` shows all commands, and `toolbus demo` is a good start
            exit 2
        "#]],
    );
    check(
        "oracle",
        expect![[r#"
            stderr
            error: a command is missing
            hint: `--help` shows all commands, and `toolbus demo` is a good start
            exit 2
        "#]],
    );
}

#[test]
fn commands_and_options_that_are_not_there() {
    check(
        "tolos",
        expect![[r#"
            stderr
            error: there is no command `tolos`
            usage: toolbus [OPTIONS] <COMMAND>
            hint: did you mean `tools`?
            exit 2
        "#]],
    );
    check(
        "oracle invke",
        expect![[r#"
            stderr
            error: there is no command `invke`
            usage: toolbus oracle [OPTIONS] <COMMAND>
            hint: did you mean `invoke`?
            exit 2
        "#]],
    );
    check(
        "frobnicate",
        expect![[r#"
            stderr
            error: there is no command `frobnicate`
            usage: toolbus [OPTIONS] <COMMAND>
            hint: `--help` shows all commands
            exit 2
        "#]],
    );
    check(
        "call --tmeout 3 builtin: add",
        expect![[r#"
            stderr
            error: there is no option `--tmeout`
            usage: toolbus call [OPTIONS] [ADDRESS] TOOL [ARGUMENT]...
            hint: did you mean `--timeout`?
            exit 2
        "#]],
    );
    check(
        "tools --frobnicate",
        expect![[r#"
            stderr
            error: there is no option `--frobnicate`
            usage: toolbus tools [OPTIONS] [ADDRESS]...
            hint: `--help` tells more
            exit 2
        "#]],
    );
    check(
        "demo now",
        expect![[r#"
            stderr
            error: `now` is one word too many
            usage: toolbus demo [OPTIONS]
            hint: `--help` tells more
            exit 2
        "#]],
    );
}

#[test]
fn words_that_are_missing() {
    check(
        "call",
        expect![[r#"
            stderr
            error: TOOL is missing
            usage: toolbus call [OPTIONS] [ADDRESS] TOOL [ARGUMENT]...
            hint: `toolbus tools` lists what can be called
            exit 2
        "#]],
    );
    check(
        "call builtin:",
        expect![[r#"
            stderr
            error: TOOL is missing
            usage: toolbus call [OPTIONS] [ADDRESS] TOOL [ARGUMENT]...
            hint: `toolbus tools` lists what can be called
            exit 2
        "#]],
    );
    check(
        "oracle invoke",
        expect![[r#"
            stderr
            error: CONNECTION and SELECTOR are missing
            usage: toolbus oracle invoke <CONNECTION> <SELECTOR> [FELT]...
            hint: `--help` tells more
            exit 2
        "#]],
    );
    check(
        "oracle invoke stdio:x",
        expect![[r#"
            stderr
            error: SELECTOR is missing
            usage: toolbus oracle invoke <CONNECTION> <SELECTOR> [FELT]...
            hint: `--help` tells more
            exit 2
        "#]],
    );
    check(
        "completions",
        expect![[r#"
            stderr
            error: SHELL is missing
            usage: toolbus completions <SHELL>
            hint: `--help` tells more
            exit 2
        "#]],
    );
}

#[test]
fn values_out_of_a_short_list() {
    check(
        "tools --color pink",
        expect![[r#"
            stderr
            error: `--color` cannot be `pink`
            hint: it can be auto, always, never
            exit 2
        "#]],
    );
    check(
        "tools --log-format",
        expect![[r#"
            stderr
            error: `--log-format` needs a value
            hint: it can be text, json
            exit 2
        "#]],
    );
    check(
        "completions bsh",
        expect![[r#"
            stderr
            error: `SHELL` cannot be `bsh`
            hint: did you mean `bash`?
            exit 2
        "#]],
    );
}

#[test]
fn times() {
    check(
        "call --timeout 0 builtin: add",
        expect![[r#"
            stderr
            error: `--timeout`: `0` is no time at all: it must be more than zero
            exit 2
        "#]],
    );
    check(
        "call --timeout -1 builtin: add",
        expect![[r#"
            stderr
            error: `--timeout`: `-1` is no time at all: it must be more than zero
            exit 2
        "#]],
    );
    check(
        "call --timeout 2h builtin: add",
        expect![[r#"
            stderr
            error: `--timeout`: `2h` is not a time: give seconds (`2`, `0.5`) or a unit (`500ms`, `2s`, `1m`)
            exit 2
        "#]],
    );
    check(
        "call --start-timeout soon builtin: add",
        expect![[r#"
            stderr
            error: `--start-timeout`: `soon` is not a time: give seconds (`2`, `0.5`) or a unit (`500ms`, `2s`, `1m`)
            exit 2
        "#]],
    );
    check(
        "oracle serve --stop-timeout 99999999999",
        expect![[r#"
            stderr
            error: `--stop-timeout`: `99999999999` is too long: a year is the most
            exit 2
        "#]],
    );
    check(
        "oracle invoke stdio:x f --timeout=0ms 0x1",
        expect![[r#"
            stderr
            error: `--timeout`: `0ms` is no time at all: it must be more than zero
            exit 2
        "#]],
    );
}

#[test]
fn a_time_from_the_environment() {
    Page::of(&["call", "builtin:", "add"])
        .env("TOOLBUS_TIMEOUT", "soon")
        .check(expect![[r#"
            stderr
            error: `--timeout`: `soon` is not a time: give seconds (`2`, `0.5`) or a unit (`500ms`, `2s`, `1m`)
            hint: it comes from the environment: TOOLBUS_TIMEOUT=soon
            exit 2
        "#]]);
}

#[test]
fn sizes() {
    check(
        "oracle serve --line-max 64MB",
        expect![[r#"
            stderr
            error: `--line-max`: `64MB` is not a size: give bytes (`65536`) or a unit (`64KiB`, `16MiB`, `1GiB`)
            exit 2
        "#]],
    );
    check(
        "oracle invoke --line-max 0 stdio:x f",
        expect![[r#"
            stderr
            error: `--line-max`: `0` is no size at all: it must be more than zero
            exit 2
        "#]],
    );
}

#[test]
fn arguments_of_a_call() {
    check(
        "call builtin: add hello",
        expect![[r#"
            stderr
            error: argument `hello` is neither JSON nor `key=value`
            hint: give one JSON value (`'{"a":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)
            exit 2
        "#]],
    );
    check(
        "call builtin: add {1",
        expect![[r#"
            stderr
            error: argument `{1` is not valid JSON
              caused by: key must be a string at line 1 column 2
            hint: give one JSON value (`'{"a":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)
            exit 2
        "#]],
    );
    check(
        "call builtin: add a=1 2",
        expect![[r#"
            stderr
            error: argument `2` stands beside others, so it must be `key=value`
            hint: give one JSON value (`'{"a":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)
            exit 2
        "#]],
    );
    check(
        "call add a=1 a=2",
        expect![[r#"
            stderr
            error: argument `a` is given twice
            hint: give one JSON value (`'{"a":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)
            exit 2
        "#]],
    );
}

#[test]
fn arguments_of_a_call_as_json() {
    check(
        "call --json builtin: add hello",
        expect![[r#"
            stdout
            {"error":{"kind":"invalid_arguments","message":"argument `hello` is neither JSON nor `key=value`"}}
            stderr
            error: argument `hello` is neither JSON nor `key=value`
            hint: give one JSON value (`'{"a":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)
            exit 2
        "#]],
    );
}

#[test]
fn options_that_exclude_each_other() {
    check(
        "-q -v tools",
        expect![[r#"
            stderr
            error: `--quiet` and `--verbose` do not go together
            exit 2
        "#]],
    );
    check(
        "call --text --stream builtin: add",
        expect![[r#"
            stderr
            error: `--text` and `--stream` do not go together
            exit 2
        "#]],
    );
    check(
        "call --text --text builtin: add",
        expect![[r#"
            stderr
            error: `--text` stands twice
            exit 2
        "#]],
    );
}

#[test]
fn addresses_that_are_misspelled() {
    let told = |words: &str| {
        let page = Page::of(&words.split(' ').collect::<Vec<_>>()).inside().run();
        format!("$ {words}\n{page}")
    };
    let pages: String = [
        "tools buildin:",
        "call buildin: add a=1",
        "call MCP+stdio:x add",
        "call 127.0.0.1:7420 add",
        "tools mcp+http:127.0.0.1:80",
        "rpc call 127.0.0.1:7420 add",
        "check mcp mcp:ls",
    ]
    .map(told)
    .concat();
    expect![[r#"
        $ tools buildin:
        stderr
        error: unsupported connection scheme: "buildin:"
        hint: did you mean `builtin:`?
        exit 2
        $ call buildin: add a=1
        stderr
        error: unsupported connection scheme: "buildin:"
        hint: did you mean `builtin:`?
        exit 2
        $ call MCP+stdio:x add
        stderr
        error: unsupported connection scheme: "MCP+stdio:x"
        hint: did you mean `mcp+stdio:x`?
        exit 2
        $ call 127.0.0.1:7420 add
        stderr
        error: unsupported connection scheme: "127.0.0.1:7420"
        hint: did you mean `http://127.0.0.1:7420` or `mediocre+tcp://127.0.0.1:7420`?
        exit 2
        $ tools mcp+http:127.0.0.1:80
        stderr
        error: unsupported connection scheme: "mcp+http:127.0.0.1:80"
        hint: did you mean `mcp+http://127.0.0.1:80`?
        exit 2
        $ rpc call 127.0.0.1:7420 add
        stderr
        error: unsupported connection scheme: "127.0.0.1:7420"
        hint: did you mean `mediocre+tcp://127.0.0.1:7420`?
        exit 2
        $ check mcp mcp:ls
        stderr
        error: unsupported connection scheme: "mcp:ls"
        hint: did you mean `mcp+stdio:ls`?
        exit 2
    "#]]
    .assert_eq(&pages);
}

#[test]
fn serve_takes_nothing_for_all_backs_alike() {
    let refused = [
        ["serve", "--token-env", "MY_TOKEN"],
        ["serve", "--header", "A: b"],
        ["serve", "--env", "A=b"],
        ["serve", "--env-pass", "A"],
    ];
    let pages = refused.map(|words| format!("$ {}\n{}", words.join(" "), Page::of(&words).run()));
    expect![[r#"
        $ serve --token-env MY_TOKEN
        stderr
        error: `--token-env` has no place here: the backs are those of the config
        hint: write `token_env = "MY_TOKEN"` under `[front.NAME]` to ask callers for it, or under `[back.NAME]` to show it to that peer
        exit 2
        $ serve --header A: b
        stderr
        error: `--header` has no place here: the backs are those of the config
        hint: write `headers = { NAME = "VALUE" }` under `[back.NAME]`
        exit 2
        $ serve --env A=b
        stderr
        error: `--env` has no place here: the backs are those of the config
        hint: write `env = { NAME = "VALUE" }` under `[back.NAME]`
        exit 2
        $ serve --env-pass A
        stderr
        error: `--env-pass` has no place here: the backs are those of the config
        hint: write `env_pass = ["A"]` under `[back.NAME]`
        exit 2
    "#]]
    .assert_eq(&pages.concat());
}
