//! What is hidden is unknown: on each front a tool that the view does not show is answered byte for
//! byte as one that is not there, but for its name, and only the journal knows better.

use std::fs;

use toolbus_testkit::scratch::Scratch;

use crate::mcp::{INITIALIZE, discover, legacy_call, modern_call};
use crate::page::Page;

/// `echo` and `add` are there and not shown, `ecko` and `adb` are not there.
const PAIRS: [(&str, &str); 2] = [("echo", "ecko"), ("add", "adb")];

fn config(journal: &str, more: &str) -> String {
    format!(
        "[back.try]\nconnect = \"builtin:\"\n{more}[journal]\npath = \"{journal}\"\n\
         [view.v]\nshow = [\"try.echoes\", \"try.upper\", \"try.add\"]\n\
         [view.v.tool.\"try.add\"]\nrename = \"plus-two\"\n"
    )
}

/// The name of a tool and an object without members, as an oracle is given them.
fn felts(name: &str) -> String {
    let text = |text: &str| {
        let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!(r#""0x0","0x{digits}","0x{:x}""#, text.len())
    };
    format!("{},{}", text(name), text("{}"))
}

/// What a front says to all that is said to it, line by line, in an order that does not depend on
/// which of two answers was ready first.
fn said(words: &[&str], stdin: &str) -> String {
    let page = Page::of(words).stdin(stdin).run();
    let mut lines: Vec<_> = page.stdout.lines().collect();
    lines.sort_unstable();
    format!("{}\n{}\n{:?}", lines.join("\n"), page.stderr, page.status.code())
}

/// Both names asked for in the same words.
fn check(scratch: &Scratch, words: &[&str], prefix: &str, stdin: impl Fn(&str) -> String) {
    let config = scratch.file("toolbus.toml");
    for (hidden, absent) in PAIRS {
        let (hidden, absent) = (format!("{prefix}{hidden}"), format!("{prefix}{absent}"));
        let ask = |name: &str| {
            let mut words: Vec<_> =
                words.iter().map(|word| if *word == "NAME" { name } else { word }).collect();
            words.extend(["--config", &config, "--view", "v"]);
            said(&words, &stdin(name)).replace(name, "NAME")
        };
        let (of_hidden, of_absent) = (ask(&hidden), ask(&absent));
        assert_eq!(of_hidden, of_absent, "{words:?}");
        assert!(of_hidden.contains("NAME"), "{words:?} says what it does not know: {of_hidden}");
    }
}

#[test]
fn no_front_and_no_command_tells_a_hidden_tool_from_none() {
    let scratch = Scratch::new();
    let journal = scratch.file("calls.jsonl");
    let two = "[back.other]\nconnect = \"builtin:\"\n";
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for (more, mcp, other) in [("", "", "try."), (two, "try_", "try.")] {
        fs::write(scratch.file("toolbus.toml"), config(&journal, more)).unwrap();
        check(&scratch, &["call", "--no-check", "NAME", "{}"], other, |_| String::new());
        check(&scratch, &["call", "NAME", "{}"], other, |_| String::new());
        check(&scratch, &["call", "--json", "NAME", "a=1"], other, |_| String::new());
        check(&scratch, &["describe", "NAME"], other, |_| String::new());
        check(&scratch, &["mcp"], mcp, |name| {
            format!("{INITIALIZE}\n{initialized}\n{}\n", legacy_call(1, name, "{}"))
        });
        check(&scratch, &["mcp"], mcp, |name| {
            format!("{}\n{}\n", discover(0), modern_call(1, name, "{}"))
        });
        check(&scratch, &["oracle", "serve"], other, |name| {
            let invoke = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"invoke","params":{{"selector":"{name}","calldata":[]}}}}"#
            );
            format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{{}}}}\n{invoke}\n")
        });
        check(&scratch, &["oracle", "serve"], other, |name| {
            let words = felts(name);
            let invoke = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"invoke","params":{{"selector":"toolbus.call","calldata":[{words}]}}}}"#
            );
            format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{{}}}}\n{invoke}\n")
        });
        check(&scratch, &["provider"], mcp, |name| {
            format!(
                "{{\"id\":1,\"method\":\"describe\"}}\n{{\"id\":2,\"method\":\"configure\",\"params\":{{\"config\":{{}}}}}}\n\
                 {{\"id\":3,\"method\":\"execute\",\"params\":{{\"action\":\"{name}\",\"attrs\":{{}}}}}}\n"
            )
        });
        // One object, and a stream with a value and bytes in it.
        check(&scratch, &["rpc", "serve", "--listen", "stdio:"], other, |name| {
            format!("{{\"method\":\"{name}\",\"args\":{{\"a\":1}}}}\n")
        });
        check(&scratch, &["rpc", "serve", "--listen", "stdio:"], other, |name| {
            format!(
                "{{\"method\":\"{name}\",\"streamStart\":true}}{{\"el\":1}}{{\"elBytesFrame\":\"ab\"}}ab123ab{{\"streamEnd\":true}}\n"
            )
        });
    }
    // Each of those calls has a line, and the hidden ones say whose tool they would have reached.
    let lines = fs::read_to_string(&journal).unwrap();
    let (mut hidden, mut absent) = (0, 0);
    for line in lines.lines() {
        assert!(line.contains(r#""view":"v""#), "{line}");
        match line.contains(r#""outcome":"unknown_tool","hidden":true"#) {
            true => {
                assert!(
                    line.contains(r#""back":"try","tool":"echo""#)
                        || line.contains(r#""tool":"add""#),
                    "{line}"
                );
                hidden += 1;
            }
            false => {
                assert!(line.contains(r#""outcome":"unknown_tool""#), "{line}");
                assert!(!line.contains("hidden") && !line.contains(r#""back":"#), "{line}");
                absent += 1;
            }
        }
    }
    assert_eq!(hidden, absent);
    assert!(8 < hidden, "{hidden} calls in the journal");
}

#[test]
fn only_what_is_shown_is_meant() {
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    fs::write(&path, config(&scratch.file("calls.jsonl"), "")).unwrap();
    let call = |name: &str| {
        let words = ["call", "--config", &path, "--view", "v", name, "a=1"];
        Page::of(&words).run().to_string()
    };
    let near = |name: &str, meant: &str| {
        assert!(call(name).contains(&format!("hint: did you mean `{meant}`?\n")), "{}", call(name));
    };
    near("try.uper", "try.upper");
    near("try.plus-tw", "try.plus-two");
    // Near to what is hidden alone.
    for name in ["try.ecko", "try.slep", "try.sinc"] {
        assert!(!call(name).contains("did you mean"), "{}", call(name));
    }
}
