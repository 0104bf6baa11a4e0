//! Every front before every back, each a process of its own, where a view of the front gives a tool of
//! each back another name and fills in one of its arguments: a table of `docs/bridges.md`.
//!
//! A front has all backs behind it, since starting processes is what takes the time.

use std::fmt::Write as _;
use std::fs;

use tokio::task::{JoinSet, spawn_blocking};
use toolbus::address::Purpose;
use toolbus::bus::Bus;
use toolbus::peer::Registry;
use toolbus_check::fixture::FIXTURES;
use toolbus_proto::tool::FailureKind;
use toolbus_testkit::broker::Broker;
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::scratch::Scratch;

use crate::godex::bridges::{child, run_loop};
use crate::matrix::harness::{address, call, quoted, settings};
use crate::matrix_met::{NATS, node};
use crate::serve::{Config, back};

const GODEX: &str = "godex";

const ABOUT: &str = "
## A renamed tool with a fixed argument

A view of the front calls `add` of each back `plus-two` and fills in its argument `b`, and of godex \
`ask`, whose prompt it fills in. `yes`: the caller learns the new name alone and no argument that is \
filled in, the answer is the back's to both, a call by the old name is one of no tool, and one that \
gives the argument is refused.
";

/// What a back's tool is called, what it is given besides what is fixed, and what is fixed with what.
struct Viewed {
    old: &'static str,
    given: &'static str,
    fixed: &'static str,
    value: &'static str,
    /// What stands in its answer.
    answer: &'static str,
}

const ADD: Viewed = Viewed { old: "add", given: r#"{"a":1}"#, fixed: "b", value: "2", answer: "3" };
const ASK: Viewed = Viewed {
    old: "ask",
    given: "{}",
    fixed: "prompt",
    value: r#""say hello""#,
    answer: "mock response text",
};

impl Viewed {
    fn of(back: &str) -> &'static Viewed {
        if back == GODEX { &ASK } else { &ADD }
    }

    /// What is given with the argument that must not be.
    fn too_much(&self) -> String {
        let comma = if self.given == "{}" { "" } else { "," };
        let open = self.given.trim_end_matches('}');
        format!("{open}{comma}\"{}\":{}}}", self.fixed, self.value)
    }
}

/// The table, when all pairs were tried.
pub(crate) async fn to_markdown(registry: &Registry, program: &str) -> String {
    let (scratch, broker) = (Scratch::new(), Broker::start());
    let far = node(&broker.address("far"), "builtin:").await;
    let path = scratch.file("toolbus.toml");
    let backs: Vec<_> = FIXTURES
        .iter()
        .map(|(name, fixture)| (*name, address(program, fixture, "builtin:")))
        .chain([(GODEX, child(&scratch, program)), (NATS, far.url().to_owned())])
        .collect();
    let mut config = String::new();
    for (name, at) in &backs {
        let Viewed { old, fixed, value, .. } = Viewed::of(name);
        config += &back(name, at);
        // As long as it takes on this machine.
        let _ = writeln!(config, "start_timeout = \"{}s\"", PATIENCE.as_secs());
        let _ = write!(
            config,
            "[view.v.tool.\"{name}.{old}\"]\nrename = \"plus-two\"\nfixed = {{ {fixed} = {value} }}\n"
        );
    }
    let near = broker.address("near");
    let front = format!("[front.near]\nserve = \"{near}\"\nview = \"v\"\ntransit = true\n");
    let served = Config::of(&format!("{config}{front}"));
    fs::write(&path, config).unwrap();
    let names: Vec<_> = backs.iter().map(|(name, _)| *name).collect();
    let mut rows = JoinSet::new();
    let fronts = FIXTURES.into_iter().map(|(front, fixture)| {
        let words = format!(" --view v --config {}", quoted(&path));
        (front, address(program, fixture, "").trim_end_matches(" ''").to_owned() + &words)
    });
    // Those of a config alone have a view on NATS.
    let (served, node) = spawn_blocking(move || {
        let node = served.serve(1);
        (served, node)
    })
    .await
    .unwrap();
    for (place, (front, at)) in fronts.chain([(NATS, near)]).enumerate() {
        // The loop stands before it.
        let place = if front == NATS { place + 1 } else { place };
        let at = registry.address(Purpose::Call, &at).unwrap();
        let bus = Bus::of_addresses(&[at], &settings()).unwrap();
        let names = names.clone();
        rows.spawn_local(async move {
            let dot = if matches!(front, "mcp" | "orchard") { '_' } else { '.' };
            for name in names {
                before(&bus, front, name, dot).await;
            }
            bus.kill();
            bus.shutdown().await;
            (place, front)
        });
    }
    let (own, all) = (path.clone(), names.clone());
    rows.spawn_local(async move {
        spawn_blocking(move || all.iter().for_each(|name| before_a_model(&own, name)))
            .await
            .unwrap();
        (FIXTURES.len(), GODEX)
    });
    let mut rows = rows.join_all().await;
    rows.sort_unstable();
    drop((node, served));
    let mut told = ABOUT.to_owned();
    let _ = writeln!(told, "\n| front \\ back | {} |", names.join(" | "));
    let _ = writeln!(told, "|---|{}", "---|".repeat(names.len()));
    for (_, front) in rows {
        let _ = writeln!(told, "| {front} |{}", " yes |".repeat(names.len()));
    }
    told
}

