//! What browsers are told about pages of other sites that a user has let in: the header fields of
//! the Fetch standard. Without them a page may be served and cannot read the answer.

use super::{RequestHead, ResponseHead};

/// For how long a browser need not ask again, in seconds.
const MAX_AGE: &str = "600";

/// Lets the pages of one origin read what they are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// As the browser writes it, which compares the answer letter by letter.
    origin: String,
}

impl Cors {
    pub(super) fn of(origin: &str) -> Cors {
        Cors { origin: origin.to_owned() }
    }

    /// Adds what every answer to such a page has. `exposed` are the header fields that the page
    /// may read, besides those that every page may.
    pub fn add_to(&self, head: &mut ResponseHead, exposed: Option<&str>) {
        head.headers.push("Access-Control-Allow-Origin", &*self.origin);
        head.headers.extend(exposed.map(|exposed| ("Access-Control-Expose-Headers", exposed)));
        head.headers.push("Vary", "Origin");
    }
}

/// The answer to a browser that asks what a page may send: these methods, and whatever header
/// fields it asked for. What every answer to the page has is not in it yet.
pub fn preflight(head: &RequestHead, methods: &str) -> ResponseHead {
    let mut answer = ResponseHead::new(204);
    answer.headers.push("Access-Control-Allow-Methods", methods);
    let asked = head.header("Access-Control-Request-Headers").filter(|asked| !asked.is_empty());
    answer.headers.extend(asked.map(|asked| ("Access-Control-Allow-Headers", asked)));
    answer.headers.push("Access-Control-Max-Age", MAX_AGE);
    answer
}
