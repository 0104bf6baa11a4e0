//! From an address to somebody who answers: the one place that knows which wire is which.

use std::rc::Rc;

use thiserror::Error;
use toolbus_proto::tool::Wire;

use super::Back;
use super::builtin::Builtin;
use super::settings::Settings;
use crate::address::{Address, Place};

/// Makes a back of an address. Nothing is started or connected to before it is asked.
pub fn open(address: &Address, settings: &Settings) -> Result<Rc<dyn Back>, OpenError> {
    let not_yet = |wire: &'static str| OpenError::NotYet { address: address.clone(), wire };
    match address.place() {
        Place::Builtin => Ok(Rc::new(Builtin::new())),
        Place::Shell if !settings.allow_shell => Err(OpenError::ShellIsOff),
        Place::Shell => Err(not_yet("the shell")),
        Place::Unix(_) => Err(not_yet(wire_name(Wire::Mediocre))),
        Place::Command { wire, .. } => Err(not_yet(wire_name(*wire))),
        Place::Url(url) => Err(not_yet(wire_name(url.wire))),
    }
}

fn wire_name(wire: Wire) -> &'static str {
    match wire {
        Wire::Oracle => "the oracle's wire",
        Wire::Mediocre => "the mediocre wire",
        Wire::Mcp => "the MCP wire",
        Wire::Orchestra => "the Orchestra wire",
        Wire::Orchard => "the Orchard wire",
        Wire::Godex => "the godex wire",
        Wire::Inside => "this wire",
    }
}

/// Why an address cannot be opened, whoever is there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// We do not speak that wire yet.
    #[error("cannot open `{address}`: {wire} is not there yet")]
    NotYet {
        /// What was to be opened.
        address: Address,
        /// What is missing.
        wire: &'static str,
    },
    /// Whoever may use the shell has to say so.
    #[error("`shell:` is off: whoever calls it can run any command")]
    ShellIsOff,
}

impl OpenError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            OpenError::NotYet { .. } => None,
            OpenError::ShellIsOff => {
                Some("allow it by `--allow-shell`, or `allow_shell = true` in the config".into())
            }
        }
    }
}
