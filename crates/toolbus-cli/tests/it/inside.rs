//! The program as a function, `toolbus_cli::run`: its pages are those of the program.

use expect_test::expect;

use crate::page::{Page, timeless};

/// Commands that only read and print, with what they read. At least one for each that runs inside
/// other tests, so that each is also proven by a process.
const SAME: [(&str, &str); 32] = [
    ("", ""),
    ("--version", ""),
    ("-h", ""),
    ("call --help", ""),
    ("serve --help", ""),
    ("orchard plan -h", ""),
    ("call -V", ""),
    ("help oracle invoke", ""),
    ("help nope", ""),
    ("man log", ""),
    ("completions bash", ""),
    ("completions elvish", ""),
    ("tolos", ""),
    ("tolos --color always", ""),
    ("call --text --stream builtin: add", ""),
    ("exec --json --frobnicate", ""),
    ("decode mediocre --as call", r#"{"args":1}{"method":"m"}"#),
    ("decode oracle --as response", "nope\n"),
    ("describe builtin: count", ""),
    ("describe --json builtin: add", ""),
    ("tools builtin:", ""),
    ("tools --color always builtin: builtin:", ""),
    ("call builtin: add -", r#"{"a":1,"b":2}"#),
    ("call builtin: fail message=no", ""),
    ("call --stream builtin: count n=3", ""),
    ("-vv call builtin: add a=1 b=2", ""),
    ("log -", LOGGED),
    ("-q log --stats -", LOGGED),
    ("orchard schema builtin/exec", ""),
    ("orchard plan missing.hcl", ""),
    ("check mcp mcp:ls", ""),
    ("rpc call tcp://127.0.0.1:1 m", ""),
];

/// A line of a journal, and one that is none.
const LOGGED: &str = concat!(
    r#"{"time":"2026-11-16T02:14:07.250Z","front":"editor","back":"b","tool":"b.t","#,
    r#""outcome":"ok","duration":1.5,"bytes":{"in":13,"out":2048}}"#,
    "\nnope\n"
);

#[test]
fn a_page_is_the_same_inside_and_of_a_process() {
    for (words, stdin) in SAME {
        let words: Vec<&str> = words.split_whitespace().collect();
        let page = || Page::of(&words).stdin(stdin);
        let [inside, process] = [page().inside(), page().process()].map(Page::run);
        assert_eq!(timeless(&inside.to_string()), timeless(&process.to_string()), "{words:?}");
    }
}

#[test]
fn what_needs_a_process_says_so() {
    let told = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        format!("$ {}\n{}", words.join(" "), Page::of(&words).inside().run())
    };
    let pages = ["demo", "mcp builtin:", "oracle serve builtin:", "exec --mock --prompt hi"];
    expect![[r#"
        $ demo
        stderr
        error: cannot prepare the tour
          caused by: this command needs a process of its own
        exit 1
        $ mcp builtin:
        stderr
        error: cannot use standard input and output
          caused by: this command needs a process of its own
        exit 1
        $ oracle serve builtin:
        stderr
        error: cannot use standard input and output
          caused by: this command needs a process of its own
        exit 1
        $ exec --mock --prompt hi
        stderr
        error: cannot write to standard output
          caused by: this command needs a process of its own
        exit 1
    "#]]
    .assert_eq(&pages.map(told).concat());
}
