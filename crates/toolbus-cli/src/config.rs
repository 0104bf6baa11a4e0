//! Reading `toolbus.toml`: the file that `--config` names, or the one that lies here or in a
//! folder above. A config of a client that names servers may stand in its place.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;
use toolbus::bus::config::looked::Looked;
use toolbus::bus::config::{Config, ConfigError, Mistake};
use toolbus::bus::lock::file;
use toolbus::bus::run::{Sources, Stamp};
use toolbus_proto::pin::Lock;

use crate::clients::{ClientConfigs, ClientPeer, Surroundings};
use crate::command::wire::{self, WireFace};
use crate::failed::Failed;

/// What is read if the user names no file.
pub(crate) const USUAL: &str = "toolbus.toml";

/// A config and where it was read.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// What it says, as TOML.
    pub(crate) text: String,
    pub(crate) config: Config,
    /// What stands there, if it is the config of a client.
    original: Option<String>,
}

impl Found {
    /// Does the front of this name have one of these keys?
    pub(crate) fn front_has(&self, front: &str, keys: &[&str]) -> bool {
        let Ok(config) = DeTable::parse(self.text.trim_start_matches('\u{feff}')) else {
            return false;
        };
        let fronts = config.get_ref().get("front").and_then(|fronts| fronts.get_ref().as_table());
        let front = fronts.and_then(|fronts| fronts.get(front)?.get_ref().as_table());
        front.is_some_and(|front| keys.iter().any(|key| front.get(*key).is_some()))
    }

    /// By what another process sees whether it has the same config; `None` if it is gone already.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let lock = fs::read(file::path_of(&self.path)).ok();
        let (toml, lock) = (Some(self.text.as_str()), lock.as_deref());
        let text = self.original.as_deref().unwrap_or(&self.text);
        let sources = Sources { path: &self.path, text, toml, lock };
        Stamp::of(sources, |name| std::env::var_os(name)).ok()
    }
}

/// Reads the config; `None` if the user named none and none lies here or above.
pub(crate) fn read(asked: Option<&Path>) -> Result<Option<Found>, Failed> {
    match parsed(asked)? {
        Some(Found { path, config, .. }) if config.backs.is_empty() => {
            Err(Failed::usage(format!("`{}` names no backs", path.display()))
                .hint("add one: `[back.try]` and under it `connect = \"builtin:\"`"))
        }
        found => Ok(found),
    }
}

/// The same for those who need no backs.
pub(crate) fn parsed(asked: Option<&Path>) -> Result<Option<Found>, Failed> {
    let Some(found) = parsed_without_lock(asked)? else { return Ok(None) };
    if found.config.locking.is_required && found.config.locking.lock.is_none() {
        return Err(no_lock(&found.path));
    }
    Ok(Some(found))
}

/// The config wants a lock, and there is none.
fn no_lock(config: &Path) -> Failed {
    let shown = file::path_of(config);
    Failed::usage(format!("there is no `{}`", shown.display())).hint("`toolbus lock` writes it")
}

/// What is wrong with the lock of a config that was looked at.
pub(crate) fn mistake_of_lock(path: &Path, config: &Config) -> Option<Failed> {
    match lock_of(path) {
        Err(failed) => Some(failed),
        Ok(None) if config.locking.is_required => Some(no_lock(path)),
        Ok(_) => None,
    }
}

/// The same for those who may write the lock that the config wants.
pub(crate) fn parsed_without_lock(asked: Option<&Path>) -> Result<Option<Found>, Failed> {
    let Some(mut found) = parsed_alone(asked)? else { return Ok(None) };
    found.config.locking.lock = lock_of(&found.path)?.map(Arc::new);
    Ok(Some(found))
}

/// The lock of the config at this path, if there is one.
fn lock_of(path: &Path) -> Result<Option<Lock>, Failed> {
    file::read(&file::path_of(path)).map_err(|error| {
        let failed = Failed::usage(error.to_string()).hint_if_any(error.hint());
        match std::error::Error::source(&error) {
            Some(cause) => failed.caused_by(cause),
            None => failed,
        }
    })
}

