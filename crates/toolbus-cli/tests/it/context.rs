//! `toolbus prompt` and `toolbus resource`, and questions of a server: what MCP has besides tools.

use expect_test::expect;

use crate::mcp::{DISCOVERED, INITIALIZED};
use crate::page::{Page, mcp_server};
use crate::terminal::Terminal;

/// A server of the old era that answers these, one after the other.
fn answering(results: &[&str]) -> String {
    let opening = ["read", "answer", INITIALIZED, "read"];
    // A backslash in a step escapes what is behind it.
    let results: Vec<_> = results.iter().map(|result| result.replace('\\', "\\\\")).collect();
    let answers = results.iter().flat_map(|result| ["read", "answer", result]);
    let steps: Vec<_> = opening.into_iter().chain(answers).chain(["readall"]).collect();
    mcp_server(&steps)
}

#[test]
fn prompts_are_listed_and_got() {
    let prompts = r#"{"prompts":[{"name":"greet","description":"Greet a person\nwarmly","arguments":[{"name":"name","required":true},{"name":"tone"}]}]}"#;
    Page::of(&["prompt", "list", &answering(&[prompts])]).check(expect![[r#"
        stdout
        greet  name, tone?  Greet a person
        exit 0
    "#]]);
    let got =
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"Say hello to Ada"}}]}"#;
    let words = ["prompt", "get", &answering(&[got]), "greet", "name=Ada"];
    Page::of(&words).check(expect![[r#"
        stdout
        user: Say hello to Ada
        exit 0
    "#]]);
    Page::of(&["prompt", "get", "builtin:", "greet"]).check(expect![[r#"
        stderr
        error: this needs one MCP server, and all of its tools allowed
        hint: name it: by its address, or by the name of a back in the config
        exit 2
    "#]]);
}

#[test]
fn resources_are_listed_and_read() {
    let resources = r#"{"resources":[{"uri":"note://1","name":"one","mimeType":"text/plain"}]}"#;
    let templates = r#"{"resourceTemplates":[{"uriTemplate":"note://{id}","name":"any"}]}"#;
    let listing = answering(&[resources, templates]);
    Page::of(&["resource", "list", &listing]).check(expect![[r#"
        stdout
        note://1     text/plain  one
        note://{id}              any
        exit 0
    "#]]);
    let text = r#"{"contents":[{"uri":"note://1","text":"milk\nmint\n"}]}"#;
    Page::of(&["resource", "read", &answering(&[text]), "note://1"]).check(expect![[r#"
        stdout
        milk
        mint
        exit 0
    "#]]);
    let json = Page::of(&["--json", "resource", "read", &answering(&[text]), "note://1"]).run();
    assert_eq!(json.stdout, format!("{text}\n"), "{json}");
}

const QUESTION: &str = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Which city?","requestedSchema":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","default":3}},"required":["city"]}}}"#;
const FINE: &str =
    r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"fine"}]}}"#;

fn asking() -> String {
    let opening = ["read", "refuse", "-32601", "no such method", "read", "answer", INITIALIZED];
    let then = ["read", "read", "say", QUESTION, "read", "err", "$LINE", "say", FINE, "readall"];
    mcp_server(&[&opening[..], &then].concat())
}

#[test]
fn a_question_is_asked_at_the_terminal() {
    // Nothing is no answer where one is required.
    let terminal = Terminal::of(80)
        .types("city, string: ", "")
        .types("needed here\r\ncity, string: ", "Ulm")
        .types("[3]: ", "")
        .env("NO_COLOR", "1");
    let shown = terminal.shown(&["-v", "call", &asking(), "f", "{}"]);
    assert!(shown.contains("the server asks: Which city?"), "{shown:?}");
    let answer = r#"{"jsonrpc":"2.0","id":"q","result":{"action":"accept","content":{"city":"Ulm","days":3}}}"#;
    assert!(
        shown.contains(answer) && shown.ends_with("\"fine\"\n") || shown.contains("\"fine\""),
        "{shown:?}"
    );
}

#[test]
fn a_question_is_refused_in_a_pipe() {
    let page = Page::of(&["-v", "call", &asking(), "f", "{}"]).run();
    assert_eq!((page.status.code(), page.stdout.as_str()), (Some(0), "\"fine\"\n"), "{page}");
    assert!(page.stderr.contains(r#""id":"q","error":{"code":-32601"#), "{page}");
}

/// A modern server that wants to know something before it answers.
fn wanting() -> String {
    let question = r#"{"method":"elicitation/create","params":{"message":"Which city?","requestedSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}"#;
    let wants = format!(
        r#"{{"resultType":"input_required","inputRequests":{{"q":{question}}},"requestState":"s"}}"#
    );
    let fine = r#"{"resultType":"complete","content":[{"type":"text","text":"fine"}]}"#;
    let steps = ["read", "answer", DISCOVERED, "read", "answer", &wants, "read"];
    mcp_server(&[&steps[..], &["err", "$LINE", "answer", fine, "readall"]].concat())
}

#[test]
fn what_a_modern_server_wants_to_know_is_asked_at_the_terminal() {
    let terminal = Terminal::of(80).types("city, string: ", "Ulm").env("NO_COLOR", "1");
    let shown = terminal.shown(&["-v", "call", &wanting(), "f", "{}"]);
    assert!(shown.contains("the server asks: Which city?"), "{shown:?}");
    let answer =
        r#""inputResponses":{"q":{"action":"accept","content":{"city":"Ulm"}}},"requestState":"s""#;
    assert!(shown.contains(answer) && shown.contains("\"fine\""), "{shown:?}");
}

#[test]
fn what_a_modern_server_wants_to_know_is_refused_in_a_pipe() {
    Page::of(&["call", "--json", &wanting(), "f", "{}"]).check(expect![[r#"
        stdout
        {"error":{"kind":"failed","message":"the tool needs input, for which this caller cannot be asked","code":"input_required"}}
        stderr
        error: input_required: the tool needs input, for which this caller cannot be asked
        hint: it asks questions, which a user can answer on a terminal
        exit 1
    "#]]);
}
