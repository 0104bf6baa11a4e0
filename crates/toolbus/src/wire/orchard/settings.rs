//! What can be set about a provider, and by which keys of the config.

use std::time::Duration;

use toolbus_proto::json::Json;
use toolbus_proto::orchard;

use crate::bus::config::{Key, KeyKind, Values};
use crate::peer::settings::Secret;

const OURS: &str = "orchard backs";

pub(super) const BACK_KEYS: &[Key] = &[
    Key::new("config", KeyKind::SecretObject, OURS, "What `configure` gets").default("{}"),
    Key::new("configure_timeout", KeyKind::Duration, OURS, "How long `configure` may take")
        .default("30s"),
    Key::new("frame_bytes_max", KeyKind::HeldSize, OURS, "The largest message").default("16MiB"),
];

/// What only a provider has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrchardSettings {
    /// What `configure` gets.
    pub config: Option<Secret<Json>>,
    /// How long `configure` may take.
    pub configure_timeout: Option<Duration>,
    /// The largest message that it may write.
    pub frame_bytes_max: Option<usize>,
}

impl OrchardSettings {
    pub(super) fn read(values: &Values) -> OrchardSettings {
        OrchardSettings {
            config: values.secret_object("config"),
            configure_timeout: values.duration("configure_timeout"),
            frame_bytes_max: values.number("frame_bytes_max"),
        }
    }

    /// The settings of the wire because of it, for a provider that has `describe` time to
    /// describe itself.
    pub(super) fn wire(&self, name: &str, describe: Duration) -> orchard::Settings {
        let usual = orchard::Settings::new(name);
        orchard::Settings {
            config: self.config.as_ref().map(|config| config.reveal().clone()),
            frame_bytes_max: self.frame_bytes_max.unwrap_or(usual.frame_bytes_max),
            describe_timeout: describe,
            configure_timeout: self.configure_timeout.unwrap_or(usual.configure_timeout),
            ..usual
        }
    }
}
