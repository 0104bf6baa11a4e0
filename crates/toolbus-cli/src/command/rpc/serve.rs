//! `toolbus rpc serve`: the tools of the bus for whoever connects.

use std::io::{self, Write as _};
use std::path::Path;
use std::rc::Rc;

use tokio::task::JoinSet;
use toolbus::address::{Address, Carrier, Place, Purpose, Url};
use toolbus::back::settings::Settings;
use toolbus::bus::Bus;
use toolbus::front::mediocre::{self, Mediocre, Talked};
use toolbus::transport::tls::{Identity, Inside, ServerTls};
use toolbus::transport::{Listener, Whereabouts, stdio};
use toolbus_proto::channel::Ended;
use toolbus_proto::mediocre::Reading;

use super::{ServeArgs, address};
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::failure;
use crate::runtime::Signals;

pub(crate) fn serve(args: &ServeArgs, globals: &Globals) -> Result<(), Failed> {
    let places: Vec<Door> =
        args.listen.iter().map(|url| Door::read(url)).collect::<Result<_, _>>()?;
    if 1 < places.iter().filter(|door| matches!(door, Door::Stdio)).count() {
        return Err(Failed::usage("standard input and output can be listened on only once"));
    }
    let settings = mediocre::Settings {
        reading: Reading {
            object_bytes_max: args.object_bytes_max,
            depth_max: usize::from(args.depth_max),
            ..args.reading.settings().reading()
        },
        drain_bytes_max: args.drain_bytes_max as u64,
        drain_timeout: args.drain_timeout,
        idle_timeout: args.idle_timeout,
        call_timeout: args.call_timeout,
        ..mediocre::Settings::default()
    };
    let backs = Settings { timeout: Some(args.call_timeout), ..Settings::default() };
    Peers::of(&args.addresses, globals, backs)?.meet_with_signals(
        |bus| bus,
        async |bus, signals| run(bus, &places, settings, signals).await,
    )
}

async fn run(
    bus: Rc<Bus>,
    doors: &[Door],
    settings: mediocre::Settings,
    signals: &mut Signals,
) -> Result<(), Failed> {
    tokio::select! {
        opened = bus.open() => opened.map_err(|error| failure::not_open(&error))?,
        exit = signals.next() => return Err(Failed::quietly(exit)),
    }
    let server = Mediocre::new(bus, settings);
    let mut serving = JoinSet::new();
    for door in doors {
        door.open(&server, &mut serving).await?;
    }
    let mut ended = Ok(());
    loop {
        tokio::select! {
            one = serving.join_next() => match one {
                Some(Ok(Err(failed))) => ended = Err(failed),
                Some(_) => {}
                None => return ended,
            },
            exit = signals.next() => {
                server.stop();
                tokio::select! {
                    () = async { while serving.join_next().await.is_some() {} } => {}
                    // Asked twice, nobody is waited for.
                    _ = signals.next() => {}
                }
                return Err(Failed::quietly(exit));
            }
        }
    }
}

/// Where callers come in.
pub(crate) enum Door {
    Stdio,
    Tcp(Url),
    Tls(Url, ServerTls),
    Unix(Address),
}

impl Door {
    pub(crate) fn read(url: &str) -> Result<Door, Failed> {
        if matches!(url, "stdio:" | "mediocre+stdio:") {
            return Ok(Door::Stdio);
        }
        let address = address(Purpose::Serve, url)?;
        match address.place() {
            Place::Unix(_) => Ok(Door::Unix(address)),
            Place::Url(found) => match found.carrier {
                Carrier::Tcp => Ok(Door::Tcp(found.clone())),
                Carrier::Tls => Ok(Door::Tls(found.clone(), server_tls(url, found)?)),
                _ => Err(Failed::usage(format!(
                    "cannot listen on `{url}`: mediocre-rpc over HTTP is not there yet"
                ))),
            },
            _ => {
                Err(Failed::usage(format!("cannot listen on `{url}`: nobody is there to call us"))
                    .hint("`stdio:` alone is our own standard input and output"))
            }
        }
    }

    /// Accepts from now on, and says so.
    pub(crate) async fn open(
        &self,
        server: &Mediocre,
        serving: &mut JoinSet<Result<(), Failed>>,
    ) -> Result<(), Failed> {
        let server = server.clone();
        let cannot = |error: &dyn std::error::Error| {
            Failed::new(Exit::Failed, "cannot listen").caused_by(error)
        };
        let (listener, url) = match self {
            Door::Stdio => {
                let input = stdio::stdin().map_err(|error| cannot(&error))?;
                let output = stdio::stdout().map_err(|error| cannot(&error))?;
                listening("mediocre+stdio:");
                serving.spawn_local(async move { over(server.talk(input, output).await) });
                return Ok(());
            }
            Door::Unix(address) => {
                let Place::Unix(path) = address.place() else { return Ok(()) };
                let listener = Listener::unix(path).map_err(|error| cannot(&error))?;
                (listener, address.to_string())
            }
            Door::Tcp(url) => {
                let listener = bind(url).await?;
                let port = port(&listener, url);
                (listener, format!("mediocre+tcp://{}:{port}", bracketed(&url.host)))
            }
            Door::Tls(url, tls) => {
                let listener = bind(url).await?.with_tls(tls.clone());
                let port = port(&listener, url);
                (listener, format!("mediocre+tls://{}:{port}", bracketed(&url.host)))
            }
        };
        listening(&url);
        serving.spawn_local(async move {
            server.listen(listener).await;
            Ok(())
        });
        Ok(())
    }
}

async fn bind(url: &Url) -> Result<Listener, Failed> {
    Listener::tcp(&url.host, url.port)
        .await
        .map_err(|error| Failed::new(Exit::Failed, "cannot listen").caused_by(&error))
}

/// The real one, where any would do.
fn port(listener: &Listener, url: &Url) -> u16 {
    match listener.whereabouts() {
        Ok(Whereabouts::Tcp(address)) => address.port(),
        _ => url.port,
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Told always, and by itself: scripts wait for this line.
fn listening(url: &str) {
    // Whoever closed our standard error does not wait for it.
    let _ = writeln!(io::stderr(), "listening on {url}");
}

/// How the conversation over our own pipes ended.
fn over(talked: Talked) -> Result<(), Failed> {
    match talked {
        Talked::ToTheEnd(Ended::Broke(why)) => Err(Failed::new(Exit::Unreachable, why)),
        Talked::ToTheEnd(_) | Talked::UntilStopped => Ok(()),
    }
}

fn server_tls(text: &str, url: &Url) -> Result<ServerTls, Failed> {
    let path = |name| url.parameter(name).map(Path::new);
    let (Some(cert), Some(key)) = (path("cert"), path("key")) else {
        return Err(Failed::usage(format!("cannot listen on `{text}`: who are we?"))
            .hint("name our certificate and its key by `?cert=FILE&key=FILE`"));
    };
    ServerTls::load(Identity { cert, key }, path("client_ca"), Inside::Bytes).map_err(|error| {
        let failed = Failed::usage(format!("cannot listen on `{text}`")).caused_by(&error);
        match error.hint() {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    })
}
