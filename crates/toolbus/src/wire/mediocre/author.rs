//! An author's tools, served in this wire.

use std::io;
#[cfg(feature = "bus")]
use std::rc::Rc;
use std::time::Instant;

use toolbus_proto::channel::Ended;
use toolbus_proto::mediocre::{Server, ServerSettings, WIRE};
use toolbus_proto::tool::Wire;

#[cfg(feature = "bus")]
use super::front::{Mediocre, Talked};
#[cfg(feature = "bus")]
use crate::author::with_runtime;
use crate::author::{AuthorKind, Tools, in_place};
use crate::chance::OsRandom;

/// How an author's tools are served in this wire.
pub(in crate::wire) struct Author;

impl AuthorKind for Author {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn help(&self) -> &'static str {
        "Be a mediocre-rpc server"
    }

    fn serve(&self, tools: Tools) -> io::Result<Ended> {
        let tools = tools.into_authored();
        let settings = ServerSettings::default();
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
        let machine = Server::new(Instant::now(), settings, OsRandom::new());
        in_place(machine, Some(settings.call_timeout), &tools)
    }
}
