//! The hands against real processes, pipes, terminals and sockets.

// The lint knows tests, but not the functions they share.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "author")]
mod author;
#[cfg(target_os = "linux")]
mod blocking;
#[cfg(target_os = "linux")]
mod child;
#[cfg(feature = "http")]
mod mcp_http;
mod mediocre;
mod net;
#[cfg(target_os = "linux")]
mod oracle_back;
#[cfg(target_os = "linux")]
mod orchard_back;
#[cfg(feature = "orchestra")]
mod orchestra;
#[cfg(feature = "otel")]
mod otel;
#[cfg(target_os = "linux")]
mod stdio;

mod embed;
mod engine;
mod oracle_calling;
mod orchard_supervised;
mod serving;
mod serving_mediocre;
#[cfg(target_os = "linux")]
mod shell;
mod supervisor;

use toolbus_testkit::patience::PATIENCE;
