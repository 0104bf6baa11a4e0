//! What `toolbus call` prints: the same answer on every wire, text where it is asked for, bytes in
//! files, JSON for people on a terminal.

use std::fs;

use expect_test::expect;
use toolbus_check::fixture::{FIXTURES, Fixture};
use toolbus_testkit::scratch::Scratch;

use crate::mcp::INITIALIZED;
use crate::page::{Page, mcp_ourselves, mcp_server, our_command};
use crate::terminal::Terminal;

/// The addresses of a peer of ours in each wire.
fn wires() -> Vec<(&'static str, String)> {
    let wires = FIXTURES.into_iter();
    let address = |(wire, fixture): (&'static str, &Fixture)| {
        let words: Vec<_> = fixture.words.iter().copied().chain(["builtin:"]).collect();
        (wire, format!("{}{}", fixture.scheme, our_command(&words)))
    };
    wires.map(address).collect()
}

#[test]
fn one_tool_gives_one_answer() {
    let mut told = String::new();
    for (wire, address) in wires() {
        for words in [&["add", "a=1", "b=2"][..], &["upper", "text=hi"], &["count", "n=2"]] {
            let page = Page::of(&[&["call", &address][..], words].concat()).run();
            told += &format!("{wire:9} {:5} {}", words[0], page.stdout);
        }
    }
    expect![[r#"
        oracle    add   3
        oracle    upper "HI"
        oracle    count {"elements":[0,1]}
        orchard   add   {"result":3}
        orchard   upper {"result":"HI"}
        orchard   count {"elements":[0,1]}
        mcp       add   3
        mcp       upper "HI"
        mcp       count {"elements":[0,1]}
        mediocre  add   3
        mediocre  upper "HI"
        mediocre  count {"elements":[0,1]}
        orchestra add   {"text":"3","value":3}
        orchestra upper {"text":"HI"}
        orchestra count {"elements":[0,1]}
    "#]]
    .assert_eq(&told);
}

/// A server of the old era that answers this to every call.
fn answering(result: &str) -> String {
    let opening = ["read", "refuse", "-32601", "no such method", "read", "answer", INITIALIZED];
    mcp_server(&[&opening[..], &["read", "read", "answer", result, "readall"]].concat())
}

#[test]
fn a_server_slower_than_the_probe_gives_the_same_answer() {
    let config = format!(
        "[back.slow]\nconnect = \"{}\"\nprobe_timeout = \"1ms\"\n",
        mcp_ourselves(&["builtin:"])
    );
    let words = [
        ["slow.add", r#"{"a":1,"b":2}"#, "3\n"],
        ["slow.echo", r#"{"a":[1.50]}"#, "{\"a\":[1.50]}\n"],
        ["slow.upper", r#"{"text":"3"}"#, "\"3\"\n"],
        ["slow.count", r#"{"n":2}"#, "{\"elements\":[0,1]}\n"],
    ];
    for [tool, arguments, answer] in words {
        let page = Page::of(&["call", tool, arguments]).config("answers_slow", &config).run();
        assert_eq!(page.stdout, answer, "{tool}: {page}");
    }
}

/// What a server of the old era lists, beside the one tool it has.
fn listing(schema: &str) -> String {
    format!(
        r#"{{"tools":[{{"name":"f","inputSchema":{{"type":"object"}},"outputSchema":{schema}}}]}}"#
    )
}

#[test]
fn a_text_is_what_the_schema_says() {
    let check = |text: &str, schema: &str, printed: &str| {
        let result = format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#);
        let result = result.replace('\\', "\\\\");
        let opening = ["read", "refuse", "-32601", "no such method", "read", "answer", INITIALIZED];
        let listing = listing(schema);
        // The list is asked for after a call whose arguments are not looked at.
        let steps = ["read", "read", "answer", &result, "read", "answer", &listing, "readall"];
        let late = mcp_server(&[&opening[..], &steps].concat());
        let steps = ["read", "read", "answer", &listing, "read", "answer", &result, "readall"];
        let early = mcp_server(&[&opening[..], &steps].concat());
        for (address, arguments) in [(late, &["--no-check", "{}"][..]), (early, &["a=1"])] {
            let page = Page::of(&[&["call", &address, "f"], arguments].concat()).run();
            assert_eq!(page.stdout, format!("{printed}\n"), "{text} as {schema}: {page}");
        }
    };
    check(r#""3.0""#, r#"{"type":"number"}"#, "3.0");
    check(r#""3""#, r#"{"type":["integer","null"]}"#, "3");
    check(r#""false""#, r#"{"type":"boolean"}"#, "false");
    check(r#""[1, 2]""#, r#"{"type":"array"}"#, "[1,2]");
    check(r#""{\"a\": 1}""#, r#"{"type":"object"}"#, r#"{"a":1}"#);
    check(r#""3""#, r#"{"type":"string"}"#, r#""3""#);
    check(r#""3""#, r#"{"type":["number","string"]}"#, r#""3""#);
    check(r#""[1]""#, r#"{"type":"number"}"#, r#""[1]""#);
    check(r#""3""#, "{}", r#""3""#);
}

#[test]
fn text_is_that_of_the_blocks() {
    let wrapped = r#"{"content":[{"type":"text","text":"two"},{"type":"text","text":"lines"}],"structuredContent":{"result":"two lines"}}"#;
    Page::of(&["call", "--no-check", "--text", &answering(wrapped), "f", "{}"]).check(expect![[
        r#"
        stdout
        two
        lines
        exit 0
    "#
    ]]);
    Page::of(&["call", "--no-check", &answering(wrapped), "f", "{}"]).check(expect![[r#"
        stdout
        {"result":"two lines"}
        exit 0
    "#]]);
    let bare = r#"{"content":[],"structuredContent":{"a":1}}"#;
    Page::of(&["call", "--no-check", "--text", &answering(bare), "f", "{}"]).check(expect![[r#"
        stdout
        {"a":1}
        exit 0
    "#]]);
}

#[test]
fn bytes_go_into_files() {
    let scratch = Scratch::new();
    let file = scratch.file("bytes");
    let page = Page::of(&["call", "--out", &file, "builtin:", "blob", "bytes=20000000"]).run();
    let told =
        format!("stdout\n{{\"elements\":[{{\"$file\":\"{file}\",\"bytes\":20000000}}]}}\nexit 0\n");
    assert_eq!(page.to_string(), told);
    assert_eq!(fs::metadata(&file).unwrap().len(), 20_000_000);
    let folder = format!("{}/", scratch.file("folder"));
    let image = r#"{"content":[{"type":"text","text":"a dot"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}"#;
    let page =
        Page::of(&["call", "--no-check", "--out", &folder, &answering(image), "f", "{}"]).run();
    let told = format!(
        "[{{\"type\":\"text\",\"text\":\"a dot\"}},{{\"$file\":\"{folder}1.png\",\"bytes\":2}}]\n"
    );
    assert_eq!(page.stdout, told, "{page}");
    assert_eq!(fs::read(format!("{folder}1.png")).unwrap(), b"hi");
    // Without bytes it is the answer that is kept.
    let text = scratch.file("text");
    let page = Page::of(&["call", "--out", &text, "builtin:", "upper", "text=hi"]).run();
    assert_eq!(page.stdout, format!("{{\"$file\":\"{text}\",\"bytes\":2}}\n"), "{page}");
    assert_eq!(fs::read_to_string(&text).unwrap(), "HI");
}

#[test]
fn a_limit_names_the_flag_that_raises_it() {
    let page = Page::of(&["call", "--reply-max", "1KiB", "builtin:", "blob", "bytes=2000"]);
    page.check(expect![[r#"
        stderr
        error: the reply is over the limit of 1024 bytes
        hint: `--reply-max SIZE` takes up to 64MiB, `--out FILE` writes bytes to a file as they come
        exit 3
    "#]]);
    let page = Page::of(&["call", "--reply-max", "32MiB", "builtin:", "blob", "bytes=20000000"]);
    assert_eq!(page.run().status.code(), Some(0));
}

#[test]
fn a_text_ends_its_line_once() {
    for text in [r##"{"text":"# hi\n"}"##, r##"{"text":"# hi"}"##] {
        let page = Page::of(&["call", "--text", "builtin:", "upper", text]).run();
        assert_eq!(page.stdout, "# HI\n", "{page}");
    }
}

#[test]
fn on_a_terminal_text_is_text_and_bytes_are_named() {
    let shown = |words: &[&str]| Terminal::of(80).env("NO_COLOR", "1").shown(words);
    let words = ["call", "builtin:", "upper", r#"{"text":"two\nlines \u001b[2J"}"#];
    assert_eq!(shown(&words), "TWO\nLINES \\u001b[2J\n");
    assert_eq!(shown(&[&["--json"], &words[..]].concat()), "\"TWO\\nLINES \\u001b[2J\"\n");
    let wrapped =
        r#"{"content":[{"type":"text","text":"hi"}],"structuredContent":{"result":"hi\\nyou"}}"#;
    assert_eq!(shown(&["call", "--no-check", &answering(wrapped), "f"]), "hi\nyou\n");
    let image = r#"{"content":[{"type":"text","text":"a dot"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}"#;
    let told = "a dot\n<image/png, 2 bytes; --out FILE keeps it>\n";
    assert_eq!(shown(&["call", "--no-check", &answering(image), "f"]), told);
}

#[test]
fn json_for_people_is_indented_and_coloured() {
    let words = ["call", "builtin:", "echo", r#"{"a":[1,"x"],"b":{}}"#];
    let shown = Terminal::of(80).shown(&words).replace('\x1b', "␛");
    expect![[r#"
        {
          ␛[36m"a"␛[0m: [
            ␛[33m1␛[0m,
            ␛[32m"x"␛[0m
          ],
          ␛[36m"b"␛[0m: {}
        }
    "#]]
    .assert_eq(&shown);
    let plain = Terminal::of(80).env("TERM", "dumb").shown(&words);
    expect![[r#"
        {
          "a": [
            1,
            "x"
          ],
          "b": {}
        }
    "#]]
    .assert_eq(&plain);
    let line = Terminal::of(80).shown(&[&["--json"], &words[..]].concat());
    assert_eq!(line, "{\"a\":[1,\"x\"],\"b\":{}}\n");
}