fn parsed_alone(asked: Option<&Path>) -> Result<Option<Found>, Failed> {
    let Some((path, text)) = text(asked)? else { return Ok(None) };
    let shown = path.display();
    let env = |name: &str| std::env::var(name).ok();
    if let Some(toml) = foreign(&path, &text)? {
        // Lines of a text that the user has never seen say nothing.
        let tell = |mistake: &Mistake| mistake.problem.to_string();
        let config = Config::parse(&toml, &env)
            .map_err(|error| wrong(&format!("`{shown}`:"), &error, tell))?;
        let found = Found { path, text: toml, config, original: Some(text) };
        return Ok(Some(found));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    // Below the config, programs start where it is.
    let parsed = match asked.is_none() && path.has_root() {
        true => Config::parse_in(folder, &text, &env),
        false => Config::parse_beside(folder, &text, &env),
    };
    let config =
        parsed.map_err(|error| wrong(&format!("`{shown}`"), &error, Mistake::to_string))?;
    Ok(Some(Found { path, text, config, original: None }))
}

/// All that is wrong with a config. What stands before each mistake is `whose`.
fn wrong(whose: &str, error: &ConfigError, tell: impl Fn(&Mistake) -> String) -> Failed {
    let failed = |mistake: &Mistake| {
        Failed::usage(format!("{whose} {}", tell(mistake))).hint_if_any(mistake.hint())
    };
    Failed::several(error.mistakes.iter().map(failed).collect())
}

/// Looks at the config for all that is wrong with it; no program is started, and nothing is opened but
/// the files that it names.
pub(crate) fn look(asked: Option<&Path>) -> Result<Option<(PathBuf, Looked)>, Failed> {
    let Some((path, text)) = text(asked)? else { return Ok(None) };
    let env = |name: &str| std::env::var(name).ok();
    let folder = path.parent().unwrap_or(Path::new(""));
    let foreign = foreign(&path, &text)?;
    let mut looked = Looked::at(folder, foreign.as_deref().unwrap_or(&text), &env);
    if foreign.is_some() {
        // Lines of a text that the user has never seen say nothing.
        looked.forget_lines();
    } else if asked.is_none() && path.has_root() {
        looked.start_programs_in(folder);
    }
    looked.look_for_programs();
    Ok(Some((path, looked)))
}

/// The text of the config; `None` if the user named none and none lies here or above.
fn text(asked: Option<&Path>) -> Result<Option<(PathBuf, String)>, Failed> {
    let Some(path) = asked.map(Path::to_path_buf).or_else(usual) else { return Ok(None) };
    let text = fs::read_to_string(&path).map_err(|error| {
        let message = format!("cannot read the config `{}`", path.display());
        Failed::usage(message).caused_by(&error)
    })?;
    Ok(Some((path, text)))
}

/// The config here, or the nearest above. Who may write a config may start programs, so one above
/// must be ours, or the system's.
pub(crate) fn usual() -> Option<PathBuf> {
    if fs::exists(USUAL).unwrap_or(true) {
        return Some(USUAL.into());
    }
    let here = std::env::current_dir().ok()?;
    let is_trusted = |path: &PathBuf| {
        let owner = fs::metadata(path).map(|file| file.uid());
        owner.is_ok_and(|owner| owner == 0 || owner == rustix::process::geteuid().as_raw())
    };
    let mut above = here.ancestors().skip(1).map(|folder| folder.join(USUAL));
    above.find(|path| path.is_file()).filter(is_trusted)
}

/// The config of a client as one of ours; `None` if it is ours.
fn foreign(path: &Path, text: &str) -> Result<Option<String>, Failed> {
    // Zed's begins with a comment.
    if !text.trim_start().starts_with(['{', '/']) {
        return Ok(None);
    }
    let found = client_peers(path, text)?.ok_or_else(|| {
        Failed::usage(format!("`{}` is JSON, but names no servers", path.display()))
            .hint(format!("a config of ours is TOML; of an editor's, {}", where_they_stand()))
    })?;
    let left_out = found.iter().filter_map(|peer| Some((&peer.name, peer.left_out.as_ref()?)));
    if left_out.clone().count() == found.len() {
        let lines = left_out.map(|(name, why)| format!("  {name}: {why}"));
        let failed = Failed::usage(format!("`{}` names no server to call", path.display()));
        return Err(failed
            .lines(lines)
            .hint("a server has `\"command\": \"PROGRAM\"` and `\"args\"`, or a `\"url\"`"));
    }
    for (name, why) in left_out {
        tracing::warn!("`{name}` is left out: {why}");
    }
    for peer in found.iter().filter(|peer| peer.left_out.is_none()) {
        for limit in peer.not_taken.iter().filter(|not| not.is_limit) {
            tracing::warn!("`{}`: not taken over: {limit}", peer.name);
        }
    }
    Ok(Some(found.iter().map(ClientPeer::to_toml).collect()))
}

/// Where configs of clients name their servers.
pub(crate) fn where_they_stand() -> String {
    let configs = wire::faces().filter_map(WireFace::client_configs);
    configs.map(ClientConfigs::hint).collect::<Vec<_>>().join("; ")
}

/// The peers that the config of a client names; `None` if it is no such config.
pub(crate) fn client_peers(path: &Path, text: &str) -> Result<Option<Vec<ClientPeer>>, Failed> {
    with_surroundings(|surroundings| {
        for configs in wire::faces().filter_map(WireFace::client_configs) {
            let read = configs.read(path, text, surroundings).map_err(|error| {
                Failed::usage(format!("the config `{}` {error}", path.display()))
            })?;
            if read.is_some() {
                return Ok(read);
            }
        }
        Ok(None)
    })
}

/// Calls it with what configs of clients may refer to.
pub(crate) fn with_surroundings<T>(call: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    let home = std::env::home_dir();
    let here = std::env::current_dir().unwrap_or_default();
    call(&Surroundings {
        home: home.as_deref(),
        here: &here,
        env: &|name| std::env::var(name).ok(),
    })
}
