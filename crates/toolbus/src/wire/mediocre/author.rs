//! An author's tools, served in this wire.

use std::io;
use std::rc::Rc;

use toolbus_proto::channel::Ended;
use toolbus_proto::mediocre::WIRE;
use toolbus_proto::tool::Wire;

use super::front::{Mediocre, Settings, Talked};
use crate::author::{AuthorKind, Tools, with_runtime};

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
        with_runtime(async |input, output| {
            let tools = Rc::new(tools.into_back());
            let server = Mediocre::new(tools, Settings::default());
            match server.talk(input, output).await {
                Talked::ToTheEnd(ended) => ended,
                Talked::UntilStopped => Ended::Well,
            }
        })
    }
}
