//! Texts that are never shown: tokens, secrets, codes.

use std::fmt;

/// A text that `Debug` does not show.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// From now on it is not shown.
    pub fn new(text: impl Into<String>) -> Hidden {
        Hidden(text.into())
    }

    /// For a caller that has to hand it on.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
