//! Who calls: the names that a config gives to callers, and by what they are known.

mod doors;
mod subject;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

pub use doors::{Callers, Doors, Reading, Shown, Stranger};
pub use subject::Subject;

/// The SHA-256 of a token or of a certificate.
pub type Digest = [u8; 32];

/// The name that a config gives to one who calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerName(Arc<str>);

impl CallerName {
    /// The caller of this name; any text is one.
    pub fn new(name: impl Into<Arc<str>>) -> CallerName {
        CallerName(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same, shared.
    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl fmt::Display for CallerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
pub(crate) use doors::tests;

impl Borrow<str> for CallerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}
