//! HTTP/1.1 and HTTP/2, serving and calling: one exchange at a time, its bodies as chunks.
//!
//! What comes is a [`Body`]: who does not take the next chunk holds the sender back. What goes
//! is pushed into a [`BodySink`], which says when it is full and when the peer has left.
//! What stands in heads and bodies is the business of the wires.

mod body;
mod carried;
mod client;
mod given;
mod proxy;
mod server;
mod sink;
mod socket;
mod streams;

pub use body::{Body, BodyError};
pub use client::{Answer, CallError, Client, Origin, Timeouts};
pub use hyper::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version};
pub use hyper::http::{Request, Response, header, request, response};
pub use proxy::{Proxy, ProxyError};
pub use server::{Exchange, Limits, Responder, Server};
pub use sink::BodySink;
pub use streams::{AnswerReader, AnswerWriter, HttpOpener, RequestWriter, garbled, plain};

/// What an HTTP/2 exchange may send ahead of its reader.
const STREAM_WINDOW: u32 = 256 * 1024;
/// What all of a connection may send ahead together: enough for each of 256, or those who are
/// not read would hold up those who are.
const CONNECTION_WINDOW: u32 = 256 * STREAM_WINDOW;

/// Runs the tasks of an HTTP/2 connection on our one thread.
#[derive(Debug, Clone, Copy)]
struct OnThisThread;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for OnThisThread {
    fn execute(&self, task: F) {
        crate::task::spawn_local(task);
    }
}
