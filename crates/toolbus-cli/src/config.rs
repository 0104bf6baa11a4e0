//! Reading `toolbus.toml`: the file that `--config` names, or the one that lies here.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toolbus::bus::config::Config;

use crate::failed::Failed;

/// What is read if the user names no file.
pub(crate) const USUAL: &str = "toolbus.toml";

/// A config and where it was read.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) config: Config,
}

/// Reads the config; `None` if the user named none and none lies here.
pub(crate) fn read(asked: Option<&Path>) -> Result<Option<Found>, Failed> {
    let path = asked.map_or_else(|| PathBuf::from(USUAL), Path::to_path_buf);
    let shown = path.display();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if asked.is_none() && error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let failed = Failed::usage(format!("cannot read the config `{shown}`"));
            return Err(failed.caused_by(&error));
        }
    };
    let config = Config::parse(&text, &|name| std::env::var(name).ok())
        .map_err(|error| Failed::usage(format!("`{shown}` {error}")).hint_if_any(error.hint()))?;
    if config.backs.is_empty() {
        return Err(Failed::usage(format!("`{shown}` names no backs"))
            .hint("add one: `[back.try]` and under it `connect = \"builtin:\"`"));
    }
    Ok(Some(Found { path, config }))
}
