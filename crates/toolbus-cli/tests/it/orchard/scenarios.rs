//! Scenarios without running them: planned, checked, listed, drawn.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::expect;
use toolbus_testkit::page::{Page, Program};
use toolbus_testkit::scratch::Scratch;

use crate::page::{Page as Toolbus, command};
use crate::terminal::Terminal;

/// A provider that only has a schema, which is that of the transcripts.
const ECHO: &str = r#"#!/bin/sh
echo '{"name":"echo","version":"0.1.0","protocol":"1","config":{"greeting":{"type":"string","required":false,"default":"hi","description":"word put first"}},"actions":{"echo":{"description":"gives its text back","attrs":{"text":{"type":"string","required":true},"times":{"type":"number","required":false,"default":1}},"outputs":{"type":"object({text=string,times=number})"}},"noop":{"description":"does nothing","attrs":{}}}}'
"#;

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts/orchard/pages")
}

/// A folder with the shop of the transcripts and its provider.
fn shop() -> Scratch {
    let scratch = Scratch::new();
    for file in ["shop.hcl", "greeter.hcl"] {
        fs::copy(transcripts().join(file), scratch.path().join(file)).unwrap();
    }
    scratch.program("orchard-echo", ECHO);
    scratch
}

fn run(scratch: &Scratch, words: &[&str]) -> Page {
    let mut command = command(words);
    command.current_dir(scratch.path()).env_remove("TOOLBUS_VAR_token");
    Program::of(command).run()
}

/// The page with the folder of the test left out.
fn shown(scratch: &Scratch, page: &Page) -> String {
    page.to_string().replace(scratch.path().to_str().unwrap(), "FOLDER")
}

/// Does the text have all that is written out around `…`, in this order?
fn fits(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('…').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[test]
fn the_pages_of_the_transcripts() {
    for (name, change) in [
        ("plan_of_the_shop", None),
        ("plan_with_two_problems", Some(("text = var.word", "txt = var.word"))),
    ] {
        let scratch = shop();
        if let Some((from, to)) = change {
            let path = scratch.path().join("shop.hcl");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace(from, to)).unwrap();
        }
        let golden = fs::read_to_string(transcripts().join(format!("{name}.txt"))).unwrap();
        let (_, golden) = golden.split_once("$ toolbus ").unwrap();
        let (words, golden) = golden.split_once("\nstdout:\n").unwrap();
        let (stdout, golden) = golden.split_once("stderr:\n").unwrap();
        let (stderr, exit) = golden.split_once("exit: ").unwrap();
        let words: Vec<&str> = words.split_whitespace().collect();
        let page = run(&scratch, &words);
        assert_eq!(page.stdout, stdout, "{name}");
        let code = page.status.code().map(|code| code.to_string());
        assert_eq!(code.as_deref(), Some(exit.trim()), "{name}");
        match stderr.contains('…') {
            true => assert!(fits(&page.stderr, stderr), "{name}: {}", page.stderr),
            false => assert_eq!(page.stderr, stderr, "{name}"),
        }
    }
}

