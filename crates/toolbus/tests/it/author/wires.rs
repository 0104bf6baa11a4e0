//! One tool, several protocols; and what the program says of itself.

use std::process::Command;

use expect_test::expect;
use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::peer::settings::Settings;
use toolbus_engine::calls::Inbox;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::tool::{Call, Outcome};
use toolbus_testkit::page::Program;
use toolbus_testkit::runtime::run;
use toolbus_testkit::terminal;

use super::example;

#[test]
fn a_tool_answers_the_same_in_every_protocol() {
    for (scheme, flag) in [
        ("mcp+stdio", " --mcp"),
        ("oracle+stdio", " --oracle"),
        ("mediocre+stdio", " --mediocre"),
        ("orchard+stdio", " --orchard"),
        ("orchard+stdio", ""),
    ] {
        let address = format!("{scheme}:{}{flag}", example("echo_text").display());
        let answer = run(answer(&address, r#"{"text":"hé"}"#));
        assert_eq!(answer, "hé", "{address}");
    }
}

/// What the tool `echo` at an address answers, as text.
async fn answer(address: &str, arguments: &'static str) -> String {
    let address = Address::parse(address).unwrap();
    let bus = Bus::of_addresses(&[address], &Settings::default()).unwrap();
    bus.open().await.unwrap();
    let (inbox, slot) = Inbox::new();
    let now = tokio::time::Instant::now().into_std();
    let call = Call::tool(now, "echo", Some(Json::parse(arguments).unwrap()));
    let uplink = bus.start(call, slot);
    let outcome = inbox.whole(uplink).await.unwrap();
    bus.shutdown().await;
    match outcome {
        Outcome::Text(text) => text,
        Outcome::Value(json) => match edit::member(json.as_str(), "text") {
            // Some give nothing but objects.
            Some(text) => Json::parse(text.to_owned()).unwrap().string().unwrap(),
            None => json.string().unwrap(),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn help_tells_what_the_program_can() {
    let page = Program::new(example("numbers")).args(["--help"]).run();
    // Not all builds have HTTP.
    let lines = page.stdout.lines().filter(|line| !line.starts_with("  --http "));
    let shown: String = lines.map(|line| line.replace("--http HOST:PORT | ", "") + "\n").collect();
    expect![[r#"
        numbers 1.0.0

        Usage: numbers --mcp | --oracle | --mediocre | --orchard
               numbers --listen URL

        Serves on standard input and output:
          --mcp       Be an MCP server, for editors and agents
          --oracle    Be an oracle, for Cairo programs
          --mediocre  Be a mediocre-rpc server
          --orchard   Be a provider, for Orchard; also without a flag, if standard input is no terminal

        Serves callers that connect:
          --listen URL      Serve where and how URL says, as a front of toolbus; may repeat

        Tools:
          divide  Divide one whole number by another.
          primes  Find all primes below a limit.
          repeat  Say a text many times.
    "#]]
    .assert_eq(&shown);
    assert_eq!(page.status.code(), Some(0));
}

#[test]
fn on_a_terminal_nothing_is_served_without_a_protocol() {
    let (ours, theirs) = terminal::open();
    let mut command = Command::new(example("echo_text"));
    let output = command.stdin(theirs).output().unwrap();
    drop(ours);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((&*output.stdout, output.status.code()), (&b""[..], Some(2)));
    assert!(stderr.contains("Usage: echo_text --mcp"), "{stderr}");
}

#[test]
fn what_it_does_not_know_it_does_not_do() {
    let page = Program::new(example("echo_text")).args(["--gopher"]).run();
    expect![[r#"
        error: unexpected argument `--gopher`
        hint: `echo_text --help` tells more
    "#]]
    .assert_eq(&page.stderr);
    assert_eq!((page.stdout.as_str(), page.status.code()), ("", Some(2)));
}

#[test]
fn without_arguments_it_is_a_provider_that_can_print_its_schema() {
    let page = Program::new(example("echo_text")).args(["schema"]).run();
    expect![[r#"
        {"name":"echo_text","version":"1.0.0","protocol":"1","config":{},"actions":{"echo":{"description":"Say the text back.","attrs":{"text":{"type":"string","required":true,"description":"What to say."}},"outputs":{"type":"any","required":false}}},"extensions":["parallel"]}
    "#]]
    .assert_eq(&page.stdout);
    assert_eq!(page.status.code(), Some(0));
    let requests = r#"{"id":1,"method":"configure"}
{"id":2,"method":"execute","params":{"action":"echo","attrs":{"text":"hi"}}}
{"id":3,"method":"shutdown"}
"#;
    let page = Program::new(example("echo_text")).stdin(requests).run();
    expect![[r#"
        {"id":1,"result":{}}
        {"id":2,"result":{"outputs":{"text":"hi"}}}
        {"id":3,"result":{}}
    "#]]
    .assert_eq(&page.stdout);
    assert_eq!((page.stderr.as_str(), page.status.code()), ("", Some(0)));
}
