//! The run socket: commands that would make the same bus let a running `toolbus serve` make it.
//!
//! [`RunSocket`] is the end of `serve`, [`Elsewhere`] that of a command: there a bus stays what it
//! is, with its names, views and texts, and what it would say to a back goes to the bus of the
//! other process instead. A [`Stamp`] tells whether the two are the same.

mod elsewhere;
mod route;
mod socket;
mod stamp;

pub(super) use elsewhere::Lent;
pub use elsewhere::{AskedAs, Elsewhere, NotUsed};
pub use socket::{NoRunSocket, RunSocket};
pub use stamp::{Sources, Stamp};
