//! `toolbus rpc call`: what is printed, and how it ends.

use std::fs;

use expect_test::expect;
use toolbus_testkit::peer::command_line;
use toolbus_testkit::scratch::Scratch;

use super::{builtin, over_pipes};
use crate::page::{Page, check};

#[test]
fn a_single_answer_is_one_line() {
    let server = builtin();
    super::call(&server, &["add", r#"{"a":1,"b":2}"#]).check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    super::call(&server, &["echo", r#"{ "b" : 1.50 , "a":[1e400] }"#]).check(expect![[r#"
        stdout
        {"b":1.50,"a":[1e400]}
        exit 0
    "#]]);
    super::call(&server, &["echo"]).check(expect![[r#"
        stdout
        null
        exit 0
    "#]]);
}

#[test]
fn arguments_may_be_words() {
    let server = builtin();
    let scratch = Scratch::new();
    let file = scratch.file("file");
    fs::write(&file, "what it holds").unwrap();
    let words = ["echo", "n=1", "t=hi there", "s:=\"1\"", &format!("f=@{file}"), "e="];
    super::call(&server, &words).check(expect![[r#"
        stdout
        {"n":1,"t":"hi there","s":"1","f":"what it holds","e":""}
        exit 0
    "#]]);
    super::call(&server, &["echo", "-"]).stdin("[1]").check(expect![[r#"
        stdout
        [1]
        exit 0
    "#]]);
    super::call(&server, &["echo", "\"a=b\""]).check(expect![[r#"
        stdout
        "a=b"
        exit 0
    "#]]);
    super::call(&server, &["add", "a=1", "a=2"]).check(expect![[r#"
        stderr
        error: argument `a` is given twice
        hint: give one JSON value (`'{"a":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)
        exit 2
    "#]]);
    super::call(&server, &["add", "a=1", "{}"]).check(expect![[r#"
        stderr
        error: argument `{}` stands beside others, so it must be `key=value`
        hint: give one JSON value (`'{"a":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)
        exit 2
    "#]]);
}

#[test]
fn a_stream_is_a_line_an_element() {
    let server = builtin();
    super::call(&server, &["count", r#"{"n":2}"#]).check(expect![[r#"
        stdout
        0
        1
        exit 0
    "#]]);
    super::call(&server, &["echo", "[1]", "--tail", "{}", "--el", "-1", "--el", "null"]).check(
        expect![[r#"
        stdout
        {"$head":[1]}
        -1
        null
        {"$tail":{}}
        exit 0
    "#]],
    );
    super::call(&server, &["echo", "--stream"]).check(expect![[r#"
        exit 0
    "#]]);
    super::call(&server, &["blob", r#"{"bytes":16}"#]).check(expect![[r#"
        stdout
        {"$bytes":"r80dezmoIOL0Zbmhap54bg=="}
        exit 0
    "#]]);
}

#[test]
fn elements_go_in_the_order_of_the_options() {
    let server = builtin();
    let scratch = Scratch::new();
    let (one, two) = (scratch.file("one"), scratch.file("two"));
    fs::write(&one, "hi").unwrap();
    fs::write(&two, "").unwrap();
    let words = ["echo", "--blob", &one, "--el", "1", "--blob", &two, "--el", "2"];
    super::call(&server, &words).check(expect![[r#"
        stdout
        {"$bytes":"aGk="}
        1
        {"$bytes":""}
        2
        exit 0
    "#]]);
}

#[test]
fn elements_may_come_from_standard_input() {
    let server = builtin();
    super::call(&server, &["echo", "--el", "-", "--el", "9"]).stdin("1 {\"a\":[2]}\n\"x\"3").check(
        expect![[r#"
        stdout
        1
        {"a":[2]}
        "x"
        3
        9
        exit 0
    "#]],
    );
    super::call(&server, &["echo", "--blob", "-"]).stdin("hi").check(expect![[r#"
        stdout
        {"$bytes":"aGk="}
        exit 0
    "#]]);
    let page = super::call(&server, &["sink", "--el", "-"]).stdin("1 nope").run();
    assert_eq!((page.status.code(), page.stdout.as_str()), (Some(2), ""));
    assert!(page.stderr.starts_with("error: standard input is not JSON\n"), "{page}");
}

#[test]
fn blobs_may_become_files() {
    let server = builtin();
    let scratch = Scratch::new();
    let folder = scratch.file("a/b");
    let page = super::call(&server, &["blob", r#"{"bytes":100000}"#, "--out", &folder]).run();
    assert_eq!(page.stdout, format!("{{\"$file\":\"{folder}/0.bin\",\"bytes\":100000}}\n"));
    let bytes = fs::read(format!("{folder}/0.bin")).unwrap();
    assert_eq!((bytes.len(), &bytes[..4]), (100_000, &[0xaf, 0xcd, 0x1d, 0x7b][..]));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn a_blob_that_is_too_large_to_print_needs_a_folder() {
    super::call(&builtin(), &["blob", r#"{"bytes":16777217}"#]).check(expect![[r#"
        stderr
        error: a blob is over the limit of 16 MiB (16777216 bytes)
        hint: `--out DIR` writes blobs of any size to files
        exit 1
    "#]]);
}

#[test]
fn the_events_of_the_wire_may_be_shown() {
    let server = builtin();
    let words = ["echo", "1", "--el", "2", "--tail", "3", "--json"];
    super::call(&server, &words).check(expect![[r#"
        stdout
        {"event":"head","stream":true,"res":1}
        {"event":"value","v":2}
        {"event":"tail","value":3}
        exit 0
    "#]]);
    super::call(&server, &["count", r#"{"n":2,"fail_at":1}"#, "--json"]).check(expect![[r#"
        stdout
        {"event":"head","stream":true,"streamLen":2}
        {"event":"value","v":0}
        {"event":"error","cls":"framing","code":"truncated_stream","offset":44}
        stderr
        error: the response broke off: truncated_stream
        exit 3
    "#]]);
}

#[test]
fn errors_of_the_peer() {
    let server = builtin();
    super::call(&server, &["fail", r#"{"message":"no","code":"luck"}"#]).check(expect![[r#"
        stderr
        error: no
        meta: {"code":"luck"}
        exit 1
    "#]]);
    super::call(&server, &["nope"]).check(expect![[r#"
        stderr
        error: no such method: `nope`
        meta: {"code":"method_not_found"}
        exit 1
    "#]]);
    super::call(&server, &["sleep", r#"{"ms":60000}"#, "--timeout", "50ms"]).check(expect![[r#"
        stderr
        error: no answer within 50ms
        exit 4
    "#]]);
}

#[test]
fn an_early_answer_is_not_kept_waiting() {
    super::call(&builtin(), &["early", "--blob", "/dev/zero"]).check(expect![[r#"
        stdout
        {"early":true}
        exit 0
    "#]]);
}

#[test]
fn programs_are_called_over_their_pipes() {
    Page::of(&["rpc", "call", &over_pipes(), "upper", r#"{"text":"straße"}"#]).check(expect![[
        r#"
        stdout
        "STRASSE"
        exit 0
    "#
    ]]);
    Page::of(&["rpc", "call", "stdio:sh -c 'echo ouch >&2; read -r line; exit 7'", "m"]).check(
        expect![[r#"
            stderr
            error: `sh` ended with exit status 7 before it answered
              | ouch
            exit 3
        "#]],
    );
}

#[test]
fn what_cannot_be_called() {
    check(
        "rpc call tcp://127.0.0.1:1 m",
        expect![[r#"
            stderr
            error: nothing listens on 127.0.0.1:1
            hint: is the server running, and is this its address?
            exit 3
        "#]],
    );
    check(
        "rpc call http://127.0.0.1:1 m",
        expect![[r#"
            stderr
            error: nothing listens on 127.0.0.1:1
            hint: is the server running, and is this its address?
            exit 3
        "#]],
    );
    check(
        "rpc call builtin: m",
        expect![[r#"
            stderr
            error: `builtin:` is no mediocre-rpc server
            hint: name one by `tcp://`, `tls://`, `http://` or `https://` and HOST:PORT, by `unix:PATH` or by `stdio:COMMAND`
            exit 2
        "#]],
    );
    check(
        "rpc call tcp://h:1 m --debug []",
        expect![[r#"
        stderr
        error: `--debug` must be a JSON object
        exit 2
    "#]],
    );
    check(
        "rpc call tcp://h:1 m --el - --blob -",
        expect![[r#"
        stderr
        error: standard input can be only one of the elements
        exit 2
    "#]],
    );
    for words in ["{", "null --el {", "null --tail x", "null --blob no-such-file"] {
        let words = format!("rpc call tcp://h:1 m {words}");
        let page = Page::of(&words.split(' ').collect::<Vec<_>>()).run();
        assert_eq!((page.status.code(), page.stdout.as_str()), (Some(2), ""), "{page}");
    }
}

/// A server that gives back the call itself, and says what took how long.
fn telling() -> String {
    let answer = r#"{"res":$LINE,"debug":{"ms": 3}}"#;
    format!("stdio:{}", command_line(&["read", "say", answer, "readall"]))
}

#[test]
fn what_is_for_traces_and_logs_is_sent_and_shown() {
    let server = telling();
    let call = |words: &[&str]| Page::of(&[&["rpc", "call", &server, "m"], words].concat());
    call(&["--debug", r#"{"id":7}"#]).check(expect![[r#"
        stdout
        {"method":"m","debug":{"id":7}}
        stderr
        debug: {"ms":3}
        exit 0
    "#]]);
    // An empty object is as good as none, and is not sent; that of the answer is shown.
    call(&["--debug", "{ }"]).check(expect![[r#"
        stdout
        {"method":"m"}
        stderr
        debug: {"ms":3}
        exit 0
    "#]]);
    call(&["--debug", "{}", "--quiet"]).check(expect![[r#"
        stdout
        {"method":"m"}
        exit 0
    "#]]);
    call(&["--debug", "{}", "--json"]).check(expect![[r#"
        stdout
        {"event":"head","stream":false,"res":{"method":"m"},"debug":{"ms":3}}
        exit 0
    "#]]);
    call(&[]).check(expect![[r#"
        stdout
        {"method":"m"}
        exit 0
    "#]]);
    let page = call(&["-v"]).run();
    assert!(page.stderr.contains(r#"debug: {"ms":3}"#), "{page}");
}
