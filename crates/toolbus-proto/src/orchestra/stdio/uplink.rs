//! The way to the hub as the client's side sees it: what is told of it, and when it ends us. When
//! it is dialled is decided by [`Redial`](crate::orchestra::redial::Redial).

use crate::tool::{Failure, FailureKind};

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

/// The way to the hub.
#[derive(Debug)]
pub struct Uplink {
    settings: UplinkSettings,
    was_connected: bool,
}

/// What becomes of the way to the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UplinkNews {
    /// The line of standard error that people and scripts rely on.
    pub line: String,
    /// What is in flight fails, and the program ends with this code.
    pub exit: Option<u8>,
}

impl Uplink {
    /// The hub was never there.
    pub fn new(settings: UplinkSettings) -> Uplink {
        Uplink { settings, was_connected: false }
    }

    /// Was the hub there at least once?
    pub fn was_connected(&self) -> bool {
        self.was_connected
    }

    /// Is nothing to be read before the hub is there?
    pub fn must_connect(&self) -> bool {
        !self.settings.waits && !self.was_connected
    }

    /// Why a call cannot go out while the hub is not there.
    pub fn refusal(&self) -> Failure {
        let message = format!("not connected to orchestrator at {}", self.settings.address);
        Failure::new(FailureKind::Unavailable, message)
    }

    /// The hub is there, for the first time or again.
    pub fn handle_dialled(&mut self) -> UplinkNews {
        self.was_connected = true;
        let line =
            format!("transport.stdio: connected to orchestrator at {}", self.settings.address);
        UplinkNews { line, exit: None }
    }

    /// The hub was not reached, and there was no other connection to it.
    pub fn handle_failed(&self, cause: &str) -> Option<UplinkNews> {
        let address = &self.settings.address;
        let line = format!("connect to orchestrator at {address}: {cause}");
        self.must_connect().then_some(UplinkNews { line, exit: Some(3) })
    }

    /// The hub is gone.
    pub fn handle_lost(&self, cause: &str) -> UplinkNews {
        let address = &self.settings.address;
        let line =
            format!("transport.stdio: lost connection to orchestrator at {address}: {cause}");
        match self.settings.reconnects {
            true => UplinkNews { line: format!("{line}; reconnecting"), exit: None },
            false => UplinkNews { line, exit: Some(3) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uplink(waits: bool, reconnects: bool) -> Uplink {
        Uplink::new(UplinkSettings { address: "hub:1".to_owned(), waits, reconnects })
    }

    #[test]
    fn who_waits_is_not_ended_by_a_hub_that_is_not_there() {
        let mut waiting = uplink(true, true);
        assert!(!waiting.must_connect() && waiting.handle_failed("refused").is_none());
        waiting.handle_dialled();
        assert_eq!(waiting.handle_lost("timed out").exit, None);
        let told = uplink(false, true).handle_failed("refused").unwrap();
        assert_eq!(told.line, "connect to orchestrator at hub:1: refused");
        assert_eq!(told.exit, Some(3));
    }

    #[test]
    fn who_does_not_reconnect_ends_with_three() {
        let mut uplink = uplink(false, false);
        assert_eq!(uplink.handle_dialled().exit, None);
        let told = uplink.handle_lost("timed out");
        assert_eq!(
            told.line,
            "transport.stdio: lost connection to orchestrator at hub:1: timed out"
        );
        assert_eq!(told.exit, Some(3));
    }
}
