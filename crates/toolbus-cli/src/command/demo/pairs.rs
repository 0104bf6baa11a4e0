//! Every kind of peer, called through every kind of front.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;
use toolbus::peer::{PeerKind, Registry};
use toolbus_check::fixture::{Fixture, Probe, fixture};
use toolbus_engine::child::Running;

use super::peers::Peers;
use super::{PATIENCE, Tour, broken, call, millis, open};
use crate::command::wire::{self, Ends, MeetingPlace};
use crate::exit::Exit;
use crate::failed::Failed;

pub(super) async fn all(tour: &Tour, peers: &Peers) -> Result<(), Failed> {
    tour.step("Every front before every back")?;
    let registry = Registry::default();
    let (mut wires, mut missing) = (Vec::new(), Vec::new());
    for kind in registry.wires() {
        match Wire::of(kind, peers).await {
            Some(Ok(wire)) => wires.push(wire),
            Some(Err(why)) => missing.push((kind.name(), why)),
            None => {}
        }
    }
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
    let pairs = wires.len().pow(2);
    tour.say(format!("  {answered} of {pairs} answered, each through two processes"))?;
    for (name, why) in missing {
        tour.say(format!("  {name} is not among them: {why}"))?;
    }
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
    /// At a server.
    Meets(Box<dyn MeetingPlace>),
}

impl Wire {
    /// `None` if it has no ends in the tour; an error says why it has none here.
    async fn of(kind: &'static dyn PeerKind, peers: &Peers) -> Option<Result<Wire, String>> {
        let name = kind.name();
        let face = || wire::faces().find(|face| face.wire() == kind.wire());
        let own = || face()?.ends().map(How::Own);
        if let Some(ends) = fixture(name).map(How::Peer).or_else(own) {
            return Some(Ok(Wire { name, ends }));
        }
        let place = face()?.meeting()?.open(peers.folder()).await;
        Some(place.map(|place| Wire { name, ends: How::Meets(place) }))
    }

    /// The address of a back, what is called of it, and what runs meanwhile.
    async fn back(&self, peers: &Peers) -> Result<(String, Probe, Option<Running>), Failed> {
        Ok(match &self.ends {
            How::Peer(fixture) => (peers.serving(fixture, "builtin:"), fixture.hello, None),
            How::Own(ends) => {
                let (scheme, words) = ends.back();
                (format!("{scheme}{}", peers.ourselves(words)), ends.hello(), None)
            }
            How::Meets(place) => {
                let (address, running) = place.serve(peers.program(), "builtin:").await?;
                (address, Probe::UPPER, Some(running))
            }
        })
    }

    /// Calls a back through a front of this wire, and tells how long it took with the start of
    /// both.
    async fn calls(
        &self,
        back: &Wire,
        peers: &Peers,
        leaving: &mut JoinSet<()>,
    ) -> Result<Duration, Failed> {
        let begun = Instant::now();
        let (address, hello, running) = back.back(peers).await?;
        let mut called = async |address: &str, running: Vec<Running>| {
            let bus = open(address)?;
            let answer = call(&bus, hello.tool, hello.args).await;
            leaving.spawn_local(async move {
                bus.shutdown().await;
                drop(running);
            });
            let answer = answer.map_err(|failure| broken(self.name, &failure))?;
            Ok::<_, Failed>(answer.as_str().to_owned())
        };
        let answer = match &self.ends {
            How::Peer(fixture) => {
                called(&peers.serving(fixture, &address), running.into_iter().collect()).await?
            }
            How::Meets(place) => {
                let (address, front) = place.serve(peers.program(), &address).await?;
                called(&address, running.into_iter().chain([front]).collect()).await?
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
