//! Which kinds of peers there are: one line each.

use std::borrow::Cow;
use std::fmt;

use super::PeerKind;
#[cfg(not(feature = "orchestra"))]
use super::planned;
use crate::address::{Address, AddressError, Purpose};
use crate::local::builtin::BUILTIN;

/// All that are compiled in, in the order in which they are listed.
static COMPILED_IN: &[&dyn PeerKind] = &[
    &BUILTIN,
    #[cfg(feature = "oracle")]
    &super::oracle::ORACLE,
    #[cfg(feature = "orchard")]
    &super::orchard::ORCHARD,
    #[cfg(feature = "mcp")]
    &super::mcp::MCP,
    #[cfg(feature = "mediocre")]
    &super::mediocre::MEDIOCRE,
    #[cfg(feature = "godex")]
    &super::godex::GODEX,
    #[cfg(feature = "orchestra")]
    &super::orchestra::ORCHESTRA,
    #[cfg(not(feature = "orchestra"))]
    &planned::ORCHESTRA,
    #[cfg(feature = "oracle")]
    &super::oracle::SHELL,
    &super::found::FOUND_OUT,
];

/// The kinds of peers that addresses may name: those compiled in, and more if you add them.
#[derive(Clone)]
pub struct Registry {
    kinds: Cow<'static, [&'static dyn PeerKind]>,
}

impl Default for Registry {
    /// All that are compiled in.
    fn default() -> Registry {
        Registry { kinds: Cow::Borrowed(COMPILED_IN) }
    }
}

impl Registry {
    /// These and no others.
    pub fn of(kinds: &[&'static dyn PeerKind]) -> Registry {
        Registry { kinds: Cow::Owned(kinds.to_vec()) }
    }

    /// The same and one more. Its schemes are tried after those of the others.
    #[must_use]
    pub fn with(mut self, kind: &'static dyn PeerKind) -> Registry {
        self.kinds.to_mut().push(kind);
        self
    }

    /// All of them, in the order in which they are listed.
    pub fn kinds(&self) -> impl Iterator<Item = &'static dyn PeerKind> {
        self.kinds.iter().copied()
    }

    /// Those that are wires: that stand on both sides of a bus.
    pub fn wires(&self) -> impl Iterator<Item = &'static dyn PeerKind> {
        self.kinds().filter(|kind| kind.is_wire())
    }

    /// How many wires there will be, with those that are not there yet.
    pub fn planned_len(&self) -> usize {
        self.wires().count() + self.kinds().filter(|kind| kind.is_planned()).count()
    }

    /// The kind of that name.
    pub fn find(&self, name: &str) -> Option<&'static dyn PeerKind> {
        self.kinds().find(|kind| kind.name() == name)
    }

    /// Reads an address of one of these kinds.
    pub fn address(&self, purpose: Purpose, text: &str) -> Result<Address, AddressError> {
        Address::read(self, purpose, text)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds().map(PeerKind::name)).finish()
    }
}
