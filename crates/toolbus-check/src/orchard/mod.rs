//! Is it a provider? The rules of the document, and what is good to know besides
//! (`docs/protocols/orchard.md`).

mod rules;

use std::time::{Duration, Instant};

use toolbus_proto::json::{Json, Kind, edit};
use toolbus_proto::jsonrpc::{kind, string};
use toolbus_proto::orchard::ServerSettings;
use toolbus_proto::orchard::schema::{Note, Oddity, ProviderSchema, SchemaError};
use toolbus_proto::printable::printable;
use toolbus_proto::tool::Failure;

use toolbus::address::{Place, Purpose};
use toolbus::bus::back::LocalFuture;
use toolbus::peer::Registry;
use toolbus::peer::open::{file_name, program};
use toolbus::wire::orchard::{ORCHARD, probe::probe};
use toolbus_engine::child::{EnvPolicy, Program, words};

use crate::talk::{Heard, Talk};
use crate::{CheckKind, Finding, Target, TargetError, Verdict, Wanted};

/// How long an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long what may follow an answer is waited for.
const QUIET: Duration = Duration::from_millis(100);
/// How much of a line is shown.
const LINE_SHOWN_MAX: usize = 200;

/// A method and an action that no provider has.
const UNKNOWN: &str = "toolbus_check";

/// A program that is tested, and how long it may take.
#[derive(Debug, Clone)]
struct Subject {
    /// What people call it.
    pub name: String,
    /// What to start.
    pub program: Program,
    /// How long it may take to describe itself, and to print its schema.
    pub start: Duration,
    /// How long it may take to end.
    pub stop: Duration,
}

