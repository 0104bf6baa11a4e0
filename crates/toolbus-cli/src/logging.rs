//! What happens on the way, told on standard error: `warning: …`, `info: <peer>: …`.
//!
//! A collector of our own, because the usual one brings a dozen crates for filters, spans and
//! timestamps that a command line does not show. Spans are let through and not told.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::render::printable;
use crate::render::style::Paint;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Tells everything up to `max` from now on, for the rest of the process.
pub(crate) fn start(max: LevelFilter, format: LogFormat, paint: Paint) {
    let write = |line: &str| {
        // A log that cannot be written has nowhere to complain.
        let _ = io::stderr().write_all(line.as_bytes());
    };
    // Fails only if a log was started before, and then that one goes on.
    let _ = tracing::subscriber::set_global_default(Log { max, format, paint, write });
}

struct Log<W> {
    max: LevelFilter,
    format: LogFormat,
    paint: Paint,
    /// Takes one whole line at a time, so that lines of two threads do not mix.
    write: W,
}

impl<W: Fn(&str) + 'static> Subscriber for Log<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Of the libraries underneath only complaints are of interest.
        let ours = metadata.target().starts_with("toolbus");
        *metadata.level() <= self.max && (ours || *metadata.level() <= Level::WARN)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.max)
    }

    fn event(&self, event: &Event<'_>) {
        let mut told = Told::default();
        event.record(&mut told);
        let level = *event.metadata().level();
        let line = match self.format {
            LogFormat::Text => told.text(level, self.paint),
            LogFormat::Json => told.json(level, SystemTime::now()),
        };
        (self.write)(&line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What an event says: its message, whom it is about, and the rest.
#[derive(Default)]
struct Told {
    message: String,
    peer: Option<String>,
    fields: Vec<(&'static str, Value)>,
}

impl Told {
    fn text(&self, level: Level, paint: Paint) -> String {
        let label = format!("{}:", level_name(level));
        let mut line = match level {
            Level::ERROR => paint.error(&label),
            Level::WARN => paint.warning(&label),
            _ => paint.dim(&label),
        };
        if let Some(peer) = &self.peer {
            let _ = write!(line, " {}:", printable(peer));
        }
        // One event is one line, so a newline is spelled out too.
        let _ = write!(line, " {}", printable(&self.message).replace('\n', "\\n"));
        for (name, value) in &self.fields {
            let _ = write!(line, " {name}={value}");
        }
        line.push('\n');
        line
    }

    fn json(&self, level: Level, now: SystemTime) -> String {
        let time_ms = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let level = level_name(level);
        let message = Value::from(self.message.as_str());
        let mut line = format!(r#"{{"time_ms":{time_ms},"level":"{level}","message":{message}"#);
        if let Some(peer) = &self.peer {
            let _ = write!(line, r#","peer":{}"#, Value::from(peer.as_str()));
        }
        for (name, value) in &self.fields {
            let _ = write!(line, r#","{name}":{value}"#);
        }
        line.push_str("}\n");
        line
    }

    fn record(&mut self, field: &Field, value: Value) {
        let as_text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        match field.name() {
            "message" => self.message = as_text(value),
            "peer" => self.peer = Some(as_text(value)),
            name => self.fields.push((name, value)),
        }
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record(field, format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record(field, value.into());
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use expect_test::{Expect, expect};
    use tracing::{debug, error, info, warn};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check(max: LevelFilter, happens: impl FnOnce(), expect: Expect) {
        let lines = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&lines);
        let write = move |line: &str| sink.lock().expect("nobody panicked").push_str(line);
        let paint = Paint { on: false };
        let log = Log { max, format: LogFormat::Text, paint, write };
        tracing::subscriber::with_default(log, happens);
        expect.assert_eq(&lines.lock().expect("nobody panicked"));
    }

    fn happens() {
        error!("bus: everything is lost");
        warn!(peer = "sqrt", line = "hm\x1b", skipped = 3, "stray line");
        info!(peer = "sqrt", "{}", "two\nlines");
        debug!(answer = true, ratio = 0.5, why = ?Some("x"), "details");
        warn!(target: "hyper::client", "a library complains");
        info!(target: "hyper::client", "a library chats");
    }

    #[test]
    fn warnings_and_errors_by_default() {
        check(
            LevelFilter::WARN,
            happens,
            expect![[r#"
                error: bus: everything is lost
                warning: sqrt: stray line line="hm\u001b" skipped=3
                warning: a library complains
            "#]],
        );
    }

    #[test]
    fn everything_of_ours_when_asked() {
        check(
            LevelFilter::DEBUG,
            happens,
            expect![[r#"
                error: bus: everything is lost
                warning: sqrt: stray line line="hm\u001b" skipped=3
                info: sqrt: two\nlines
                debug: details answer=true ratio=0.5 why="Some(\"x\")"
                warning: a library complains
            "#]],
        );
    }

    #[test]
    fn json_is_one_object_a_line() {
        let told = Told {
            message: "stray line".to_owned(),
            peer: Some("sqrt".to_owned()),
            fields: vec![("line", "a\"b\n".into()), ("skipped", 3.into())],
        };
        let now = UNIX_EPOCH + Duration::from_millis(1500);
        expect![[r#"
            {"time_ms":1500,"level":"warning","message":"stray line","peer":"sqrt","line":"a\"b\n","skipped":3}
        "#]]
        .assert_eq(&told.json(Level::WARN, now));
    }

    #[test]
    fn spans_are_let_through() {
        let inside = || tracing::info_span!("call", id = 7).in_scope(|| warn!("inside"));
        check(
            LevelFilter::INFO,
            inside,
            expect![[r#"
                warning: inside
            "#]],
        );
    }
}
