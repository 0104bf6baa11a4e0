//! Where bytes come from and go to.

#[cfg(feature = "bus")]
pub mod account;
#[cfg(feature = "bus")]
pub(crate) mod buffers;
pub(crate) mod fd;
#[cfg(feature = "bus")]
pub mod io;
pub(crate) mod now;
pub(crate) mod ready;

#[cfg(feature = "bus")]
pub mod pipe;
#[cfg(feature = "quic")]
pub mod quic;
#[cfg(feature = "bus")]
pub mod stdio;
#[cfg(feature = "bus")]
pub mod stream;
#[cfg(feature = "bus")]
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "bus")]
pub mod unix;

#[cfg(feature = "bus")]
mod accept;
#[cfg(feature = "bus")]
pub(crate) mod crowd;
#[cfg(feature = "http")]
pub mod http;

#[cfg(feature = "bus")]
pub use accept::{Arrival, Listener, Whereabouts};
#[cfg(feature = "bus")]
pub use stream::Stream;
