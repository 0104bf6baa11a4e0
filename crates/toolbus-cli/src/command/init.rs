//! `toolbus init`: a config to begin with, of addresses or of what an editor has set up already.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, slice};

use serde_json::json;
use toolbus::address::Address;

use super::config::SCHEMA;
use super::wire::{self, WireFace};
use crate::args::Globals;
use crate::clients::{Ask, ClientPeer, ClientPlace, array, back_name};
use crate::config::{self, USUAL};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::no_address;
use crate::render::{self, printable};

/// Write a `toolbus.toml` to begin with
///
/// The config names the addresses that are given. With `--from` it names the servers that the
/// config of an editor or agent has: of Claude Code, Claude Desktop, Cursor, VS Code, Codex,
/// Gemini CLI, Windsurf, Zed, Cline, Continue, opencode or Junie. Without FILE, and without any
/// ADDRESS, their usual places are looked at; if there is nothing, the config names the tools
/// inside toolbus.
///
/// What a client limits is kept: its list of tools becomes `allow`, those that it excludes are hidden
/// by a view, its times are `timeout` and `start_timeout`. What has no place here stands in the new file as a comment. Standard output says
/// which servers have another name here, and for what VS Code asks: that is a variable now.
///
/// A file that is there is never overwritten. `--config FILE` writes another file than
/// `toolbus.toml`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus init
  toolbus init --from ~/.claude.json
  toolbus init builtin: https://tools.example/path

Then:
  toolbus doctor
  toolbus tools
  toolbus serve")]
pub(crate) struct InitArgs {
    /// Peers to name in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS", conflicts_with = "from")]
    addresses: Vec<String>,
    /// Name the servers of this config of an editor or agent, or of all that are found
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    from: Option<Option<PathBuf>>,
}

/// The view that hides what clients exclude.
const IMPORTED: &str = "imported";

/// The backs of a new config, and where they come from.
struct Backs {
    peers: Vec<ClientPeer>,
    origins: Vec<String>,
}

pub(crate) fn run(args: &InitArgs, globals: &Globals) -> Result<(), Failed> {
    let path = globals.config.clone().unwrap_or_else(|| PathBuf::from(USUAL));
    let there = || {
        Failed::usage(format!("`{}` is there already, and is not overwritten", path.display()))
            .hint("write another file by `--config FILE`, or move that one away")
    };
    if path.exists() {
        return Err(there());
    }
    let backs = match (&args.from, args.addresses.as_slice()) {
        (Some(Some(file)), _) => of_file(file)?,
        (Some(None), _) => of_usual_places()?.ok_or_else(nothing_found)?,
        (None, []) => match of_usual_places()? {
            Some(backs) => backs,
            None => of_addresses(slice::from_ref(&"builtin:".to_owned()))?,
        },
        (None, addresses) => of_addresses(addresses)?,
    };
    let mut backs = backs;
    for peer in backs.peers.iter_mut().filter(|peer| !peer.hidden.is_empty()) {
        // A view says it.
        peer.not_taken.retain(|not| !not.is_limit);
    }
    // What a client keeps to its user may be secret wherever it stands.
    let has_secrets = !backs.origins.is_empty();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(if has_secrets { 0o600 } else { 0o644 });
    let written = options.open(&path).and_then(|mut file| file.write_all(backs.text().as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => there(),
        _ => {
            let message = format!("cannot write `{}`", path.display());
            Failed::new(Exit::Failed, message).caused_by(&error)
        }
    })?;
    render::print(&backs.told(&path, globals.json))
}

fn of_addresses(texts: &[String]) -> Result<Backs, Failed> {
    let mut peers: Vec<ClientPeer> = Vec::new();
    for text in texts {
        let address = Address::parse(text).map_err(|error| no_address(&error))?;
        let taken: Vec<_> = peers.iter().map(|peer| peer.name.clone()).collect();
        let name = back_name(&address.peer_name(), &taken);
        peers.push(ClientPeer { name, connect: text.clone(), ..ClientPeer::default() });
    }
    Ok(Backs { peers, origins: Vec::new() })
}

fn of_file(path: &Path) -> Result<Backs, Failed> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failed::usage(format!("cannot read `{shown}`")).caused_by(&error))?;
    let peers = config::client_peers(path, &text)?.ok_or_else(|| {
        Failed::usage(format!("`{shown}` names no servers")).hint(config::where_they_stand())
    })?;
    Ok(Backs { peers, origins: vec![shown.to_string()] })
}

/// The servers of all configs in their usual places, each once.
fn of_usual_places() -> Result<Option<Backs>, Failed> {
    let mut found = Backs { peers: Vec::new(), origins: Vec::new() };
    for ClientPlace { path, .. } in usual_places() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let peers = match config::client_peers(&path, &text) {
            Ok(Some(peers)) if !peers.is_empty() => peers,
            Ok(_) => continue,
            // One that its owner cannot read either must not keep the others from us.
            Err(failed) => {
                tracing::warn!("{}", failed.message());
                continue;
            }
        };
        for peer in peers {
            if !found.peers.iter().any(|known| peer.is_same_as(known)) {
                let taken: Vec<_> = found.peers.iter().map(|peer| peer.name.clone()).collect();
                let name = back_name(&peer.name, &taken);
                found.peers.push(ClientPeer { name, ..peer });
            }
        }
        found.origins.push(path.display().to_string());
    }
    Ok((!found.peers.is_empty()).then_some(found))
}

