//! The pure part of streamable HTTP (`specs` 1.5, 1.6, 2.8, 2.9).
//!
//! Requests come in as heads and bodies, answers go out as statuses, headers and events.
//! Who reads and writes them is elsewhere. [`Admission`] judges strangers, [`Endpoint`] is the
//! serving end with its sessions and streams, [`Mirror`] compares headers with bodies,
//! [`Remote`] is the calling end.

mod endpoint;
mod exchange;
mod gate;
mod headers;
mod inputs;
mod remote;
mod remote_again;
mod remote_answer;
mod requests;
mod saying;
mod session;
mod stream;

pub use endpoint::{Endpoint, Settings};
pub use exchange::{ExchangeId, Write};
pub use gate::{Admission, Answer, Bound, Head, Verb};
pub use headers::{BadMirror, Mirror, Mirrored, decode_value, encode_value, mirror_of, mirrored};
pub use remote::{Remote, Request};
