//! Where a server is that is tested, and how to get there.

use std::path::PathBuf;
use std::time::Duration;

use toolbus_proto::tool::{Failure, FailureKind};

use super::line::Line;
use crate::talk;
use toolbus::address::{self, Address, Transport};
use toolbus::bus::back::{causes, hinted};
use toolbus::peer::OpenError;
use toolbus::peer::open::{not_in_this_build, program, unfit};
use toolbus::peer::settings::Settings;
use toolbus::wire::mediocre::reach::{self, Site};
use toolbus_engine::child::{EnvPolicy, Program};
use toolbus_engine::transport::http::{Client, Origin, Request, Timeouts, header};
use toolbus_engine::transport::tcp::ConnectError;
use toolbus_engine::transport::tls::{ClientTls, Inside};
use toolbus_engine::transport::{Stream, tcp, unix};

/// Where a server is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Tcp {
        host: String,
        port: u16,
    },
    Tls {
        host: String,
        port: u16,
        tls: ClientTls,
    },
    Unix(PathBuf),
    /// Started anew for each rule.
    Program(Program),
    Http(Site),
}

impl Place {
    /// Where an address leads to; the files that it names are read.
    pub(super) fn of(address: &Address, settings: &Settings) -> Result<Place, OpenError> {
        match address.place() {
            address::Place::Unix(path) => Ok(Place::Unix(path.clone())),
            address::Place::Command(words) => {
                let env = EnvPolicy::Clean { pass: settings.program.env_pass.clone() };
                Ok(Place::Program(program(words, settings, env)))
            }
            address::Place::Url(url) => {
                let (host, port) = (url.host.clone(), url.port);
                match url.carrier {
                    Transport::Tcp => Ok(Place::Tcp { host, port }),
                    Transport::Tls => {
                        let besides = &settings.credentials.tls;
                        let tls = reach::client_tls(address, url, besides, Inside::Bytes)?;
                        Ok(Place::Tls { host, port, tls })
                    }
                    Transport::Http | Transport::Https => {
                        Ok(Place::Http(reach::site(address, url, &settings.credentials)?))
                    }
                    _ => Err(not_in_this_build(address, "what carries it")),
                }
            }
            address::Place::Inside => Err(unfit(address, "a command, a path or a URL")),
        }
    }

    /// An exchange has one call, and its ends are HTTP's own.
    pub(super) fn is_http(&self) -> bool {
        matches!(self, Place::Http(_))
    }

    /// Is a server there at all?
    pub(super) async fn reach(&self, patience: Duration) -> Result<(), Failure> {
        match self {
            Place::Http(Site { origin, .. }) => {
                let Origin { host, port, .. } = origin;
                let stream = tcp::connect(host, *port, patience).await.map_err(refused)?;
                if let Some(tls) = &origin.tls {
                    secured(tls, stream, host, patience).await?;
                }
                Ok(())
            }
            _ => self.connect(patience).await.map(drop),
        }
    }

    pub(super) async fn connect(&self, patience: Duration) -> Result<Line, Failure> {
        match self {
            Place::Tcp { host, port } => {
                let stream = tcp::connect(host, *port, patience).await.map_err(refused)?;
                Ok(Line::Stream(Stream::Tcp(stream)))
            }
            Place::Tls { host, port, tls } => {
                let stream = tcp::connect(host, *port, patience).await.map_err(refused)?;
                secured(tls, stream, host, patience).await.map(Line::Stream)
            }
            Place::Unix(path) => {
                let stream = unix::connect(path, patience).await.map_err(refused)?;
                Ok(Line::Stream(Stream::Unix(stream)))
            }
            Place::Program(program) => match talk::Talk::start(program, 0) {
                Ok(talk) => Ok(Line::Program(Box::new(talk))),
                Err(error) => Err(unavailable(&error, error.hint())),
            },
            Place::Http(Site { origin, path, headers }) => {
                let client = Client::new(origin.clone(), 1, patience);
                let request = Request::post(path.clone())
                    .header(header::CONTENT_TYPE, "application/x-mediocre-rpc")
                    .body(());
                let mut request = request.map_err(|error| unavailable(&error, None))?;
                request.headers_mut().extend(headers.clone());
                let (sink, answer) =
                    client.start(request, Timeouts { connect: patience, head: None });
                Ok(Line::exchange(sink, answer))
            }
        }
    }
}

async fn secured(
    tls: &ClientTls,
    stream: tokio::net::TcpStream,
    host: &str,
    patience: Duration,
) -> Result<Stream, Failure> {
    match tls.connect(stream, host, patience).await {
        Ok(stream) => Ok(Stream::Tls(Box::new(stream))),
        Err(error) => Err(unavailable(&error, error.hint())),
    }
}

fn refused(error: ConnectError) -> Failure {
    unavailable(&error, error.hint())
}

fn unavailable(error: &dyn std::error::Error, hint: Option<String>) -> Failure {
    hinted(Failure::new(FailureKind::Unavailable, causes(error)), hint)
}
