//! Where bytes come from and go to.

pub(crate) mod fd;
pub(crate) mod now;
pub mod pipe;
pub(crate) mod ready;
pub mod stdio;

pub mod stream;
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
pub mod unix;

mod accept;
#[cfg(feature = "http")]
pub mod http;

pub use accept::{Arrival, Listener, Whereabouts};
pub use stream::Stream;
