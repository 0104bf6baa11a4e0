//! When a hub is dialled: at first, again when it is lost, and once more when it has lost
//! count of our streams. The hands dial and close.

use std::time::{Duration, Instant};

use crate::tool::{Failure, FailureKind};

/// How long until a lost hub is dialled again, at first and at most.
const REDIAL_MIN: Duration = Duration::from_millis(100);
const REDIAL_MAX: Duration = Duration::from_secs(5);

/// What can be set about the way to the hub.
#[derive(Debug, Clone)]
pub struct UplinkSettings {
    /// Where it is, as the user wrote it.
    pub address: String,
    /// The hub need not be there at first.
    pub waits: bool,
    /// A hub that is lost is dialled again.
    pub reconnects: bool,
}

/// One connection, counted from 1.
pub type ConnectionId = u64;

/// What the hands are to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UplinkOrder {
    /// Dial, and say how that went.
    Dial,
    /// Calls go to this connection from now on.
    Use(ConnectionId),
    /// No request needs this connection any more: close it with code 0, `client closed`.
    Close(ConnectionId),
    /// Write this line to standard error: people and scripts rely on it.
    Say(String),
    /// Fail what is in flight, and end with this code.
    Exit(u8),
}

/// The way to the hub.
#[derive(Debug)]
pub struct Uplink {
    settings: UplinkSettings,
    stage: Stage,
    /// How many connections there were.
    connections: ConnectionId,
    /// Starved ones, which still wait for answers.
    old: Vec<ConnectionId>,
    delay: Duration,
    /// When to dial again beside a starved connection.
    again_at: Option<Instant>,
    orders: std::collections::VecDeque<UplinkOrder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Dialled for the first time.
    First,
    Up {
        connection: ConnectionId,
        is_dialling: bool,
    },
    Down {
        dial_at: Instant,
    },
    Dialling,
    Over,
}

impl Uplink {
    /// Dials at once.
    pub fn new(settings: UplinkSettings) -> Uplink {
        let orders = [UplinkOrder::Dial].into();
        let (stage, delay) = (Stage::First, REDIAL_MIN);
        Uplink { settings, stage, connections: 0, old: Vec::new(), delay, again_at: None, orders }
    }

    /// The next thing to do.
    pub fn poll_order(&mut self) -> Option<UplinkOrder> {
        self.orders.pop_front()
    }

    /// Is nothing to be read before the hub is there?
    pub fn must_connect(&self) -> bool {
        !self.settings.waits
    }

    /// Why a call cannot go out, if it cannot.
    pub fn refusal(&self) -> Option<Failure> {
        if let Stage::Up { .. } = self.stage {
            return None;
        }
        let message = format!("not connected to orchestrator at {}", self.settings.address);
        Some(Failure::new(FailureKind::Unavailable, message))
    }

    /// The hub was reached.
    pub fn handle_dialled(&mut self) {
        let connection = self.connections + 1;
        match self.stage {
            Stage::Up { connection: starved, is_dialling: true } => self.old.push(starved),
            Stage::First | Stage::Dialling => {
                let address = &self.settings.address;
                let line = format!("transport.stdio: connected to orchestrator at {address}");
                self.orders.push_back(UplinkOrder::Say(line));
            }
            _ => return,
        }
        self.connections = connection;
        self.delay = REDIAL_MIN;
        self.again_at = None;
        self.stage = Stage::Up { connection, is_dialling: false };
        self.orders.push_back(UplinkOrder::Use(connection));
    }

    /// The hub was not reached.
    pub fn handle_dial_failed(&mut self, now: Instant, cause: &str) {
        match self.stage {
            Stage::First if !self.settings.waits => {
                let address = &self.settings.address;
                let line = format!("connect to orchestrator at {address}: {cause}");
                self.orders.extend([UplinkOrder::Say(line), UplinkOrder::Exit(3)]);
                self.stage = Stage::Over;
            }
            Stage::First | Stage::Dialling => self.dial_later(now),
            // What waits there may still get a stream meanwhile.
            Stage::Up { is_dialling: true, .. } => {
                self.again_at = Some(now + self.delay);
                self.delay = (self.delay * 2).min(REDIAL_MAX);
            }
            Stage::Up { .. } | Stage::Down { .. } | Stage::Over => {}
        }
    }

    /// No stream can be opened on this connection, though few are in use.
    pub fn handle_starved(&mut self, starved: ConnectionId) {
        if let Stage::Up { connection, is_dialling } = &mut self.stage
            && *connection == starved
            && !std::mem::replace(is_dialling, true)
        {
            self.orders.push_back(UplinkOrder::Dial);
        }
    }

