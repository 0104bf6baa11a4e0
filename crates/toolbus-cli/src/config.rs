//! Reading `toolbus.toml`: the file that `--config` names, or the one that lies here or in a
//! folder above. A config of a client that names servers may stand in its place.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use toolbus::bus::config::{Config, ConfigError, Mistake};

use crate::clients::{ClientConfigs, ClientPeer, Surroundings};
use crate::command::wire::{self, WireFace};
use crate::failed::Failed;

/// What is read if the user names no file.
pub(crate) const USUAL: &str = "toolbus.toml";

/// A config and where it was read.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) config: Config,
}

/// Reads the config; `None` if the user named none and none lies here or above.
pub(crate) fn read(asked: Option<&Path>) -> Result<Option<Found>, Failed> {
    match parsed(asked)? {
        Some(Found { path, config }) if config.backs.is_empty() => {
            Err(Failed::usage(format!("`{}` names no backs", path.display()))
                .hint("add one: `[back.try]` and under it `connect = \"builtin:\"`"))
        }
        found => Ok(found),
    }
}

/// The same for those who need no backs.
pub(crate) fn parsed(asked: Option<&Path>) -> Result<Option<Found>, Failed> {
    let Some(path) = asked.map(Path::to_path_buf).or_else(usual) else { return Ok(None) };
    let shown = path.display();
    let text = fs::read_to_string(&path).map_err(|error| {
        Failed::usage(format!("cannot read the config `{shown}`")).caused_by(&error)
    })?;
    let env = |name: &str| std::env::var(name).ok();
    if let Some(text) = foreign(&path, &text)? {
        // Lines of a text that the user has never seen say nothing.
        let tell = |mistake: &Mistake| mistake.problem.to_string();
        let config = Config::parse(&text, &env)
            .map_err(|error| wrong(&path, &format!("`{shown}`:"), &error, tell))?;
        return Ok(Some(Found { path, config }));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    // Below the config, programs start where it is.
    let parsed = match asked.is_none() && path.has_root() {
        true => Config::parse_in(folder, &text, &env),
        false => Config::parse_beside(folder, &text, &env),
    };
    let config =
        parsed.map_err(|error| wrong(&path, &format!("`{shown}`"), &error, Mistake::to_string))?;
    Ok(Some(Found { path, config }))
}

/// All that is wrong with a config, as one failure. What stands before a mistake alone is `whose`.
fn wrong(
    path: &Path,
    whose: &str,
    error: &ConfigError,
    tell: impl Fn(&Mistake) -> String,
) -> Failed {
    let failed = |mistake: &Mistake, before: &str| {
        Failed::usage(format!("{before}{}", tell(mistake))).hint_if_any(mistake.hint())
    };
    match error.mistakes.as_slice() {
        [only] => failed(only, &format!("{whose} ")),
        mistakes => {
            let all: Vec<_> = mistakes.iter().map(|mistake| failed(mistake, "")).collect();
            Failed::several(&format!("`{}`", path.display()), &all)
        }
    }
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
