//! Every front before every back, each a process of its own, called by the program and by the
//! library; what a pair does not carry stands in `docs/bridges.md`.

#[path = "../../../toolbus/tests/matrix/harness.rs"]
pub(crate) mod harness;

use std::fmt::Write as _;
use std::path::Path;

use tokio::task::LocalSet;
use toolbus::wire::Registry;
use toolbus::wire::fixture::Trait;

use self::harness::{Carried, Cell, quoted};
use crate::page::Page;

const ABOUT: &str = "# Which call crosses which bridge

Any front can stand before any back, and what a caller says in one wire is said in another. Not \
every wire can say everything. These tables are made by a test (`crates/toolbus-cli/tests/it/\
matrix.rs`), which starts a program for each front (the rows) and one for each back (the columns) \
and calls the tools of `builtin:` through both. A godex front is `toolbus exec`, whose caller is a \
model that calls what a scripted server tells it to; a godex back has one tool, `ask`. Where something does not arrive as it was sent, \
the reason stands below. `as text` is a value that arrives as the text of its JSON, `in an \
object` an answer that is none and arrives as the only member of one, `text` or `result`, \
`collected` an answer whose parts arrive together at its end, ``as `Some` `` an argument that \
may be left out and is written as `{\"Some\":…}`.
";

#[test]
fn every_front_before_every_back() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let program = quoted(env!("CARGO_BIN_EXE_toolbus"));
    let registry = Registry::default();
    let pairs = harness::all_pairs(&registry, &program);
    let mut table = LocalSet::new().block_on(&runtime, pairs);
    for row in table.cells().chunks(table.fronts().len()) {
        std::thread::scope(|scope| {
            for cell in row {
                scope.spawn(|| called_by_the_program(cell));
            }
        });
    }
    let (name, limits, cells) =
        LocalSet::new().block_on(&runtime, crate::godex::bridges::cells(&registry, &program));
    table.join(name, limits, cells);
    let mut told = ABOUT.to_owned();
    let _ = write!(told, "{}{}", table.to_markdown(), crate::matrix_killed::to_markdown());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bridges.md");
    expect_test::expect_file![file].assert_eq(&told);
}

/// The same pair once more, with the program as its caller.
fn called_by_the_program(cell: &Cell) {
    let address = &cell.address;
    let run = |words: &[&str]| Page::of(words).run();
    let listed = run(&["tools", "--json", address]);
    assert_eq!(listed.status.code(), Some(0), "{listed}");
    assert!(listed.stdout.contains(r#""name":"upper""#), "{listed}");
    let called = run(&["call", address, "upper", "text=hello"]);
    assert_eq!(called.status.code(), Some(0), "{called}");
    assert!(called.stdout.contains("HELLO"), "{called}");
    let failed = run(&["call", "--json", address, "fail", "message=out of luck"]);
    assert_eq!(failed.status.code(), Some(1), "{failed}");
    assert!(failed.stdout.contains("out of luck"), "{failed}");
    let arguments = match cell.carries(Trait::Nested) {
        Carried::AsSome => r#"arguments={"Some":{"a":[1,{"b":null}]}}"#,
        _ => r#"arguments={"a":[1,{"b":null}]}"#,
    };
    let nested = run(&["call", address, "echo", arguments]);
    assert_eq!(nested.status.code(), Some(0), "{nested}");
    let late = run(&["call", "--timeout", "300ms", address, "sleep", "ms=600000"]);
    assert_eq!(late.status.code(), Some(4), "{late}");
}
