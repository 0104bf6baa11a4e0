//! Limits on calls, as each wire tells of them and as a bus behind a bus passes them on.

use std::fmt::Write as _;
use std::fs;

use expect_test::expect;
use toolbus_check::fixture::FIXTURES;
use toolbus_testkit::scratch::Scratch;

use crate::callers::ask;
use crate::live::Live;
use crate::matrix::harness::{address, quoted};
use crate::mcp::{INITIALIZE, INITIALIZED, legacy_call};
use crate::page::{Page, mcp_server};
use crate::serve::{self, Config};

const LIMITED: &str =
    "[back.try]\nconnect = \"builtin:\"\n[caller.ann]\nuid = 1\nrate = \"1/60m\"\n";
const INITIALIZED_NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// With N in the place of the time until the next call, which differs by some milliseconds.
fn timeless(text: &str) -> String {
    let mut told = text.to_owned();
    for before in ["retry in ", r#"retry_after_ms":"#, r#"retry_after_ms\":"#] {
        let mut pieces = told.split(before);
        let first = pieces.next().unwrap_or_default().to_owned();
        told = pieces.fold(first, |told, piece| {
            let rest = piece.trim_start_matches(|sign: char| sign.is_ascii_digit());
            assert!(piece.len() - rest.len() <= "3600000".len(), "{piece}");
            format!("{told}{before}N{rest}")
        });
    }
    told
}

