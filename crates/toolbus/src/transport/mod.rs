//! Where bytes come from and go to.

pub mod pipe;
pub mod stdio;
