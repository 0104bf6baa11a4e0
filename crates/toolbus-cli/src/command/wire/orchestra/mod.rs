//! The programs of Orchestra: `toolbus orchestrator`, `toolbus transport-stdio`, and `toolbus
//! certs` for the certificates that they all need.

pub(super) mod certs;
pub(super) mod orchestrator;
pub(super) mod transport_stdio;
