//! An author's tools, served in this wire.

use std::io;

use toolbus_proto::channel::Ended;
use toolbus_proto::json::Json;
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{Served, Server, Settings, WIRE};
use toolbus_proto::tool::{ToolSpec, Wire};

use crate::author::{AuthorKind, Tools, on_either};

/// How an author's tools are served in this wire.
pub(in crate::wire) struct Author;

impl AuthorKind for Author {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn help(&self) -> &'static str {
        "Be an oracle, for Cairo programs"
    }

    fn serve(&self, tools: Tools) -> io::Result<Ended> {
        let served = |tool: &ToolSpec| {
            let output = tool.output.as_ref().map(Json::as_str);
            let binding = Binding::from_schemas(tool.name.as_str(), tool.input.as_str(), output);
            Served { tool: tool.name.clone(), binding }
        };
        let served = tools.specs().iter().map(served).collect();
        let settings = Settings::default();
        on_either(Server::new(&settings, served), tools.into_authored())
    }
}
