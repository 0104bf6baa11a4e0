//! The wire in the tour: a server of our own, or the one that the environment names, at which
//! fronts and backs meet.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use toolbus::address::Address;
use toolbus::bus::back::{Back as _, LocalFuture};
use toolbus::peer::settings::Settings;
use toolbus::wire::nats;
use toolbus_engine::child::{Program, Running};
use toolbus_proto::json::{Json, edit};

use super::super::{Meeting, MeetingPlace};
use crate::exit::Exit;
use crate::failed::Failed;

pub(super) struct Tour;

/// The variable that names a server.
const VARIABLE: &str = "TOOLBUS_NATS";
const SERVER: &str = "nats-server";
/// How long a program may take to start, and how often is looked whether it has.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Meeting for Tour {
    fn open<'a>(&self, folder: &'a Path) -> LocalFuture<'a, Result<Box<dyn MeetingPlace>, String>> {
        Box::pin(async move {
            let given = env::var(VARIABLE).ok().filter(|given| !given.is_empty());
            let (server, url) = match given {
                Some(given) => (None, given),
                None => {
                    let Some(program) = on_path(SERVER) else {
                        return Err(format!("there is no `{SERVER}`, and no `{VARIABLE}`"));
                    };
                    let (server, url) = start(&program, folder).await?;
                    (Some(server), url)
                }
            };
            let place = TourServer { server, url, next: Cell::new(0) };
            reach(&place.address()).await.map_err(|why| match &place.server {
                Some(_) => why,
                None => format!("{why} (`{VARIABLE}`)"),
            })?;
            Ok(Box::new(place) as Box<dyn MeetingPlace>)
        })
    }
}

/// A server that is there.
struct TourServer {
    /// Ours, if it is.
    server: Option<Running>,
    url: String,
    next: Cell<u32>,
}

impl TourServer {
    /// An address that no other peer has.
    fn address(&self) -> String {
        let number = self.next.replace(self.next.get() + 1);
        let (url, parameters) = match self.url.split_once('?') {
            Some((url, parameters)) => (url, format!("?{parameters}")),
            None => (self.url.as_str(), String::new()),
        };
        let from = url.find("://").map_or(0, |at| at + 3);
        let hosts = url[from..].find('/').map_or(url, |at| &url[..from + at]);
        format!("{hosts}/demo-{}-{number}{parameters}", std::process::id())
    }
}

impl MeetingPlace for TourServer {
    fn serve<'a>(
        &'a self,
        program: &'a str,
        served: &'a str,
    ) -> LocalFuture<'a, Result<(String, Running), Failed>> {
        Box::pin(async move {
            let address = self.address();
            let words = [program, "nats", "serve", &address, served].map(str::to_owned);
            let running = Running::start(&Program::new(words.to_vec()));
            let running = running
                .map_err(|error| Failed::new(Exit::Failed, "cannot start").caused_by(&error))?;
            let parsed = Address::parse(&address)
                .map_err(|error| Failed::usage(error.to_string()).hint_if_any(error.hint()))?;
            let back = nats::back(&parsed, &Settings::default(), false)
                .map_err(|error| Failed::usage(error.to_string()))?;
            let begun = Instant::now();
            while let Err(failure) = back.tools().await {
                if PATIENCE < begun.elapsed() {
                    return Err(Failed::new(Exit::Failed, failure.message));
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            back.shutdown().await;
            Ok((address, running))
        })
    }
}

/// Is a server there?
async fn reach(address: &str) -> Result<(), String> {
    let parsed = Address::parse(address).map_err(|error| error.to_string())?;
    if parsed.wire() != nats::WIRE {
        return Err(format!("`{address}` is no address of NATS"));
    }
    let reached = nats::reach_of(&parsed, &Settings::default());
    let (reach, _) = reached.map_err(|error| error.to_string())?;
    let connected = reach.connect().await.map_err(|failure| failure.message)?;
    connected.rest.close().await;
    Ok(())
}

/// Starts a server on a port of its own choice, and gives where it is.
async fn start(program: &Path, folder: &Path) -> Result<(Running, String), String> {
    let ports = folder.join("nats");
    let cannot = |why: &dyn std::fmt::Display| format!("cannot start `{SERVER}`: {why}");
    fs::create_dir_all(&ports).map_err(|error| cannot(&error))?;
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let words = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"].map(str::to_owned);
    let words = [vec![shown(program)], words.to_vec(), vec![shown(&ports)]].concat();
    let server = Running::start(&Program::new(words)).map_err(|error| cannot(&error))?;
    let begun = Instant::now();
    loop {
        if let Some(url) = url_in(&ports) {
            return Ok((server, url));
        }
        if PATIENCE < begun.elapsed() {
            return Err(cannot(&"it does not say where it listens"));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The address that a server has written into a file of this folder.
fn url_in(ports: &Path) -> Option<String> {
    let file = fs::read_dir(ports).ok()?.flatten().next()?;
    let said = Json::parse(fs::read(file.path()).ok()?).ok()?;
    let urls = edit::member(said.as_str(), "nats")?;
    let url = edit::elements(urls).next()?;
    Json::parse(url.to_owned()).ok()?.string()
}

/// The program of this name, as a shell would find it.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|it| it.is_file())
}
