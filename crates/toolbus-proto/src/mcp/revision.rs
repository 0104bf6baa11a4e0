//! The revisions of the protocol, the two eras they fall into, and the levels of its log.

use std::fmt;

use crate::jsonrpc::string;
use crate::tool::Known;

/// Before and after the handshake went out of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// A handshake, then a session.
    Legacy,
    /// Every request stands for itself.
    Modern,
}

impl Era {
    /// The era of a request of which this is known.
    pub(super) fn of(known: Known) -> Era {
        if known.revision == Revision::MODERN as u8 { Era::Modern } else { Era::Legacy }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        })
    }
}

/// The revisions of the protocol, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    /// The newest that has a handshake.
    pub const LAST_LEGACY: Revision = Revision::V2025_11_25;
    /// The one that has none.
    pub const MODERN: Revision = Revision::V2026_07_28;

    const ALL: [Revision; 5] = [
        Revision::V2024_11_05,
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
        Revision::V2026_07_28,
    ];

    /// The revision that a call knows by this number.
    pub(super) fn numbered(number: u8) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| *revision as u8 == number)
    }

    /// The revision of this name.
    pub fn named(name: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// The revision of this name, if it has a handshake.
    pub fn legacy(name: &str) -> Option<Revision> {
        Revision::named(name).filter(|revision| revision.era() == Era::Legacy)
    }

    /// The one that a request says of itself.
    pub(super) fn known(known: Known) -> Option<Revision> {
        Revision::ALL.get(usize::from(known.revision)).copied()
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// Which era it belongs to.
    pub fn era(self) -> Era {
        if self == Revision::MODERN { Era::Modern } else { Era::Legacy }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How grave a log message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const NAMES: [(&str, Level); 8] = [
        ("debug", Level::Debug),
        ("info", Level::Info),
        ("notice", Level::Notice),
        ("warning", Level::Warning),
        ("error", Level::Error),
        ("critical", Level::Critical),
        ("alert", Level::Alert),
        ("emergency", Level::Emergency),
    ];

    /// The level of this name.
    pub fn named(name: &str) -> Option<Level> {
        Level::NAMES.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
    }

    /// The level of this number, the least grave being 0.
    pub(super) fn numbered(number: u8) -> Option<Level> {
        Level::NAMES.get(usize::from(number)).map(|(_, level)| *level)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        Level::NAMES[self as usize].0
    }

    /// Reads a raw value; the error is for the peer that wrote it, `what` being its name.
    pub(super) fn read(what: &str, raw: Option<&str>) -> Result<Level, String> {
        let name = raw.and_then(string);
        name.as_deref().and_then(Level::named).ok_or_else(|| {
            let names = Level::NAMES.map(|(name, _)| name).join(", ");
            let shown = name.as_deref().or(raw).unwrap_or("(absent)");
            format!("{what} {shown} is none of {names}")
        })
    }
}
