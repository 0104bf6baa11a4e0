//! Serves an author's tools on standard input and output, in one of several protocols.

use std::io;
use std::os::fd::AsFd;
#[cfg(feature = "bus")]
use std::rc::Rc;
use std::time::{Duration, Instant};

use toolbus_proto::channel::{Channel, Ended, Serving};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::conversation::Settings;
use toolbus_proto::mcp::{self, Behind};
use toolbus_proto::mediocre;
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{self, Served};
use toolbus_proto::tool::{CallerId, ToolSpec};

use super::{Authored, Tools};
use crate::chance::OsRandom;
use crate::engine::blocking::serving::serve_talking;
#[cfg(feature = "bus")]
use crate::engine::front::Front;
#[cfg(feature = "bus")]
use crate::transport::{pipe, stdio};
#[cfg(feature = "bus")]
use crate::wire::mediocre::front::{Mediocre, Talked};

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
            on_either(mcp::Server::new(settings), tools.into_authored())
        }
        Protocol::Oracle => {
            let served = tools.specs().iter().map(served).collect();
            let machine = oracle::Server::new(&oracle::Settings::default(), served);
            on_either(machine, tools.into_authored())
        }
        Protocol::Mediocre => {
            let tools = tools.into_authored();
            let settings = mediocre::ServerSettings::default();
            #[cfg(feature = "bus")]
            if !tools.is_in_place() {
                return with_runtime(async |input, output| {
                    let server = Mediocre::new(Rc::new(tools), settings);
                    match server.talk(input, output).await {
                        Talked::ToTheEnd(ended) => ended,
                        Talked::UntilStopped => Ended::Well,
                    }
                });
            }
            let machine = mediocre::Server::new(Instant::now(), settings, OsRandom::new());
            in_place(machine, Some(settings.call_timeout), &tools)
        }
    }
}

fn served(tool: &ToolSpec) -> Served {
    let output = tool.output.as_ref().map(Json::as_str);
    let binding = Binding::from_schemas(tool.name.as_str(), tool.input.as_str(), output);
    Served { tool: tool.name.clone(), binding }
}

/// Without a runtime, if no function needs one.
fn on_either(machine: impl Serving + Channel + 'static, tools: Authored) -> io::Result<Ended> {
    #[cfg(feature = "bus")]
    if !tools.is_in_place() {
        return with_runtime(async |input, output| {
            Front::new(machine, Rc::new(tools), None).serve(input, output).await
        });
    }
    in_place(machine, None, &tools)
}

fn in_place(
    machine: impl Serving + Channel,
    patience: Option<Duration>,
    tools: &Authored,
) -> io::Result<Ended> {
    let (input, output) = (io::stdin(), io::stdout());
    serve_talking(machine, input.as_fd(), output.as_fd(), patience, |call, caller| {
        tools.answer(call, caller)
    })
}

#[cfg(feature = "bus")]
fn with_runtime(serve: impl AsyncFnOnce(pipe::Input, pipe::Output) -> Ended) -> io::Result<Ended> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(tokio::runtime::LocalOptions::default())?;
    runtime.block_on(async { Ok(serve(stdio::stdin()?, stdio::stdout()?).await) })
}
