//! The blocking pump: drives a channel with plain reads and writes, without any runtime.
//!
//! `calling` is for hosts that call and wait, an executor inside a VM for one; `serving`
//! is for tools that answer in place. A call that meets no trouble costs one write and one
//! read.

pub(crate) mod calling;
pub mod serving;

mod watcher;
