//! The wires that an author's tools can be served in: one line each, in the order of the help.

use crate::author::{AuthorKind, AuthorKinds, StartedKind};

static AUTHORS: &[&dyn AuthorKind] = &[
    #[cfg(feature = "mcp")]
    &super::mcp::author::Author,
    #[cfg(feature = "oracle")]
    &super::oracle::author::Author,
    #[cfg(feature = "mediocre")]
    &super::mediocre::author::Author,
    #[cfg(feature = "orchard")]
    &super::orchard::author::Author,
];

/// The wires whose peers start an author's program by flags of their own: one line each.
static STARTED: &[&dyn StartedKind] = &[
    #[cfg(feature = "orchestra")]
    &super::orchestra::author::Author,
];

impl Default for AuthorKinds {
    fn default() -> AuthorKinds {
        AuthorKinds { served: AUTHORS, started: STARTED }
    }
}
