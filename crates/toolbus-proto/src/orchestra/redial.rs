//! When a peer is dialled: as soon as it is wanted, again when it is lost, and once more when it
//! has lost count of our streams. The hands dial, and keep the connections.

use std::time::{Duration, Instant};

/// How long until a peer is dialled again, at first and at most; doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// When a peer that cannot be reached, or is lost, is dialled again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// When it is wanted next.
    OnDemand,
    /// By itself, after a pause.
    ByItself,
}

/// The way to one peer.
#[derive(Debug)]
pub struct Redial {
    again: Again,
    stage: DialState,
    dialling: Dialling,
    pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DialState {
    Down,
    Up,
    /// No stream can be opened, though few are in use: it serves until there is a further
    /// connection.
    Starved,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialling {
    No,
    Now,
    At(Instant),
}

impl Redial {
    /// Nothing is dialled before it is wanted.
    pub fn new(again: Again) -> Redial {
        Redial { again, stage: DialState::Down, dialling: Dialling::No, pause: PAUSE }
    }

    /// Is there a connection that can be used?
    pub fn is_up(&self) -> bool {
        matches!(self.stage, DialState::Up | DialState::Starved)
    }

    /// Will there be no connection any more?
    pub fn is_over(&self) -> bool {
        self.stage == DialState::Over
    }

    /// A connection is wanted. Tells whether the peer is to be dialled for that.
    pub fn want(&mut self) -> bool {
        let is_missing = matches!(self.stage, DialState::Down | DialState::Starved);
        let dials = is_missing && self.dialling == Dialling::No;
        if dials {
            self.dialling = Dialling::Now;
        }
        dials
    }

    /// The peer was reached.
    pub fn handle_dialled(&mut self) {
        (self.stage, self.dialling, self.pause) = (DialState::Up, Dialling::No, PAUSE);
    }

    /// The peer was not reached. What waits on a starved connection may still get a stream.
    pub fn handle_failed(&mut self, now: Instant) {
        self.dialling = Dialling::No;
        self.dial_again(now);
    }

    /// No stream can be opened on the connection in use. Tells whether the peer is to be dialled.
    pub fn handle_starved(&mut self) -> bool {
        if self.stage == DialState::Up {
            self.stage = DialState::Starved;
        }
        self.want()
    }

    /// The connection in use is gone. What was asked there has failed, and is not asked again.
    pub fn handle_lost(&mut self, now: Instant) {
        if self.is_up() {
            self.stage = DialState::Down;
            if self.dialling != Dialling::Now {
                self.dial_again(now);
            }
        }
    }

    /// The peer is needed no more.
    pub fn close(&mut self) {
        (self.stage, self.dialling) = (DialState::Over, Dialling::No);
    }

    fn dial_again(&mut self, now: Instant) {
        if self.again == Again::ByItself && !self.is_over() {
            self.dialling = Dialling::At(now + self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }

    /// Time has passed. Tells whether the peer is to be dialled.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let dials = self.poll_timeout().is_some_and(|at| at <= now);
        if dials {
            self.dialling = Dialling::Now;
        }
        dials
    }

    /// When to call [`Redial::handle_timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.dialling {
            Dialling::At(at) => Some(at),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_dials_by_itself_does_so_until_the_peer_is_there() {
        let mut redial = Redial::new(Again::ByItself);
        assert!(redial.want() && !redial.want(), "once");
        let mut now = Instant::now();
        for millis in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            redial.handle_failed(now);
            now += Duration::from_millis(millis);
            assert!(!redial.is_up() && !redial.want());
            assert_eq!(redial.poll_timeout(), Some(now));
            assert!(redial.handle_timeout(now) && !redial.handle_timeout(now));
        }
        redial.handle_dialled();
        assert!(redial.is_up() && redial.poll_timeout().is_none());
        redial.handle_lost(now);
        assert_eq!(redial.poll_timeout(), Some(now + PAUSE));
    }

    #[test]
    fn who_dials_on_demand_waits_until_it_is_wanted_again() {
        let mut redial = Redial::new(Again::OnDemand);
        for _ in 0..2 {
            assert!(redial.want());
            redial.handle_failed(Instant::now());
            assert_eq!(redial.poll_timeout(), None);
        }
        assert!(redial.want());
        redial.handle_dialled();
        assert!(!redial.want(), "it is there");
        redial.handle_lost(Instant::now());
        assert!(!redial.is_up() && redial.want());
    }

    #[test]
    fn a_starved_connection_is_left_only_for_another() {
        let now = Instant::now();
        let mut redial = Redial::new(Again::ByItself);
        redial.want();
        redial.handle_dialled();
        assert!(redial.handle_starved() && !redial.handle_starved(), "once");
        redial.handle_failed(now);
        assert!(redial.is_up(), "the old one still serves");
        assert!(redial.handle_timeout(now + PAUSE));
        // It is lost while the further one is made.
        redial.handle_lost(now);
        assert!(!redial.is_up() && redial.poll_timeout().is_none());
        redial.handle_dialled();
        assert!(redial.is_up());
    }

    #[test]
    fn nothing_is_dialled_once_it_is_over() {
        let mut redial = Redial::new(Again::ByItself);
        redial.want();
        redial.handle_dialled();
        redial.handle_lost(Instant::now());
        redial.close();
        assert!(redial.is_over() && !redial.is_up() && redial.poll_timeout().is_none());
        assert!(!redial.want() && !redial.handle_starved());
    }
}
