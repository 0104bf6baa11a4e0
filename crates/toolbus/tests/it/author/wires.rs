//! One tool, several protocols; and what the program says of itself.

use expect_test::expect;
use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::engine::calls::Inbox;
use toolbus::wire::settings::Settings;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Outcome};
use toolbus_testkit::page::Program;
use toolbus_testkit::runtime::run;

use super::example;

#[test]
fn a_tool_answers_the_same_in_every_protocol() {
    for (scheme, flag) in
        [("mcp+stdio", "--mcp"), ("oracle+stdio", "--oracle"), ("mediocre+stdio", "--mediocre")]
    {
        let address = format!("{scheme}:{} {flag}", example("echo_text").display());
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
        Outcome::Value(json) => json.string().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn help_tells_what_the_program_can() {
    let page = Program::new(example("numbers")).args(["--help"]).run();
    expect![[r#"
        numbers 1.0.0

        Usage: numbers --mcp | --oracle | --mediocre

        Serves on standard input and output:
          --mcp       Be an MCP server, for editors and agents
          --oracle    Be an oracle, for Cairo programs
          --mediocre  Be a mediocre-rpc server

        Tools:
          divide  Divide one whole number by another.
          primes  Find all primes below a limit.
          repeat  Say a text many times.
    "#]]
    .assert_eq(&page.stdout);
    assert_eq!(page.status.code(), Some(0));
}

#[test]
fn without_a_protocol_nothing_is_served() {
    let page = Program::new(example("echo_text")).run();
    assert_eq!((page.stdout.as_str(), page.status.code()), ("", Some(2)));
    assert!(page.stderr.contains("Usage: echo_text --mcp"), "{}", page.stderr);

    let page = Program::new(example("echo_text")).args(["--http"]).run();
    expect![[r#"
        error: unexpected argument `--http`
        hint: `echo_text --help` tells more
    "#]]
    .assert_eq(&page.stderr);
    assert_eq!((page.stdout.as_str(), page.status.code()), ("", Some(2)));
}
