//! Serves an author's tools on standard input and output, in one of several protocols.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use tokio::task::LocalSet;
use toolbus_proto::channel::{Channel, Ended, Serving};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::conversation::Settings;
use toolbus_proto::mcp::{self, Behind};
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{self, Served};
use toolbus_proto::tool::{CallerId, ToolSpec};

use super::{Authored, Tools};
use crate::engine::blocking::serving::serve_talking;
use crate::engine::front::Front;
use crate::transport::{pipe, stdio};
use crate::wire::mediocre::front::{self as mediocre, Mediocre, Talked};

/// What can be spoken on standard input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The Model Context Protocol, for editors and agents; both of its eras.
    Mcp,
    /// An oracle, for Cairo programs.
    Oracle,
    /// mediocre-rpc.
    Mediocre,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Mcp, Protocol::Oracle, Protocol::Mediocre];
}

pub(super) fn serve(tools: Tools, protocol: Protocol) -> io::Result<Ended> {
    match protocol {
        Protocol::Mcp => {
            let mut settings = Settings::new(&*tools.version, CallerId(1), Behind::Hub);
            settings.name.clone_from(&tools.name);
            on_either(mcp::Server::new(settings), tools.into_back())
        }
        Protocol::Oracle => {
            let served = tools.specs().iter().map(served).collect();
            on_either(oracle::Server::new(&oracle::Settings::default(), served), tools.into_back())
        }
        Protocol::Mediocre => with_runtime(async |input, output| {
            let server = Mediocre::new(Rc::new(tools.into_back()), mediocre::Settings::default());
            match server.talk(input, output).await {
                Talked::ToTheEnd(ended) => ended,
                Talked::UntilStopped => Ended::Well,
            }
        }),
    }
}

fn served(tool: &ToolSpec) -> Served {
    let output = tool.output.as_ref().map(Json::as_str);
    let binding = Binding::from_schemas(tool.name.as_str(), tool.input.as_str(), output);
    Served { tool: tool.name.clone(), binding }
}

/// Without a runtime, if no function needs one.
fn on_either(machine: impl Serving + Channel + 'static, tools: Authored) -> io::Result<Ended> {
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

fn with_runtime(serve: impl AsyncFnOnce(pipe::Input, pipe::Output) -> Ended) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async { Ok(serve(stdio::stdin()?, stdio::stdout()?).await) })
}
