//! What happens on the way, told on standard error: `warning: …`, `info: <peer>: …`.
//!
//! A collector of our own, because the usual one brings a dozen crates for filters, spans and
//! timestamps that a command line does not show. Spans are let through and not told. A peer
//! that gives cause for the same warning again and again fills no screen: it is counted.

mod repeats;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use serde_json::Value;
use toolbus::child::stderr::SHOWN;
use toolbus::engine::WAITING;
use toolbus::secrets::masked;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use self::repeats::{Kind, More, Repeats};
use crate::failed::Report;
use crate::render::spinner::{self, Spinner};
use crate::render::style::Paint;
use crate::render::{grouped, printable};
use crate::{stderr, stdio};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The log of this process, where one was started.
static STARTED: OnceLock<Started> = OnceLock::new();

thread_local! {
    /// The log of a run inside another program, where one was started.
    static GUEST: RefCell<Option<(Started, DefaultGuard)>> = const { RefCell::new(None) };
}

struct Started {
    max: LevelFilter,
    form: Form,
    /// What was counted and not told yet.
    counts: Counts<fn(&str)>,
}

/// The target of events that people always see unless they want errors only: that something was
/// done which they asked for.
pub(crate) const DONE: &str = "toolbus::done";

/// A line of our own as the log would tell it.
pub(crate) fn line(level: Level, message: &str) -> String {
    let form = Form { format: LogFormat::Text, paint: Paint { on: false } };
    let told = Told { message: message.to_owned(), ..Told::default() };
    told.line(level, self::form().unwrap_or(form))
}

/// A line that scripts wait for, nothing before it on the line; among lines of JSON it is one, too.
pub(crate) fn announcement(text: &str) -> String {
    match is_json() {
        true => line(Level::INFO, text),
        false => format!("{text}\n"),
    }
}

/// Is every line one of JSON?
pub(crate) fn is_json() -> bool {
    form().is_some_and(|form| form.format == LogFormat::Json)
}

/// Are errors all that is told?
pub(crate) fn is_quiet() -> bool {
    let is_quiet = |started: &Started| started.max < LevelFilter::WARN;
    match stdio::is_guest() {
        true => {
            GUEST.with_borrow(|guest| guest.as_ref().is_some_and(|(started, _)| is_quiet(started)))
        }
        false => STARTED.get().is_some_and(is_quiet),
    }
}

/// How lines look, where a log was started.
fn form() -> Option<Form> {
    match stdio::is_guest() {
        true => GUEST.with_borrow(|guest| guest.as_ref().map(|(started, _)| started.form)),
        false => STARTED.get().map(|started| started.form),
    }
}

/// Lines of ours as they are to be written: among lines of JSON each of them is one, too.
pub(crate) fn formed(text: &str) -> Cow<'_, str> {
    match is_json() && !text.starts_with(JSON_BEGINS) {
        true => Cow::Owned(json_lines(text)),
        false => Cow::Borrowed(text),
    }
}

/// How each line of JSON begins.
const JSON_BEGINS: &str = r#"{"time_ms":"#;

