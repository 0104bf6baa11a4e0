//! `toolbus page`: where is the page of the `serve` that runs?

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use toolbus_engine::child::words;
use toolbus_proto::page::PageMode;

use crate::args::Globals;
use crate::config::{self, Found};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::state_file::{PageState, StatePlace};

/// How long the page has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tell where the page of `toolbus serve` is
///
/// The page shows what is called, what fails and why, and which back is down; with
/// `page = "call"` in `[admin]`, tools can be tried there. This prints its address with the token
/// that it asks for, which is another at each start of `toolbus serve`. Who knows it may look: give
/// it to nobody else.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  toolbus page\n  toolbus page --open")]
pub(crate) struct PageArgs {
    /// Show it in a browser: `$BROWSER`, or what the system opens pages with
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &PageArgs, globals: &Globals) -> Result<(), Failed> {
    let found = config::parsed(globals.config.as_deref())?.ok_or_else(|| {
        Failed::usage(format!("there is no `{}` here or above", config::USUAL))
            .hint("name a config by `--config FILE`; `toolbus init` writes one")
    })?;
    let Found { path, config, .. } = &found;
    let shown = path.display();
    let Some(admin) = &config.admin else {
        let message = format!("`{shown}` has no `[admin]`, so there is no page");
        return Err(Failed::usage(message)
            .hint("add it: `[admin]` and under it `listen = \"127.0.0.1:9464\"`"));
    };
    if admin.page == PageMode::Off {
        return Err(Failed::usage(format!("the page is off: `[admin] page` in `{shown}`")));
    }
    let place = StatePlace::of(path);
    let state = place.as_ref().and_then(StatePlace::read).filter(is_there);
    let (Some(place), Some(state)) = (place, state) else {
        let message = format!("no `toolbus serve` shows a page for `{shown}`");
        return Err(Failed::new(Exit::Unreachable, message).hint("toolbus serve"));
    };
    let address = format!("{}#token={}", state.url, state.token);
    let line = match globals.json {
        true => toolbus_proto::json::Json::of(&state).to_string(),
        false => address.clone(),
    };
    render::print_own(&format!("{line}\n"))?;
    match args.open {
        true => open(&place, &address),
        false => Ok(()),
    }
}

/// Shows the page in a browser. What is started is given a file that leads there, since everybody
/// on this machine may see what programs are started with.
fn open(place: &StatePlace, address: &str) -> Result<(), Failed> {
    let failed = |why: String| {
        Failed::new(Exit::Failed, format!("no browser could be started: {why}"))
            .hint("open the address that was printed")
    };
    let file = place.write_link(address).map_err(|error| failed(error.to_string()))?;
    let own = std::env::var("BROWSER").ok().filter(|browser| !browser.trim().is_empty());
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let words = words::split(own.as_deref().unwrap_or(usual))
        .map_err(|error| failed(format!("`$BROWSER`: {error}")))?;
    let Some((program, arguments)) = words.split_first() else {
        return Err(failed("`$BROWSER` names no program".to_owned()));
    };
    let started = Command::new(program)
        .args(arguments)
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(failed(format!("there is no program `{program}`")))
        }
        Err(error) => Err(failed(format!("`{program}`: {error}"))),
    }
}

/// Does the page answer there, and take the token?
fn is_there(state: &PageState) -> bool {
    ask(state).is_ok_and(|answer| {
        let status = answer.strip_prefix(b"HTTP/1.1 ");
        status.is_some_and(|status| status.starts_with(b"200 "))
    })
}

/// The beginning of what it answers.
fn ask(state: &PageState) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let authority = state.url.trim_start_matches("http://").trim_end_matches('/');
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in authority.to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&address, left()?) {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        stream.set_write_timeout(Some(left()?))?;
        let request = format!(
            "GET /api/state HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\n\r\n",
            state.token
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut chunk = [0; 256];
        while answer.len() < 16 {
            stream.set_read_timeout(Some(left()?))?;
            match stream.read(&mut chunk)? {
                0 => break,
                count => answer.extend_from_slice(&chunk[..count]),
            }
        }
        return Ok(answer);
    }
    Err(last)
}
