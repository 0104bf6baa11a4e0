//! `toolbus decode`: captures in, events out.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use expect_test::{Expect, expect};
use toolbus_testkit::page::Program;
use toolbus_testkit::patience::PATIENCE;

use crate::page;

/// Decodes `bytes` as `words` say, and compares all that came of it.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(words: &str, bytes: impl Into<Vec<u8>>, expect: Expect) {
    expect.assert_eq(&run(words, bytes));
}

fn run(words: &str, bytes: impl Into<Vec<u8>>) -> String {
    let program = Program::new(env!("CARGO_BIN_EXE_toolbus")).args(words.split(' '));
    program.stdin(bytes).run().to_string()
}

#[test]
fn the_page_of_the_specification() {
    let path = "../../transcripts/mediocre/page_decode_prints_one_event_a_line.txt";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    let text = text.expect("the page is there");
    let (command, rest) = text.split_once("\nstdin\n").expect("the page has an input");
    let (stdin, expected) = rest.split_once("stdout\n").expect("the page has an output");
    let words = command.strip_prefix("$ toolbus ").expect("the page begins with a command");
    assert_eq!(run(words, stdin), format!("stdout\n{expected}"));
}

#[test]
fn a_call_without_a_method_is_an_error_and_the_next_is_read() {
    check(
        "decode mediocre --as call",
        "{\"args\":1}{\"method\":\"m\"}",
        expect![[r#"
            stdout
            {"event":"error","cls":"semantic","code":"method_missing"}
            {"event":"head","stream":false,"method":"m"}
            {"event":"end"}
            exit 3
        "#]],
    );
}

#[test]
fn lengths_may_be_hints_and_notes_may_be_errors() {
    let stream = "{\"streamStart\":true}{\"elBytesFrame\":\"F9\",\"elBytesLen\":3}F9abF9{\"streamEnd\":true}";
    check(
        "decode mediocre --as response --blob-len hint",
        stream,
        expect![[r#"
            stdout
            {"event":"head","stream":true}
            {"event":"blob","data":"YWI="}
            {"event":"note","code":"blob_len_hint_wrong"}
            {"event":"tail"}
            {"event":"end"}
            exit 0
        "#]],
    );
    check(
        "decode mediocre --as response --blob-len hint --strict",
        stream,
        expect![[r#"
            stdout
            {"event":"head","stream":true}
            {"event":"error","cls":"framing","code":"blob_len_hint_wrong","offset":20}
            exit 3
        "#]],
    );
    check(
        "decode mediocre --as response",
        stream,
        expect![[r#"
            stdout
            {"event":"head","stream":true}
            {"event":"error","cls":"framing","code":"blob_length","offset":61}
            exit 3
        "#]],
    );
}

#[test]
fn a_large_blob_is_told_by_its_length_and_hash() {
    let blob = |len: usize| {
        let head = b"{\"streamStart\":true}{\"elBytesFrame\":\"F9\"}F9";
        [&head[..], &vec![0; len], b"F9{\"streamEnd\":true}"].concat()
    };
    let shown = run("decode mediocre --as response", blob(16 << 20));
    assert!(shown.contains("{\"event\":\"blob\",\"data\":\"AAAA"), "up to 16 MiB it is shown");
    check(
        "decode mediocre --as response",
        blob((16 << 20) + 1),
        expect![[r#"
            stdout
            {"event":"head","stream":true}
            {"event":"blob","bytes":16777217,"sha256":"1003b1b5dc078189799a1216ce0f9fbcebb94e8b6b83c58c4b03345f07f94ced"}
            {"event":"tail"}
            {"event":"end"}
            exit 0
        "#]],
    );
}

#[test]
fn events_are_printed_as_soon_as_they_are_known() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolbus"));
    command.args(["decode", "mediocre", "--as", "call"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program was built");
    let mut stdin = child.stdin.take().expect("is piped");
    let stdout = BufReader::new(child.stdout.take().expect("is piped"));
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    let mut say = |bytes: &[u8], line: &str| {
        stdin.write_all(bytes).expect("the program reads");
        assert_eq!(told.recv_timeout(PATIENCE).as_deref(), Ok(line));
    };
    // Each time all but the last byte of the next object is there already.
    say(
        br#"{"method":"m","streamStart":true}{"el":1"#,
        r#"{"event":"head","stream":true,"method":"m"}"#,
    );
    say(br#"}{"elBytesFrame":"F9"}F9xF"#, r#"{"event":"value","v":1}"#);
    say(b"9", r#"{"event":"blob","data":"eA=="}"#);
    drop(stdin);
    let last = r#"{"event":"error","cls":"framing","code":"truncated_stream","offset":67}"#;
    assert_eq!(told.recv_timeout(PATIENCE).as_deref(), Ok(last));
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
}

#[test]
fn nothing_in_is_a_clean_end() {
    check(
        "decode mediocre --as call",
        "",
        expect![[r#"
            stdout
            {"event":"end"}
            exit 0
        "#]],
    );
}

#[test]
fn what_makes_no_sense() {
    page::check(
        "decode",
        expect![[r#"
            stderr
            error: a command is missing
            hint: `--help` shows all commands, and `toolbus demo` is a good start
            exit 2
        "#]],
    );
    page::check(
        "decode mediocre",
        expect![[r#"
            stderr
            error: --as is missing
            usage: toolbus decode mediocre --as <SIDE>
            hint: `--help` tells more
            exit 2
        "#]],
    );
    page::check(
        "decode mediocre --as both",
        expect![[r#"
            stderr
            error: `--as` cannot be `both`
            hint: it can be call, response
            exit 2
        "#]],
    );
    page::check(
        "decode medocre",
        expect![[r#"
            stderr
            error: there is no command `medocre`
            usage: toolbus decode [OPTIONS] <COMMAND>
            hint: did you mean `mediocre`?
            exit 2
        "#]],
    );
}

#[test]
fn help() {
    page::check(
        "decode -h",
        expect![[r#"
            stdout
            Show what the bytes of a capture say, event by event

            Usage: toolbus decode [OPTIONS] <COMMAND>

            Commands:
              oracle     Show what one side of an oracle's conversation says
              mediocre   Show what one direction of a mediocre-rpc connection says
              mcp        Show what one side of an MCP conversation says
              orchard    Show what one side of an Orchard conversation says
              orchestra  Show what one side of an Orchestra stream says
              godex      Show what a captured answer of a server says
              nats       Show what the bytes of a NATS connection say

            Global options:
                  --config <FILE>        Read this config, ours or an editor's [default: toolbus.toml, here or
                                         above]
                  --json                 Print lines of JSON, failures included
              -v, --verbose...           Say more: -v what happens, -vv every detail
              -q, --quiet                Say less: errors only, no warnings
                  --color <WHEN>         Colour words for people: auto (on a terminal), always or never
                  --log-format <FORMAT>  Log as text, or as lines of json
              -h, --help                 Show help: -h in short, --help with the story and examples
              -V, --version              Show the version
            exit 0
        "#]],
    );
    page::check(
        "decode mediocre --help",
        expect![[r#"
            stdout
            Show what one direction of a mediocre-rpc connection says

            Standard input is what one side wrote, from the first byte of the connection or body on: `--as call`
            for the side that calls, `--as response` for the side that answers.

            A blob is printed when it is complete, in base64; one over 16 MiB by its length and hash. What
            breaks a rule that may be broken is a line `{"event":"note",…}` behind its event.

            Usage: toolbus decode mediocre [OPTIONS] --as <SIDE>

            Options:
                  --as <SIDE>
                      Who wrote it: `call` for the caller, `response` for the server

                  --blob-len <HOW>
                      What ends a blob of announced length: its length (`exact`) or its frame (`hint`)

                      [default: exact]

                  --strict
                      Take what would be noted for an error

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              printf '{"method":"add","args":[1,2]}' | toolbus decode mediocre --as call
              toolbus decode mediocre --as response --strict < capture.bin
            exit 0
        "#]],
    );
}
