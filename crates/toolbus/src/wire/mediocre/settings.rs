//! What can be set about a mediocre wire, on either side of the bus, and by which keys of the
//! config.

use std::time::Duration;

use toolbus_proto::mediocre::{Reading, ServerSettings, decode};

use crate::bus::config::{Key, KeyKind, Values};
use crate::peer::access::{self, AccessSettings};
use crate::peer::credentials;

const OURS: &str = "the mediocre wire";

const BLOB_LEN: Key = Key::new(
    "blob_len",
    KeyKind::Choice { words: &["exact", "hint"], expected: "\"exact\" or \"hint\"" },
    OURS,
    "What ends a blob of announced length: its length, or its frame",
)
.default("exact");
const STRICT: Key =
    Key::new("strict", KeyKind::Bool, OURS, "Refuse what is only tolerated").default("false");
const OBJECT_BYTES_MAX: Key =
    Key::new("object_bytes_max", KeyKind::HeldSize, OURS, "The largest object").default("16MiB");
const DEPTH_MAX: Key =
    Key::new("depth_max", KeyKind::Count, OURS, "The deepest object").default("128");

pub(super) const BACK_KEYS: &[Key] = &[
    Key::new(
        "methods",
        KeyKind::Texts,
        "mediocre backs",
        "Its tools; else what its method `toolbus.tools` says",
    ),
    BLOB_LEN,
    STRICT,
    OBJECT_BYTES_MAX,
    DEPTH_MAX,
    credentials::HEADERS,
    credentials::TOKEN,
    credentials::TOKEN_ENV,
    credentials::INSECURE,
];

pub(super) const FRONT_KEYS: &[Key] = &[
    BLOB_LEN,
    STRICT,
    OBJECT_BYTES_MAX,
    DEPTH_MAX,
    Key::new(
        "drain_bytes_max",
        KeyKind::Size,
        OURS,
        "Read at most this much of a stream that is answered already",
    )
    .default("1MiB"),
    Key::new(
        "drain_timeout",
        KeyKind::Duration,
        OURS,
        "Read on for at most this long in a stream that is answered already",
    )
    .default("2s"),
    Key::new(
        "idle_timeout",
        KeyKind::Duration,
        OURS,
        "Close a connection that is idle for this long",
    )
    .default("5m"),
    Key::new(
        "call_timeout",
        KeyKind::Duration,
        OURS,
        "Give up on a call in which no byte moves for this long",
    )
    .default("60s"),
    access::TOKEN,
    access::TOKEN_ENV,
    access::INSECURE,
    access::ORIGINS,
    access::HOSTS,
    #[cfg(feature = "oauth")]
    crate::oauth::tokens::KEY,
];

/// What only a mediocre wire has, on either side of the bus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MediocreSettings {
    /// The tools; else what `toolbus.tools` says.
    pub methods: Option<Vec<String>>,
    /// Is the length of a blob more than a hint?
    pub blob_len: BlobLen,
    /// Refuse what is only tolerated.
    pub strict: bool,
    /// The largest object.
    pub object_bytes_max: Option<usize>,
    /// The deepest object.
    pub depth_max: Option<usize>,
}

impl MediocreSettings {
    pub(super) fn read(values: &Values) -> MediocreSettings {
        MediocreSettings {
            methods: values.texts("methods"),
            blob_len: match values.text("blob_len").as_deref() {
                Some("hint") => BlobLen::Hint,
                _ => BlobLen::Exact,
            },
            strict: values.bool("strict").unwrap_or_default(),
            object_bytes_max: values.number("object_bytes_max"),
            depth_max: values.number("depth_max"),
        }
    }

    /// How a peer's bytes are read because of it.
    pub fn reading(&self) -> Reading {
        let usual = Reading::default();
        Reading {
            blob_len: match self.blob_len {
                BlobLen::Exact => decode::BlobLen::Exact,
                BlobLen::Hint => decode::BlobLen::Hint,
            },
            is_strict: self.strict,
            object_bytes_max: self.object_bytes_max.unwrap_or(usual.object_bytes_max),
            depth_max: self.depth_max.unwrap_or(usual.depth_max),
        }
    }
}

/// How the length of a blob is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BlobLen {
    #[default]
    Exact,
    Hint,
}

/// How long and how much the clients of a mediocre front are waited for, and how their bytes
/// are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MediocreFrontSettings {
    /// How their bytes are read.
    pub reading: MediocreSettings,
    /// What is read of a stream that its caller wants no more.
    pub drain_bytes_max: Option<usize>,
    /// How long that may take.
    pub drain_timeout: Option<Duration>,
    /// How long a connection may be without a call.
    pub idle_timeout: Option<Duration>,
    /// How long a call may be quiet.
    pub call_timeout: Option<Duration>,
    /// Who may come in.
    pub access: AccessSettings,
}

impl MediocreFrontSettings {
    pub(super) fn read(values: &Values) -> MediocreFrontSettings {
        MediocreFrontSettings {
            reading: MediocreSettings::read(values),
            drain_bytes_max: values.number("drain_bytes_max"),
            drain_timeout: values.duration("drain_timeout"),
            idle_timeout: values.duration("idle_timeout"),
            call_timeout: values.duration("call_timeout"),
            access: AccessSettings::read(values),
        }
    }

    pub(super) fn server(&self) -> ServerSettings {
        let usual = ServerSettings::default();
        ServerSettings {
            reading: self.reading.reading(),
            drain_bytes_max: self
                .drain_bytes_max
                .map_or(usual.drain_bytes_max, |bytes| bytes as u64),
            drain_timeout: self.drain_timeout.unwrap_or(usual.drain_timeout),
            idle_timeout: self.idle_timeout.unwrap_or(usual.idle_timeout),
            call_timeout: self.call_timeout.unwrap_or(usual.call_timeout),
            ..usual
        }
    }
}
