//! The programs of Orchestra: `toolbus certs` and what needs certificates.

pub(super) mod certs;
