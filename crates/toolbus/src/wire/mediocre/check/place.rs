//! Where a server is that is tested, and how to get there.

use std::path::PathBuf;
use std::time::Duration;

use toolbus_proto::tool::{Failure, FailureKind};

use super::line::Line;
use crate::address::{self, Address, Transport};
use crate::bus::back::{causes, hinted};
use crate::child::{EnvPolicy, Program};
#[cfg(feature = "http")]
use crate::transport::http::{Client, Origin, Request, Timeouts, header};
use crate::transport::tcp::ConnectError;
#[cfg(feature = "tls")]
use crate::transport::tls::{ClientTls, Inside};
use crate::transport::{Stream, tcp, unix};
use crate::wire::OpenError;
use crate::wire::check::talk;
#[cfg(any(feature = "http", feature = "tls"))]
use crate::wire::mediocre::reach::{self, Site};
use crate::wire::open::{not_in_this_build, program, unfit};
use crate::wire::settings::Settings;

/// Where a server is.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Place {
    Tcp {
        host: String,
        port: u16,
    },
    #[cfg(feature = "tls")]
    Tls {
        host: String,
        port: u16,
        tls: ClientTls,
    },
    Unix(PathBuf),
    /// Started anew for each rule.
    Program(Program),
    #[cfg(feature = "http")]
    Http(Site),
}

impl Place {
    /// Where an address leads to; the files that it names are read.
    pub fn of(address: &Address, settings: &Settings) -> Result<Place, OpenError> {
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
                    #[cfg(feature = "tls")]
                    Transport::Tls => {
                        let tls = reach::client_tls(address, url, Inside::Bytes)?;
                        Ok(Place::Tls { host, port, tls })
                    }
                    #[cfg(feature = "http")]
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
        #[cfg(feature = "http")]
        return matches!(self, Place::Http(_));
        #[cfg(not(feature = "http"))]
        false
    }

    /// Is a server there at all?
    pub(super) async fn reach(&self, patience: Duration) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "http")]
            Place::Http(Site { origin, .. }) => {
                let Origin { host, port, .. } = origin;
                let stream = tcp::connect(host, *port, patience).await.map_err(refused)?;
                #[cfg(feature = "tls")]
                if let Some(tls) = &origin.tls {
                    secured(tls, stream, host, patience).await?;
                }
                #[cfg(not(feature = "tls"))]
                drop(stream);
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
            #[cfg(feature = "tls")]
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
            #[cfg(feature = "http")]
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

#[cfg(feature = "tls")]
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