fn usual_places() -> Vec<ClientPlace> {
    config::with_surroundings(|surroundings| {
        let configs = wire::faces().filter_map(WireFace::client_configs);
        configs.flat_map(|configs| configs.places(surroundings)).collect()
    })
}

fn nothing_found() -> Failed {
    let places = usual_places();
    let places =
        places.iter().map(|place| format!("  {} ({})", place.path.display(), place.client));
    Failed::usage("no config of an editor or agent is in its usual place, or names a server")
        .lines(places)
        .hint("name one by `--from FILE`, or name the peers themselves")
}

impl Backs {
    /// The config.
    fn text(&self) -> String {
        let mut text = format!("#:schema {SCHEMA}\n\n");
        text += &match self.origins.as_slice() {
            [] => "# A config of toolbus.\n".to_owned(),
            origins => {
                let origins = origins.join(", ").replace('\n', " ");
                format!("# A config of toolbus, made of {origins}.\n")
            }
        };
        text.push_str(
            "#\n# `toolbus doctor` starts each back and says what works, `toolbus tools` lists\n\
             # what can be called, and `toolbus serve` serves all of it.\n",
        );
        for peer in &self.peers {
            text.push('\n');
            text.push_str(&peer.to_toml());
        }
        let hidden: Vec<_> = self.hidden().collect();
        if !hidden.is_empty() {
            text.push_str(&format!("\n[view.{IMPORTED}]\nhide = {}\n", array(&hidden)));
        }
        if self.peers.iter().any(ClientPeer::has_secrets) {
            text.push_str(
                "\n# A secret need not stand here: \"${NAME}\" is that environment variable.\n",
            );
        }
        text.push_str(
            "\n# What else a back may have:\n\
             #   timeout = \"30s\"          how long a call may be quiet\n\
             #   allow = [\"a\", \"b\"]       its tools that may be called; without it all\n\
             #   env = { NAME = \"value\" }  set in its environment; env_pass = [\"NAME\"] passes one on\n\
             \n# Where `toolbus serve` listens:\n",
        );
        for (index, (name, serve)) in wire::faces().filter_map(WireFace::front_example).enumerate()
        {
            let mark = if index == 0 { "" } else { "# " };
            let gap = if index == 0 { "" } else { "\n" };
            text.push_str(&format!("{gap}{mark}[front.{name}]\n{mark}serve = \"{serve}\"\n"));
            if index == 0 && !hidden.is_empty() {
                text.push_str(&format!("view = \"{IMPORTED}\"\n"));
            }
        }
        text
    }

    /// The tools that clients keep from being called, as patterns of a view.
    fn hidden(&self) -> impl Iterator<Item = String> {
        let named = self.peers.iter().filter(|peer| peer.left_out.is_none());
        named.flat_map(|peer| peer.hidden.iter().map(|tool| format!("{}.{tool}", peer.name)))
    }

    /// What was done, in words or as a line of JSON.
    fn told(&self, path: &Path, is_json: bool) -> String {
        let path = path.display().to_string();
        let (out, named): (Vec<_>, Vec<_>) =
            self.peers.iter().partition(|peer| peer.left_out.is_some());
        let names =
            |peers: &[&ClientPeer]| peers.iter().map(|peer| peer.name.clone()).collect::<Vec<_>>();
        if is_json {
            let renamed = named.iter().filter(|peer| peer.is_renamed());
            let renamed = renamed.map(|peer| json!({"from": peer.called, "to": peer.name}));
            let asks = named.iter().flat_map(|peer| {
                peer.asks.iter().map(|ask| match &ask.title {
                    Some(title) => json!({"back": peer.name, "name": ask.name, "title": title}),
                    None => json!({"back": peer.name, "name": ask.name}),
                })
            });
            let not_taken = named.iter().flat_map(|peer| {
                peer.not_taken.iter().map(|not| json!({"back": peer.name, "key": not.key}))
            });
            let told = json!({
                "path": path,
                "backs": names(&named),
                "left_out": names(&out),
                "from": self.origins,
                "renamed": renamed.collect::<Vec<_>>(),
                "asks": asks.collect::<Vec<_>>(),
                "not_taken": not_taken.collect::<Vec<_>>(),
            });
            return format!("{told}\n");
        }
        let mut told = match named.len() {
            0 => format!("wrote {path}, with no backs yet\n"),
            _ => format!("wrote {path}: {}\n", names(&named).join(", ")),
        };
        for peer in out {
            let why = peer.left_out.as_deref().unwrap_or_default();
            told.push_str(&format!("left out {}: {why}\n", peer.name));
        }
        for peer in named.iter().filter(|peer| peer.is_renamed()) {
            told.push_str(&format!("renamed {}: {}\n", printable(&peer.called), peer.name));
        }
        for peer in &named {
            for Ask { name, title } in &peer.asks {
                let title = title.as_ref().map(|title| format!(" ({})", printable(title)));
                let title = title.unwrap_or_default();
                told.push_str(&format!("asks {}: {name}{title}\n", peer.name));
            }
        }
        if !named.is_empty() {
            told.push_str("`toolbus lock` pins what they show, so that no change goes unnoticed\n");
        }
        told
    }
}
