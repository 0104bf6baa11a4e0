//! A program whose wire is not said: it is started once to find that out, and left again.
//!
//! First it is listened to, since some programs speak by themselves; then it is asked a question
//! that makes each of the others show what it is, though only those of one wire understand it.
//! Each kind of peer says what it [recognises](PeerKind::recognises). Nothing of the
//! process is kept: what was said to it could stand between it and its first caller.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use serde_json::Value;
use tokio::task::spawn_local;
use tokio::time::{sleep_until, timeout};
use toolbus_proto::channel::Notice;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, LastWords, ToolSpec, Wire};

use super::open::program;
use super::settings::Settings;
use super::{OpenError, PeerKind, Registry};
use crate::address::{Address, Form, Place, Purpose, Scheme};
use crate::bus::back::{Back, LocalFuture, hinted};
use crate::child::stderr::Tail;
use crate::child::{
    EnvPolicy, Exit, Patience, Process, Signal, SpawnError, diagnose, wait_is_told, words,
};
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::engine::tell_wait;
use crate::transport::pipe::{Input, Output, Watch};

/// How long a program may speak by itself before it is asked.
const BY_ITSELF: Duration = Duration::from_millis(250);
/// What is kept of what it says.
const BYTES_MAX: usize = 1 << 20;
/// How many lines of it are shown, if there is nothing else to show.
const LINES_SHOWN_MAX: usize = 8;
/// How long it has to end once its input is closed, and again once it is told to.
const GOODBYE: Duration = Duration::from_millis(500);

/// Programs whose wire is found out, for the registry.
pub static FOUND_OUT: FoundOutKind = FoundOutKind;

/// What is to be known of a program whose wire is not said.
pub struct FoundOutKind;

impl PeerKind for FoundOutKind {
    fn name(&self) -> &'static str {
        "command"
    }

    fn wire(&self) -> Wire {
        Wire::new("command")
    }

    fn summary(&self) -> &'static str {
        "a program whose wire is found out"
    }

    fn schemes(&self) -> &'static [Scheme] {
        &[]
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[("COMMAND", "any of the programs above: what it speaks is found out")]
    }

    fn open(&self, address: &Address, settings: &Settings) -> Result<Rc<dyn Back>, OpenError> {
        let (address, settings) = (address.clone(), settings.clone());
        Ok(Rc::new(FoundOut(Rc::new(Unknown {
            address,
            settings,
            back: RefCell::default(),
            watching: RefCell::default(),
            listening: RefCell::default(),
        }))))
    }
}

/// The verdicts of this process, by the words of the command.
static KNOWN: LazyLock<Mutex<HashMap<Vec<String>, &'static dyn PeerKind>>> =
    LazyLock::new(Mutex::default);

thread_local! {
    /// Whose turn it is to look at a program, by the words of its command.
    static BEING_LOOKED_AT: RefCell<HashMap<Vec<String>, Rc<tokio::sync::Mutex<()>>>> =
        RefCell::default();
}

/// The address with its wire, if that has to be found out; else as it is. May start the program,
/// and leaves none behind. Must be called inside a `LocalSet`.
pub async fn found_out(address: &Address, settings: &Settings) -> Result<Address, Failure> {
    let Place::Command(words) = address.place() else { return Ok(address.clone()) };
    if !address.kind().is(&FOUND_OUT) {
        return Ok(address.clone());
    }
    let kind = kind_of(words, settings, Look::First).await?;
    let whole = with_scheme(kind, address.as_str());
    let address = whole.and_then(|whole| Address::parse(&whole).ok());
    let address = address.ok_or_else(|| unknown(words, "it cannot be named by an address"))?;
    tracing::info!("`{}` is {}: {address}", command_line(words), kind.summary());
    Ok(address)
}

/// How a program is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It is to be called.
    First,
    /// Its call has failed.
    Again,
    /// The same for a user whose time is over: the process gets no goodbye.
    Quick,
}

/// The address that would work for a program that does not speak what its address says.
pub async fn meant(address: &Address, settings: &Settings, look: Look) -> Option<Address> {
    let Place::Command(words) = address.place() else { return None };
    let kind = kind_of(words, settings, look).await.ok()?;
    if kind.is(address.kind()) {
        return None;
    }
    let (_, command) = address.as_str().split_once(':')?;
    Address::parse(&with_scheme(kind, command)?).ok()
}

