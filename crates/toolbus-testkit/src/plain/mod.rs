//! A wire made for tests: the whole contract of `toolbus_proto::channel` in two small machines.
//!
//! A line is a JSON array: the number of a call, and what is said about it. The answering end
//! begins with `[0,{"ready":1}]`, the asking end parts with `[0,"bye"]`; number 0 is no call.
//!
//! ```text
//! [1,{"call":{"tool":"say","args":{"text":"hi"}}}]    [1,{"progress":0.5}]
//! [1,{"part":{"text":"more"}}]                        [1,{"ask":[7,"sure?"]}]
//! [1,{"answer":[7,"yes"]}]                            [1,{"part":{"bytes":{"hex":"00ff","last":true}}}]
//! [1,{"end":null}]                                    [1,{"value":"hi, more"}]
//! [2,"tools"]                                         [2,{"tools":[{"name":"say","input":{}}]}]
//! ```

mod calling;
mod serving;
mod translate;
pub(crate) mod wire;

use toolbus_proto::tool::Wire;

pub use calling::Client;
pub use serving::Server;

/// The wire of this room.
pub const WIRE: Wire = Wire::new("plain");

/// What one end of a plain wire keeps at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A line that the other side writes.
    pub line_bytes_max: usize,
    /// Calls at a time.
    pub calls_max: usize,
    /// What waits for its consumer. Where it is reached, the wire is read no further: the
    /// pipe fills up, and so a slow consumer slows the peer down.
    pub queue_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line_bytes_max: 16 << 20, calls_max: 1024, queue_max: 16 }
    }
}

/// The call number of lines that belong to no call.
const NO_CALL: u64 = 0;

/// How much of a line that is not understood is shown.
pub(crate) const SHOWN_CHARS_MAX: usize = 80;

#[cfg(test)]
pub(crate) mod tests;
