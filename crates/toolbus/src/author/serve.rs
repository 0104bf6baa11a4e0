//! Serves an author's tools on standard input and output, in one of several wires.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
#[cfg(feature = "bus")]
use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::channel::{Channel, Ended, Serving};

use super::{Authored, Tools, Wire};
use crate::engine::blocking::serving::serve_talking;
#[cfg(feature = "bus")]
use crate::engine::front::Front;
#[cfg(feature = "bus")]
use crate::transport::{pipe, stdio};

/// How an author's tools are served in a wire. The flag for it is the wire's name.
pub(crate) trait AuthorKind: Sync {
    /// The wire.
    fn wire(&self) -> Wire;

    /// What the program is then, in the imperative.
    fn help(&self) -> &'static str;

    /// Serves on standard input and output, until the caller has had enough.
    fn serve(&self, tools: Tools) -> io::Result<Ended>;

    /// Is the wire served without its flag, too, where standard input is no terminal?
    fn is_without_flag(&self) -> bool {
        false
    }

    /// The address to listen on for HTTP at this host and port, if this is the wire that is meant
    /// where none is named.
    fn listens_at(&self, _place: &str) -> Option<String> {
        None
    }

    /// What is printed in place of serving, if the program is started with this word alone.
    fn printed(&self, _word: &str, _tools: &Tools) -> Option<io::Result<String>> {
        None
    }
}

/// A wire whose peers start a program by flags of their own.
pub(crate) trait StartedKind: Sync {
    /// Serves as these words want it, if they are such flags.
    fn serve(&self, tools: &mut Option<Tools>, words: &[String]) -> Option<ExitCode>;
}

/// Serves without a runtime, if no function needs one.
pub(crate) fn on_either(
    machine: impl Serving + Channel + 'static,
    tools: Authored,
) -> io::Result<Ended> {
    #[cfg(feature = "bus")]
    if !tools.is_in_place() {
        return with_runtime(async |input, output| {
            Front::new(machine, Rc::new(tools), None).serve(input, output).await
        });
    }
    in_place(machine, None, &tools)
}

/// Serves without a runtime; a caller that reads nothing is given up after `patience`.
pub(crate) fn in_place(
    machine: impl Serving + Channel,
    patience: Option<Duration>,
    tools: &Authored,
) -> io::Result<Ended> {
    let (input, output) = (io::stdin(), io::stdout());
    serve_talking(machine, input.as_fd(), output.as_fd(), patience, |call, caller| {
        tools.answer(call, caller)
    })
}

/// Serves on one thread with a runtime.
#[cfg(feature = "bus")]
pub(crate) fn with_runtime(
    serve: impl AsyncFnOnce(pipe::Input, pipe::Output) -> Ended,
) -> io::Result<Ended> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(tokio::runtime::LocalOptions::default())?;
    runtime.block_on(async { Ok(serve(stdio::stdin()?, stdio::stdout()?).await) })
}

/// The wires that tools can be served in. Which there are is said where the wires are listed.
pub(crate) struct AuthorKinds {
    /// In the order of the help.
    pub(crate) served: &'static [&'static dyn AuthorKind],
    /// Those whose peers start an author's program by flags of their own.
    pub(crate) started: &'static [&'static dyn StartedKind],
}
