//! `godex+stdio:`: programs that ask a model, as tools.

use expect_test::expect;
use toolbus_testkit::scratch::Scratch;

use crate::page::{Page, our_command};

fn mock(mode: &str) -> String {
    format!("godex+stdio:{}", our_command(&["exec", "--mock", "--mock-mode", mode]))
}

/// A program that is a script for `sh`.
fn script(scratch: &Scratch, text: &str) -> String {
    let file = scratch.file("child.sh");
    std::fs::write(&file, text).unwrap();
    format!("godex+stdio:sh {file}")
}

#[test]
fn an_answer_is_one_object_or_its_text() {
    Page::of(&["call", &mock("text"), "ask", "prompt=hi"]).check(expect![[r#"
        stdout
        {"text":"mock response text","usage":{"input_tokens":6,"output_tokens":3,"cached_tokens":0}}
        exit 0
    "#]]);
    Page::of(&["call", &mock("text"), "ask", "prompt=hi", "--stream"]).check(expect![[r#"
        stdout
        {"progress":"mock response text"}
        {"end":{"text":"mock response text","usage":{"input_tokens":6,"output_tokens":3,"cached_tokens":0}}}
        exit 0
    "#]]);
    Page::of(&["call", &mock("tool-call"), "ask", "prompt=hi"]).check(expect![[r#"
        stdout
        {"text":"","usage":{"input_tokens":6,"output_tokens":1,"cached_tokens":0},"tool_calls":[{"call_id":"call_mock","name":"mock_tool","arguments":"{\"value\":42}"}]}
        exit 0
    "#]]);
}

#[test]
fn what_is_wrong_starts_nothing() {
    Page::of(&["call", "godex+stdio:/nonesuch/godex", "ask", "x=1"]).check(expect![[r#"
        stderr
        error: `ask` takes no argument `x`
        hint: it takes `prompt`, `instructions`, `model`
        exit 2
    "#]]);
    Page::of(&["call", "godex+stdio:/nonesuch/godex", "ask", "prompt=hi"]).check(expect![[r#"
        stderr
        error: there is no program `/nonesuch/godex`
        hint: nothing is at that path: correct it
        exit 3
    "#]]);
    Page::of(&["tools", "godex+stdio:/nonesuch/godex"]).check(expect![[r#"
        stdout
        ask  prompt, instructions?, model?  Ask a model, and get its answer as text
        exit 0
    "#]]);
}

#[test]
fn a_child_that_fails_is_told_with_its_last_words() {
    let scratch = Scratch::new();
    let gone = script(&scratch, "echo 'error: request failed with status 400' >&2; exit 1");
    Page::of(&["call", &gone, "ask", "prompt=hi"]).check(expect![[r#"
        stderr
        error: the program ended with exit status 1 before it had answered
          | error: request failed with status 400
        exit 3
    "#]]);
    let scratch = Scratch::new();
    let quiet = script(&scratch, "echo hello");
    let page = Page::of(&["call", &quiet, "ask", "prompt=hi"]).run();
    assert_eq!(page.status.code(), Some(3), "{page}");
    assert!(page.stderr.contains("ended without response.completed or error"), "{page}");
    let scratch = Scratch::new();
    let failed = script(
        &scratch,
        r#"echo '{"message":"The server had an error","code":"server_error","type":"error"}'
           echo '{"type":"response.completed"}'"#,
    );
    let page = Page::of(&["call", &failed, "ask", "prompt=hi"]).run();
    assert_eq!(page.status.code(), Some(1), "{page}");
    assert!(page.stderr.contains("The server had an error"), "{page}");
}

#[test]
fn standard_input_is_empty_and_a_long_prompt_is_a_file() {
    let scratch = Scratch::new();
    // Says its arguments, how long its input is and what the file weighs; `$4` is the prompt.
    let child = script(
        &scratch,
        r#"input=$(wc -c); test "$3" = --input-json && weight=$(wc -c < "$4") && mode=$(stat -c %a "$4")
           echo "$4" > "$0.path"
           echo "{\"type\":\"response.output_text.delta\",\"delta\":\"$1 $2 $3 $input $weight $mode\"}"
           echo '{"type":"response.completed"}'"#,
    );
    let page = Page::of(&["call", &child, "ask", "--text", "prompt=hi"]).run();
    assert_eq!(page.stdout, "exec --json --prompt 0  \n", "{page}");
    let long = format!("prompt={}", "x".repeat(100_001));
    let page = Page::of(&["call", &child, "ask", "--text", &long]).run();
    assert_eq!(page.stdout, "exec --json --input-json 0 100079 600\n", "{page}");
    let path = std::fs::read_to_string(scratch.file("child.sh.path")).unwrap();
    assert!(!std::path::Path::new(path.trim_end()).exists(), "the file is gone");
}

#[test]
fn a_deadline_ends_the_child() {
    let scratch = Scratch::new();
    let child = script(&scratch, "exec sleep 1000");
    let page = Page::of(&["call", &child, "ask", "prompt=hi", "--timeout", "100ms"]).run();
    assert_eq!(page.status.code(), Some(4), "{page}");
    page.group.unwrap().assert_gone();
}

#[test]
fn a_check_tells_what_a_program_gets_wrong() {
    Page::of(&["check", "godex", &our_command(&["exec"])]).check(expect![[r#"
        stdout
        ok lines-are-events
        ok known-types
        ok text
        ok calls
        ok deltas-add-up
        ok one-terminal-line
        ok usage
        ok exit-code
        ok stderr-apart
        ok bad-flag
        exit 0
    "#]]);
    let scratch = Scratch::new();
    let file = scratch.file("bad.sh");
    let text = r#"echo hello; echo '{"type":"response.created"}'; echo '{"type":"error"}'
                  echo '{"type":"response.completed","response":{}}'"#;
    std::fs::write(&file, text).unwrap();
    Page::of(&["check", "godex", &format!("sh {file}")]).check(expect![[r#"
        stdout
        FAIL lines-are-events: text: no JSON object with a string `type`: hello
        note known-types: text: `response.created` is none of the document's types
        FAIL text: the mock of text said none
        FAIL calls: the mock of a tool call made none that was done
        ok deltas-add-up
        FAIL one-terminal-line: text: there are 2 terminal lines
        FAIL usage: text: `input_tokens` is no integer
        ok exit-code
        ok stderr-apart
        FAIL bad-flag: a flag that there is not was taken
        exit 1
    "#]]);
}

#[test]
fn a_capture_is_told_as_the_lines_of_a_run() {
    let sse = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\r\n\r\ndata: {\"type\":\"response.incomplete\"}";
    Page::of(&["decode", "godex", "--as", "response"]).stdin(sse).check(expect![[r#"
        stdout
        {"type":"response.output_text.delta","delta":"a"}
        {"type":"error","message":"response incomplete: unknown","code":"incomplete"}
        exit 1
    "#]]);
    Page::of(&["decode", "godex", "--as", "response", "--events", "all"]).stdin(sse).check(
        expect![[r#"
            stdout
            {"type":"response.output_text.delta","delta":"a"}
            {"type":"response.incomplete"}
            {"type":"error","message":"response incomplete: unknown","code":"incomplete"}
            exit 1
        "#]],
    );
    Page::of(&["decode", "godex", "--as", "call"]).check(expect![[r#"
        stderr
        error: `--as call` cannot be read: what a caller says are the arguments of a process, and no bytes; give `--as response`
        exit 2
    "#]]);
}
