//! What happens on the way, told on standard error: `warning: …`, `info: <peer>: …`.
//!
//! A collector of our own, because the usual one brings a dozen crates for filters, spans and
//! timestamps that a command line does not show. Spans are let through and not told. A peer
//! that gives cause for the same line again and again, or says more than can be read, fills no
//! screen and no disk: it is counted.

mod rates;
mod repeats;
mod undecided;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use serde_json::Value;
use toolbus_engine::WAITING;
use toolbus_engine::child::stderr::SHOWN;
use toolbus_engine::secrets::masked;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use self::rates::{LeftOut, Rates};
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
    let counts = Counts::new(form, stderr::write as fn(&str), Instant::now);
    let started = Started { max, form, counts: counts.clone() };
    let spins = format == LogFormat::Text && LevelFilter::WARN <= max && Spinner::can_turn();
    let log = Log { max, spins, form, counts };
    if stdio::is_guest() {
        undecided::ask_each_log();
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
        toolbus_engine::child::tell_waits_after(Duration::from_millis(time));
    }
}

/// Tells what was counted: nothing follows.
pub(crate) fn finish() {
    if let Some((started, _until_finished)) = GUEST.take() {
        started.counts.finish();
    } else if let Some(started) = STARTED.get() {
        started.counts.finish();
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

/// How a line is told: as the log does, or behind the name of the peer that said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Log(Level),
    Shown,
}

/// Which lines are held back: those that say the same as one before, and those that are too many.
#[derive(Default)]
struct Held {
    repeats: Repeats,
    rates: Rates,
}

/// What was held back, to be told by its count.
#[derive(Default)]
struct Due {
    repeated: Vec<More>,
    left_out: Vec<LeftOut>,
}

impl Held {
    fn due(&mut self, now: Instant) -> Due {
        Due { repeated: self.repeats.due(now), left_out: self.rates.due(now) }
    }

    fn all(&mut self, now: Instant) -> Due {
        Due { repeated: self.repeats.all(now), left_out: self.rates.all(now) }
    }

    fn next_due(&self) -> Option<Instant> {
        let both = [self.repeats.next_due(), self.rates.next_due()];
        both.into_iter().flatten().min()
    }

    /// Is this line to be told? If not, it is counted.
    fn lets_pass(&mut self, now: Instant, line: &Line<'_>) -> bool {
        let Line { callsite, peer, look, message } = line;
        let repeats = match look {
            Look::Log(level) => {
                let kind = Kind::of(callsite.clone(), *peer, *level, message);
                if self.repeats.is_repeat(&kind, message) {
                    return false;
                }
                Some((kind, *level))
            }
            // Each is the peer's own, and people wait for it.
            Look::Shown => None,
        };
        let has_room = self.rates.has_room(now, *peer, *look, message.len());
        if let Some((kind, level)) = repeats.filter(|_| has_room) {
            self.repeats.tell(now, kind, level, message);
        }
        has_room
    }
}

/// What is to be told.
struct Line<'a> {
    callsite: tracing::callsite::Identifier,
    peer: Option<&'a str>,
    look: Look,
    message: &'a str,
}

/// Where lines go, and which are held back.
#[derive(Clone)]
struct Counts<W> {
    held: Arc<Mutex<Held>>,
    /// Told when all that was counted is told.
    finished: Arc<Condvar>,
    form: Form,
    /// Takes one whole line at a time, so that lines of two threads do not mix.
    write: W,
    clock: fn() -> Instant,
}

