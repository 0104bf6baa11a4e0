//! The blocking pump: drives a channel with plain reads and writes, without any runtime.
//!
//! `calling` is for hosts that call and wait, an executor inside a VM for one; `serving`
//! is for tools that answer in place. A call that meets no trouble costs one write and one
//! read.

#[cfg(feature = "runtime")]
pub mod calling;
#[cfg(feature = "runtime")]
mod watcher;

pub mod serving;
