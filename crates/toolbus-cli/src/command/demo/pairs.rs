//! Every kind of peer, called through every kind of front.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;
use toolbus::peer::{PeerKind, Registry};
use toolbus_check::fixture::{Fixture, Probe, fixture};

use super::peers::Peers;
use super::{PATIENCE, Tour, broken, call, millis, open};
use crate::command::wire::{self, Ends};
use crate::exit::Exit;
use crate::failed::Failed;

pub(super) async fn all(tour: &Tour, peers: &Peers) -> Result<(), Failed> {
    tour.step("Every front before every back")?;
    let registry = Registry::default();
    let wires: Vec<Wire> = registry.wires().filter_map(Wire::of).collect();
    let names: String = wires.iter().map(|wire| format!("{:>12}", wire.name)).collect();
    tour.say(format!("  {:<12}{names}", "front \\ back"))?;
    let (mut answered, mut first_failed) = (0, None);
    let mut leaving = JoinSet::new();
    for front in &wires {
        let mut row = format!("  {:<12}", front.name);
        for back in &wires {
            match front.calls(back, peers, &mut leaving).await {
                Ok(took) => {
                    answered += 1;
                    row.push_str(&format!("{:>12}", millis(took)));
                }
                Err(failed) => {
                    row.push_str(&format!("{:>12}", "failed"));
                    first_failed.get_or_insert(failed);
                }
            }
        }
        tour.say(row)?;
    }
    leaving.join_all().await;
    let pairs = registry.wires().count().pow(2);
    tour.say(format!("  {answered} of {pairs} answered, each through two processes"))?;
    match first_failed {
        Some(failed) => Err(failed),
        None if answered < pairs => {
            Err(Failed::new(Exit::Failed, format!("{answered} of {pairs} pairs answered")))
        }
        None => Ok(()),
    }
}

/// A wire, and how this program stands at its ends.
struct Wire {
    name: &'static str,
    ends: How,
}

enum How {
    /// As a peer that serves the tools of others.
    Peer(&'static Fixture),
    /// In a way of its own.
    Own(&'static dyn Ends),
}

impl Wire {
    fn of(kind: &'static dyn PeerKind) -> Option<Wire> {
        let own = || wire::faces().find(|face| face.wire() == kind.wire())?.ends().map(How::Own);
        let ends = fixture(kind.name()).map(How::Peer).or_else(own)?;
        Some(Wire { name: kind.name(), ends })
    }

    /// The address of a back, and what is called of it.
    fn back(&self, peers: &Peers) -> (String, Probe) {
        match self.ends {
            How::Peer(fixture) => (peers.serving(fixture, "builtin:"), fixture.hello),
            How::Own(ends) => {
                let (scheme, words) = ends.back();
                (format!("{scheme}{}", peers.ourselves(words)), ends.hello())
            }
        }
    }

    /// Calls a back through a front of this wire, and tells how long it took with the start of
    /// both.
    async fn calls(
        &self,
        back: &Wire,
        peers: &Peers,
        leaving: &mut JoinSet<()>,
    ) -> Result<Duration, Failed> {
        let (address, hello) = back.back(peers);
        let begun = Instant::now();
        let answer = match self.ends {
            How::Peer(fixture) => {
                let bus = open(&peers.serving(fixture, &address))?;
                let answer = call(&bus, hello.tool, hello.args).await;
                leaving.spawn_local(async move { bus.shutdown().await });
                let answer = answer.map_err(|failure| broken(self.name, &failure))?;
                answer.as_str().to_owned()
            }
            How::Own(ends) => {
                let late = || {
                    let message = format!("{}: no answer within {PATIENCE:?}", self.name);
                    Failed::new(Exit::Failed, message)
                };
                let called = ends.call(peers.program(), &address, hello);
                timeout(PATIENCE, called).await.map_err(|_| late())??
            }
        };
        let took = begun.elapsed();
        if hello.is_answered_by(&answer) {
            return Ok(took);
        }
        let message = format!("{} before {} answered {answer}", self.name, back.name);
        Err(Failed::new(Exit::Failed, message))
    }
}