/// Tests a program, and tells what became of each rule as soon as that is known.
///
/// Fails only if the program cannot be started at all.
async fn check(subject: &Subject, mut tell: impl FnMut(Finding)) -> Result<(), Failure> {
    let mut tell = |rule, verdict| tell(Finding { rule, verdict });
    let talk = Talk::start(&subject.program, ServerSettings::default().line_bytes_max);
    let mut host = Host::new(talk.map_err(|error| error.to_failure())?);
    let printed = probe(&subject.name, &subject.program, subject.start).await;
    let is_printed = printed.as_ref().map(drop).map_err(told);
    tell("schema-probe", Verdict::demanded(is_printed));

    let described = host.ask("describe", "{}", subject.start).await;
    let schema = match described {
        Ok(Answer::Result(result)) => {
            tell("describe", Verdict::Ok);
            edit::member(&result, "schema").map(str::to_owned)
        }
        Ok(Answer::Error { code, message }) => {
            tell("describe", Verdict::Fail(format!("it answered {code}: {message}")));
            None
        }
        Err(why) => {
            tell("describe", Verdict::Fail(why));
            for rule in NEEDS_DESCRIBE {
                tell(rule, Verdict::Note("not tried: it did not describe itself".to_owned()));
            }
            // What it wrote in place of an answer may say why.
            for (rule, verdict) in host.into_findings() {
                tell(rule, verdict);
            }
            return Ok(());
        }
    };
    let schema = judge(schema.as_deref(), printed.ok().map(|(schema, _)| schema), &mut tell);

    let unknown = host.ask(UNKNOWN, "{}", ANSWER_PATIENCE).await;
    tell("unknown-method", Verdict::demanded(refused(unknown, "unknown_method")));
    let needed = schema.as_ref().and_then(|(schema, _)| needs_config(schema));
    match needed {
        Some(name) => {
            let why = format!("not tried: `{name}` must be configured");
            tell("configure", Verdict::Note(why.clone()));
            tell("unknown-action", Verdict::Note(why));
        }
        None => {
            let config = defaults(schema.as_ref().map(|(schema, _)| schema));
            let params = format!(r#"{{"config":{config}}}"#);
            let configured = host.ask("configure", &params, ANSWER_PATIENCE).await;
            tell("configure", Verdict::demanded(accepted(configured)));
            let params = format!(r#"{{"action":"{UNKNOWN}","attrs":{{}}}}"#);
            let unknown = host.ask("execute", &params, ANSWER_PATIENCE).await;
            tell("unknown-action", Verdict::demanded(refused(unknown, "unknown_action")));
        }
    }
    tell("shutdown", Verdict::demanded(host.shut_down(subject.stop).await));
    let notes = schema.map_or(Vec::new(), |(_, notes)| notes);
    let known_members = host.known_members.clone().and_then(|()| none_of(&notes, Oddity::Extra));
    for (rule, verdict) in host.into_findings() {
        tell(rule, verdict);
    }
    tell("eof", Verdict::demanded(eof(subject).await));
    tell("raw-defaults", Verdict::wished(none_of(&notes, Oddity::DoubleEncoded)));
    tell("known-members", Verdict::wished(known_members));
    Ok(())
}

/// What can only be tried with a provider that answers.
const NEEDS_DESCRIBE: [&str; 8] = [
    "protocol",
    "schema",
    "schema-agrees",
    "unknown-method",
    "configure",
    "unknown-action",
    "shutdown",
    "eof",
];

/// The three rules about what it says of itself. Gives the schema, if it can be used.
fn judge(
    schema: Option<&str>,
    printed: Option<ProviderSchema>,
    tell: &mut impl FnMut(&'static str, Verdict),
) -> Option<(ProviderSchema, Vec<Note>)> {
    let read = match schema {
        Some(schema) => ProviderSchema::read(&Json::from_trusted(schema.to_owned())),
        None => {
            tell("protocol", Verdict::Note("not tried: there is no `schema` in its answer".into()));
            tell("schema", Verdict::Fail("there is no `schema` in its answer".to_owned()));
            tell("schema-agrees", Verdict::Note("not tried: there is no schema".to_owned()));
            return None;
        }
    };
    let protocol = match &read {
        Err(error @ SchemaError::Protocol { .. }) => {
            let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
            Err(format!("it {error}{hint}"))
        }
        _ => Ok(()),
    };
    tell("protocol", Verdict::demanded(protocol));
    let usable = match &read {
        Ok(_) => Verdict::Ok,
        Err(error @ SchemaError::Part { .. }) => Verdict::Fail(error.to_string()),
        Err(_) => Verdict::Note("not tried: it is of another protocol".to_owned()),
    };
    tell("schema", usable);
    let described = read.ok();
    let agrees = match (&described, &printed) {
        (Some((described, _)), Some(printed)) => match described == printed {
            true => Verdict::Ok,
            false => Verdict::Fail("`describe` and `schema` give two different ones".to_owned()),
        },
        _ => Verdict::Note("not tried: there are not two that can be used".to_owned()),
    };
    tell("schema-agrees", agrees);
    described
}

/// A config that must be given and has no default.
fn needs_config(schema: &ProviderSchema) -> Option<&str> {
    let needed = schema.config.iter().find(|(_, attr)| attr.required && attr.default.is_none());
    needed.map(|(name, _)| name.as_str())
}

/// The config that a host sends if it was told nothing.
fn defaults(schema: Option<&ProviderSchema>) -> String {
    let config = schema.into_iter().flat_map(|schema| &schema.config);
    let given = config
        .filter_map(|(name, attr)| Some(format!("{}:{}", Json::of(name), attr.default.as_ref()?)));
    format!("{{{}}}", given.collect::<Vec<_>>().join(","))
}

fn accepted(answer: Result<Answer, String>) -> Result<(), String> {
    match answer? {
        Answer::Result(_) => Ok(()),
        Answer::Error { code, message } => Err(format!("it answered {code}: {message}")),
    }
}

fn refused(answer: Result<Answer, String>, wanted: &str) -> Result<(), String> {
    match answer? {
        Answer::Error { code, .. } if code == wanted => Ok(()),
        Answer::Error { code, .. } => Err(format!("it answered `{code}`, and not `{wanted}`")),
        Answer::Result(_) => Err(format!("it gave a result, and not `{wanted}`")),
    }
}

fn none_of(notes: &[Note], oddity: Oddity) -> Result<(), String> {
    let paths: Vec<_> =
        notes.iter().filter(|note| note.oddity == oddity).map(|note| &*note.path).collect();
    match (&paths[..], oddity) {
        ([], _) => Ok(()),
        (paths, Oddity::DoubleEncoded) => {
            Err(format!("encoded twice: the default of {}", paths.join(", ")))
        }
        (paths, _) => Err(format!("not in the protocol: {}", paths.join(", "))),
    }
}

async fn eof(subject: &Subject) -> Result<(), String> {
    let talk = Talk::start(&subject.program, ServerSettings::default().line_bytes_max);
    let mut host = Host::new(talk.map_err(|error| error.to_string())?);
    host.ask("describe", "{}", subject.start).await?;
    host.talk.hang_up();
    host.talk.ends_within(subject.stop).await
}

/// A failure of the probe, with what can be done about it.
fn told(failure: &Failure) -> String {
    let words = failure.last_words.as_deref();
    let hint = words.and_then(|words| words.hint.as_deref());
    let stderr = words.and_then(|words| words.stderr.last());
    let more = [stderr.map(String::as_str), hint].into_iter().flatten();
    more.fold(failure.message.clone(), |told, more| format!("{told}; {more}"))
}

/// What a provider answered.
enum Answer {
    /// The text of its result.
    Result(String),
    Error {
        code: String,
        message: String,
    },
}

/// A host that looks at every line.
struct Host {
    talk: Talk,
    next_id: u64,
    /// What was wrong with the lines, by rule; the first of each.
    frames: Result<(), String>,
    id_echo: Result<(), String>,
    one_outcome: Result<(), String>,
    answers_once: Result<(), String>,
    known_members: Result<(), String>,
    answered: Vec<u64>,
}

impl Host {
    fn new(talk: Talk) -> Host {
        Host {
            talk,
            next_id: 1,
            frames: Ok(()),
            id_echo: Ok(()),
            one_outcome: Ok(()),
            answers_once: Ok(()),
            known_members: Ok(()),
            answered: Vec::new(),
        }
    }

    /// Asks, and listens until it answers.
    async fn ask(
        &mut self,
        method: &str,
        params: &str,
        patience: Duration,
    ) -> Result<Answer, String> {
        let id = self.next_id;
        self.next_id += 1;
        self.talk.say(&format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#)).await;
        let until = Instant::now() + patience;
        loop {
            let line = match self.talk.line(until).await {
                Heard::Line(line) => line,
                Heard::Ended => return Err(self.talk.how_it_ended().await),
                Heard::Silence => {
                    return Err(format!("nothing came within {patience:?}"));
                }
            };
            if let Some(answer) = self.hear(&line, Some(id)) {
                return Ok(answer);
            }
        }
    }

    /// Looks at a line, and gives what it answers if that is what was asked.
    fn hear(&mut self, line: &[u8], asked: Option<u64>) -> Option<Answer> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        let shown = || printable(line, LINE_SHOWN_MAX);
        let frame = Json::parse(line.to_vec()).ok().filter(|json| json.kind() == Kind::Object);
        let Some(frame) = frame else {
            fault(&mut self.frames, || format!("it wrote a line that is no frame: {}", shown()));
            return None;
        };
        let [id, result, error] = edit::pick(frame.as_str(), ["id", "result", "error"]);
        let id = id.and_then(whole);
        if let Some(id) = id.filter(|id| self.answered.contains(id)) {
            fault(&mut self.answers_once, || format!("it answered request {id} twice"));
            return None;
        }
        let id = match (id, asked) {
            (_, None) => {
                fault(&mut self.id_echo, || {
                    format!("nothing was asked, and it wrote: {}", shown())
                });
                return None;
            }
            (Some(id), Some(asked)) if id == asked => id,
            // Taken for the answer all the same, so that the other rules can be tried.
            (_, Some(asked)) => {
                let told = || format!("request {asked} was asked, and it wrote: {}", shown());
                fault(&mut self.id_echo, told);
                asked
            }
        };
        self.answered.push(id);
        if let Some(name) = extra_member(&frame) {
            let told = || format!("not in the protocol: `{name}` in the answer to request {id}");
            fault(&mut self.known_members, told);
        }
        let present = |raw: Option<&str>| raw.is_some_and(|raw| kind(raw) != Kind::Null);
        if present(result) && present(error) {
            let told = || format!("it answered request {id} with both: {}", shown());
            fault(&mut self.one_outcome, told);
        }
        match (result, error.filter(|error| kind(error) != Kind::Null)) {
            (_, Some(error)) => {
                let [code, message] = edit::pick(error, ["code", "message"]);
                let text =
                    |raw: Option<&str>| raw.and_then(string).unwrap_or_default().into_owned();
                Some(Answer::Error { code: text(code), message: text(message) })
            }
            (Some(result), None) => Some(Answer::Result(result.to_owned())),
            (None, None) => {
                let told = || format!("it answered request {id} with neither: {}", shown());
                fault(&mut self.one_outcome, told);
                Some(Answer::Result("null".to_owned()))
            }
        }
    }

    async fn shut_down(&mut self, patience: Duration) -> Result<(), String> {
        let answer = self.ask("shutdown", "{}", patience).await;
        accepted(answer.map_err(|why| format!("it did not answer: {why}")))?;
        self.talk.hang_up();
        // What it says behind its last answer is looked at, too.
        let until = Instant::now() + patience.min(QUIET);
        while let Heard::Line(line) = self.talk.line(until).await {
            self.hear(&line, None);
        }
        if self.talk.is_unfinished() {
            fault(&mut self.frames, || "its last line does not end".to_owned());
        }
        self.talk.ends_within(patience).await?;
        match self.talk.how_it_ended().await {
            ended if ended.ends_with("exit status 0") => Ok(()),
            ended => Err(ended),
        }
    }

    /// What was seen on all lines.
    fn into_findings(self) -> [(&'static str, Verdict); 4] {
        [
            ("frames", Verdict::demanded(self.frames)),
            ("id-echo", Verdict::demanded(self.id_echo)),
            ("one-outcome", Verdict::demanded(self.one_outcome)),
            ("answers-once", Verdict::demanded(self.answers_once)),
        ]
    }
}

/// An id, which may be written as `1.0`.
fn whole(id: &str) -> Option<u64> {
    let (digits, fraction) = id.split_once('.').unwrap_or((id, ""));
    fraction.bytes().all(|digit| digit == b'0').then(|| digits.parse().ok())?
}

/// A member that no answer has.
fn extra_member(frame: &Json) -> Option<String> {
    let mut members = edit::members(frame.as_str());
    members.find_map(|(name, _)| match &*name {
        "id" | "result" | "error" => None,
        name => Some(name.to_owned()),
    })
}

/// Remembers the first fault of a kind.
fn fault(rule: &mut Result<(), String>, told: impl FnOnce() -> String) {
    if rule.is_ok() {
        *rule = Err(told());
    }
}

/// How a program is tested that should speak it.
pub(crate) struct Check;

impl CheckKind for Check {
    fn rules(&self) -> &'static [(&'static str, &'static str)] {
        rules::RULES
    }

    fn target(&self, text: &str, wanted: &Wanted) -> Result<Box<dyn Target>, TargetError> {
        // A command line, or that behind our scheme.
        let words = match Registry::of(&[&ORCHARD]).address(Purpose::Call, text) {
            Ok(address) => match address.place() {
                Place::Command(words) => words.clone(),
                _ => Vec::new(),
            },
            Err(error) if text.starts_with("orchard+stdio:") => {
                return Err(error.into());
            }
            Err(_) => words::split(text).map_err(TargetError::new)?,
        };
        if words.is_empty() {
            return Err(TargetError::new(format!("`{text}` is no program that can be tested"))
                .hint("name one by its command, or `orchard+stdio:COMMAND`"));
        }
        Ok(Box::new(Subject {
            name: file_name(&words),
            program: program(&words, &wanted.settings, EnvPolicy::Inherit),
            start: wanted.start.unwrap_or(toolbus::wire::orchard::PATIENCE.start),
            stop: wanted.stop,
        }))
    }
}

impl Target for Subject {
    fn check<'a>(
        &'a self,
        tell: &'a mut dyn FnMut(Finding),
    ) -> LocalFuture<'a, Result<(), Failure>> {
        Box::pin(check(self, tell))
    }
}
