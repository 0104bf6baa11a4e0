//! Child processes without a runtime: start one, watch it, end it and all it started.
//!
//! *When* to do any of this is decided by [`supervisor`], a state machine without hands. The
//! rest can be driven by a reactor (every wait is a descriptor that becomes readable) or by a
//! loop that blocks.

mod patience;
pub mod supervisor;

pub mod stderr;
pub mod words;
pub use patience::Patience;
