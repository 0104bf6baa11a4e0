//! The row and the column of godex: its tool loop before every back, and every front before it.

use toolbus::wire::Registry;
use toolbus::wire::fixture::Fixture;
use toolbus_testkit::page::Program;

use super::command;
use crate::page::{Page, our_command};

/// Every wire of which this program can be made a peer.
fn fixtures() -> Vec<(&'static str, &'static Fixture)> {
    let registry = Registry::default();
    let fixtures: Vec<_> =
        registry.wires().filter_map(|kind| Some((kind.name(), kind.fixture()?))).collect();
    assert!(3 <= fixtures.len());
    fixtures
}

/// The address of a peer of ours that serves the tools of another address.
fn serving(fixture: &Fixture, served: &str) -> String {
    let words: Vec<_> = fixture.words.iter().copied().chain([served]).collect();
    format!("{}{}", fixture.scheme, our_command(&words))
}

#[test]
fn the_tool_loop_runs_the_tools_of_every_wire() {
    for (wire, fixture) in fixtures() {
        let address = serving(fixture, "builtin:");
        let words = ["exec", "--mock", "--mock-mode", "tool-loop", "hi", "--tools-from", &address];
        let page = Program::of(command(&words)).run();
        assert_eq!(page.status.code(), Some(0), "{wire}\n{page}");
        assert!(page.stdout.starts_with("mock tool result: "), "{wire}\n{page}");
        assert!(!page.stdout.contains("error: "), "{wire}\n{page}");
    }
}

#[test]
fn every_wire_can_ask_a_model() {
    for (wire, fixture) in fixtures() {
        let mock =
            format!("godex+stdio:{}", our_command(&["exec", "--mock", "--mock-mode", "text"]));
        let address = serving(fixture, &mock);
        let page = Page::of(&["call", &address, "ask", r#"{"prompt":"hi"}"#]).run();
        assert_eq!(page.status.code(), Some(0), "{wire}\n{page}");
        assert!(page.stdout.contains("mock response text"), "{wire}\n{page}");
    }
}
