//! Where bytes come from and go to.

#[cfg(feature = "runtime")]
pub(crate) mod buffers;
pub(crate) mod fd;
#[cfg(feature = "runtime")]
pub mod io;
pub mod now;
pub(crate) mod ready;

#[cfg(feature = "runtime")]
mod passed;
#[cfg(feature = "runtime")]
pub mod pipe;
#[cfg(feature = "quic")]
pub mod quic;
#[cfg(feature = "runtime")]
pub mod stdio;
#[cfg(feature = "runtime")]
pub mod stream;
#[cfg(feature = "runtime")]
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "runtime")]
pub mod unix;

#[cfg(feature = "runtime")]
mod accept;
#[cfg(feature = "runtime")]
pub mod crowd;
#[cfg(feature = "runtime")]
pub mod descriptors;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub(crate) mod mailbox;
#[cfg(feature = "http")]
mod threads;

#[cfg(feature = "runtime")]
pub use accept::{Arrival, Listener, Whereabouts};
#[cfg(feature = "runtime")]
pub use passed::PassedSocket;
#[cfg(feature = "runtime")]
pub use stream::{PeerIdentity, Stream};
#[cfg(feature = "http")]
pub use threads::Threads;