/// The command as an address of that kind.
fn with_scheme(kind: &dyn PeerKind, command: &str) -> Option<String> {
    let is_command = |scheme: &&Scheme| matches!(scheme.form, Form::Command);
    let scheme = kind.schemes().iter().find(is_command)?;
    Some(format!("{}{command}", scheme.prefix))
}

/// What the program is, as it was found out before or is now.
async fn kind_of(
    words: &[String],
    settings: &Settings,
    look: Look,
) -> Result<&'static dyn PeerKind, Failure> {
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(words).copied();
    if let Some(kind) = known() {
        return Ok(kind);
    }
    // One that is being looked at need not be started a second time.
    let turn = BEING_LOOKED_AT
        .with_borrow_mut(|looking| looking.entry(words.to_vec()).or_default().clone());
    let _turn = turn.lock().await;
    if let Some(kind) = known() {
        return Ok(kind);
    }
    let kind = probe(words, settings, look).await?;
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(words.to_vec(), kind);
    Ok(kind)
}

/// What a program of unknown wire has said so far.
pub struct Heard<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// What it wrote to standard output.
    pub output: &'a [u8],
    /// The last lines of its standard error.
    pub errors: Vec<&'a str>,
    /// How it ended, if it has.
    pub exit: Option<Exit>,
}

impl Heard<'_> {
    /// The JSON values that its whole lines are; other lines are left out.
    pub fn lines(&self) -> impl Iterator<Item = Value> + '_ {
        let whole = self.output.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
        let lines = self.output[..whole].split(|&byte| byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok())
    }

    /// The JSON value that its output begins with.
    pub fn first_value(&self) -> Option<Value> {
        serde_json::Deserializer::from_slice(self.output).into_iter().next()?.ok()
    }

    /// What the program is called.
    pub fn name(&self) -> &str {
        let program = self.words.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program)
    }
}

/// The process that is started to find out what it speaks. Dropping it kills it.
struct Throwaway {
    process: Process,
    exit: Watch,
    stdin: Option<Output>,
    stdout: Input,
    stderr: Input,
    output: BytesMut,
    tail: Tail,
    is_output_open: bool,
    are_errors_open: bool,
}

async fn probe(
    words: &[String],
    settings: &Settings,
    look: Look,
) -> Result<&'static dyn PeerKind, Failure> {
    let registry = Registry::default();
    let recognised = |heard: &Heard<'_>| registry.kinds().find(|kind| kind.recognises(heard));
    // A name may say it all, and then nothing need be started.
    let nothing = Heard { words, output: &[], errors: Vec::new(), exit: None };
    if let Some(kind) = recognised(&nothing) {
        return Ok(kind);
    }
    let env = EnvPolicy::Clean { pass: settings.program.env_pass.clone() };
    let program = program(words, settings, env);
    let mut throwaway = Throwaway::start(&program).map_err(|error| {
        let failure = error.to_failure();
        match (&error, words) {
            (SpawnError::NotInPath { here: false, .. }, [word]) => {
                match crate::address::near_scheme(word) {
                    Some(scheme) => hinted(failure, Some(format!("did you mean `{scheme}`?"))),
                    None => failure,
                }
            }
            _ => failure,
        }
    })?;
    let patience = settings.start_timeout.unwrap_or(Patience::USUAL.start);
    let until = Instant::now() + patience;
    let mut ask_at = Some(Instant::now() + BY_ITSELF);
    let mut tell_wait_at = (look == Look::First).then(|| Instant::now() + wait_is_told());
    let verdict = loop {
        let next = [ask_at, tell_wait_at].into_iter().flatten().min().unwrap_or(until).min(until);
        let exit = tokio::select! {
            heard = throwaway.hear() => heard,
            () = sleep_until(next.into()) => None,
        };
        if let Some(kind) = recognised(&throwaway.heard(words, exit)) {
            break Ok(kind);
        }
        let now = Instant::now();
        if exit.is_some() {
            break Err(throwaway.ended(words, exit, &program.held_back()));
        }
        if until <= now || BYTES_MAX < throwaway.output.len() {
            break Err(throwaway.silent(words, patience));
        }
        if tell_wait_at.is_some_and(|at| at <= now) {
            tell_wait_at = None;
            let name = &words[0];
            let what = format!("`{name}` to show what it speaks, it has {patience:?} for that");
            tell_wait(name, Some(&what));
        }
        if ask_at.is_some_and(|at| at <= now) {
            ask_at = None;
            for question in registry.kinds().filter_map(PeerKind::question) {
                throwaway.ask(question).await;
            }
        }
    };
    if look == Look::First && tell_wait_at.is_none() {
        tell_wait(&words[0], None);
    }
    if look != Look::Quick {
        throwaway.leave().await;
    }
    verdict
}

