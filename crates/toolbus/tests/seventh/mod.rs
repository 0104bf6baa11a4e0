//! A seventh wire, added through the public registry from both sides.
//!
//! The program is test and peer in one: started by the words of a wire's fixture and an address,
//! it serves the tools at that address in that wire. So the wire is put before each wire of the
//! registry, and each of them before it.

#[allow(dead_code, unreachable_pub, reason = "a file of another crate, which needs more of it")]
#[path = "../../../toolbus-check/src/fixture.rs"]
mod fixture;
#[path = "../matrix/harness.rs"]
mod harness;
mod plain;

use std::collections::BTreeSet;
use std::env;
use std::future::Future;

use bytes::BytesMut;
use tokio::task::LocalSet;
use toolbus::address::{Address, Purpose};
use toolbus::bus::Bus;
use toolbus::bus::config::Config;
use toolbus::json;
use toolbus::peer::settings::Settings;
use toolbus::peer::{PeerKind, Registry};
use toolbus_proto::capture::Side;
use toolbus_testkit::form;
use toolbus_testkit::patience::PATIENCE;

use self::fixture::{FIXTURES, Fixture, Probe};
use self::harness::quoted;
use self::plain::{PLAIN, PlainSettings};

/// All that are compiled in, and one more.
fn registry() -> Registry {
    Registry::default().with(&PLAIN)
}

const TESTS: [(&str, fn()); 7] = [
    ("it_needs_few_types", it_needs_few_types),
    ("its_addresses_are_read", its_addresses_are_read),
    ("its_keys_are_read", its_keys_are_read),
    ("its_peers_are_called", its_peers_are_called),
    ("a_builder_knows_it", a_builder_knows_it),
    ("its_captures_are_read", its_captures_are_read),
    ("it_has_a_row_and_a_column", it_has_a_row_and_a_column),
];

pub(crate) fn tests() -> impl Iterator<Item = (String, crate::Test)> {
    TESTS
        .into_iter()
        .map(|(name, test)| (format!("seventh::{name}"), Box::new(test) as crate::Test))
}

/// Goes on as a peer, if this process was started to be one; is it over then?
pub(crate) fn was_peer(args: &[String]) -> bool {
    let Some((front, address)) = asked_to_serve(args) else { return false };
    serve(front, &address, args);
    true
}

/// The wire whose words stand before an address, if any do.
fn asked_to_serve(args: &[String]) -> Option<(&'static dyn PeerKind, Address)> {
    let registry = registry();
    fixtures().into_iter().find_map(|(name, fixture)| {
        // Some are started with flags behind the address.
        let (words, rest) = args.split_at_checked(fixture.words.len())?;
        let is_it = fixture.words.iter().copied().eq(words.iter().map(String::as_str));
        let address = rest.first().filter(|_| is_it)?;
        Some((registry.find(name)?, registry.address(Purpose::Call, address).unwrap()))
    })
}

/// How this program is made a peer of each wire.
fn fixtures() -> Vec<(&'static str, &'static Fixture)> {
    const PLAIN: Fixture = Fixture {
        words: &["plain"],
        scheme: "plain+stdio:",
        runs_side_by_side: true,
        hello: Probe::UPPER,
        limits: &[],
    };
    FIXTURES.into_iter().chain([("plain", &PLAIN)]).collect()
}

fn serve(kind: &'static dyn PeerKind, address: &Address, args: &[String]) {
    run(async {
        let bus = Bus::of_addresses(std::slice::from_ref(address), &Settings::default()).unwrap();
        let say = |line: &str| eprintln!("{line}");
        let served = kind.front().unwrap().serve_stdio(bus.clone(), args, say).await;
        bus.shutdown().await;
        served.unwrap()
    });
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, work)
}

/// Words that start this program.
fn ourselves() -> String {
    quoted(env::current_exe().unwrap().to_str().unwrap())
}

/// Who adds a wire has to know so many types of ours.
fn it_needs_few_types() {
    const SOURCES: [&str; 6] = [
        include_str!("plain.rs"),
        include_str!("../../../toolbus-testkit/src/plain/mod.rs"),
        include_str!("../../../toolbus-testkit/src/plain/calling.rs"),
        include_str!("../../../toolbus-testkit/src/plain/serving.rs"),
        include_str!("../../../toolbus-testkit/src/plain/translate.rs"),
        include_str!("../../../toolbus-testkit/src/plain/wire.rs"),
    ];
    let imports = SOURCES.iter().flat_map(|source| source.split("\nuse ").skip(1));
    let imports = imports.filter_map(|import| import.split(';').next());
    let ours = imports
        .filter(|import| import.starts_with("toolbus::") || import.starts_with("toolbus_proto::"));
    let words = ours.flat_map(|import| import.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let types: BTreeSet<_> =
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase())).collect();
    assert!((30..=45).contains(&types.len()), "{}: {types:?}", types.len());
}

