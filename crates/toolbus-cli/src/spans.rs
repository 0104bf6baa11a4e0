//! Spans of calls for a collector of OpenTelemetry, where the environment names one.

#[cfg(feature = "otel")]
pub(crate) use sent::{finish, observer};
#[cfg(not(feature = "otel"))]
pub(crate) use unsent::{finish, observer};

/// Says, once and before anything is served, that this build cannot send them although the
/// environment asks for it.
pub(crate) fn say_if_missing() {
    #[cfg(not(feature = "otel"))]
    unsent::say();
}

#[cfg(feature = "otel")]
mod sent {
    use std::rc::Rc;
    use std::sync::{Mutex, PoisonError};

    use toolbus::bus::observe::Observer;
    use toolbus::bus::otel::{Exporter, OtelError, OtelSettings};

    use crate::stdio;

    static EXPORTER: Mutex<Option<Exporter>> = Mutex::new(None);

    /// What makes spans of the calls of a bus, if they are wanted. What is wrong with the
    /// environment is told, and keeps no call from being made.
    pub(crate) fn observer() -> Option<Rc<dyn Observer>> {
        if stdio::is_guest() {
            return None;
        }
        let mut exporter = EXPORTER.lock().unwrap_or_else(PoisonError::into_inner);
        if exporter.is_none() {
            *exporter = started().unwrap_or_else(|error| {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                tracing::warn!("no spans are sent: {error}{hint}");
                None
            });
        }
        exporter.as_ref().map(|exporter| Rc::new(exporter.spans()) as Rc<dyn Observer>)
    }

    fn started() -> Result<Option<Exporter>, OtelError> {
        let settings = OtelSettings::read(|name| std::env::var(name).ok())?;
        settings.map(Exporter::start).transpose()
    }

    /// Sends the last of them, for two seconds at most.
    pub(crate) fn finish() {
        if stdio::is_guest() {
            return;
        }
        let exporter = EXPORTER.lock().unwrap_or_else(PoisonError::into_inner).take();
        exporter.into_iter().for_each(Exporter::finish);
    }
}

#[cfg(not(feature = "otel"))]
mod unsent {
    use std::rc::Rc;

    use toolbus::bus::observe::Observer;

    pub(crate) fn observer() -> Option<Rc<dyn Observer>> {
        None
    }

    pub(crate) fn finish() {}

    pub(super) fn say() {
        let variables = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if let Some(name) = variables.iter().find(|name| is_set(name)) {
            tracing::warn!(
                "no spans are sent, although `{name}` is set: this toolbus was built without \
                 them; build it with `--features otel`"
            );
        }
    }
}