impl<W: Fn(&str) + Clone + Send + 'static> Counts<W> {
    fn new(form: Form, write: W, clock: fn() -> Instant) -> Counts<W> {
        Counts { held: Arc::default(), finished: Arc::default(), form, write, clock }
    }

    /// Is this line to be told? If not, it is counted, and the count is told in a while.
    fn lets_pass(&self, line: &Line<'_>) -> bool {
        let now = (self.clock)();
        let mut held = self.lock();
        let before = held.next_due();
        let due = held.due(now);
        let lets_pass = held.lets_pass(now, line);
        let next = held.next_due();
        drop(held);
        self.tell(due);
        match (before, next) {
            // A run inside another program writes on its own thread alone.
            (None, Some(_)) if !stdio::is_guest() => {
                let counts = self.clone();
                let keeper = thread::Builder::new().name("log".to_owned());
                // Without it the count is told with the next line, or at the end.
                let _ = keeper.spawn(move || counts.keep_time());
            }
            (Some(before), Some(next)) if next < before => self.finished.notify_all(),
            _ => {}
        }
        lets_pass
    }

    /// Tells what was counted when it is time, until there is nothing left to tell.
    fn keep_time(&self) {
        loop {
            let mut held = self.lock();
            let Some(next) = held.next_due() else { return };
            let now = (self.clock)();
            if now < next {
                // Whether it was woken or not, it looks again.
                let _ = self.finished.wait_timeout(held, next - now);
                continue;
            }
            let due = held.due(now);
            drop(held);
            self.tell(due);
        }
    }

    fn finish(&self) {
        let counted = self.lock().all((self.clock)());
        self.finished.notify_all();
        self.tell(counted);
    }

    fn tell(&self, due: Due) {
        for LeftOut { peer, look, count, within } in due.left_out {
            let told = match self.form.format {
                LogFormat::Text => {
                    let (count, within) = (grouped(count), seconds(within));
                    let message = format!("… {count} more lines in {within}");
                    Told { message, peer, fields: Vec::new() }
                }
                LogFormat::Json => Told {
                    message: "more lines are left out".to_owned(),
                    peer,
                    fields: vec![("more", count.into())],
                },
            };
            (self.write)(&told.look(look, self.form));
        }
        for More { peer, level, message, count, within } in due.repeated {
            let told = match self.form.format {
                LogFormat::Text => {
                    let message =
                        format!("{message} … {} more in {}", grouped(count), seconds(within));
                    Told { message, peer, fields: Vec::new() }
                }
                LogFormat::Json => Told { message, peer, fields: vec![("more", count.into())] },
            };
            (self.write)(&told.line(level, self.form));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
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
        let metadata = event.metadata();
        if metadata.target() == WAITING {
            // The sentence names the peer.
            let peer = told.peer.take().unwrap_or_default();
            let is_over = told.fields.iter().any(|(name, _)| *name == "is_over");
            spinner::awaits(&peer, (!is_over).then_some(&told.message));
            if is_over || self.max < *metadata.level() {
                return;
            }
        }
        let (look, is_ours) = match (metadata.target(), *metadata.level()) {
            (SHOWN, _) => (Look::Shown, false),
            (DONE, _) => (Look::Log(Level::INFO), true),
            // What is lost is said, however often.
            (_, level) => (Look::Log(level), level == Level::ERROR),
        };
        let (peer, message) = (told.peer.as_deref(), &*told.message);
        let line = Line { callsite: metadata.callsite(), peer, look, message };
        if is_ours || self.counts.lets_pass(&line) {
            (self.counts.write)(&told.look(look, self.form));
        }
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
    fn look(&self, look: Look, form: Form) -> String {
        match look {
            Look::Log(level) => self.line(level, form),
            Look::Shown => self.shown(form),
        }
    }

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
    use std::sync::{Arc, LazyLock, Mutex};
    use std::time::Duration;

    use expect_test::{Expect, expect};
    use tracing::{debug, error, info, warn};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check(max: LevelFilter, happens: impl FnOnce(), expect: Expect) {
        expect.assert_eq(&lines(max, happens));
    }

    /// All that is told.
    fn lines(max: LevelFilter, happens: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&lines);
        let write = move |line: &str| sink.lock().expect("no thread panicked").push_str(line);
        let form = Form { format: LogFormat::Text, paint: Paint { on: false } };
        // All of it in one moment, however slow we are.
        static MOMENT: LazyLock<Instant> = LazyLock::new(Instant::now);
        let counts = Counts::new(form, write, || *MOMENT);
        let log = Log { max, spins: false, form, counts: counts.clone() };
        tracing::subscriber::with_default(log, happens);
        counts.finish();
        let told = lines.lock().expect("no thread panicked");
        told.clone()
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
    fn a_peer_that_floods_is_counted_at_every_level() {
        let happens = || {
            (0..1000).for_each(|_| info!(peer = "yes", "y"));
            (0..1000).for_each(|n| debug!(peer = "seq", "{n}"));
            (0..1000).for_each(|_| warn!(target: SHOWN, peer = "e", "y"));
            info!(peer = "quiet", "still heard");
            (0..2).for_each(|_| error!(peer = "seq", "is gone"));
        };
        let seq: String = (0..100).map(|n| format!("debug: seq: {n}\n")).collect();
        let (yes, shown) = ("info: yes: y\n".repeat(5), "[e] y\n".repeat(100));
        let told = format!(
            "{yes}{seq}{shown}info: quiet: still heard\n\
             error: seq: is gone\nerror: seq: is gone\n\
             debug: seq: … 900 more lines in 1 s\n[e] … 900 more lines in 1 s\n\
             info: yes: y … 995 more in 1 s\n"
        );
        assert_eq!(lines(LevelFilter::DEBUG, happens), told);
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
