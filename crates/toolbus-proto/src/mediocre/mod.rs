//! The mediocre-rpc room: JSON objects one after another, with raw blobs between them.
//!
//! A message is one object, or a stream of a head, elements and a tail. [`decode`] reads
//! either direction, [`encode`] writes it.

mod blob;
mod extent;
mod matcher;
mod wire;

pub mod decode;
pub mod encode;
pub mod event;
pub mod frames;
pub mod printed;

pub use decode::{Decoder, Reading};
