//! The row and the column of NATS in `docs/bridges.md`: neither end starts the other, both meet at a
//! server, here that of the testkit. So each pair has a node of its own, a process like the others.

use std::rc::Rc;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use toolbus::address::Purpose;
use toolbus::peer::Registry;
use toolbus_check::fixture::{Capability, FIXTURES, Fixture, Probe, fixture};
use toolbus_testkit::broker::Broker;
use toolbus_testkit::scratch::Scratch;

use crate::godex::bridges::{self, GODEX};
use crate::listening::Server;
use crate::matrix::harness::{Cell, Pair, Trials, address, is_in_vain};

pub(crate) const NATS: &str = "nats";
/// What a node is started with stands in no address.
const NODE: Fixture =
    Fixture { words: &[], scheme: "", runs_side_by_side: true, hello: Probe::UPPER, limits: &[] };
/// So many pairs are tried side by side.
const AT_A_TIME: usize = 4;

/// Starts a node at `at` that serves what is at `served`.
pub(crate) async fn node(at: &str, served: &str) -> Server {
    let words = ["nats", "serve", at, served].map(str::to_owned);
    let started = spawn_blocking(move || Server::start(&words.each_ref().map(String::as_str), 1));
    started.await.unwrap()
}

/// All pairs of which one end is on NATS.
pub(crate) async fn cells(registry: &Registry, program: &str) -> Vec<Cell> {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    let turns = Rc::new(Semaphore::new(AT_A_TIME));
    let mut tried = JoinSet::new();
    let mut count = 0;
    let mut place = || {
        count += 1;
        broker.address(&format!("n{count}"))
    };
    let mut pair = |front, back, nodes: Vec<[String; 2]>, at: String, limits: [&Fixture; 2]| {
        let parse = |at: &str| registry.address(Purpose::Call, at).unwrap();
        let is_limited = limits.iter().any(|of| of.why_not(Capability::Cancelled).is_some());
        let is_in_vain = is_in_vain(front, back, is_limited);
        // A second connection leads to the same node: what waits there for a call that cannot be
        // taken back has a node of its own.
        let apart = match &nodes[..] {
            [_, [second, _]] => Some(parse(second)),
            _ => is_limited.then(|| parse(&at)),
        };
        let parsed = parse(&at);
        let turns = turns.clone();
        tried.spawn_local(async move {
            let _turn = turns.acquire().await.unwrap();
            let mut kept = Vec::new();
            for [at, served] in &nodes {
                kept.push(node(at, served).await);
            }
            let trials = match back {
                GODEX => Trials::of_two(parsed, apart, bridges::Ask::of(is_in_vain)).await,
                _ => {
                    let back = fixture(back).unwrap_or(&NODE);
                    Trials::of_two(parsed, apart, Pair { back, is_in_vain }).await
                }
            };
            Cell { front, back, address: at, carried: trials.end().await }
        });
    };
    for (name, fixture) in FIXTURES {
        let (before, behind) = (place(), place());
        let served = address(program, fixture, "builtin:");
        let mut nodes = vec![[before.clone(), served.clone()]];
        if fixture.why_not(Capability::Cancelled).is_some() {
            nodes.push([place(), served]);
        }
        pair(NATS, name, nodes, before, [&NODE, fixture]);
        let at = address(program, fixture, &behind);
        pair(name, NATS, vec![[behind, "builtin:".to_owned()]], at, [fixture, &NODE]);
    }
    let (far, near, model, behind) = (place(), place(), place(), place());
    let _far = node(&far, "builtin:").await;
    pair(NATS, NATS, vec![[near.clone(), far]], near, [&NODE; 2]);
    let served = bridges::child(&scratch, program);
    pair(NATS, GODEX, vec![[model.clone(), served]], model, [&NODE; 2]);
    let _node = node(&behind, "builtin:").await;
    let row = spawn_blocking(move || bridges::row(NATS, &behind, &bridges::probes_of(&NODE)));
    let mut cells = tried.join_all().await;
    cells.push(row.await.unwrap());
    cells
}