/// A front before a back: the bus calls the front.
async fn before(bus: &Bus, front: &str, back: &str, dot: char) {
    let Viewed { old, given, fixed, answer, .. } = Viewed::of(back);
    let about = format!("{front} before {back}");
    let (new, old) = (format!("{back}{dot}plus-two"), format!("{back}{dot}{old}"));
    let tools = bus.tools().await.unwrap_or_else(|failure| panic!("{about}: {failure}"));
    let find = |name: &str| tools.iter().find(|tool| tool.name.as_str() == name);
    let listed = find(&new).unwrap_or_else(|| panic!("{about}: {new} is not listed: {tools:?}"));
    let property = format!("\"{fixed}\"");
    assert!(!listed.input.as_str().contains(&property), "{about}: {}", listed.input);
    assert!(find(&old).is_none(), "{about}: {old} is listed");
    let answered = call(bus, &new, given, PATIENCE).await;
    let answered = answered.unwrap_or_else(|failure| panic!("{about}: {failure}"));
    assert!(answered.as_str().contains(answer), "{about}: {answered}");
    let refused = call(bus, &new, &Viewed::of(back).too_much(), PATIENCE).await;
    let kind = refused.as_ref().map_err(|failure| failure.kind);
    assert_eq!(kind, Err(FailureKind::InvalidArguments), "{about}: {refused:?}");
    let unknown = call(bus, &old, given, PATIENCE).await;
    let kind = unknown.as_ref().map_err(|failure| failure.kind);
    assert_eq!(kind, Err(FailureKind::UnknownTool), "{about}: {unknown:?}");
}

/// A model before a back: it calls what a server tells it to.
fn before_a_model(config: &str, back: &str) {
    let viewed = Viewed::of(back);
    let (new, old) = (format!("{back}_plus-two"), format!("{back}_{}", viewed.old));
    let too_much = viewed.too_much();
    let calls = [(&*new, viewed.given), (&*new, &too_much), (&*old, viewed.given)];
    let (tools, outputs) = run_loop(&["--bus", "--view", "v", "--config", config], &calls);
    assert!(tools.contains(&new) && !tools.contains(&old), "{back}: {tools:?}");
    let [answered, refused, unknown] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert!(answered.contains(viewed.answer), "{back}: {answered}");
    let told = format!("error: invalid_arguments: `{new}` takes no argument `{}`", viewed.fixed);
    assert_eq!(*refused, told);
    assert!(unknown.starts_with("error: unknown_tool: "), "{back}: {unknown}");
}
