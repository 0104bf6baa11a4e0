//! The mediocre-rpc room: JSON objects one after another, with raw blobs between them.
//!
//! A message is one object, or a stream of a head, elements and a tail. [`decode`] reads
//! either direction, [`encode`] writes it; [`Server`] and [`Client`] are our two ends of a
//! connection, [`HttpServer`] and [`HttpClient`] those of many exchanges over HTTP, and
//! [`translate`] joins them to the tools of the bus.

mod blob;
mod element;
mod extent;
mod grams;
mod matcher;
mod queue;
mod wire;

mod calling;
mod methods;
mod serving;

pub mod decode;
pub mod encode;
pub mod event;
pub mod frames;
pub mod http;
pub mod printed;
pub mod translate;

use crate::tool::Wire;

pub use calling::{Client, HttpClient};
pub use decode::{Decoder, Reading};
pub use methods::{Methods, generic};
pub use serving::{Exchange, HttpServer, Server, ServerSettings};

/// The wire of this room.
pub const WIRE: Wire = Wire::new("mediocre");
