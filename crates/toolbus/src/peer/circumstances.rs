//! What is known of a front besides its address and its settings, when it is planned.

use std::path::PathBuf;

use crate::transport::PassedSocket;
#[cfg(feature = "http")]
use crate::transport::Threads;
#[cfg(feature = "tls")]
use crate::transport::tls::ServerTls;

/// What is known of a front besides its address and its settings.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// What the log calls it, as in `front.web`; nothing where it is the only one.
    pub called: Option<String>,
    /// What the paths of its files are relative to.
    pub folder: PathBuf,
    /// Does it let in callers alone whom it knows?
    pub is_closed: bool,
    /// The socket that was opened for it.
    pub socket: Option<PassedSocket>,
    /// Threads that may have connections of it.
    #[cfg(feature = "http")]
    pub threads: Threads,
    /// What it shows by TLS until now, which stays in force if its files cannot be used.
    #[cfg(feature = "tls")]
    pub tls: Option<ServerTls>,
}