#[test]
fn a_plan_as_json() {
    let scratch = shop();
    let page = run(&scratch, &["orchard", "plan", "shop.hcl", "--var", "token=s3cr3t", "--json"]);
    expect![[r#"
        stdout
        {"format_version":"1.0","kind":"plan","valid":true,"scenario":"shop","scenario_path":"FOLDER/shop.hcl","providers":[{"name":"e","source":"exec:FOLDER/orchard-echo","schema_name":"echo","schema_version":"0.1.0"}],"variables":{"token":{"sensitive":true},"word":{"value":"a"}},"nodes":[{"address":"action.echo.first","type":"echo","provider":"e","depends_on":[],"attrs":{"text":{"value":"a"},"times":{"value":1,"default":true}},"teardown":{"attrs":{"text":{"unknown":true},"times":{"value":1,"default":true}}}},{"address":"component.greeter.g.action.echo.hello","type":"echo","provider":"e","depends_on":["action.echo.first"],"attrs":{"text":{"unknown":true},"times":{"value":2}}}],"outputs":{"said":{"unknown":true},"token":{"sensitive":true}},"diagnostics":[]}
        exit 0
    "#]]
    .assert_eq(&shown(&scratch, &page));
    let page = run(&scratch, &["orchard", "plan", "shop.hcl", "--json"]);
    expect![[r#"
        stdout
        {"format_version":"1.0","kind":"plan","valid":false,"scenario":"shop","scenario_path":"FOLDER/shop.hcl","providers":[],"variables":{},"nodes":[],"outputs":{},"diagnostics":[{"severity":"error","code":"missing_variable","message":"variable `token` has no value","help":"give it by `--var token=…`, `--var-file` or `TOOLBUS_VAR_token`","file":"shop.hcl","line":8,"column":3,"start":181,"end":197}]}
        exit 2
    "#]]
    .assert_eq(&shown(&scratch, &page));
}

#[test]
fn a_link_named_orchard_is_this_command() {
    let scratch = shop();
    let link = scratch.path().join("orchard");
    symlink(env!("CARGO_BIN_EXE_toolbus"), &link).unwrap();
    let mut command = Command::new(&link);
    command.args(["--no-color", "graph", "shop.hcl"]).current_dir(scratch.path());
    let page = Program::of(command).run();
    expect![[r#"
        stdout
        digraph "shop" {
          "action.echo.first";
          "component.greeter.g.action.echo.hello";
          "action.echo.first" -> "component.greeter.g.action.echo.hello";
        }
        exit 0
    "#]]
    .assert_eq(&page.to_string());
}

#[test]
fn files_are_checked_without_providers() {
    let scratch = shop();
    fs::write(scratch.path().join("bad.hcl"), "scenario \"s\" {\n  locals { a = local.b }\n}\n")
        .unwrap();
    let page = run(&scratch, &["orchard", "validate", "shop.hcl", "bad.hcl", "greeter.hcl"]);
    expect![[r#"
        stdout
        valid: shop.hcl
        valid: greeter.hcl
        stderr
        unknown_reference

          x local `b` is not declared
           ,-[bad.hcl:2:16]
         1 | scenario "s" {
         2 |   locals { a = local.b }
           :                ^^^^^^^
         3 | }
           `----
          help: did you mean `a`?

        error: 1 problem in bad.hcl
        exit 2
    "#]]
    .assert_eq(&page.to_string());
    let page = run(&scratch, &["orchard", "validate", "shop.hcl", "bad.hcl", "--json"]);
    expect![[r#"
        stdout
        {"format_version":"1.0","kind":"validate","valid":true,"scenario":"shop","scenario_path":"FOLDER/shop.hcl","diagnostics":[]}
        {"format_version":"1.0","kind":"validate","valid":false,"scenario":"s","scenario_path":"FOLDER/bad.hcl","diagnostics":[{"severity":"error","code":"unknown_reference","message":"local `b` is not declared","help":"did you mean `a`?","file":"bad.hcl","line":2,"column":16,"start":30,"end":37}]}
        exit 2
    "#]]
    .assert_eq(&shown(&scratch, &page));
}

#[test]
fn scenarios_are_listed() {
    let scratch = shop();
    let inner = scratch.path().join("more");
    fs::create_dir_all(inner.join(".hidden")).unwrap();
    fs::write(inner.join(".hidden/x.hcl"), "scenario \"hidden\" {}\n").unwrap();
    fs::write(
        inner.join("two.hcl"),
        "scenario \"b\" {}\nscenario \"a\" { tags = [\"x\", \"y\"] }\n",
    )
    .unwrap();
    let page = run(&scratch, &["orchard", "list"]);
    expect![[r#"
        stdout
        b                       more/two.hcl
        a                 x,y   more/two.hcl
        shop  two echoes  demo  shop.hcl
        exit 0
    "#]]
    .assert_eq(&page.to_string());
    fs::write(inner.join("broken.hcl"), "scenario {").unwrap();
    let page = run(&scratch, &["orchard", "list", "more", "shop.hcl", "--json"]);
    expect![[r#"
        stdout
        {"file":"more/two.hcl","scenario":"b","description":null,"tags":[],"variables":[]}
        {"file":"more/two.hcl","scenario":"a","description":null,"tags":["x","y"],"variables":[]}
        {"file":"shop.hcl","scenario":"shop","description":"two echoes","tags":["demo"],"variables":[{"name":"token","type":"string","required":true,"sensitive":true},{"name":"word","type":"any","required":false,"sensitive":false}]}
        stderr
        syntax

          x invalid block body; expected `}`, newline or identifier
           ,-[more/broken.hcl:1:10]
         1 | scenario {
           :          ^
           `----

        error: 1 problem in more/broken.hcl
        exit 2
    "#]]
    .assert_eq(&page.to_string());
}

#[test]
fn a_provider_is_shown() {
    let scratch = shop();
    let page = run(&scratch, &["orchard", "schema", "exec:./orchard-echo"]);
    expect![[r#"
        stdout
        provider: echo 0.1.0

        config:
          greeting string = "hi": word put first

        action echo: gives its text back
          text string, required
          times number = 1
          -> object({text=string,times=number})

        action noop: does nothing
        exit 0
    "#]]
    .assert_eq(&page.to_string());
    let page = run(&scratch, &["orchard", "schema", "exec:orchard-echo", "--json-schema"]);
    expect![[r#"
        stdout
        {"name":"echo","version":"0.1.0","config":{"type":"object","properties":{"greeting":{"type":"string","default":"hi","description":"word put first"}},"required":[],"additionalProperties":false},"actions":{"echo":{"description":"gives its text back","input":{"type":"object","properties":{"text":{"type":"string"},"times":{"type":"number","default":1}},"required":["text"],"additionalProperties":false},"output":{"type":"object","properties":{"text":{"type":"string"},"times":{"type":"number"}},"required":["text","times"],"additionalProperties":false}},"noop":{"description":"does nothing","input":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}}
        exit 0
    "#]]
    .assert_eq(&page.to_string());
    let page = run(&scratch, &["orchard", "schema", "builtin/exce"]);
    expect![[r#"
        stderr
        error: there is no built-in provider `exce`
        hint: there are `builtin/exec`, `builtin/http`, `builtin/postgres`
        exit 2
    "#]]
    .assert_eq(&page.to_string());
    let page = run(&scratch, &["orchard", "schema", "builtin:", "--json"]);
    assert!(page.stdout.starts_with("{\"name\":\"toolbus\""), "{page}");
    assert!(page.stdout.contains("\"upper\""), "{page}");
}

#[test]
fn a_first_scenario_can_be_planned() {
    let scratch = Scratch::new();
    let page = run(&scratch, &["orchard", "init", "shop"]);
    expect![[r#"
        stdout
        created shop/scenarios/hello.hcl
        created shop/components/merchant.hcl
        next: toolbus orchard plan shop/scenarios/hello.hcl
        exit 0
    "#]]
    .assert_eq(&page.to_string());
    let page = run(&scratch, &["orchard", "init", "shop"]);
    assert!(page.stdout.starts_with("kept shop/scenarios/hello.hcl\nkept "), "{page}");
    let page = run(&scratch, &["orchard", "plan", "shop/scenarios/hello.hcl"]);
    expect![[r#"
        stdout
        scenario: hello
        plan: 2 actions with 1 provider

        1. action.exec_run.greet (exec)
           allow_failure = false (default)
           args = ["hello world"]
           command = "echo"
        2. component.merchant.first.action.exec_run.answer (exec)
           after action.exec_run.greet
           allow_failure = false (default)
           args = [(known after run)]
           command = "echo"
           teardown:
             allow_failure = false (default)
             args = ["goodbye Mel"]
             command = "echo"

        outputs:
        said = (known after run)
        exit 0
    "#]]
    .assert_eq(&page.to_string());
}

#[test]
fn a_provider_that_cannot_be_asked() {
    let scratch = shop();
    scratch.program("orchard-echo", "#!/bin/sh\necho 'no key' >&2\nexit 3\n");
    let words = ["orchard", "plan", "shop.hcl", "--var", "token=s3cr3t"];
    let page = run(&scratch, &words);
    expect![[r#"
        stderr
        error: provider `e` exited with status 3 when asked for its schema
        exit status 3
          | no key
        exit 3
    "#]]
    .assert_eq(&page.to_string());
    let page = run(&scratch, &[&words[..], &["--json"]].concat());
    expect![[r#"
        stdout
        {"format_version":"1.0","kind":"plan","valid":false,"scenario":"shop","scenario_path":"FOLDER/shop.hcl","providers":[],"variables":{},"nodes":[],"outputs":{},"diagnostics":[],"error":{"code":"protocol_error","message":"provider `e` exited with status 3 when asked for its schema","provider":"e","detail":"no key"}}
        exit 3
    "#]]
    .assert_eq(&shown(&scratch, &page));
    // What is wrong with the file is told before.
    let page = run(&scratch, &words[..3]);
    assert!(page.stderr.contains("missing_variable"), "{page}");
    assert_eq!(page.status.code(), Some(2), "{page}");
}

#[test]
fn a_probe_gets_four_variables() {
    let scratch = shop();
    let asks =
        "#!/bin/sh\ntest -z \"$KEY\" && test -n \"$PATH\" || { echo \"has $KEY\" >&2; exit 1; }\n";
    scratch.program("orchard-echo", &format!("{asks}{}", ECHO.trim_start_matches("#!/bin/sh\n")));
    let source = "exec:./orchard-echo";
    for (words, code) in [
        (&["orchard", "schema", source][..], 3),
        (&["orchard", "schema", source, "--scrub-env"], 0),
    ] {
        let mut command = command(words);
        command.current_dir(scratch.path()).env("KEY", "1");
        let page = Program::of(command).run();
        assert_eq!(page.status.code(), Some(code), "{page}");
    }
}

#[test]
fn usage_errors() {
    let page = Toolbus::of(&["orchard", "plan", "missing.hcl"]).run();
    expect![[r#"
        stderr
        error: cannot read `missing.hcl`
          caused by: No such file or directory (os error 2)
        exit 2
    "#]]
    .assert_eq(&page.to_string());
    let scratch = shop();
    let page = run(&scratch, &["orchard", "plan", "shop.hcl", "--var", "token"]);
    expect![[r#"
        stderr
        error: `--var token` has no `=`
        hint: write `--var NAME=VALUE`
        exit 2
    "#]]
    .assert_eq(&page.to_string());
}

#[test]
fn a_folder_in_place_of_a_file_names_its_scenarios() {
    let scratch = shop();
    fs::create_dir(scratch.file("scenarios")).unwrap();
    fs::rename(scratch.file("shop.hcl"), scratch.file("scenarios/shop.hcl")).unwrap();
    let page = run(&scratch, &["orchard", "plan", "scenarios"]);
    expect![[r#"
        stderr
        error: cannot read `scenarios`
          caused by: it is a folder
        hint: name one of its files: `shop` in `scenarios/shop.hcl`
        exit 2
    "#]]
    .assert_eq(&page.to_string());
}

#[test]
fn a_plan_on_a_terminal_has_colours_and_signs() {
    let scratch = shop();
    let mut command = command(&["orchard", "plan", "shop.hcl", "--var", "token=s3cr3t"]);
    command.current_dir(scratch.path()).env("TERM", "xterm").env_remove("NO_COLOR");
    let shown = Terminal::of(100).shows(command);
    expect![[r#"
        scenario: ␛[1mshop␛[0m
        plan: 2 actions with 1 provider

        ␛[32m+␛[0m 1. ␛[1maction.echo.first␛[0m ␛[2m(e)␛[0m
             text = "a"
             times = ␛[2m1 (default)␛[0m
           ␛[1m␛[31m-␛[0m teardown:
               text = ␛[33m(known after run)␛[0m
               times = ␛[2m1 (default)␛[0m
        ␛[32m+␛[0m 2. ␛[1mcomponent.greeter.g.action.echo.hello␛[0m ␛[2m(e)␛[0m
             ␛[2mafter action.echo.first␛[0m
             text = ␛[33m(known after run)␛[0m
             times = 2

        outputs:
        said = ␛[33m(known after run)␛[0m
        token = ␛[33m(sensitive)␛[0m

        ␛[1mplan:␛[0m ␛[32m+␛[0m 2 to run, ␛[1m␛[31m-␛[0m 1 with a teardown; nothing was done yet
    "#]]
    .assert_eq(&shown.replace('\x1b', "␛"));
}
