//! Every front before every back, each a process of its own, called by the library, and one of each
//! wire by the program too; what a pair does not carry stands in `docs/bridges.md`.

#[path = "../../../toolbus/tests/matrix/harness.rs"]
pub(crate) mod harness;

use std::fmt::Write as _;
use std::path::Path;

use tokio::task::LocalSet;
use toolbus::peer::Registry;
use toolbus_check::fixture::{self, Capability, FIXTURES, fixture};
use toolbus_proto::json::Json;
use toolbus_testkit::broker::Broker;
use toolbus_testkit::form;
use toolbus_testkit::side_by_side::side_by_side;

use self::harness::{Carried, Cell, quoted};
use crate::listening::Server;
use crate::matrix_met::NATS;
use crate::page::Page;

const ABOUT: &str = "# Which call crosses which bridge

Any front can stand before any back, and what a caller says in one wire is said in another. Not \
every wire can say everything. These tables are made by a test (`crates/toolbus-cli/tests/it/\
matrix.rs`), which starts a program for each front (the rows) and one for each back (the columns) \
and calls the tools of `builtin:` through both. A godex front is `toolbus exec`, whose caller is a \
model that calls what a scripted server tells it to; a godex back has one tool, `ask`. Ends of NATS \
meet at a server of the testkit. Where something does not arrive as it was sent, \
the reason stands below. `as text` is a value that arrives as the text of its JSON, `in an \
object` an answer that was no object and arrives as the only member of one, `text` or `result`, \
`collected` an answer whose parts arrive together at its end, ``as `Some` `` an argument that \
may be left out and is written as `{\"Some\":…}`.
";

const ANSWERS: &str = "## What `toolbus call` prints

One tool gives one and the same answer on standard output, whatever wire and era carried it, as far \
as the wire kept it: a number is a number, a text is a string, and the parts of an answer are \
collected as `{\"elements\":[…]}`. These are the tools of `builtin:` over each wire:
";

const KEPT: &str = "
A pipe gets this, and a terminal with `--json`. On a terminal otherwise, an answer that is a text, or \
an object whose only member `result` is one, is shown as that text, and bytes by what they are and how \
many.

- oracle: a function's return type says what its felts are. A tool without an output schema returns \
a text; any other value is then the text of its JSON.
- orchard: outputs are an object, and are printed as they are. An answer that is not an object is \
its member `result`; the wire does not say whether it was an object before.
- mcp: `structuredContent` is the answer where a result has it, so a server that speaks 2026-07-28 \
can say what it means, also if it starts so slowly that it is found out by the older handshake. An \
older revision carries objects so, and all else as text alone. Such a text is printed as the value \
whose JSON it is if the output schema in the server's list says number, integer, boolean, array or \
object. Without such a schema a text is a string: `3` may have been one.
- mediocre, nats: values are JSON.
- orchestra: a result is an object, and is printed as it is. A text is its member `text`; another \
value that is no object is its member `value`, beside its JSON as `text`.
- `--text` prints texts as they are; of an MCP result its text blocks, of a result of orchestra its \
member `text`.
";

/// Tools that are called with these words, and what they answer.
const ANSWERED: [[&str; 3]; 3] = [
    ["add", "a=1 b=2", "3"],
    ["upper", "text=hello", "\"HELLO\""],
    ["count", "n=2", r#"{"elements":[0,1]}"#],
];

#[test]
fn every_front_before_every_back() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let program = quoted(env!("CARGO_BIN_EXE_toolbus"));
    let registry = Registry::default();
    let pairs = harness::pairs(&registry, FIXTURES.to_vec(), &program, |_, _| true);
    let godex = crate::godex::bridges::cells(&registry, &program);
    // Much of both is waiting, so they wait together.
    let viewed = crate::matrix_viewed::to_markdown(&registry, &program);
    let met = crate::matrix_met::cells(&registry, &program);
    let (mut table, (name, limits, cells), viewed, met) =
        LocalSet::new().block_on(&runtime, async { tokio::join!(pairs, godex, viewed, met) });
    table.check_limits();
    let answers = std::thread::scope(|scope| {
        let printed = table.cells().iter().filter(|cell| is_printed(cell));
        scope.spawn(|| side_by_side(printed, called_by_the_program));
        answers(&registry, &program)
    });
    table.join(name, limits, cells);
    table.join(NATS, &[], met);
    let mut told = ABOUT.to_owned();
    let killed = crate::matrix_killed::to_markdown();
    let _ = write!(told, "{}{viewed}{killed}\n{answers}", table.to_markdown());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bridges.md");
    expect_test::expect_file![file].assert_eq(&told);
}

