//! An author's tools, served in this wire.

use std::io;

use toolbus_proto::channel::Ended;
use toolbus_proto::orchard::translate::{Clash, Provider, Served};
use toolbus_proto::orchard::{Server, ServerSettings, WIRE};
use toolbus_proto::tool::Wire;

use crate::author::{AuthorKind, Tools, on_either};

/// How an author's tools are served in this wire.
pub(in crate::wire) struct Author;

impl AuthorKind for Author {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn help(&self) -> &'static str {
        "Be a provider, for Orchard; also without a flag, if standard input is no terminal"
    }

    fn serve(&self, tools: Tools) -> io::Result<Ended> {
        let provider = provider(&tools).map_err(io::Error::other)?;
        let server = Server::new(&ServerSettings::default(), provider);
        on_either(server, tools.into_authored())
    }

    /// A host starts a provider's program without arguments.
    fn is_without_flag(&self) -> bool {
        true
    }

    fn printed(&self, word: &str, tools: &Tools) -> Option<io::Result<String>> {
        if word != "schema" {
            return None;
        }
        let provider = provider(tools).map_err(io::Error::other);
        Some(provider.map(|provider| format!("{}\n", provider.schema().write())))
    }
}

fn provider(tools: &Tools) -> Result<Provider, Clash> {
    let mut provider = Provider::new(tools.name(), tools.version());
    for spec in &*tools.specs() {
        provider.offer(spec.name.as_str(), Served::new(spec))?;
    }
    Ok(provider)
}