#[test]
fn each_wire_tells_of_a_limit_in_its_own_form() {
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    let upper = r#"["0x0","0x61","0x1"]"#;
    let invoke = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"invoke","params":{{"selector":"try.upper","calldata":{upper}}}}}"#
        )
    };
    let execute = |id: u32| {
        format!(
            r#"{{"id":{id},"method":"execute","params":{{"action":"upper","attrs":{{"text":"a"}}}}}}"#
        )
    };
    let call = r#"{"method":"try.upper","args":{"text":"a"}}"#;
    let text = r#"{"text":"a"}"#;
    let conversations: [(&[&str], String); 4] = [
        (
            &["mcp"],
            format!(
                "{INITIALIZE}\n{INITIALIZED_NOTE}\n{}\n{}\n",
                legacy_call(1, "upper", text),
                legacy_call(2, "upper", text)
            ),
        ),
        (
            &["oracle", "serve"],
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{{}}}}\n{}\n{}\n",
                invoke(0),
                invoke(1)
            ),
        ),
        (
            &["provider"],
            format!(
                "{{\"id\":1,\"method\":\"describe\"}}\n{{\"id\":2,\"method\":\"configure\",\"params\":{{\"config\":{{}}}}}}\n{}\n{}\n",
                execute(3),
                execute(4)
            ),
        ),
        (&["rpc", "serve", "--listen", "stdio:"], format!("{call}\n{call}\n")),
    ];
    let mut told = String::new();
    for limit in ["rate = \"1/60m\"", "limit.\"try.u*\" = { rate = \"1/60m\" }"] {
        fs::write(&path, LIMITED.replace("rate = \"1/60m\"", limit)).unwrap();
        for (words, said) in &conversations {
            let words = [words, &["--config", &path, "--as", "ann"][..]].concat();
            let page = Page::of(&words).stdin(said.clone()).run();
            assert!(page.stdout.contains('A'), "{page}");
            let refused = page.stdout.lines().filter(|line| line.contains("too many"));
            let refused: Vec<_> = refused.map(timeless).collect();
            assert_eq!(refused.len(), 1, "{page}");
            let _ = writeln!(told, "{} {}", words[0], refused[0]);
        }
    }
    expect![[r#"
        mcp {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller: at most 1/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        oracle {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"too many calls by this caller: at most 1/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        provider {"id":4,"error":{"code":"execute_failed","message":"too many calls by this caller: at most 1/60m, retry in N ms","detail":"{\"reason\":\"rate_limited\",\"retry_after_ms\":N}"}}
        rpc {"err":{"msg":"too many calls by this caller: at most 1/60m, retry in N ms","meta":{"code":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        mcp {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller of this tool: at most 1/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        oracle {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"too many calls by this caller of this tool: at most 1/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        provider {"id":4,"error":{"code":"execute_failed","message":"too many calls by this caller of this tool: at most 1/60m, retry in N ms","detail":"{\"reason\":\"rate_limited\",\"retry_after_ms\":N}"}}
        rpc {"err":{"msg":"too many calls by this caller of this tool: at most 1/60m, retry in N ms","meta":{"code":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
    "#]].assert_eq(&told);
}

/// What a limit of a front and of a back says, and what is full at once.
#[test]
fn each_limit_says_whose_it_is_and_names_nothing_of_the_config() {
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    let call = "{\"method\":\"try.upper\",\"args\":{\"text\":\"a\"}}\n";
    let refused = |config: &str| {
        fs::write(&path, config).unwrap();
        let words = ["rpc", "serve", "--listen", "stdio:", "--config", &path, "--as", "ann"];
        let page = Page::of(&words).stdin([call, call].concat()).run();
        timeless(page.stdout.lines().last().unwrap_or_default())
    };
    let of_back = "[back.try]\nconnect = \"builtin:\"\nrate = \"1/60m\"\n[caller.ann]\nuid = 1\n";
    // Of several empty buckets the longest wait is told.
    let longest = LIMITED
        .replace("rate = \"1/60m\"", "rate = \"1/1m\"\nlimit.\"*.upper\" = { rate = \"1/60m\" }");
    expect![[r#"
        {"err":{"msg":"too many calls by this caller: at most 1/60m, retry in N ms","meta":{"code":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        {"err":{"msg":"too many calls to this back: at most 1/60m, retry in N ms","meta":{"code":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        {"err":{"msg":"too many calls by this caller of this tool: at most 1/60m, retry in N ms","meta":{"code":"unavailable","reason":"rate_limited","retry_after_ms":N}}}"#]].assert_eq(&[LIMITED, of_back, &longest].map(refused).join("\n"));
}

/// A bus calls another over each wire, whose caller it is there: what that refuses by a limit keeps
/// its reason.
#[test]
fn a_bus_behind_a_bus_keeps_the_reason() {
    let scratch = Scratch::new();
    let (inner, outer) = (scratch.file("inner.toml"), scratch.file("outer.toml"));
    fs::write(&inner, LIMITED).unwrap();
    let program = quoted(env!("CARGO_BIN_EXE_toolbus"));
    let mut config = String::new();
    for (name, fixture) in FIXTURES {
        let words = address(&program, fixture, &inner).replace(
            &format!(" {}", quoted(&inner)),
            &format!(" --as ann --config {}", quoted(&inner)),
        );
        config += &serve::back(name, &words);
    }
    fs::write(&outer, config).unwrap();
    let said = format!("{INITIALIZE}\n{INITIALIZED_NOTE}\n");
    // Their names there are their own here.
    let names = FIXTURES.map(|(name, _)| match name {
        "orchard" | "mcp" => format!("{name}_upper"),
        _ => format!("{name}_try.upper"),
    });
    let mut server = crate::live::Live::start(&["mcp", "--config", &outer]);
    for line in said.lines() {
        server.say(line);
    }
    server.hear();
    let mut told = String::new();
    for (at, name) in names.iter().enumerate() {
        let id = u32::try_from(at).unwrap() * 2 + 1;
        let first = server.ask(&legacy_call(id, name, r#"{"text":"a"}"#));
        assert!(first.contains('A') && !first.contains("error"), "{name}: {first}");
        let second = server.ask(&legacy_call(id + 1, name, r#"{"text":"a"}"#));
        let _ = writeln!(told, "{name} {}", timeless(&second));
    }
    expect![[r#"
        oracle_try.upper {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller: at most 1/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        orchard_upper {"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"too many calls by this caller: at most 1/60m, retry in N ms"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"failed","code":"execute_failed","detail":"{\"reason\":\"rate_limited\",\"retry_after_ms\":N}"}}}}
        mcp_upper {"jsonrpc":"2.0","id":6,"error":{"code":-32603,"message":"too many calls by this caller: at most 1/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        mediocre_try.upper {"jsonrpc":"2.0","id":8,"error":{"code":-32603,"message":"too many calls by this caller: at most 1/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        orchestra_try.upper {"jsonrpc":"2.0","id":10,"error":{"code":-32603,"message":"too many calls by this caller: at most 1/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
    "#]].assert_eq(&told);
}

/// A request of a modern client who can be asked.
fn modern(id: u32, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"book","arguments":{{}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}}}}}}{more}}}}}"#
    )
}

/// The retry of a held call is free, once and for its own caller; whatever else brings a
/// `requestState` counts.
#[test]
fn what_goes_on_with_a_held_call_is_free_and_nothing_else() {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{}}}}"#;
    let tools = r#"{"tools":[{"name":"book","inputSchema":{"type":"object"}}]}"#;
    let done = r#"{"content":[{"type":"text","text":"booked"}]}"#;
    let scratch = Scratch::new();
    let asked = scratch.file("asked");
    // It asks about the first call alone. That has one of these ids, by how often it was listed.
    let answers =
        [3, 4, 5, 6].map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{done}}}"#));
    let answers = answers.iter().flat_map(|answer| ["say", answer]);
    let steps: Vec<&str> = ["read", "refuse", "-32601", "what?", "read", "answer", INITIALIZED]
        .into_iter()
        .chain(["read", "forever", "{", "read", "if", "tools/list", "{", "answer", tools, "}"])
        .chain(["if", "tools/call", "{", "once", &asked, "{", "say", question, "read"])
        .chain(answers)
        .chain(["}", "if", "tools/call", "{", "answer", done, "}", "}", "}"])
        .collect();
    let mut told = String::new();
    for (backs, name) in [(1, "book"), (2, "b_book")] {
        let _ = fs::remove_file(&asked);
        let mut config = serve::back("b", &mcp_server(&steps));
        if backs == 2 {
            config += serve::BUILTIN;
        }
        let callers = "[caller.ann]\ntoken = \"ann-token\"\nrate = \"2/60m\"\n[caller.bob]\ntoken = \"bob-token\"\n";
        let config = Config::of(&format!("{config}{callers}{}callers = [\"*\"]\n", serve::MCP));
        let server = config.serve(1);
        let call = |token: &str, id: u32, more: &str| {
            let fields = format!(
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
            );
            let body = modern(id, more).replace("\"book\"", &format!("\"{name}\""));
            let answer = ask(server.url(), "POST", "/mcp", token, &fields, &body);
            let mut lines = answer.lines().filter(|line| line.contains("jsonrpc"));
            lines.next_back().unwrap_or(&answer).trim_start_matches("data: ").to_owned()
        };
        let held = call("ann-token", 1, "");
        let state =
            held.split(r#""requestState":""#).nth(1).and_then(|rest| rest.split('"').next());
        let state = state.unwrap_or_else(|| panic!("not held: {held}")).to_owned();
        let retry = format!(
            r#","inputResponses":{{"tb1":{{"action":"accept","content":{{}}}}}},"requestState":"{state}""#
        );
        let invented = r#","inputResponses":{},"requestState":"s1""#;
        for (what, token, more) in [
            ("another brings it", "bob-token", retry.as_str()),
            ("its own caller", "ann-token", &retry),
            ("again", "ann-token", &retry),
            ("one that is no token of ours", "ann-token", invented),
            ("and that counts", "ann-token", invented),
            ("as any call", "ann-token", ""),
        ] {
            let answer = call(token, 2, more).replace(&state, "TOKEN");
            let _ = writeln!(told, "{backs} {what}: {}", timeless(&answer));
        }
    }
    expect![[r#"
        1 another brings it: {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown requestState"}}
        1 its own caller: {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"booked"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"faulty","version":"1"}}}}
        1 again: {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown requestState"}}
        1 one that is no token of ours: {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller: at most 2/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        1 and that counts: {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller: at most 2/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        1 as any call: {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller: at most 2/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        2 another brings it: {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown requestState"}}
        2 its own caller: {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"booked"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"faulty","version":"1"}}}}
        2 again: {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown requestState"}}
        2 one that is no token of ours: {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller: at most 2/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        2 and that counts: {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller: at most 2/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
        2 as any call: {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many calls by this caller: at most 2/60m, retry in N ms","data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":N}}}
    "#]].assert_eq(&told);
}

/// What a lone server's own words are changed to is looked at behind the limits, as everywhere.
#[test]
fn wrong_arguments_are_counted_whatever_stands_behind() {
    let scratch = Scratch::new();
    let (path, journal) = (scratch.file("toolbus.toml"), scratch.file("calls.jsonl"));
    let listed = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"tools":[{"name":"log","inputSchema":{"type":"object"}}],"content":[]}"#;
    let lone = serve::back("git", &mcp_server(&["forever", "{", "read", "answer", listed, "}"]));
    let other = serve::back("other", "builtin:");
    let rules = format!(
        "[caller.ann]\nuid = 1\nview = \"v\"\nrate = \"2/60m\"\n[view.v.tool.\"git.log\"]\n\
         rename = \"history\"\nfixed = {{ repo = \"/srv\" }}\n\
         [journal]\npath = \"{journal}\"\narguments = true\n"
    );
    for (backs, name) in [(lone.clone(), "history"), ([lone, other].concat(), "git_history")] {
        fs::write(&path, [backs, rules.clone()].concat()).unwrap();
        let wrong = legacy_call(2, name, r#"{"repo":1}"#);
        let calls = [
            legacy_call(1, name, r#"{"n":1}"#),
            wrong.clone(),
            legacy_call(3, name, r#"{"n":3}"#),
            wrong.replace(":2,", ":4,"),
        ];
        let mut told = Vec::new();
        let mut live = Live::start(&["mcp", "--config", &path, "--as", "ann"]);
        live.ask(INITIALIZE);
        live.say(INITIALIZED_NOTE);
        for call in &calls {
            told.push(timeless(&live.ask(call)));
        }
        live.hang_up();
        live.end();
        assert!(told[0].contains(r#""content":[]"#), "{told:?}");
        assert!(told[1].contains(&format!("`{name}` takes no argument `repo`")), "{told:?}");
        for refused in &told[2..] {
            assert!(refused.contains("too many calls by this caller: at most 2/60m"), "{told:?}");
        }
        let lines = fs::read_to_string(&journal).unwrap();
        fs::remove_file(&journal).unwrap();
        let of = r#""back":"git","tool":"log","outcome":"#;
        let kept: Vec<_> = lines
            .lines()
            .map(|line| {
                let (_, line) = line.split_once(of).unwrap_or_else(|| panic!("of git.log: {line}"));
                let outcome = line.split(',').next().unwrap_or_default();
                let (_, arguments) = line.split_once(r#""arguments":"#).expect("they are kept");
                format!("{outcome} {arguments}")
            })
            .collect();
        assert_eq!(
            kept,
            [
                r#""ok" {"n":1,"repo":"/srv"}}"#,
                r#""invalid_arguments" {"repo":1}}"#,
                r#""unavailable" {"n":3}}"#,
                r#""unavailable" {"repo":1}}"#,
            ]
        );
    }
}
