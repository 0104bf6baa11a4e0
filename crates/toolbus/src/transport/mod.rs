//! Where bytes come from and go to.

pub(crate) mod now;
pub mod pipe;
pub(crate) mod ready;
pub mod stdio;