/// Is this pair called by the program, too? In the short form one of each wire, and the one whose
/// answers look like those of no other.
fn is_printed(cell: &Cell) -> bool {
    form::is_long() || cell.front == cell.back || (cell.front, cell.back) == ("oracle", "orchestra")
}

/// The same pair once more, with the program as its caller.
fn called_by_the_program(cell: &Cell) {
    let address = &cell.address;
    let run = |words: &[&str]| Page::of(words).run();
    let listed = run(&["tools", "--json", address]);
    assert_eq!(listed.status.code(), Some(0), "{listed}");
    assert!(listed.stdout.contains(r#""name":"upper""#), "{listed}");
    for [tool, words, answer] in ANSWERED {
        let called = run(&[&["call", address, tool], &*words_of(words)].concat());
        assert_eq!((&*called.stdout, called.status.code()), (&*printed(cell, answer), Some(0)));
    }
    let failed = run(&["call", "--json", address, "fail", "message=out of luck"]);
    assert_eq!(failed.status.code(), Some(1), "{failed}");
    assert!(failed.stdout.contains("out of luck"), "{failed}");
    let arguments = match cell.carries(Capability::Nested) {
        Carried::AsSome => r#"arguments={"Some":{"a":[1,{"b":null}]}}"#,
        _ => r#"arguments={"a":[1,{"b":null}]}"#,
    };
    let nested = run(&["call", address, "echo", arguments]);
    assert_eq!(nested.status.code(), Some(0), "{nested}");
    let late = run(&["call", "--timeout", "300ms", address, "sleep", "ms=600000"]);
    assert_eq!(late.status.code(), Some(4), "{late}");
}

fn words_of(words: &str) -> Vec<&str> {
    words.split(' ').collect()
}

/// What is printed of an answer that came over both wires of a pair.
fn printed(cell: &Cell, answer: &str) -> String {
    let kept = wrapped(cell.back, answer);
    // What lists no output schema returns a text.
    let kept = match (cell.front, cell.back) {
        ("oracle", "orchestra") => Json::of(&kept).to_string(),
        _ => kept,
    };
    format!("{}\n", wrapped(cell.front, &kept))
}

/// An answer as a wire has to carry it.
fn wrapped(wire: &str, answer: &str) -> String {
    match (wire, answer.as_bytes()[0]) {
        (_, b'{') => answer.to_owned(),
        ("orchard", _) => format!(r#"{{"result":{answer}}}"#),
        ("orchestra", b'"') => format!(r#"{{"text":{answer}}}"#),
        ("orchestra", _) => format!(r#"{{"text":{},"value":{answer}}}"#, Json::of(answer)),
        _ => answer.to_owned(),
    }
}

/// What is printed of the same answers over each wire.
fn answers(registry: &Registry, program: &str) -> String {
    let mut told = ANSWERS.to_owned();
    let calls = ANSWERED.map(|[tool, words, _]| format!(" `{tool} {words}` |"));
    let _ = writeln!(told, "\n| wire |{}\n|---|{}", calls.concat(), "---|".repeat(calls.len()));
    let broker = Broker::start();
    let node = Server::start(&["nats", "serve", &broker.address("team"), "builtin:"], 1);
    for kind in registry.wires() {
        let address = match fixture(kind.name()) {
            Some(fixture) => harness::address(program, fixture, "builtin:"),
            None if kind.name() == NATS => node.url().to_owned(),
            None => continue,
        };
        let _ = write!(told, "| {} |", kind.name());
        for [tool, words, _] in ANSWERED {
            let page = Page::of(&[&["call", &address, tool], &*words_of(words)].concat()).run();
            let _ = write!(told, " `{}` |", page.stdout.trim_end());
        }
        told.push('\n');
    }
    told + KEPT
}
