//! Wires that are not there yet: their addresses are read, and then refused by name.

use std::rc::Rc;

use toolbus_proto::tool::Wire;

use super::settings::{Settings, WireSettings};
use super::{OpenError, PeerKind, open};
use crate::address::{Address, Place, Scheme};
use crate::bus::back::Back;
use crate::bus::config::{Key, Values};

/// A wire that is not there yet.
pub(super) struct Planned {
    name: &'static str,
    /// As errors call it.
    called: &'static str,
    schemes: &'static [Scheme],
    keys: &'static [Key],
}

pub(super) static ORCHESTRA: Planned = Planned {
    name: "orchestra",
    called: "the Orchestra wire",
    schemes: &[
        Scheme::command("orchestra+plugin:"),
        Scheme::url("orchestra+quic://", crate::address::Transport::Quic).with_query(
            crate::address::Query::Parameters {
                to_call: &["certs", "name", "server_name", "provider", "idle_timeout"],
                to_serve: &["certs", "hub", "id"],
            },
        ),
    ],
    keys: &[],
};

impl PeerKind for Planned {
    fn wire(&self) -> Wire {
        Wire::new(self.name)
    }

    fn summary(&self) -> &'static str {
        self.called
    }

    fn schemes(&self) -> &'static [Scheme] {
        self.schemes
    }

    fn back_keys(&self) -> &'static [Key] {
        self.keys
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        Settings { wire: WireSettings::of(values.clone()), ..settings }
    }

    fn open(&self, address: &Address, _settings: &Settings) -> Result<Rc<dyn Back>, OpenError> {
        Err(open::not_yet(address, self.called))
    }

    fn can_listen(&self, address: &Address) -> bool {
        matches!(address.place(), Place::Url(_))
    }

    fn is_planned(&self) -> bool {
        true
    }
}
