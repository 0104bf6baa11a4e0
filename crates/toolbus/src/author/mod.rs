//! Write a tool once, serve it in any protocol.
//!
//! A tool is a function: what it takes is a type, whose doc comments become the descriptions
//! that callers see, and what it returns is the answer.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use toolbus::author::{Json, Tools};
//!
//! /// Divide one number by another.
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Divide {
//!     /// What is divided.
//!     dividend: i64,
//!     /// What it is divided by; not zero.
//!     divisor: i64,
//! }
//!
//! /// How often it fits, and what is left.
//! #[derive(serde::Serialize, schemars::JsonSchema)]
//! struct Divided {
//!     quotient: i64,
//!     remainder: i64,
//! }
//!
//! fn divide(Divide { dividend, divisor }: Divide) -> Result<Json<Divided>, String> {
//!     if divisor == 0 {
//!         return Err("cannot divide by zero".to_owned());
//!     }
//!     Ok(Json(Divided { quotient: dividend / divisor, remainder: dividend % divisor }))
//! }
//!
//! fn main() -> ExitCode {
//!     Tools::new("numbers", "1.0.0").tool("divide", divide).run()
//! }
//! ```
//!
//! [`Tools::run`] is the whole program: `--mcp` serves MCP on standard input and output, and so
//! on for the other protocols; `--listen URL` serves callers that connect, and with the feature
//! `http` so does `--http HOST:PORT`; started with the flags of an Orchestra hub it is a plugin,
//! with the feature `orchestra`. Functions that are not async are called in place, one call
//! after the other, without any runtime; if there is an async one, all are served by one
//! thread with a runtime, and calls of async ones run side by side.
//!
//! Without the feature `bus` no runtime is even compiled: `default-features = false,
//! features = ["author"]` is enough for tools that are not async.

mod arguments;
#[cfg(feature = "bus")]
mod async_context;
mod authored;
#[cfg(feature = "bus")]
mod back;
mod command_line;
pub(crate) mod console;
mod context;
#[cfg(feature = "bus")]
mod listen;
mod reply;
mod serve;
mod tool;
mod tools;

pub use arguments::{Arguments, Nothing, Raw};
#[cfg(feature = "bus")]
pub use async_context::AsyncContext;
pub use authored::Authored;
pub use context::Context;
pub use reply::{Json, Reply};
pub use tool::Tool;
pub use tools::Tools;

#[cfg(feature = "bus")]
pub(crate) use serve::with_runtime;
pub(crate) use serve::{AuthorKind, AuthorKinds, StartedKind, in_place, on_either};

pub use toolbus_proto::channel::Ended;
pub use toolbus_proto::tool::{Failure, FailureKind, Wire};

#[cfg(test)]
#[cfg(feature = "bus")]
mod tests;