impl Throwaway {
    fn start(program: &crate::child::Program) -> Result<Throwaway, SpawnError> {
        let mut process = Process::spawn(program)?;
        let failed = |source| SpawnError::Failed { program: program.name().into(), source };
        let missing = || failed(io::Error::other("a pipe was taken already"));
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        Ok(Throwaway {
            exit: Watch::new(process.exit_fd()).map_err(failed)?,
            process,
            stdin: Some(Output::from_pipe(stdin).map_err(failed)?),
            stdout: Input::from_pipe(stdout).map_err(failed)?,
            stderr: Input::from_pipe(stderr).map_err(failed)?,
            output: BytesMut::new(),
            tail: Tail::new(),
            is_output_open: true,
            are_errors_open: true,
        })
    }

    /// Waits until it says something more, or ends; then how.
    async fn hear(&mut self) -> Option<Exit> {
        let mut errors = BytesMut::new();
        tokio::select! {
            biased;
            read = self.stdout.read(&mut self.output), if self.is_output_open => {
                self.is_output_open = matches!(read, Ok(1..));
                None
            }
            read = self.stderr.read(&mut errors), if self.are_errors_open => {
                self.are_errors_open = matches!(read, Ok(1..));
                self.tail.push(&errors, |_| {});
                None
            }
            () = self.exit.ready() => self.process.exit_seen(),
        }
    }

    fn heard<'a>(&'a self, words: &'a [String], exit: Option<Exit>) -> Heard<'a> {
        Heard { words, output: &self.output, errors: self.tail.lines().collect(), exit }
    }

    async fn ask(&self, question: &str) {
        let Some(stdin) = &self.stdin else { return };
        let line = format!("{question}\n");
        // One that does not read has a pipe that takes a line, and one that is gone is seen.
        let _ = timeout(GOODBYE, stdin.write(&[IoSlice::new(line.as_bytes())])).await;
    }

    /// Lets it end by itself, so that it can put things in order; a process that does not is killed.
    async fn leave(&mut self) {
        self.stdin = None;
        for signal in [None, Some(Signal::Term)] {
            if let Some(signal) = signal {
                self.process.signal_session(signal);
            }
            let until = Instant::now() + GOODBYE;
            while Instant::now() < until {
                tokio::select! {
                    exit = self.hear() => if exit.is_some() { return },
                    () = sleep_until(until.into()) => {}
                }
                // What it says now is of no use.
                self.output.clear();
            }
        }
    }

    fn ended(&self, words: &[String], exit: Option<Exit>, held_back: &[String]) -> Failure {
        let how = exit.map_or(String::new(), |exit| format!(" with {exit}"));
        let message = format!("`{}` ended{how} before it showed what it speaks", words[0]);
        let hint = exit.and_then(diagnose::early_exit);
        let hint = hint.or_else(|| match exit {
            // One that ends well lacks nothing, nor does one that tells how it is used.
            Some(Exit::Code(0)) => None,
            _ if self.tail.lines().len() == 0 && !self.output.is_empty() => None,
            _ => diagnose::held_back(held_back, self.tail.lines()),
        });
        self.failure(FailureKind::Unavailable, message, exit, hint)
    }

    fn silent(&self, words: &[String], patience: Duration) -> Failure {
        let message = format!("`{}` did not show within {patience:?} what it speaks", words[0]);
        let registry = Registry::default();
        let asking = registry.kinds().find(|kind| kind.question().is_some());
        let named = asking.and_then(|kind| with_scheme(kind, &command_line(words)));
        let hint = named.map(|named| format!("say it before the command, as in `{named}`"));
        self.failure(FailureKind::TimedOut, message, None, hint)
    }

