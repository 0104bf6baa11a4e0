//! Who calls, and how much each has under way: what a peer may, and whether it is still there.
//!
//! A peer is known by its reply subjects, without their last token.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::running::{CallIn, How};
use super::{Server, answer};
use crate::channel::{Asked, Ticket, Up};
use crate::nats::flow::Item;
use crate::nats::service::Offer;
use crate::tool::{CallerId, Failure};

/// How many calls one peer may have under way, how many all, and how many peers are remembered.
const CALLS_OF_PEER_MAX: usize = 1024;
const CALLS_MAX: usize = 8192;
const PEERS_MAX: usize = 1024;
/// A peer that is silent for so long is told that its calls go on.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// Who asks.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) caller: u64,
    pub(super) calls: usize,
    pub(super) heard: Instant,
    /// When it was last told that we are there.
    pub(super) told: Instant,
    /// What it may send, in all its calls.
    pub(super) given: u64,
}

impl Server {
    /// What outlives this connection, for the next one of this node.
    pub fn take_memory(&mut self) -> NodeMemory {
        let mut peers = std::mem::take(&mut self.peers);
        peers.values_mut().for_each(|peer| (peer.calls, peer.given) = (0, 0));
        NodeMemory {
            offer: std::mem::take(&mut self.offer),
            peers,
            next_caller: self.next_caller,
            next_ticket: self.next_ticket,
        }
    }

    /// Goes on where another connection of this node has ended.
    #[must_use]
    pub fn with_memory(mut self, memory: NodeMemory) -> Server {
        let NodeMemory { offer, peers, next_caller, next_ticket } = memory;
        (self.offer, self.peers) = (offer, peers);
        (self.next_caller, self.next_ticket) = (next_caller, next_ticket);
        self
    }

    pub(super) fn check_room(&self, reply: &str) -> Result<(), Failure> {
        let peer = self.peers.get(peer_of(reply)).map_or(0, |peer| peer.calls);
        match peer < CALLS_OF_PEER_MAX && self.calls.len() < CALLS_MAX {
            true => Ok(()),
            false => Err(answer::unavailable("full", "too many calls are under way here")),
        }
    }

    /// The one who asks, as backs are told.
    pub(super) fn caller(&mut self, now: Instant, peer: &str) -> CallerId {
        if let Some(known) = self.peers.get_mut(peer) {
            known.heard = now;
            return CallerId(known.caller);
        }
        if PEERS_MAX <= self.peers.len() {
            let idle = self.peers.iter().filter(|(_, peer)| peer.calls == 0);
            let oldest = idle.min_by_key(|(_, peer)| peer.heard).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                self.peers.remove(&oldest);
            }
        }
        let caller = self.next_caller;
        self.next_caller += 1;
        let known = Peer { caller, calls: 0, heard: now, told: now, given: 0 };
        self.peers.insert(peer.to_owned(), known);
        CallerId(caller)
    }

    pub(super) fn enter(&mut self, now: Instant, peer: &str, running: CallIn) -> Ticket {
        self.caller(now, peer);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.calls += 1;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.calls.insert(ticket, running);
        self.count(1);
        if self.next_look.is_none() {
            self.next_look = Some(now + ALIVE_EVERY);
        }
        ticket
    }

    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<CallIn> {
        let running = self.calls.remove(&ticket)?;
        self.count(-1);
        if let How::Toolbus(talk) = &running.how {
            self.kept -= talk.counted;
            let windows = &self.settings.windows;
            windows.set(windows.get() - talk.receiver.window());
            if let Some(peer) = self.peers.get_mut(&running.peer) {
                peer.given -= talk.receiver.window();
            }
        }
        if let Some(peer) = self.peers.get_mut(&running.peer) {
            peer.calls -= 1;
        }
        Some(running)
    }

    pub(super) fn count(&self, calls: isize) {
        let in_flight = &self.settings.in_flight;
        in_flight.set(in_flight.get().saturating_add_signed(calls));
    }

    /// Tells those who were silent that their calls go on: if nobody is there, the server says so.
    pub(super) fn look_at_peers(&mut self, now: Instant) {
        let mut oldest: std::collections::HashMap<String, Ticket> =
            std::collections::HashMap::new();
        for (ticket, running) in &self.calls {
            if let How::Toolbus(_) = running.how {
                let known = oldest.entry(running.peer.clone()).or_insert(*ticket);
                *known = (*known).min(*ticket);
            }
        }
        for (name, ticket) in oldest {
            let Some(peer) = self.peers.get_mut(&name) else { continue };
            if now < peer.heard.max(peer.told) + ALIVE_EVERY {
                continue;
            }
            peer.told = now;
            if let Some(CallIn { how: How::Toolbus(talk), .. }) = self.calls.get_mut(&ticket) {
                talk.sender.push_urgent(Item::new("alive", Bytes::new()));
                self.stirred.insert(ticket);
            }
        }
        self.next_look = (!self.calls.is_empty()).then(|| now + ALIVE_EVERY / 5);
    }

    pub(super) fn peer_is_gone(&mut self, peer: &str) {
        let of_peer = self.calls.iter().filter(|(_, running)| running.peer == peer);
        let mut gone: Vec<Ticket> = of_peer.map(|(ticket, _)| *ticket).collect();
        gone.sort_unstable();
        for ticket in gone {
            if let Some(CallIn { how: How::Toolbus(talk), .. }) = self.calls.get(&ticket) {
                let runs = talk.has_started && !talk.is_done;
                self.leave(ticket);
                if runs {
                    self.ups.push_back((ticket, Asked::Up(Up::Cancel(None))));
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // With the connection, what was under way on it is over.
        self.count(-(self.calls.len() as isize));
    }
}

/// What outlives a connection of a node: what its endpoints have counted, and who calls, so that
/// each keeps the number by which backs know it.
#[derive(Debug)]
pub struct NodeMemory {
    offer: Offer,
    peers: HashMap<String, Peer>,
    next_caller: u64,
    /// None is given out twice: what is said of a call may come late.
    next_ticket: u64,
}

impl Default for NodeMemory {
    fn default() -> NodeMemory {
        let (offer, peers) = (Offer::default(), HashMap::new());
        NodeMemory { offer, peers, next_caller: 1, next_ticket: 1 }
    }
}

/// A reply subject without its last token.
pub(super) fn peer_of(reply: &str) -> &str {
    reply.rsplit_once('.').map_or(reply, |(peer, _)| peer)
}
