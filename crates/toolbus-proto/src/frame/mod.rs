//! How frames are cut out of a run of bytes. One file a way of cutting.

pub mod length;
pub mod lines;
pub mod sse;
