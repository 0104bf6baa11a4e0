//! `toolbus prompt` and `toolbus resource`, and questions of a server: what MCP has besides tools.

use std::process::Command;

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
        .types("city, string: ", "Ulm")
        .types("[3]: ", "")
        .env("NO_COLOR", "1");
    let shown = terminal.shown(&["-v", "call", "--no-check", &asking(), "f", "{}"]);
    assert!(shown.contains("the server asks: Which city?"), "{shown:?}");
    let answer = r#"{"jsonrpc":"2.0","id":"q","result":{"action":"accept","content":{"city":"Ulm","days":3}}}"#;
    assert!(shown.contains(answer) && shown.contains("\nfine\n"), "{shown:?}");
}

/// A question with a field of each kind.
const FORM: &str = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"About you","requestedSchema":{"type":"object","properties":{
"name":{"type":"string","title":"Name","description":"as others call you","minLength":2},
"fan":{"type":"boolean","default":false},
"age":{"type":"integer","minimum":1,"maximum":150},
"mail":{"type":"string","format":"email"},
"friend":{"type":"string","oneOf":[{"const":"f-1","title":"Monica"},{"const":"f-2","title":"Rachel"}]},
"plays":{"type":"array","items":{"type":"string","enum":["Guitar","Bass","Drums"]},"default":["Guitar"]}},
"required":["name","fan","age","friend"]}}}"#;

fn asking_for(form: &str) -> String {
    let opening = ["read", "refuse", "-32601", "no such method", "read", "answer", INITIALIZED];
    let form = form.replace('\n', "");
    let then = ["read", "read", "say", &form, "read", "err", "$LINE", "say", FINE, "readall"];
    mcp_server(&[&opening[..], &then].concat())
}

#[test]
fn a_form_says_what_it_wants_and_takes_what_people_type() {
    let terminal = Terminal::of(100)
        .types("2 characters: ", "A")
        .types("2 characters: ", "Ada")
        .types("[no]: ", "9")
        .types("[no]: ", "y")
        .types("150: ", "200")
        .types("150: ", "36")
        .types("empty: ", "ada")
        .types("empty: ", "ada@example.org")
        .types("or name: ", "Rachl")
        .types("or name: ", "2")
        .types("[Guitar]: ", "bass, 3")
        .env("NO_COLOR", "1");
    let shown = terminal.shown(&["-v", "call", "--no-check", &asking_for(FORM), "f", "{}"]);
    let form = shown.split_once("the server asks").expect("it asks").1;
    let form = form.split("info:").next().unwrap_or_default();
    expect![[r#"
        : About you
        (Ctrl-D declines)
        Name (as others call you), string of at least 2 characters: A
        that must be a string of at least 2 characters
        Name (as others call you), string of at least 2 characters: Ada
        fan, yes or no [no]: 9
        that must be yes or no
        fan, yes or no [no]: y
        age, integer from 1 to 150: 200
        that must be an integer from 1 to 150
        age, integer from 1 to 150: 36
        mail, e-mail address, may be empty: ada
        that must be an e-mail address, such as ada@example.org
        mail, e-mail address, may be empty: ada@example.org
        friend
          1 Monica
          2 Rachel
        number or name: Rachl
        `Rachl` is none of them: did you mean `Rachel`?
        friend
          1 Monica
          2 Rachel
        number or name: 2
        plays
          1 Guitar
          2 Bass
          3 Drums
        numbers or names, with commas between them [Guitar]: bass, 3
    "#]]
    .assert_eq(form);
    let answer = r#""content":{"name":"Ada","fan":true,"age":36,"mail":"ada@example.org","friend":"f-2","plays":["Bass","Drums"]}"#;
    assert!(shown.contains(answer), "{shown}");
}

#[test]
fn a_question_that_is_broken_off_leaves_a_clean_line() {
    let mut called = Command::new("env");
    // Tests that are run in the background may ignore the signal, and so would all that they start.
    called.args(["--default-signal=INT", "setsid", "--wait", "--ctty"]);
    // What was not read of a terminal is lost when the first process on it ends, so that waits.
    called.args(["sh", "-c", r#"trap : INT; "$0" "$@"; echo "ended $?"; read -r line"#]);
    called.arg(env!("CARGO_BIN_EXE_toolbus"));
    called.args(["call", "--no-check", &asking(), "f", "{}"]);
    called.env("NO_COLOR", "1").env("TERM", "xterm");
    let terminal = Terminal::of(80).presses("city, string: ", "\x03").types("ended 130\r\n", "");
    let shown = terminal.shows(called);
    assert!(shown.contains("city, string: ^C\nended 130\n"), "{shown:?}");
}

#[test]
fn what_can_be_called_on_a_terminal_is_listed_on_it() {
    let tools = r#"{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}"#;
    let opening = ["read", "refuse", "-32601", "no such method", "read", "err", "$LINE"];
    let then = ["answer", INITIALIZED, "read", "read", "answer", tools, "readall"];
    let server = mcp_server(&[&opening[..], &then].concat());
    let declared = r#""capabilities":{"elicitation":"#;
    for words in [&["-v", "tools", &server][..], &["-v", "describe", &server, "ask"]] {
        // Nothing is typed, and somebody could.
        let shown = Terminal::of(200).types("no such prompt", "").shown(words);
        assert!(shown.contains(declared), "{words:?}: {shown}");
        let page = Page::of(words).run();
        assert!(page.stderr.contains(r#""capabilities":{}"#), "{words:?}: {page}");
    }
}

#[test]
fn a_question_is_refused_in_a_pipe() {
    let page = Page::of(&["-v", "call", "--no-check", &asking(), "f", "{}"]).run();
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
    let shown = terminal.shown(&["-v", "call", "--no-check", &wanting(), "f", "{}"]);
    assert!(shown.contains("the server asks: Which city?"), "{shown:?}");
    let answer =
        r#""inputResponses":{"q":{"action":"accept","content":{"city":"Ulm"}}},"requestState":"s""#;
    assert!(shown.contains(answer) && shown.contains("\nfine\n"), "{shown:?}");
}

#[test]
fn what_a_modern_server_wants_to_know_is_refused_in_a_pipe() {
    Page::of(&["call", "--no-check", "--json", &wanting(), "f", "{}"]).check(expect![[r#"
        stdout
        {"error":{"kind":"failed","message":"the tool needs input, for which this caller cannot be asked","code":"input_required"}}
        stderr
        error: input_required: the tool needs input, for which this caller cannot be asked
        hint: it asks questions, which a user can answer on a terminal
        exit 1
    "#]]);
}
