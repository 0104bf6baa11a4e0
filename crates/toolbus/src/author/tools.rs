//! The tools of one program.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use toolbus_proto::channel::Ended;
use toolbus_proto::tool::ToolSpec;

use super::AuthorKinds;
use super::command_line;
use super::{Arguments, Authored, Reply, Tool, Wire};

/// The tools of one program.
#[must_use]
pub struct Tools {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) instructions: Option<String>,
    tools: Vec<Tool>,
}

impl Tools {
    /// A program of that name and version, as its callers are told, without any tool yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Tools {
        let (name, version) = (name.into(), version.into());
        Tools { name, version, instructions: None, tools: Vec::new() }
    }

    /// Says how the tools are to be used together: what a model or a person should know that
    /// the description of no single tool can say. MCP clients are given it when they connect, an
    /// Orchestra hub as the description of the plugin, people by `--help`.
    pub fn instructions(self, text: impl Into<String>) -> Tools {
        Tools { instructions: Some(text.into()), ..self }
    }

    /// Adds a function that takes `A`, under a name.
    ///
    /// # Panics
    ///
    /// If there is a tool of that name already.
    pub fn tool<A: Arguments, R: Reply>(
        self,
        name: &str,
        function: impl Fn(A) -> R + 'static,
    ) -> Tools {
        self.with(Tool::new(name, function))
    }

    /// Adds a tool of which more is to be said.
    ///
    /// # Panics
    ///
    /// If there is a tool of that name already.
    pub fn with(mut self, tool: Tool) -> Tools {
        let name = &tool.spec.name;
        let is_new = self.tools.iter().all(|known| known.spec.name != *name);
        assert!(is_new, "there are two tools of the name `{name}`");
        self.tools.push(tool);
        self
    }

    /// Is the whole program: does what its command line says. `--help` tells what it can.
    pub fn run(self) -> ExitCode {
        command_line::run(self)
    }

    /// Serves a wire on standard input and output, until the caller has had enough; e.g.
    /// [`mcp::WIRE`](crate::wire::mcp::WIRE).
    pub fn serve(self, wire: Wire) -> io::Result<Ended> {
        match AuthorKinds::default().served.iter().find(|author| author.wire() == wire) {
            Some(author) => author.serve(self),
            None => {
                let message = format!("{wire:?} is not in this build");
                Err(io::Error::new(io::ErrorKind::Unsupported, message))
            }
        }
    }

    /// The name that callers are told.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the tools are to be used, if that was said.
    pub fn usage(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// The version that callers are told.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The tools as a back, to be put behind a bus by [`BusBuilder::foreign`].
    ///
    /// [`BusBuilder::foreign`]: crate::BusBuilder::foreign
    #[cfg(feature = "bus")]
    pub fn into_back(self) -> Authored {
        self.into_authored()
    }

    pub(crate) fn into_authored(self) -> Authored {
        Authored::new(self.tools)
    }

    /// What is known of the tools before they are called.
    pub(crate) fn specs(&self) -> Arc<[ToolSpec]> {
        self.tools.iter().map(|tool| tool.spec.clone()).collect()
    }
}
