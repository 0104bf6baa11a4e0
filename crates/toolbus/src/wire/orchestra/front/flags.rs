//! The flags by which a hub starts its plugins. They stand behind whatever else a program takes.

use std::path::Path;
use std::time::Duration;

use thiserror::Error;

use super::plugin::PluginOptions;
use crate::wire::orchestra::HostPort;
use crate::wire::orchestra::certificates::{FOLDER_DEFAULT, Folder};

/// Where a plugin listens unless it is told.
const LISTEN_DEFAULT: &str = "localhost:0";

/// How a hub wants its plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFlags {
    /// With whom to register, as it is written; nobody if that is nothing.
    pub orchestrator_addr: Option<HostPort>,
    /// Where to listen.
    pub listen_addr: HostPort,
    /// Where the certificates are.
    pub certs: Folder,
    /// Print the manifest and end.
    pub manifest: bool,
}

/// What is wrong with a flag.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{flag}`: {why}")]
pub struct FlagError {
    /// Which.
    pub flag: &'static str,
    /// What is wrong.
    pub why: String,
}

const ORCHESTRATOR_ADDR: &str = "--orchestrator-addr";
const LISTEN_ADDR: &str = "--listen-addr";
const CERTS_DIR: &str = "--certs-dir";
const MANIFEST: &str = "--manifest";

impl PluginFlags {
    /// The flags among these words; `None` if no hub can have started us by them. Other words
    /// are left alone.
    pub fn of(words: &[String]) -> Option<Result<PluginFlags, FlagError>> {
        let (hub, listen, certs) =
            (value(words, ORCHESTRATOR_ADDR), value(words, LISTEN_ADDR), value(words, CERTS_DIR));
        let manifest = words.iter().any(|word| word == MANIFEST);
        if hub.is_none() && listen.is_none() && certs.is_none() && !manifest {
            return None;
        }
        Some(PluginFlags::read(hub, listen, certs, manifest))
    }

    /// A plugin of this id, as the flags want it.
    pub fn options(self, id: &str, timeout: Duration) -> PluginOptions {
        PluginOptions {
            called: None,
            id: id.to_owned(),
            listen_addr: self.listen_addr,
            orchestrator_addr: self.orchestrator_addr,
            certs: self.certs,
            allow_anonymous: false,
            timeout,
        }
    }

    /// What these values mean.
    pub fn read(
        hub: Option<&str>,
        listen: Option<&str>,
        certs: Option<&str>,
        manifest: bool,
    ) -> Result<PluginFlags, FlagError> {
        let place = |flag, text: &str| {
            text.parse::<HostPort>()
                .map_err(|error| FlagError { flag, why: format!("{error}, not `{text}`") })
        };
        let hub = hub.filter(|hub| !hub.is_empty());
        Ok(PluginFlags {
            orchestrator_addr: hub.map(|hub| place(ORCHESTRATOR_ADDR, hub)).transpose()?,
            listen_addr: place(LISTEN_ADDR, listen.unwrap_or(LISTEN_DEFAULT))?,
            certs: Folder::at(Path::new(certs.unwrap_or(FOLDER_DEFAULT))),
            manifest,
        })
    }
}

/// The value of a flag: behind `=`, or the next word. The last one counts.
fn value<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let mut found = None;
    for (at, word) in words.iter().enumerate() {
        if let Some(rest) = word.strip_prefix(flag) {
            match rest.strip_prefix('=') {
                Some(value) => found = Some(value),
                None if rest.is_empty() => found = words.get(at + 1).map(String::as_str),
                None => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> Option<Result<PluginFlags, FlagError>> {
        PluginFlags::of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_hub_starts_its_plugins_by_three_flags() {
        let read = flags(&[
            "--verbose",
            "--orchestrator-addr=127.0.0.1:50100",
            "--listen-addr",
            "localhost:0",
            "--certs-dir=/certs",
        ]);
        let read = read.unwrap().unwrap();
        assert_eq!(read.orchestrator_addr, Some(HostPort::new("127.0.0.1", 50100)));
        assert_eq!(read.listen_addr, HostPort::new("localhost", 0));
        assert_eq!(read.certs.path(), Path::new("/certs"));
        assert!(!read.manifest);
    }

    #[test]
    fn nobody_else_is_taken_for_a_hub() {
        assert_eq!(flags(&["--mcp"]), None);
        assert_eq!(flags(&[]), None);
        let alone = flags(&["--orchestrator-addr="]).unwrap().unwrap();
        assert_eq!(alone.orchestrator_addr, None);
        let wrong = flags(&["--orchestrator-addr=nowhere"]).unwrap().unwrap_err();
        assert_eq!(wrong.to_string(), "`--orchestrator-addr`: expected `HOST:PORT`, not `nowhere`");
    }
}
