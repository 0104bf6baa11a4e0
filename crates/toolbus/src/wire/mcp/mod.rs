//! The Model Context Protocol, over pipes and HTTP.

pub mod back;
#[cfg(feature = "http")]
pub mod back_http;
pub mod check;
pub mod front;
#[cfg(feature = "http")]
pub mod front_http;
mod sessions;
