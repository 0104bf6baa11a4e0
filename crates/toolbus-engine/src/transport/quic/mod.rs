//! QUIC: connections with TLS of both sides, each with many streams of bytes.
//!
//! [`Dialler`] reaches others, [`Listener`] is reached; either gives a [`Connection`], whose
//! streams fit the machines that speak over many. Certificates and keys are given as bytes, and
//! what is spoken inside is the business of the wires.
//!
//! All of it must live on a current-thread runtime: only where no other thread can transmit in
//! between does a request leave in one packet with its end, and there are servers that never
//! give a stream back whose end comes later.

mod connection;
mod dial;
mod error;
mod listen;
mod streams;
mod tls;
mod tuning;

pub use connection::{Connection, QuicOpener};
pub use dial::{DialError, Dialler, Target};
pub use listen::{Arrival, Listener};
pub use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
pub use streams::{QuicReader, QuicWriter};
pub use tls::{Clients, Identity, QuicClient, QuicServer, TlsSetupError};
pub use tuning::Idle;

/// How long shaking hands may take.
pub const HANDSHAKE: std::time::Duration = std::time::Duration::from_secs(5);
