//! The sparring partner.
