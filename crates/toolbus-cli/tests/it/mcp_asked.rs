//! What an MCP server may ask of the command line, and how it is spoken to.

use expect_test::expect;

use crate::mcp::{DISCOVERED, INITIALIZED};
use crate::page::{Page, mcp_server};

/// A server of the old era that is asked in the new one first, and then does these.
fn legacy(initialized: &str, then: &[&str]) -> String {
    let opening = ["read", "refuse", "-32601", "no such method", "read", "err", "$LINE", "answer"];
    mcp_server(&[&opening[..], &[initialized, "read"], then, &["readall"]].concat())
}

/// A server of the old era that prompts and resources are asked of.
fn asked(then: &[&str]) -> String {
    let opening = ["read", "err", "$LINE", "answer", INITIALIZED, "read"];
    mcp_server(&[&opening[..], then, &["readall"]].concat())
}

const DONE: &str = r#"{"content":[{"type":"text","text":"done"}]}"#;

#[test]
fn prompts_and_resources_declare_only_what_can_be_served() {
    let prompts = r#"{"prompts":[]}"#;
    let page = Page::of(&["-v", "prompt", "list", &asked(&["read", "answer", prompts])]).run();
    assert_eq!((page.status.code(), page.stdout.as_str()), (Some(0), ""), "{page}");
    assert!(page.stderr.contains(r#""capabilities":{},"#), "{page}");
    let server = asked(&["read", "answer", r#"{"contents":[]}"#]);
    let page = Page::of(&["-v", "resource", "read", "--root", "/", &server, "note://1"]).run();
    assert!(page.stderr.contains(r#""capabilities":{"roots":{}},"#), "{page}");
}

#[test]
fn a_server_without_prompts_or_resources_has_none() {
    let none = ["read", "refuse", "-32601", "Method not found"];
    for what in ["prompt", "resource"] {
        let server = mcp_server(
            &[&["read", "answer", INITIALIZED, "read"][..], &none, &none, &["readall"]].concat(),
        );
        let page = Page::of(&[what, "list", &server]).run();
        let ended = (page.status.code(), page.stdout.as_str(), page.stderr.as_str());
        assert_eq!(ended, (Some(0), "", ""), "{what}: {page}");
    }
    let server =
        mcp_server(&[&["read", "answer", INITIALIZED, "read"][..], &none, &["readall"]].concat());
    Page::of(&["prompt", "get", &server, "greet"]).check(expect![[r#"
        stderr
        error: this server has no prompts
        exit 1
    "#]]);
}

#[test]
fn a_misspelt_prompt_or_resource_is_told_with_what_was_meant() {
    let refuse = ["read", "refuse", "-32602", "MCP error -32602: Prompt gret not found"];
    let prompts = r#"{"prompts":[{"name":"greet"}]}"#;
    let opening = ["read", "answer", INITIALIZED, "read"];
    let server = |list: &[&str]| mcp_server(&[&opening[..], &refuse, list, &["readall"]].concat());
    Page::of(&["prompt", "get", &server(&["read", "answer", prompts]), "gret"]).check(expect![[
        r#"
        stderr
        error: no such prompt: `gret`
        hint: did you mean `greet`?
        exit 2
    "#
    ]]);
    Page::of(&["prompt", "get", &server(&["read", "answer", prompts]), "greet"]).check(expect![[
        r#"
        stderr
        error: -32602: Prompt gret not found
        exit 1
    "#
    ]]);
    let resources = r#"{"resources":[{"uri":"note://one","name":"one"}]}"#;
    let templates = r#"{"resourceTemplates":[]}"#;
    let lists = ["read", "answer", resources, "read", "answer", templates];
    Page::of(&["resource", "read", &server(&lists), "note://on"]).check(expect![[r#"
        stderr
        error: no such resource: `note://on`
        hint: did you mean `note://one`?
        exit 2
    "#]]);
}

/// Some servers look at the arguments before they look at the name.
#[test]
fn a_tool_that_is_not_there_is_told_before_an_odd_error() {
    let tools = r#"{"tools":[{"name":"fork","inputSchema":{"type":"object"}}]}"#;
    let odd = ["read", "refuse", "-32603", "Arguments are required", "read", "answer", tools];
    let opening = ["read", "refuse", "-32601", "no", "read", "answer", INITIALIZED, "read"];
    let server = mcp_server(&[&opening[..], &odd, &["readall"]].concat());
    Page::of(&["call", "--no-check", &server, "for"]).check(expect![[r#"
        stderr
        error: no such tool: `for`
        hint: did you mean `fork`?
        exit 2
    "#]]);
}

#[test]
fn the_era_can_be_said() {
    let opening = ["read", "err", "$LINE"];
    let server = |answers: &[&str]| mcp_server(&[&opening[..], answers, &["readall"]].concat());
    let old = server(&["answer", INITIALIZED, "read", "read", "answer", DONE]);
    let page = Page::of(&["-v", "call", "--no-check", "--era", "legacy", &old, "f"]).run();
    assert_eq!(page.stdout, "\"done\"\n", "{page}");
    assert!(page.stderr.contains(r#""method":"initialize""#), "{page}");
    let none = r#"{"resultType":"complete","prompts":[],"ttlMs":0,"cacheScope":"private"}"#;
    let new = server(&["answer", DISCOVERED, "read", "answer", none]);
    let page = Page::of(&["-v", "prompt", "list", "--era", "modern", &new]).run();
    assert!(page.stderr.contains(r#""method":"server/discover""#), "{page}");
    assert_eq!(page.status.code(), Some(0), "{page}");
    let config = format!("[back.old]\nconnect = '''{old}'''\nera = \"legacy\"\n");
    let page = Page::of(&["-v", "call", "--no-check", "old.f"]).config("era", &config).run();
    assert!(page.stderr.contains(r#""method":"initialize""#), "{page}");
    assert_eq!(page.stdout, "\"done\"\n", "{page}");
}

#[test]
fn a_server_that_cannot_ask_is_asked_for_in_the_other_era() {
    let told = "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests.";
    let tools = r#"{"resultType":"complete","tools":[{"name":"ask","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}"#;
    let steps = ["read", "answer", DISCOVERED, "read", "refuse", "-32600", told];
    let server = mcp_server(&[&steps[..], &["read", "answer", tools, "readall"]].concat());
    Page::of(&["call", "--no-check", &server, "ask"]).check(expect![[r#"
        stderr
        error: -32600: Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests.
        hint: it can ask only in the old era: `--era legacy`, or `era = "legacy"` of its back
        exit 1
    "#]]);
}

#[test]
fn folders_are_told_to_a_server_that_asks() {
    let question = r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#;
    let done = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let then = ["read", "say", question, "read", "err", "$LINE", "say", done];
    let page = Page::of(&[
        "-v",
        "call",
        "--no-check",
        "--root",
        "/",
        &legacy(INITIALIZED, &then),
        "f",
        "{}",
    ])
    .run();
    assert!(page.stderr.contains(r#""capabilities":{"roots":{}},"#), "{page}");
    assert!(page.stderr.contains(r#""result":{"roots":[{"uri":"file:///"}]}"#), "{page}");
    assert_eq!(page.stdout, "\"done\"\n", "{page}");
    Page::of(&["call", "--root", "/nowhere", "builtin:", "add"]).check(expect![[r#"
        stderr
        error: cannot use the folder `/nowhere`
          caused by: No such file or directory (os error 2)
        exit 2
    "#]]);
}

#[test]
fn a_model_answers_what_a_server_asks_it() {
    let question = r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":9,"systemPrompt":"Be brief"}}"#;
    let then = ["read", "say", question, "read", "err", "$LINE", "say"];
    let done = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let server = legacy(INITIALIZED, &[&then[..], &[done]].concat());
    let tools = r#"{"resultType":"complete","tools":[{"name":"other","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object","properties":{"prompt":{},"instructions":{}}}}],"ttlMs":0,"cacheScope":"private"}"#;
    let said = r#"{"resultType":"complete","content":[],"structuredContent":{"text":"Hello"}}"#;
    let model = ["read", "answer", DISCOVERED, "read", "answer", tools, "read", "err", "$LINE"];
    let model = mcp_server(&[&model[..], &["answer", said, "readall"]].concat());
    let page =
        Page::of(&["-v", "call", "--no-check", "--sample-with", &model, &server, "f", "{}"]).run();
    assert!(
        page.stderr.contains(r#""arguments":{"prompt":"Hi","instructions":"Be brief"}"#),
        "{page}"
    );
    let answer = r#""id":"s","result":{"role":"assistant","content":{"type":"text","text":"Hello"},"model":"#;
    assert!(page.stderr.contains(answer), "{page}");
    assert!(page.stderr.contains(r#""capabilities":{"sampling":{}},"#), "{page}");
    assert_eq!((page.status.code(), page.stdout.as_str()), (Some(0), "\"done\"\n"), "{page}");
}

#[test]
fn a_tool_that_must_be_a_task_is_called_as_one() {
    let initialized = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"faulty","version":"1"}}"#;
    let working =
        r#"{"task":{"taskId":"k","status":"working","statusMessage":"half","pollInterval":20}}"#;
    let completed = r#"{"taskId":"k","status":"completed"}"#;
    let refuse = ["read", "refuse", "-32601", "Tool slow requires task augmentation"];
    let then = ["read", "answer", working, "read", "answer", completed, "read", "answer", DONE];
    let server = legacy(initialized, &[&refuse[..], &then].concat());
    let page = Page::of(&["call", "--no-check", "--stream", &server, "slow"]).run();
    let expected = "{\"progress\":{\"progress\":1,\"message\":\"half\"}}\n{\"end\":\"done\"}\n";
    assert_eq!(page.stdout, expected, "{page}");
}

#[test]
fn what_a_server_proposes_is_completed() {
    let prompts = r#"{"prompts":[{"name":"greet","description":"Greet a person","arguments":[{"name":"tone","description":"How"},{"name":"name"}]}]}"#;
    let values = r#"{"completion":{"values":["warm","wry"]}}"#;
    let list = ["read", "answer", prompts];
    let complete = |then: &[&str], words: &[&str]| {
        let server = asked(then);
        let words = words.iter().map(|word| if *word == "SERVER" { &*server } else { *word });
        let words: Vec<_> = ["complete", "zsh", "toolbus"].into_iter().chain(words).collect();
        Page::of(&words).run().stdout
    };
    assert_eq!(complete(&list, &["prompt", "get", "SERVER", "gr"]), "greet\tGreet a person\n");
    assert_eq!(
        complete(&list, &["prompt", "get", "SERVER", "greet", "name=Ada", ""]),
        "tone=\tHow\n"
    );
    let then = [&list[..], &["read", "answer", values]].concat();
    let proposed = complete(&then, &["prompt", "get", "SERVER", "greet", "name=Ada", "tone=w"]);
    assert_eq!(proposed, "tone=warm\ntone=wry\n");
    let resources = r#"{"resources":[{"uri":"note://1","name":"one"}]}"#;
    let templates = r#"{"resourceTemplates":[{"uriTemplate":"city://{name}","name":"cities"}]}"#;
    let lists = ["read", "answer", resources, "read", "answer", templates];
    assert_eq!(
        complete(&lists, &["resource", "read", "SERVER", ""]),
        "note://1\tone\ncity://\tcities\n"
    );
    let values = r#"{"completion":{"values":["Ulm"]}}"#;
    let then = [&lists[..], &["read", "answer", values]].concat();
    assert_eq!(complete(&then, &["resource", "read", "SERVER", "city://U"]), "city://Ulm\n");
    // Of one that cannot be asked nothing is said in the middle of a line.
    Page::of(&["complete", "zsh", "toolbus", "prompt", "get", "builtin:", ""]).check(expect![[r"
        exit 0
    "]]);
}
