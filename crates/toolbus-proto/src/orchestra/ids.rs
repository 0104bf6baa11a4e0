//! Ids for requests and streams. The hands bring the chance that they are made of.

use std::fmt;

/// Gives out texts of which no two are the same.
pub struct Ids(Box<dyn FnMut() -> String + Send>);

impl Ids {
    /// Ids as `next` gives them; UUIDs, outside of tests.
    pub fn new(next: impl FnMut() -> String + Send + 'static) -> Ids {
        Ids(Box::new(next))
    }

    /// The next one.
    pub fn draw(&mut self) -> String {
        (self.0)()
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ids")
    }
}
