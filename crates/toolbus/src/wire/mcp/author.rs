//! An author's tools, served in this wire.

use std::io;

use toolbus_proto::channel::Ended;
use toolbus_proto::mcp::conversation::Settings;
use toolbus_proto::mcp::{Behind, Server, WIRE};
use toolbus_proto::tool::{CallerId, Wire};

use crate::author::{AuthorKind, Tools, on_either};

/// How an author's tools are served in this wire.
pub(in crate::wire) struct Author;

impl AuthorKind for Author {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn help(&self) -> &'static str {
        "Be an MCP server, for editors and agents"
    }

    fn listens_at(&self, place: &str) -> Option<String> {
        Some(format!("mcp+http://{place}/mcp"))
    }

    fn serve(&self, tools: Tools) -> io::Result<Ended> {
        let mut settings = Settings::new(tools.version(), CallerId(1), Behind::Hub);
        settings.name = tools.name().to_owned();
        settings.instructions = tools.usage().map(str::to_owned);
        on_either(Server::new(settings), tools.into_authored())
    }
}
