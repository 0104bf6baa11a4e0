//! The rules of `toolbus.lock`: what of a peer is pinned, how that is written and read, and what
//! has changed since (`docs/lock.md`).
//!
//! Strings in, strings out: who keeps the file and who asks the peers is elsewhere. What the
//! *definition* of a tool is, the room of its wire says by a [`Layout`].

mod compare;
mod definition;
mod difference;
mod digest;
mod flags;
mod hidden;
mod lock;
mod read;
mod value;
mod write;

pub use compare::{Change, Counts, How, changes};
pub use definition::{Definition, Held, Layout, Layouts, PinKind, SPEC, Shape};
pub use difference::{Differing, LineOf, differing, lines_of};
pub use digest::{Digest, canonical, digest};
pub use flags::{Flag, flags};
pub use hidden::{escaped, hidden_in, is_hidden};
pub use lock::{Lock, Noted, Pinned, Visible};
pub use read::{LockError, LockProblem};
pub use value::{JsonTree, one_line, one_line_unescaped};

#[cfg(test)]
mod tests;
