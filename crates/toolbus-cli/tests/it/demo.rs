//! `toolbus demo`: the whole tour, with times taken out.

use expect_test::expect;

use crate::page::Page;

#[test]
fn the_tour_ends_well_and_shows_what_it_promises() {
    let page = Page::of(&["demo"]).run();
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
          front \ back oracle orchard mcp mediocre godex orchestra
          oracle N ms N ms N ms N ms N ms N ms
          orchard N ms N ms N ms N ms N ms N ms
          mcp N ms N ms N ms N ms N ms N ms
          mediocre N ms N ms N ms N ms N ms N ms
          godex N ms N ms N ms N ms N ms N ms
          orchestra N ms N ms N ms N ms N ms N ms
          36 of 36 answered, each through two processes

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
