//! What can be set about an oracle, and by which keys of the config.

use toolbus_proto::oracle::felt::Leniency;

use crate::bus::config::{Key, KeyKind, Values};

const OURS: &str = "oracle backs";

pub(super) const BACK_KEYS: &[Key] = &[
    Key::new(
        "functions",
        KeyKind::Texts,
        OURS,
        "Signatures of its functions; they win over those it offers",
    )
    .default("[]"),
    Key::new(
        "lenient_felts",
        KeyKind::Bool,
        OURS,
        "Reduce felts beyond the prime instead of refusing them",
    )
    .default("false"),
    Key::new("line_max", KeyKind::HeldSize, OURS, "Skip lines longer than this").default("64MiB"),
];

/// What only an oracle has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OracleSettings {
    /// Signatures of its functions; they win over those it offers.
    pub functions: Vec<String>,
    /// Reduce felts beyond the prime instead of refusing them.
    pub lenient_felts: bool,
    /// Skip lines longer than this.
    pub line_bytes_max: Option<usize>,
}

impl OracleSettings {
    pub(super) fn read(values: &Values) -> OracleSettings {
        OracleSettings {
            functions: values.texts("functions").unwrap_or_default(),
            lenient_felts: values.bool("lenient_felts").unwrap_or_default(),
            line_bytes_max: values.number("line_max"),
        }
    }

    /// The limits and leniency of the wire because of it.
    pub(super) fn wire(&self) -> toolbus_proto::oracle::Settings {
        let usual = toolbus_proto::oracle::Settings::default();
        toolbus_proto::oracle::Settings {
            line_bytes_max: self.line_bytes_max.unwrap_or(usual.line_bytes_max),
            leniency: match self.lenient_felts {
                true => Leniency::Lenient,
                false => Leniency::Strict,
            },
        }
    }
}