fn json_lines(text: &str) -> String {
    let levels = [
        ("error: ", Level::ERROR),
        ("warning: ", Level::WARN),
        ("info: ", Level::INFO),
        ("debug: ", Level::DEBUG),
    ];
    let line = |line: &str| {
        let said =
            levels.iter().find_map(|(label, level)| Some((line.strip_prefix(label)?, *level)));
        let (message, level) = said.unwrap_or((line, Level::INFO));
        let told = Told { message: message.to_owned(), ..Told::default() };
        told.json(level, SystemTime::now())
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

/// How a command failed, among lines of JSON.
pub(crate) fn report(report: &Report) -> String {
    let text = |text: &str| Value::from(masked(text).as_ref());
    let texts = |texts: &[String]| Value::from_iter(texts.iter().map(|line| text(line)));
    let mut told = Told { message: masked(&report.message).into_owned(), ..Told::default() };
    for (name, lines) in [("causes", &report.causes), ("lines", &report.lines)] {
        if !lines.is_empty() {
            told.fields.push((name, texts(lines)));
        }
    }
    told.fields.extend(report.hint.as_ref().map(|hint| ("hint", text(hint))));
    told.json(Level::ERROR, SystemTime::now())
}

/// Tells everything up to `max` from now on, for the rest of the process; inside another program
/// what happens on this thread, until it is finished.
pub(crate) fn start(max: LevelFilter, format: LogFormat, paint: Paint) {
    let form = Form { format, paint };
    let counts = Counts::new(form, stderr::write as fn(&str));
    let started = Started { max, form, counts: counts.clone() };
    let spins = format == LogFormat::Text && LevelFilter::WARN <= max && Spinner::can_turn();
    let log = Log { max, spins, form, counts };
    if stdio::is_guest() {
        let until_finished = tracing::subscriber::set_default(log);
        return GUEST.set(Some((started, until_finished)));
    }
    let _ = STARTED.set(started);
    if format == LogFormat::Json {
        std::panic::set_hook(Box::new(|panic| {
            stderr::write(&line(Level::ERROR, &panic.to_string()));
        }));
    }
    // Fails only if a log was started before, and then that one goes on.
    let _ = tracing::subscriber::set_global_default(log);
}

/// How soon people are told what is waited for, where a test says so in milliseconds: pages are
/// not to depend on how fast a machine is.
pub(crate) fn tell_waits_as_tests_want() {
    let wanted = std::env::var("TOOLBUS_TEST_WAITS_TOLD_AFTER").ok();
    if let Some(time) = wanted.and_then(|time| time.parse().ok()) {
        toolbus::child::tell_waits_after(Duration::from_millis(time));
    }
}

/// Tells what was counted: nothing follows.
pub(crate) fn finish() {
    if let Some((started, _until_finished)) = GUEST.take() {
        started.counts.finish(Instant::now());
    } else if let Some(started) = STARTED.get() {
        started.counts.finish(Instant::now());
    }
}

struct Log<W> {
    max: LevelFilter,
    /// What is waited for is said by a spinner.
    spins: bool,
    form: Form,
    counts: Counts<W>,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug)]
struct Form {
    format: LogFormat,
    paint: Paint,
}

/// Where lines go, and which are held back because they say the same as one before.
#[derive(Clone)]
struct Counts<W> {
    repeats: Arc<Mutex<Repeats>>,
    /// Told when all that was counted is told.
    finished: Arc<Condvar>,
    form: Form,
    /// Takes one whole line at a time, so that lines of two threads do not mix.
    write: W,
}

impl<W: Fn(&str) + Clone + Send + 'static> Counts<W> {
    fn new(form: Form, write: W) -> Counts<W> {
        Counts { repeats: Arc::default(), finished: Arc::default(), form, write }
    }

    /// Is this warning to be told? If not, it is counted, and the count is told in a while.
    fn is_news(&self, now: Instant, kind: Kind, message: &str) -> bool {
        let mut repeats = self.lock();
        let was_counting = repeats.next_due().is_some();
        let due = repeats.due(now);
        let is_news = repeats.is_news(now, kind, message);
        let is_counting = repeats.next_due().is_some();
        drop(repeats);
        self.tell(due);
        // A run inside another program writes on its own thread alone.
        if is_counting && !was_counting && !stdio::is_guest() {
            let counts = self.clone();
            // Without it the count is told with the next warning, or at the end.
            let _ = thread::Builder::new().name("log".to_owned()).spawn(move || counts.keep_time());
        }
        is_news
    }

    /// Tells what was counted when it is time, until there is nothing left to tell.
    fn keep_time(&self) {
        loop {
            let mut repeats = self.lock();
            let Some(next) = repeats.next_due() else { return };
            let now = Instant::now();
            let due = repeats.due(now);
            if due.is_empty() {
                let left = next.saturating_duration_since(now);
                // Whether it was woken or not, it looks again.
                let _ = self.finished.wait_timeout(repeats, left);
                continue;
            }
            drop(repeats);
            self.tell(due);
        }
    }

    fn finish(&self, now: Instant) {
        let counted = self.lock().all(now);
        self.finished.notify_all();
        self.tell(counted);
    }

    fn tell(&self, counted: Vec<More>) {
        for More { peer, message, count, within } in counted {
            let told = match self.form.format {
                LogFormat::Text => {
                    let message =
                        format!("{message} … {} more in {}", grouped(count), seconds(within));
                    Told { message, peer, fields: Vec::new() }
                }
                LogFormat::Json => Told { message, peer, fields: vec![("more", count.into())] },
            };
            (self.write)(&told.line(Level::WARN, self.form));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Repeats> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64().ceil().max(1.0))
}

impl<W: Fn(&str) + Clone + Send + 'static> Subscriber for Log<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Of the libraries underneath only complaints are of interest.
        let ours = metadata.target().starts_with("toolbus");
        let wanted = *metadata.level() <= self.max && (ours || *metadata.level() <= Level::WARN);
        wanted || (self.spins && metadata.target() == WAITING)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if self.spins { self.max.max(LevelFilter::INFO) } else { self.max })
    }

    fn event(&self, event: &Event<'_>) {
        let mut told = Told::default();
        event.record(&mut told);
        told.mask();
        if event.metadata().target() == SHOWN {
            return (self.counts.write)(&told.shown(self.form));
        }
        if event.metadata().target() == DONE {
            return (self.counts.write)(&told.line(Level::INFO, self.form));
        }
        let level = *event.metadata().level();
        if event.metadata().target() == WAITING {
            // The sentence names the peer.
            let peer = told.peer.take().unwrap_or_default();
            let is_over = told.fields.iter().any(|(name, _)| *name == "is_over");
            spinner::awaits(&peer, (!is_over).then_some(&told.message));
            if is_over || self.max < level {
                return;
            }
        }
        if level == Level::WARN {
            let callsite = event.metadata().callsite();
            let kind = Kind { callsite, peer: told.peer.clone() };
            if !self.counts.is_news(Instant::now(), kind, &told.message) {
                return;
            }
        }
        (self.counts.write)(&told.line(level, self.form));
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
    fn line(&self, level: Level, form: Form) -> String {
        match form.format {
            LogFormat::Text => self.text(level, form.paint),
            LogFormat::Json => self.json(level, SystemTime::now()),
        }
    }

    /// What a peer wrote to its standard error and people always see, behind its name.
    fn shown(&self, form: Form) -> String {
        let peer = self.peer.as_deref().unwrap_or_default();
        match form.format {
            LogFormat::Text => {
                let text = printable(&self.message).replace('\n', "\\n");
                format!("[{}] {text}\n", printable(peer))
            }
            LogFormat::Json => self.json(Level::INFO, SystemTime::now()),
        }
    }

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

    /// Takes the secrets out, before anything is told or counted.
    fn mask(&mut self) {
        let mask = |text: &mut String| {
            if let Cow::Owned(masked) = masked(text) {
                *text = masked;
            }
        };
        mask(&mut self.message);
        self.peer.iter_mut().for_each(mask);
        for (_, value) in &mut self.fields {
            if let Value::String(text) = value {
                mask(text);
            }
        }
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
        let write = move |line: &str| sink.lock().expect("no thread panicked").push_str(line);
        let form = Form { format: LogFormat::Text, paint: Paint { on: false } };
        let counts = Counts::new(form, write);
        let log = Log { max, spins: false, form, counts: counts.clone() };
        tracing::subscriber::with_default(log, happens);
        counts.finish(Instant::now());
        expect.assert_eq(&lines.lock().expect("no thread panicked"));
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
    fn the_same_warning_of_a_peer_is_counted() {
        let happens = || {
            for peer in ["yes", "no"] {
                (0..1235).for_each(|_| warn!(peer, "line that answers nothing: {}", "x"));
            }
            (0..25).for_each(|id| warn!(peer = "yes", "no such id: {id}"));
        };
        check(
            LevelFilter::WARN,
            happens,
            expect![[r#"
                warning: yes: line that answers nothing: x
                warning: no: line that answers nothing: x
                warning: yes: no such id: 0
                warning: yes: no such id: 1
                warning: yes: no such id: 2
                warning: yes: no such id: 3
                warning: yes: no such id: 4
                warning: yes: no such id: 5
                warning: yes: no such id: 6
                warning: yes: no such id: 7
                warning: yes: no such id: 8
                warning: yes: no such id: 9
                warning: yes: no such id: 10
                warning: yes: no such id: 11
                warning: yes: no such id: 12
                warning: yes: no such id: 13
                warning: yes: no such id: 14
                warning: yes: no such id: 15
                warning: yes: no such id: 16
                warning: yes: no such id: 17
                warning: yes: no such id: 18
                warning: yes: no such id: 19
                warning: yes: line that answers nothing: x … 1,234 more in 1 s
                warning: no: line that answers nothing: x … 1,234 more in 1 s
                warning: yes: no such id: 0 … 5 more in 1 s
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
    fn what_peers_show_stands_behind_their_names() {
        let happens = || {
            (0..3).for_each(|_| warn!(target: SHOWN, peer = "e", "two\nlines\x1b"));
            info!(peer = "e", "only for those who want details");
        };
        check(
            LevelFilter::WARN,
            happens,
            expect![[r#"
                [e] two\nlines\x1b
                [e] two\nlines\x1b
                [e] two\nlines\x1b
            "#]],
        );
        check(LevelFilter::ERROR, happens, expect![""]);
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
    fn lines_of_others_become_json() {
        let lines = json_lines("warning: no room\n\n  | a \"b\"\nerror: alas\n");
        let without_time = |line: &str| line.split_once(',').map(|(_, rest)| rest.to_owned());
        let lines: Vec<_> = lines.lines().filter_map(without_time).collect();
        assert_eq!(
            lines,
            [
                r#""level":"warning","message":"no room"}"#,
                r#""level":"info","message":"  | a \"b\""}"#,
                r#""level":"error","message":"alas"}"#,
            ]
        );
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
