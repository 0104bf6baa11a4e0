//! OAuth's hands: requests to sign-in servers, where tokens are kept, and who waits for a browser.
//!
//! What is asked and what answers mean is decided in `toolbus_proto::oauth`. Wires over HTTP use
//! what is here; none of them is known.

pub mod callback;
pub mod config;
mod cores;
mod counts;
pub mod credential;
mod discover;
pub mod fetch;
mod introspect;
mod judge;
mod keys;
pub(crate) mod offer;
pub mod renewal;
pub mod sign_in;
pub mod store;
pub mod tokens;
mod told;
mod verdicts;

pub use cores::leave_no_core_with_tokens;
pub(crate) use counts::TokenCounts;
pub use discover::{NotDiscovered, discover};
pub(crate) use judge::TokenJudge;
pub use told::{is_about_sign_in, lacks_sign_in};
