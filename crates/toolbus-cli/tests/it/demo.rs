//! `toolbus demo`: the whole tour, with times taken out.

use std::thread;

use expect_test::expect;
use toolbus_testkit::broker::Broker;

use crate::page::Page;

#[test]
fn the_tour_ends_well_and_shows_what_it_promises() {
    // There is a server for one; the other is told of one that is not there.
    let broker = Broker::start();
    let alone = thread::spawn(|| {
        let page = Page::of(&["demo"]).env("TOOLBUS_NATS", "nats://127.0.0.1:1").run();
        let lines = page.stdout.lines().filter(|line| line.contains("among them"));
        let told: Vec<_> = lines.map(str::to_owned).collect();
        (page.status.code(), page.stdout.contains("\n  36 of 36 answered, "), told)
    });
    let page = Page::of(&["demo"]).env("TOOLBUS_NATS", broker.address("")).run();
    let why = "  nats is not among them: no NATS server answers at 127.0.0.1:1 (`TOOLBUS_NATS`)";
    assert_eq!(alone.join().unwrap(), (Some(0), true, vec![why.to_owned()]));
    let shown: String = page.to_string().lines().map(|line| timeless(line) + "\n").collect();
    expect![[r#"
        stdout
        toolbus 0.1.0: any tool answers any caller

        Call a tool
          $ toolbus call builtin: add a=19 b=23
          42 N ms

        Kill it in the middle of a call
          $ toolbus call 'mcp+stdio:./demo-tool' sleep ms=60000
          kill -9
          error: `demo-tool` ended with signal 9 before it answered N ms
            its last words: demo-tool: working on it, give me a minute
          $ toolbus call 'mcp+stdio:./demo-tool' upper text='still here'
          "STILL HERE" N ms

        Kill the bus
          a bus, a tool that ignores SIGTERM, and a child of the tool are running
          kill -9
          no process is left N ms

        Every front before every back
          front \ back oracle orchard mcp mediocre godex orchestra nats
          oracle N ms N ms N ms N ms N ms N ms N ms
          orchard N ms N ms N ms N ms N ms N ms N ms
          mcp N ms N ms N ms N ms N ms N ms N ms
          mediocre N ms N ms N ms N ms N ms N ms N ms
          godex N ms N ms N ms N ms N ms N ms N ms
          orchestra N ms N ms N ms N ms N ms N ms N ms
          nats N ms N ms N ms N ms N ms N ms N ms
          49 of 49 answered, each through two processes

        Your turn
          $ toolbus tools builtin:
          $ toolbus oracle invoke 'stdio:toolbus oracle serve builtin:' \
                --fn 'upper(text: ByteArray) -> ByteArray' upper hello

          Or give an editor or agent the tools, in its config for MCP:
          "mcpServers": {"toolbus": {"command": "toolbus", "args": ["mcp", "builtin:"]}}

        exit 0
    "#]]
    .assert_eq(&shown);
}

/// The line with `N ms` for each time, and with one blank for each run of them behind the
/// first word.
fn timeless(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_time = |at: usize| words.get(at + 1) == Some(&"ms");
    let timeless = (0..words.len()).map(|at| if is_time(at) { "N" } else { words[at] });
    let indent = line.len() - line.trim_start().len();
    " ".repeat(indent) + &timeless.collect::<Vec<_>>().join(" ")
}