    /// The last answer on this connection is in.
    pub fn handle_idle(&mut self, idle: ConnectionId) {
        if let Some(at) = self.old.iter().position(|old| *old == idle) {
            self.old.remove(at);
            self.orders.push_back(UplinkOrder::Close(idle));
        }
    }

    /// The connection is gone. What was asked there has failed, and is not asked again.
    pub fn handle_lost(&mut self, now: Instant, lost: ConnectionId, cause: &str) {
        self.old.retain(|old| *old != lost);
        let Stage::Up { connection, is_dialling } = self.stage else { return };
        if connection != lost {
            return;
        }
        let address = &self.settings.address;
        let line =
            format!("transport.stdio: lost connection to orchestrator at {address}: {cause}");
        if !self.settings.reconnects {
            self.orders.extend([UplinkOrder::Say(line), UplinkOrder::Exit(3)]);
            self.stage = Stage::Over;
            return;
        }
        self.orders.push_back(UplinkOrder::Say(format!("{line}; reconnecting")));
        match is_dialling && self.again_at.take().is_none() {
            true => self.stage = Stage::Dialling,
            false => self.dial_later(now),
        }
    }

    /// Ends well: every connection is closed.
    pub fn close(&mut self) {
        let current = match self.stage {
            Stage::Up { connection, .. } => Some(connection),
            _ => None,
        };
        self.orders.extend(self.old.drain(..).chain(current).map(UplinkOrder::Close));
        self.orders.push_back(UplinkOrder::Exit(0));
        self.stage = Stage::Over;
    }

    fn dial_later(&mut self, now: Instant) {
        self.stage = Stage::Down { dial_at: now + self.delay };
        self.delay = (self.delay * 2).min(REDIAL_MAX);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.again_at = None;
            if let Stage::Down { .. } = self.stage {
                self.stage = Stage::Dialling;
            }
            self.orders.push_back(UplinkOrder::Dial);
        }
    }

    /// When to call [`Uplink::handle_timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            Stage::Down { dial_at } => Some(dial_at),
            _ => self.again_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uplink(waits: bool, reconnects: bool) -> Uplink {
        let mut uplink =
            Uplink::new(UplinkSettings { address: "hub:1".to_owned(), waits, reconnects });
        assert_eq!(uplink.poll_order(), Some(UplinkOrder::Dial));
        uplink
    }

    fn orders(uplink: &mut Uplink) -> Vec<UplinkOrder> {
        std::iter::from_fn(|| uplink.poll_order()).collect()
    }

    #[test]
    fn who_waits_dials_until_the_hub_is_there() {
        let mut uplink = uplink(true, true);
        let mut now = Instant::now();
        for millis in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            uplink.handle_dial_failed(now, "refused");
            assert!(orders(&mut uplink).is_empty() && uplink.refusal().is_some());
            now += Duration::from_millis(millis);
            assert_eq!(uplink.poll_timeout(), Some(now));
            uplink.handle_timeout(now);
            assert_eq!(orders(&mut uplink), [UplinkOrder::Dial]);
        }
        uplink.handle_dialled();
        assert_eq!(orders(&mut uplink).len(), 2);
        assert!(uplink.refusal().is_none());
    }

    #[test]
    fn who_does_not_reconnect_ends_with_three() {
        let mut uplink = uplink(false, false);
        uplink.handle_dialled();
        orders(&mut uplink);
        uplink.handle_lost(Instant::now(), 1, "timed out");
        assert_eq!(orders(&mut uplink).last(), Some(&UplinkOrder::Exit(3)));
        assert_eq!(uplink.poll_timeout(), None);
    }

    #[test]
    fn a_starved_connection_is_left_only_for_another() {
        let mut uplink = uplink(false, true);
        uplink.handle_dialled();
        orders(&mut uplink);
        let now = Instant::now();
        uplink.handle_starved(1);
        uplink.handle_starved(1);
        assert_eq!(orders(&mut uplink), [UplinkOrder::Dial], "once");
        uplink.handle_dial_failed(now, "refused");
        assert!(uplink.refusal().is_none(), "the old one still serves");
        uplink.handle_timeout(uplink.poll_timeout().unwrap());
        assert_eq!(orders(&mut uplink), [UplinkOrder::Dial]);
        uplink.handle_dialled();
        assert_eq!(orders(&mut uplink), [UplinkOrder::Use(2)]);
        uplink.handle_idle(2);
        assert!(orders(&mut uplink).is_empty(), "who is used is not closed");
        uplink.handle_idle(1);
        assert_eq!(orders(&mut uplink), [UplinkOrder::Close(1)]);
        uplink.close();
        assert_eq!(orders(&mut uplink), [UplinkOrder::Close(2), UplinkOrder::Exit(0)]);
    }
}
