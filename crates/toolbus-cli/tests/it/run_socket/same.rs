//! The same bytes and the same exit code, with and without.

use std::fs;

use expect_test::expect;

use super::Bench;
use crate::terminal::Terminal;

const MORE: &str = r#"
[back.gone]
connect = "mcp+stdio:false"

[view.reader]
show = ["try.*", "s.greet"]
hide = ["try.fail"]

[view.reader.tool."try.add"]
rename = "plus"
fixed = { b = 2 }

[caller.ann]
token = "${ANN}"
view = "reader"
rate = "1000/1m"
"#;

/// The words of each command that is tried, separated by blanks.
const TABLE: &[&str] = &[
    // plain calls
    "call try.add a=1 b=2",
    "call try add a=1 b=2",
    "--json call try.add {\"a\":1,\"b\":2}",
    "call try.upper --text text=ab",
    "call try.upper text=ab",
    "call try.echo {\"a\":[1,1e400,\"\\u0041\"]}",
    "call s.greet name=Ada",
    "call s.greet --text name=Ada",
    "--json call s.greet name=Ada",
    "call s.numbers",
    "call s.numbers --text",
    // streams, parts, progress, bytes
    "call try.count n=3",
    "call try.count n=3 --stream",
    "call try.count n=3 --text",
    "call s.greet name=Ada --stream",
    "call try.blob bytes=100000",
    "call try.blob bytes=300000 --out blob",
    "call try.add a=1 b=2 --out sum",
    "call try.blob bytes=20000000 --out large",
    "call try.blob bytes=20000000",
    // failures of every kind
    "call try.fail message=no",
    "--json call try.fail message=no",
    "call try.count n=3 fail_at=1",
    "call try.count n=3 fail_at=1 --stream",
    "call s.refuse",
    "--json call s.refuse",
    "call s.die",
    "--json call s.die",
    "--json call s.wait --timeout 8s",
    "call try.sleep ms=60000 --timeout 200ms",
    "call try.add a=x",
    "call try.add a=x b=1 --no-check",
    "call try.add {\"a\":1",
    "call try.add 7",
    "call s.greet {}",
    "call gone.x",
    "--json call gone.x",
    // unknown names
    "call try.ad a=1",
    "--json call try.ad",
    "call tri.add a=1",
    "call add a=1",
    "call s.gret name=Ada",
    "call s.gret {}",
    "call s.gret {} --no-check",
    "call nobody.knows",
    // lists
    "tools",
    "tools --json",
    "tools try",
    "tools s --json",
    "describe try.add",
    "describe try add",
    "describe --json s.greet",
    "describe s.gret",
    "describe gone.x",
    "search add numbers",
    "search --json hello",
    "search zebra",
    "tools --fresh",
    // views and callers
    "tools --view reader",
    "tools --view reader --json",
    "call --view reader try.plus a=1",
    "call --view reader try.plus a=1 b=1",
    "call --view reader try.add a=1 b=1",
    "call --view reader try.fail message=no",
    "call --view reader s.greet name=Ada",
    "call --as ann try.plus a=1",
    "--json call --as ann try.fail message=no",
    "describe --view reader try.plus",
    "search --view reader plus",
    "tools --view reder",
    // prompts and resources
    "prompt list s",
    "--json prompt list s",
    "prompt get s hello name=Ada",
    "--json prompt get s hello name=Ada",
    "prompt get s helo",
    "resource list s",
    "resource read s note://1",
    "--json resource read s note://1",
    "resource read s note://2",
    "resource read s note://2 --out note",
    "resource read s note://3",
    "call bare.greet name=Ada",
    "call bare.gret name=Ada",
    "tools bare --json",
    "prompt list bare",
    "resource read bare note://1",
    "prompt list try",
    "prompt list",
    "prompt list gone",
];

#[test]
fn what_is_printed_is_the_same_to_the_byte() {
    let bench = Bench::of(MORE);
    let env = &[("ANN", "t")];
    let serve = bench.serve_with(&[], env);
    let run = |words: &[&str], is_alone: bool| {
        let words = if is_alone { &[words, &["--no-daemon"]].concat() } else { words };
        let page = bench.page(words).env("ANN", "t").run();
        (page.stdout, page.stderr, page.status.code())
    };
    let mut differ = Vec::new();
    for (row, line) in TABLE.iter().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let (served, alone) = (run(&words, false), run(&words, true));
        if served != alone {
            differ.push(format!("{line}\nserved: {served:?}\nalone: {alone:?}\n"));
        }
        // `used.rs` looks at each command; here some of each are enough.
        if row % 6 != 0 {
            continue;
        }
        let used = run(&[&words[..], &["-v"]].concat(), false).1;
        let expected = format!("info: using toolbus serve (pid {})", serve.id());
        if !used.lines().any(|line| line == expected) && !is_wrong_before(line) {
            differ.push(format!("{line}\nis not served: {used}\n"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert_eq!(fs::metadata(bench.scratch.file("large")).unwrap().len(), 20_000_000);
}

/// How long was waited is no part of what is shown.
pub(super) fn without_spinner(shown: &str) -> String {
    shown.rsplit("\u{1b}[K").next().unwrap_or_default().to_owned()
}

/// Is it refused before it is known who could answer?
fn is_wrong_before(line: &str) -> bool {
    ["call try.add {\"a\":1", "tools --view reder"].contains(&line)
}

#[test]
fn a_question_is_asked_at_the_terminal_of_the_command() {
    let bench = Bench::of("");
    let _serve = bench.serve();
    let shown = |is_alone: &'static str| {
        let mut command = bench.command(&["call", "s.ask"]);
        command.env("TOOLBUS_NO_DAEMON", is_alone).env("TERM", "xterm").env("NO_COLOR", "1");
        Terminal::of(80).types("city, string: ", "Paris").shows(command)
    };
    let served = without_spinner(&shown(""));
    assert_eq!(served, without_spinner(&shown("1")));
    assert!(served.contains("Which city?") && served.contains("Paris"), "{served}");
}

#[test]
fn there_is_one_line_in_the_journal_and_it_is_the_same() {
    let bench = Bench::of(MORE);
    let env = &[("ANN", "t")];
    let _serve = bench.serve_with(&[], env);
    let calls = [
        "call try.add a=1 b=2",
        "call s.die",
        "call tri.add",
        "call try.ad",
        "call try.add a=x b=1 --no-check",
        "call --as ann try.plus a=1",
        "call --as ann try.plus a=1 b=3",
        "call --view reader try.fail message=no",
        "prompt get s hello name=Ada",
        "tools",
    ];
    for call in calls {
        let words: Vec<&str> = call.split(' ').collect();
        let before = bench.journal().len();
        bench.page(&words).env("ANN", "t").run();
        let served = bench.journal().split_off(before);
        bench.page(&words).env("ANN", "t").env("TOOLBUS_NO_DAEMON", "1").run();
        let alone = bench.journal().split_off(before + served.len());
        assert_eq!(served, alone, "{call}");
        assert!(served.len() <= 1, "{call}: {served:?}");
    }
    expect![[
        r#"{"bytes":{"in":13,"out":1},"front":"call","back":"try","tool":"add","outcome":"ok"}"#
    ]]
    .assert_eq(&bench.journal()[0].to_string());
}
