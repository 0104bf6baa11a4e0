//! `toolbus tools`: a table for people, lines for scripts.

use expect_test::expect;

use crate::page::{Page, check};

#[test]
fn a_table_for_people() {
    check(
        "tools builtin:",
        expect![[r#"
            stdout
            add    a, b              Add two numbers
            blob   bytes, seed?      Give that many bytes that look random and are the same every time
            count  n, ms?, fail_at?  Count from 0 up to n - 1, one element after the other
            early                    Answer before the input was read
            echo                     Give back what came
            fail   message, code?    Fail with this message
            sink   elements?, hash?  Count the elements and bytes of the input, and hash the bytes
            sleep  ms                Wait this many milliseconds
            upper  text              Put a text in upper case
            exit 0
        "#]],
    );
}

#[test]
fn lines_for_scripts() {
    check(
        "tools --json builtin:",
        expect![[r#"
            stdout
            {"name":"add","description":"Add two numbers","input":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},"output":{"type":"number"},"address":"builtin:"}
            {"name":"blob","description":"Give that many bytes that look random and are the same every time","input":{"type":"object","properties":{"bytes":{"type":"integer","minimum":0,"maximum":9007199254740991},"seed":{"type":"integer","minimum":0,"maximum":18446744073709551615}},"required":["bytes"]},"output":{"type":"object","properties":{"elements":{"type":"array","items":{"type":"object","properties":{"$bytes":{"type":"string"}},"required":["$bytes"]}}},"required":["elements"]},"address":"builtin:"}
            {"name":"count","description":"Count from 0 up to n - 1, one element after the other","input":{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9007199254740991},"ms":{"type":"integer","minimum":0},"fail_at":{"type":"integer","minimum":0}},"required":["n"]},"output":{"type":"object","properties":{"elements":{"type":"array","items":{"type":"integer","minimum":0}}},"required":["elements"]},"address":"builtin:"}
            {"name":"early","description":"Answer before the input was read","input":{},"output":{"type":"object","properties":{"early":{"type":"boolean"}},"required":["early"]},"address":"builtin:"}
            {"name":"echo","description":"Give back what came","input":{},"address":"builtin:"}
            {"name":"fail","description":"Fail with this message","input":{"type":"object","properties":{"message":{"type":"string"},"code":{"type":["string","integer"]}},"required":["message"]},"address":"builtin:"}
            {"name":"sink","description":"Count the elements and bytes of the input, and hash the bytes","input":{"type":"object","properties":{"elements":{"type":"array"},"hash":{"type":"boolean"}}},"output":{"type":"object","properties":{"elements":{"type":"integer","minimum":0},"bytes":{"type":"integer","minimum":0},"sha256":{"type":"string"}},"required":["elements","bytes"]},"address":"builtin:"}
            {"name":"sleep","description":"Wait this many milliseconds","input":{"type":"object","properties":{"ms":{"type":"integer","minimum":0,"maximum":86400000}},"required":["ms"]},"output":{"type":"object","properties":{"slept_ms":{"type":"integer"}},"required":["slept_ms"]},"address":"builtin:"}
            {"name":"upper","description":"Put a text in upper case","input":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"output":{"type":"string"},"address":"builtin:"}
            exit 0
        "#]],
    );
}

#[test]
fn a_name_of_two_addresses() {
    check(
        "tools builtin: builtin:",
        expect![[r#"
            stderr
            error: tool `add` is offered by both `builtin:` and `builtin:`
            hint: name the backs in a config: there their tools are `<back>.<tool>`
            exit 2
        "#]],
    );
}

#[test]
fn tools_of_the_config() {
    let config = "[back.b]\nconnect = \"builtin:\"\nallow = [\"upper\"]\n\
                  [back.a]\nconnect = \"builtin:\"\nallow = [\"upper\", \"add\"]\n";
    Page::of(&["tools"]).config("tools_config", config).check(expect![[r#"
        stdout
        a.add    a, b  Add two numbers           builtin:
        a.upper  text  Put a text in upper case  builtin:
        b.upper  text  Put a text in upper case  builtin:
        exit 0
    "#]]);
}

#[test]
fn no_peer_to_ask() {
    check(
        "tools",
        expect![[r#"
            stderr
            error: no ADDRESS is given, and there is no `toolbus.toml` here or above
            hint: name a peer, e.g. `builtin:`, or a config by `--config FILE`; `toolbus init` writes one
            exit 2
        "#]],
    );
    check(
        "tools mpc+stdio:x",
        expect![[r#"
            stderr
            error: unsupported connection scheme: "mpc+stdio:x"
            hint: did you mean `mcp+stdio:x`?
            exit 2
        "#]],
    );
    check(
        "tools orchard+stdio:x",
        expect![[r#"
            stderr
            error: cannot list the tools of `orchard+stdio:x`: there is no program `x` in PATH
            hint: install `x`, or give its path
            exit 3
        "#]],
    );
    Page::of(&["tools"]).config("tools_nobody", "").check(expect![[r#"
        stderr
        error: `toolbus.toml` names no backs
        hint: add one: `[back.try]` and under it `connect = "builtin:"`
        exit 2
    "#]]);
}

#[test]
fn all_mistakes_of_a_config_are_told_at_once() {
    let config = "[back.a]\nconnect = \"builtin:\"\ntimout = \"1s\"\n\
                  [back.b]\nconnect = \"stdio:x\"\ntimeout = 30\n\
                  [front.c]\nserve = \"mcp://127.0.0.1:8932/mcp\"\n";
    Page::of(&["tools"]).config("tools_mistakes", config).check(expect![[r#"
        stderr
        error: `toolbus.toml` line 3: there is no key `back.a.timout`
        hint: did you mean `timeout`?
        error: `toolbus.toml` line 6: `back.b.timeout` must be a time with its unit, as in "30s"
        error: `toolbus.toml` line 8: `front.c.serve`: unsupported connection scheme: "mcp://127.0.0.1:8932/mcp"
        hint: did you mean `mcp+http://127.0.0.1:8932/mcp`?
        exit 2
    "#]]);
    // Each as one line for scripts.
    let page = Page::of(&["tools", "--log-format", "json"]).config("tools_mistakes_json", config);
    let page = page.run().to_string();
    let lines: Vec<_> = page.lines().filter_map(|line| line.split_once("\"message\":")).collect();
    let told: String = lines.iter().map(|(_, told)| format!("{told}\n")).collect();
    expect![[r#"
        "`toolbus.toml` line 3: there is no key `back.a.timout`","hint":"did you mean `timeout`?"}
        "`toolbus.toml` line 6: `back.b.timeout` must be a time with its unit, as in \"30s\""}
        "`toolbus.toml` line 8: `front.c.serve`: unsupported connection scheme: \"mcp://127.0.0.1:8932/mcp\"","hint":"did you mean `mcp+http://127.0.0.1:8932/mcp`?"}
    "#]]
    .assert_eq(&told);
}

#[test]
fn who_cannot_be_reached_does_not_hide_the_others() {
    let config = "[back.far]\nconnect = \"stdio:/nowhere/oracle\"\n\
                  [back.dead]\nconnect = \"stdio:sh -c 'echo last words >&2; exit 3'\"\n\
                  [back.near]\nconnect = \"builtin:\"\nallow = [\"add\"]\n";
    Page::of(&["tools"]).config("tools_unreachable", config).check(expect![[r#"
        stdout
        near.add  a, b  Add two numbers  builtin:
        stderr
        error: cannot list the tools of `stdio:/nowhere/oracle`: there is no program `/nowhere/oracle`
        hint: nothing is at that path: correct it
        error: cannot list the tools of `stdio:sh -c 'echo last words >&2; exit 3'`: `dead` ended with exit status 3 before it was ready
          | last words
        exit 3
    "#]]);
}

#[test]
fn every_generic_tool_is_listed() {
    let ready = r#"{"jsonrpc":"2.0","id":0,"method":"ready"}"#;
    let oracle =
        |name: &str| format!("stdio:sh -c 'echo \"$0\"; read ack; read bye' '{ready}' {name}");
    Page::of(&["tools", &oracle("one"), &oracle("two")]).check(expect![[r#"
        stdout
        invoke  selector, calldata    stdio:sh -c 'echo "$0"; read ack; read bye' '{"jsonrpc":"2.0","id":0,"method":"ready"}' one
        invoke  selector, calldata    stdio:sh -c 'echo "$0"; read ack; read bye' '{"jsonrpc":"2.0","id":0,"method":"ready"}' two
        exit 0
    "#]]);
}

#[test]
fn a_back_of_the_config_is_meant_by_its_name() {
    let config = "[back.own]\nconnect = \"builtin:\"\nallow = [\"upper\"]\n\
                  [back.numbers]\nconnect = \"builtin:\"\nallow = [\"add\"]\n";
    let page = |words: &[&str]| Page::of(words).config("names", config).run().to_string();
    assert!(page(&["tools", "own"]).starts_with("stdout\nown.upper "));
    assert!(!page(&["tools", "own"]).contains("numbers.add"));
    assert_eq!(page(&["call", "own", "upper", "text=x"]), "stdout\n\"X\"\nexit 0\n");
    assert!(page(&["describe", "numbers", "add"]).starts_with("stdout\nnumbers.add\n"));
    assert!(page(&["doctor", "numbers"]).starts_with("stdout\nok numbers: 1 tool, "));
    // Nothing is named that is not there.
    assert_eq!(
        page(&["call", "shop.add", "a=1", "b=2"]),
        "stderr\nerror: no such tool: `shop.add`\n\
         hint: `toolbus tools` lists what can be called\nexit 2\n"
    );
}
