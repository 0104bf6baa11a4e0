//! MCP servers behind `toolbus call`, `tools` and `mcp`: good ones, and some that are not.

use expect_test::expect;
use toolbus_testkit::scratch::Scratch;

use crate::live::Live;
use crate::mcp::{DISCOVERED, INITIALIZE, INITIALIZED, discover, legacy_call, modern_call};
use crate::page::{Page, mcp_ourselves, mcp_server, with_life_apart};

const FINE: &str = r#"{"content":[{"type":"text","text":"fine"}]}"#;

/// A modern server that then does these steps.
fn modern(steps: &[&str]) -> String {
    mcp_server(&[&["read", "answer", DISCOVERED], steps].concat())
}

#[test]
fn our_own_tools_are_called_and_listed() {
    let address = mcp_ourselves(&["builtin:"]);
    Page::of(&["call", &address, "add", "a=1", "b=2"]).check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    Page::of(&["call", &address, "add", "a=1"]).check(expect![[r#"
        stderr
        error: argument `b` is missing
        hint: `toolbus describe` shows what it takes, `--no-check` sends the arguments as they are
        exit 2
    "#]]);
    Page::of(&["call", &address, "fail", "message=oops", "code=7"]).check(expect![[r#"
        stderr
        error: 7: oops
        exit 1
    "#]]);
    Page::of(&["call", &address, "uper"]).check(expect![[r#"
        stderr
        error: no such tool: `uper`
        hint: did you mean `upper`?
        exit 2
    "#]]);
    Page::of(&["tools", &address]).check(expect![[r#"
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
    "#]]);
}

#[test]
fn a_server_of_the_old_era_is_asked_in_it() {
    let opening = ["read", "refuse", "-32601", "no such method", "read", "answer", INITIALIZED];
    let call = ["read", "err", "$LINE", "read", "err", "$LINE", "answer", FINE, "readall"];
    let address = mcp_server(&[&opening[..], &call].concat());
    Page::of(&["call", "--no-check", "-v", &address, "f", r#"{"x":1}"#]).check(expect![[r#"
        stdout
        "fine"
        stderr
        info: faulty-tool: {"jsonrpc":"2.0","method":"notifications/initialized"}
        info: faulty-tool: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"f","arguments":{"x":1}}}
        log
        info: faulty-tool: started, process ID
        info: faulty-tool: ready
        info: faulty-tool: call of `f` over mcp: ok in TIME
        info: faulty-tool: ended with exit status 0
        exit 0
    "#]]);
}

#[test]
fn a_server_that_dies_of_the_question_is_started_again() {
    let scratch = Scratch::new();
    let dies = ["once", &scratch.file("asked"), "{", "read", "exit", "1", "}"];
    let lives = ["read", "answer", INITIALIZED, "read", "read", "answer", FINE, "readall"];
    Page::of(&["call", "--no-check", &mcp_server(&[&dies[..], &lives].concat()), "f"]).check(
        expect![[r#"
        stdout
        "fine"
        exit 0
    "#]],
    );
}

#[test]
fn a_program_that_is_not_there() {
    Page::of(&["call", "mcp+stdio:no-such-program", "f"]).check(expect![[r#"
        stderr
        error: there is no program `no-such-program` in PATH
        hint: install `no-such-program`, or give its path
        exit 3
    "#]]);
    let dies = mcp_server(&["err", "no licence", "exit", "3"]);
    Page::of(&["call", "--no-check", "-q", &dies, "f"]).check(expect![[r#"
        stderr
        error: `faulty-tool` ended with exit status 3 before it was ready
          | no licence
        exit 3
    "#]]);
}

#[test]
fn a_server_that_is_slow_is_not_asked_otherwise() {
    let scratch = Scratch::new();
    let slow = ["once", &scratch.file("slow"), "{", "read", "readall", "}"];
    let server = mcp_server(&[&slow[..], &["read", "refuse", "-1", "what?", "readall"]].concat());
    let config = format!("[back.x]\nconnect = \"\"\"{server}\"\"\"\nstart_timeout = \"300ms\"\n");
    let page = Page::of(&["mcp"]).config("mcp_slow", &config).stdin(format!("{INITIALIZE}\n"));
    page.check(expect![[r#"
        stdout
        {"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"`x` was not ready within 300ms","data":{"kind":"timed_out"}}}
        exit 0
    "#]]);
}

#[test]
fn our_own_tools_wait_for_no_server() {
    let mut live = Live::start(&["mcp", &mcp_server(&["readall"]), "builtin:"]);
    let three = live.ask(&modern_call(1, "builtin_add", r#"{"a":1,"b":2}"#));
    assert!(three.contains(r#""text":"3""#), "{three}");
    // Who asks for what a server may have still waits for it.
    live.say(&modern_call(2, "faulty-tool_f", "{}"));
    let three = live.ask(&modern_call(3, "builtin_add", r#"{"a":1,"b":2}"#));
    assert!(three.starts_with(r#"{"jsonrpc":"2.0","id":3,"#), "{three}");
}

#[test]
fn the_first_retry_is_at_once_though_two_eras_were_tried() {
    let mut live = Live::start(&["mcp", "-q", &mcp_server(&["exit", "9"])]);
    let died = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"`faulty-tool` ended with exit status 9 before it was ready","data":{"kind":"unavailable","status":9}}}"#;
    assert_eq!(live.ask(&modern_call(1, "f", "{}")), died);
    assert_eq!(live.ask(&modern_call(1, "f", "{}")), died);
}

#[test]
fn what_is_not_json_is_skipped() {
    let noise = ["say", "Welcome!", "read", "raw", r"\xff\n", "say", "[1"];
    let steps = [&noise[..], &["answer", FINE, "readall"]].concat();
    Page::of(&["call", "--no-check", "-v", &modern(&steps), "f"]).check(expect![[r#"
        stdout
        "fine"
        stderr
        warning: faulty-tool: line that answers nothing: Welcome!
        warning: faulty-tool: line that answers nothing: \xff
        warning: faulty-tool: line that answers nothing: [1
        log
        info: faulty-tool: started, process ID
        info: faulty-tool: ready
        info: faulty-tool: call of `f` over mcp: ok in TIME
        info: faulty-tool: ended with exit status 0
        exit 0
    "#]]);
}

#[test]
fn the_environment_is_clean() {
    let server = modern(&["env", "SECRET", "env", "HOME", "read", "answer", FINE, "readall"]);
    let page = Page::of(&["call", "--no-check", "-v", &server, "f"]);
    page.env("SECRET", "hidden").env("HOME", "/nowhere").check(expect![[r#"
        stdout
        "fine"
        stderr
        warning: faulty-tool: line that answers nothing: SECRET unset
        warning: faulty-tool: line that answers nothing: HOME=/nowhere
        log
        info: faulty-tool: started, process ID
        info: faulty-tool: ready
        info: faulty-tool: call of `f` over mcp: ok in TIME
        info: faulty-tool: ended with exit status 0
        exit 0
    "#]]);
    let config = format!(
        "[back.x]\nconnect = \"\"\"{server}\"\"\"\nenv_pass = [\"SECRET\"]\nenv = {{ HOME = \"/home\" }}\n"
    );
    let page = Page::of(&["call", "--no-check", "-v", "x.f"]).config("mcp_environment", &config);
    page.env("SECRET", "passed").check(expect![[r#"
        stdout
        "fine"
        stderr
        warning: x: line that answers nothing: SECRET=passed
        warning: x: line that answers nothing: HOME=/home
        log
        info: x: started, process ID
        info: x: ready
        info: x: call of `f` over mcp: ok in TIME
        info: x: ended with exit status 0
        exit 0
    "#]]);
}

#[test]
fn everything_passes_as_it_is() {
    let odd = r#"{"content":[],"z":1.0,"a":1e400,"n":123456789012345678901234567890,"\\u00e9":"\\u00E9/","_meta":{"x":null}}"#;
    let answers = ["forever", "{", "read", "err", "$LINE", "answer", odd, "}"];
    let server = mcp_server(&[&["read", "answer", INITIALIZED, "read"], &answers[..]].concat());
    let mut live = Live::start(&["mcp", "-v", &server]);
    let lines = [
        INITIALIZE,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"f","z":1.00,"arguments":{"b":1E2,"a":"\u00e9"},"_meta":{"y":1}}}"#,
        r#"{"jsonrpc":"2.0","id":7.0,"method":"who/knows","params":{"k":[1.10]}}"#,
    ];
    let heard: String = lines.iter().map(|line| live.ask(line) + "\n").collect();
    live.hang_up();
    expect![[r#"
        {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"faulty","version":"1"}}}
        {"jsonrpc":"2.0","id":"x","result":{"content":[],"z":1.0,"a":1e400,"n":123456789012345678901234567890,"\u00e9":"\u00E9/","_meta":{"x":null}}}
        {"jsonrpc":"2.0","id":7.0,"result":{"content":[],"z":1.0,"a":1e400,"n":123456789012345678901234567890,"\u00e9":"\u00E9/","_meta":{"x":null}}}
        info: faulty-tool: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"f","z":1.00,"arguments":{"b":1E2,"a":"\u00e9"},"_meta":{"y":1}}}
        info: faulty-tool: {"jsonrpc":"2.0","id":3,"method":"who/knows","params":{"k":[1.10]}}
        log
        info: faulty-tool: started, process ID
        info: faulty-tool: ready
        info: faulty-tool: tools/call over mcp: ok in TIME
        info: faulty-tool: who/knows over mcp: ok in TIME
        info: faulty-tool: initialize over mcp: cancelled in TIME
        info: faulty-tool: ended with exit status 0
        exit 0
    "#]].assert_eq(&with_life_apart(&(heard + &live.end())));
}

#[test]
fn a_result_passes_as_it_is_beside_other_backs_too() {
    let tools = r#"{"tools":[{"name":"f","inputSchema":{"type":"object"}}]}"#;
    let odd = r#"{"content":[{"type":"text","text":"3"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"result":3.0},"z":1.0}"#;
    // Asked in the era of the client, and then in the other; a second process is asked only
    // whether it is modern.
    let scratch = Scratch::new();
    let probed = ["read", "refuse", "-32601", "what?", "read", "answer", INITIALIZED, "readall"];
    let again = ["once", &scratch.file("again"), "{", "read", "answer", INITIALIZED, "read"];
    let modern = ["read", "refuse", "-32601", "what?", "read", "answer", DISCOVERED];
    let mut heard = String::new();
    for (greeting, end) in [(&again[..], &[&["}"], &probed[..]].concat()[..]), (&modern, &[])] {
        let serving = ["read", "answer", tools, "forever", "{", "read", "answer", odd, "}"];
        let server = mcp_server(&[greeting, &serving, end].concat());
        let mut live = Live::start(&["mcp", &server, "builtin:"]);
        live.ask(INITIALIZE);
        heard += &format!("{}\n", live.ask(&legacy_call(1, "faulty-tool_f", "{}")));
        heard += &format!("{}\n", live.ask(&modern_call(2, "faulty-tool_f", "{}")));
    }
    expect![[r#"
        {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"result":3.0},"z":1.0}}
        {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"3"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"result":3.0},"z":1.0,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"faulty","version":"1"}}}}
        {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"result":3.0},"z":1.0}}
        {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"3"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"result":3.0},"z":1.0}}
    "#]].assert_eq(&heard);
}

#[test]
fn a_server_that_dies_fails_its_call_at_once_and_serves_the_next() {
    let legacy = (["read", "answer", INITIALIZED, "read"].to_vec(), INITIALIZE.to_owned());
    let modern = (["read", "answer", DISCOVERED].to_vec(), discover(0));
    for ((greet, greeting), call) in
        [(legacy, legacy_call(1, "f", "{}")), (modern, modern_call(1, "f", "{}"))]
    {
        let scratch = Scratch::new();
        let dies = scratch.file("dies");
        let dying =
            [&["once", &dies, "{"], &greet[..], &["read", "err", "bad luck", "exit", "5", "}"]];
        let living = [&greet[..], &["forever", "{", "read", "answer", FINE, "}"]];
        let server = mcp_server(&[dying.concat(), living.concat()].concat());
        let mut live = Live::start(&["mcp", "-q", &server]);
        assert!(live.ask(&greeting).contains("result"));
        expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"`faulty-tool` ended with exit status 5 before it answered","data":{"kind":"gone","status":5,"stderr":["bad luck"]}}}"#]].assert_eq(&live.ask(&call));
        assert_eq!(live.ask(&call), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{FINE}}}"#));
    }
}

#[test]
fn a_reply_of_20_mb() {
    let text = r#"{"content":[{"type":"text","text":"\{78*20000000}"}]}"#;
    let page =
        Page::of(&["call", "--no-check", &modern(&["read", "answer", text, "readall"]), "f"]).run();
    assert_eq!((page.status.code(), page.stderr.as_str()), (Some(0), ""));
    assert!(page.stdout == format!("\"{}\"\n", "x".repeat(20_000_000)), "another text");
}