fn its_addresses_are_read() {
    let address = registry().address(Purpose::Call, "plain+stdio:a 'b c'").unwrap();
    assert_eq!(address.kind().name(), "plain");
    assert_eq!(address.peer_name(), "a");
    assert!(Address::parse("plain+stdio:a").is_err(), "it is in no other registry");
    let unknown = registry().address(Purpose::Call, "plian+stdio:a").unwrap_err();
    assert_eq!(unknown.hint().unwrap(), "did you mean `plain+stdio:a`?");
    let empty = registry().address(Purpose::Call, "plain+stdio:").unwrap_err().to_string();
    assert_eq!(empty, "empty plain command");
}

fn its_keys_are_read() {
    let read = |text: &str| Config::parse_with(&registry(), text, &|_| None);
    let config = read("[back.x]\nconnect = \"plain+stdio:x\"\nline_max = \"1KiB\"").unwrap();
    let settings: PlainSettings = config.backs[0].settings.wire.get();
    assert_eq!(settings.line_bytes_max, Some(1024));
    // Another wire has a key of the same name.
    assert!(read("[back.x]\nconnect = \"stdio:x\"\nline_max = \"1KiB\"").is_ok());
    let error = read("[back.x]\nconnect = \"plain+stdio:x\"\nline_mx = 1").unwrap_err();
    assert_eq!(error.hint().unwrap(), "did you mean `line_max`?");
    let error = read("[back.x]\nconnect = \"plain+stdio:x\"\nfunctions = []").unwrap_err();
    assert_eq!(error.to_string(), "line 3: `back.x.functions` is only for oracle backs");
    let error = read("[front.x]\nserve = \"plain+stdio:x\"").unwrap_err().to_string();
    assert_eq!(error, "line 2: `front.x.serve`: cannot listen on `plain+stdio:x`");
}

fn its_peers_are_called() {
    let address = format!("plain+stdio:{} plain builtin:", ourselves());
    run(async {
        let parsed = registry().address(Purpose::Call, &address).unwrap();
        let bus = Bus::of_addresses(&[parsed], &Settings::default()).unwrap();
        let tools = bus.tools().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name.as_str() == "upper"));
        let called = harness::call(&bus, "upper", r#"{"text":"hello"}"#, PATIENCE).await;
        assert_eq!(called.unwrap().as_str(), r#""HELLO""#);
        bus.shutdown().await;
    });
}

fn a_builder_knows_it() {
    let address = format!("plain+stdio:{} plain builtin:", ourselves());
    let builder = Bus::builder().registry(registry()).address(&address).unwrap();
    let called = builder.run(async |bus| bus.call("upper", json!({"text": "hello"})).await);
    assert_eq!(called.unwrap().unwrap().text(), "HELLO");
    assert!(Bus::builder().address(&address).is_err());
}

fn its_captures_are_read() {
    let mut decoding = registry().find("plain").unwrap().decode(Side::Call).unwrap();
    let (mut input, mut lines) = (BytesMut::from("[0,\"bye\"]\n?"), String::new());
    decoding.take(&mut input, true, &mut lines);
    assert_eq!(lines, "{\"event\":\"line\",\"said\":[0,\"bye\"]}\n");
}

fn it_has_a_row_and_a_column() {
    // All other pairs have a test of their own, that of `docs/bridges.md`; with one wire more in
    // the registry they are tried once more in the long form.
    let is_wanted = |front: &str, back: &str| form::is_long() || [front, back].contains(&"plain");
    let table = run(harness::pairs(&registry(), fixtures(), &ourselves(), is_wanted));
    if form::is_long() {
        table.check_limits();
    }
    // A wire that is only called has no row.
    assert_eq!(table.fronts().len(), FIXTURES.len() + 1);
    let own = table.cells().iter().filter(|cell| cell.is_of("plain"));
    assert_eq!(own.count(), 2 * FIXTURES.len() + 1, "its row and its column");
    assert!(table.cell("plain", "plain").is_all_carried());
}
