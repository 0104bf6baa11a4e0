//! Which kinds of peers there are: one line each.

use std::borrow::Cow;
use std::fmt;

use super::PeerKind;
use crate::address::{Address, AddressError, Purpose};

/// The kinds of peers that addresses may name: those compiled in, and more if you add them.
#[derive(Clone)]
pub struct Registry {
    kinds: Cow<'static, [&'static dyn PeerKind]>,
    /// The wires that this build leaves out, by the name that is their feature and begins their
    /// schemes.
    left_out: &'static [&'static str],
}

impl Registry {
    /// These and no others.
    pub fn of(kinds: &[&'static dyn PeerKind]) -> Registry {
        Registry { kinds: Cow::Owned(kinds.to_vec()), left_out: &[] }
    }

    /// These, and so many might have been compiled in besides.
    pub(crate) fn compiled_in(
        kinds: &'static [&'static dyn PeerKind],
        left_out: &'static [&'static str],
    ) -> Registry {
        Registry { kinds: Cow::Borrowed(kinds), left_out }
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

    /// The wire that an address names, if this build leaves it out.
    pub(crate) fn left_out(&self, text: &str) -> Option<&'static str> {
        wire_of(self.left_out, text).filter(|wire| self.find(wire).is_none())
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

/// The one of these wires that the scheme of an address begins with.
fn wire_of(wires: &[&'static str], text: &str) -> Option<&'static str> {
    let (scheme, _) = text.split_once(':')?;
    let (named, _) = scheme.split_once('+').unwrap_or((scheme, ""));
    wires.iter().copied().find(|wire| *wire == named)
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds().map(PeerKind::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_wire_before_the_transport() {
        let wires = &["orchestra", "oracle"];
        let cases = [
            ("orchestra+quic://h:1?certs=d", Some("orchestra")),
            ("orchestra+plugin:x", Some("orchestra")),
            ("oracle:x", Some("oracle")),
            ("orchestral+quic://h:1", None),
            ("mcp+stdio:orchestra+plugin:x", None),
            ("orchestra", None),
        ];
        for (text, wire) in cases {
            assert_eq!(wire_of(wires, text), wire, "{text}");
        }
    }

    #[test]
    fn a_wire_that_is_there_is_not_left_out() {
        let registry = Registry::default();
        for kind in registry.wires() {
            assert_eq!(registry.left_out(&format!("{}+stdio:x", kind.name())), None);
        }
    }
}
