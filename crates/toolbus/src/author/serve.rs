//! Serves an author's tools on standard input and output, in one of several wires.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use tokio::task::LocalSet;
use toolbus_proto::channel::{Channel, Ended, Serving};

use super::{Authored, Tools, Wire};
use crate::engine::blocking::serving::serve_talking;
use crate::engine::front::Front;
use crate::transport::{pipe, stdio};

/// How an author's tools are served in a wire. The flag for it is the wire's name.
pub(crate) trait AuthorKind: Sync {
    /// The wire.
    fn wire(&self) -> Wire;

    /// What the program is then, in the imperative.
    fn help(&self) -> &'static str;

    /// Serves on standard input and output, until the caller has had enough.
    fn serve(&self, tools: Tools) -> io::Result<Ended>;
}

/// Serves without a runtime, if no function needs one.
pub(crate) fn on_either(
    machine: impl Serving + Channel + 'static,
    tools: Authored,
) -> io::Result<Ended> {
    if tools.is_in_place() {
        let (input, output) = (io::stdin(), io::stdout());
        return serve_talking(machine, input.as_fd(), output.as_fd(), |call, caller| {
            tools.answer(call, caller)
        });
    }
    with_runtime(async |input, output| {
        Front::new(machine, Rc::new(tools), None).serve(input, output).await
    })
}

/// Serves on one thread with a runtime.
pub(crate) fn with_runtime(
    serve: impl AsyncFnOnce(pipe::Input, pipe::Output) -> Ended,
) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async { Ok(serve(stdio::stdin()?, stdio::stdout()?).await) })
}