    fn failure(
        &self,
        kind: FailureKind,
        message: String,
        exit: Option<Exit>,
        hint: Option<String>,
    ) -> Failure {
        let mut stderr: Vec<_> = self.tail.lines().map(str::to_owned).collect();
        if stderr.is_empty() {
            // Some say what is wrong on standard output.
            let mut said = Tail::new();
            said.push(&self.output, |_| {});
            said.finish(|_| {});
            stderr = said.lines().take(LINES_SHOWN_MAX).map(str::to_owned).collect();
        }
        Failure::new(kind, message).with_last_words(LastWords {
            exit,
            stderr,
            hint,
            is_unproven: false,
        })
    }
}

fn unknown(words: &[String], why: &str) -> Failure {
    let message = format!("cannot call `{}`: {why}", command_line(words));
    Failure::new(FailureKind::Unavailable, message)
}

fn command_line(words: &[String]) -> String {
    words.iter().map(|word| words::quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A back whose wire is found out when it is first asked.
struct FoundOut(Rc<Unknown>);

/// Is told what a peer does.
type Hear = Rc<dyn Fn(&Notice)>;

struct Unknown {
    address: Address,
    settings: Settings,
    back: RefCell<Option<Rc<dyn Back>>>,
    /// Those who want to hear of it, until there is something to hear.
    watching: RefCell<Vec<Rc<dyn Fn()>>>,
    listening: RefCell<Vec<Hear>>,
}

impl Unknown {
    fn known(&self) -> Option<Rc<dyn Back>> {
        self.back.borrow().clone()
    }

    async fn find_out(&self) -> Result<Rc<dyn Back>, Failure> {
        if let Some(back) = self.known() {
            return Ok(back);
        }
        let address = found_out(&self.address, &self.settings).await?;
        // Another caller may have waited for the same verdict.
        if let Some(back) = self.known() {
            return Ok(back);
        }
        let opened = super::open(&address, &self.settings).map_err(|error| {
            hinted(Failure::new(FailureKind::Unavailable, error.to_string()), error.hint())
        })?;
        self.watching.take().into_iter().for_each(|changed| opened.watch(changed));
        self.listening.take().into_iter().for_each(|hear| opened.listen(hear));
        Ok(self.back.borrow_mut().insert(opened).clone())
    }
}

impl Back for FoundOut {
    fn wire(&self) -> Wire {
        self.0.known().map_or(FOUND_OUT.wire(), |back| back.wire())
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async move { self.0.find_out().await?.tools().await })
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.known()?.timeout()
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        if let Some(back) = self.0.known() {
            return back.start(call, down);
        }
        let relay = Relay::new(call, down);
        let (waiting, unknown) = (relay.clone(), self.0.clone());
        let finding = spawn_local(async move {
            match unknown.find_out().await {
                Ok(back) => waiting.begin(|call, down| back.start(call, down)),
                Err(failure) => waiting.finish(Err(failure)),
            }
        });
        let finding = finding.abort_handle();
        relay.at_end(move || finding.abort());
        relay.set_alarm();
        relay.running_call()
    }

    fn text_of(&self, answer: &Json) -> Option<String> {
        self.0.known()?.text_of(answer)
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        match self.0.known() {
            Some(back) => back.watch(changed),
            None => self.0.watching.borrow_mut().push(changed),
        }
    }

    fn listen(&self, hear: Hear) {
        match self.0.known() {
            Some(back) => back.listen(hear),
            None => self.0.listening.borrow_mut().push(hear),
        }
    }

    fn restarts(&self) -> Option<u64> {
        self.0.known()?.restarts()
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        match self.0.known() {
            Some(back) => Box::pin(async move { back.shutdown().await }),
            None => Box::pin(async {}),
        }
    }

    fn hurry(&self) {
        if let Some(back) = self.0.known() {
            back.hurry();
        }
    }

    fn kill(&self) {
        if let Some(back) = self.0.known() {
            back.kill();
        }
    }
}

/// May this text be a command without a scheme?
pub(crate) fn is_command(purpose: Purpose, text: &str) -> bool {
    let first = text.split([' ', '\t', '\n']).next().unwrap_or_default();
    let program = first.split('/').next().unwrap_or_default();
    purpose == Purpose::Call && !first.is_empty() && !program.contains(':')
}
