//! A program whose wire is not said: that is found out by what it says and answers.
//!
//! It is spoken to in the one wire whose first question makes the programs of the others show what
//! they are. If it speaks that one, the conversation just goes on; else it is left, and started
//! again as what it is. Each kind of peer says what it [recognises](PeerKind::recognises). What a
//! program was is [remembered](remember_in), and checked by what it says the next time.

mod memory;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use toolbus_proto::channel::{Down, Notice, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, LastWords, Outcome, ToolSpec, Wire};

use crate::address::{Address, Form, Place, Scheme};
use crate::bus::back::{Back, Connection, LocalFuture, hinted};
use crate::child::stderr::Tail;
use crate::child::{Patience, words};
use crate::engine::calls::{Asker, Pressure, ReplyTo, RunningCall};
use crate::engine::waiting::WaitingCalls;
use crate::peer::settings::Settings;
use crate::peer::{FirstWords, Opened, PeerKind, Registry, open};
use crate::task::{boxed, spawn_local};

pub use memory::remember_in;

/// How many lines of its output are shown of a program that ended, if there is nothing else.
const LINES_SHOWN_MAX: usize = 8;
/// As what a program is tried at most: what it was, or the wire that all are asked in; and what it
/// shows to be then.
const TRIES_MAX: usize = 2;

/// Programs whose wire is found out, for the registry.
pub static DETECTED: DetectedKind = DetectedKind;

/// What is to be known of a program whose wire is not said.
pub struct DetectedKind;

impl PeerKind for DetectedKind {
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

    fn is_found_out(&self) -> bool {
        true
    }

    /// It may turn out to be any of them.
    fn generic_tools(&self) -> &'static [&'static str] {
        static ALL: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
            let registry = Registry::default();
            let kinds = registry.kinds().filter(|kind| !kind.is(&DETECTED));
            kinds.flat_map(PeerKind::generic_tools).copied().collect()
        });
        &ALL
    }

    fn reached_by(&self, generic: &str, args: &Json) -> Option<String> {
        let registry = Registry::default();
        let mut kinds = registry.kinds().filter(|kind| kind.generic_tools().contains(&generic));
        // Never itself, which has the tools of all.
        kinds.find(|kind| !kind.is(&DETECTED))?.reached_by(generic, args)
    }

    /// It may turn out to be one of those.
    fn is_judged_by_schema(&self) -> bool {
        true
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        let unknown = Unknown::new(address, settings);
        // Who asked before has a reason to want the wire at once.
        if let Some(kind) = memory::learned(unknown.words(), settings)
            && let Ok(back) = unknown.opened(kind)
        {
            unknown.back.replace(Some(back));
        }
        Ok(Rc::new(DetectedBack(Rc::new(unknown))))
    }
}

/// Finds out what a program speaks, if its address does not say it, for those who must know that
/// before they open it. May start the program, and leaves no process behind. Must be called
/// inside a `LocalSet`.
pub async fn learn(address: &Address, settings: &Settings) -> Result<(), Failure> {
    let Place::Command(words) = address.place() else { return Ok(()) };
    if !address.is_bare() {
        return Ok(());
    }
    if let Some(missing) = &settings.missing {
        return Err(missing.failure());
    }
    if let Some(kind) = memory::kind_of(words, settings).or_else(|| by_name(words)) {
        memory::learn(words, settings, kind);
        return Ok(());
    }
    let unknown = Unknown::new(address, settings);
    let found = unknown.find_out().await;
    unknown.leave().await;
    found.map(|_| ())
}

/// The address that says what a program speaks: as it is if it says so, else with what the program
/// shows. May start it, and leaves no process behind. Must be called inside a `LocalSet`.
pub async fn spelled_out(address: &Address, settings: &Settings) -> Result<Address, Failure> {
    let Place::Command(words) = address.place() else { return Ok(address.clone()) };
    if !address.is_bare() {
        return Ok(address.clone());
    }
    let unknown = Unknown::new(address, settings);
    let found = unknown.find_out().await;
    unknown.leave().await;
    found?;
    let kind = memory::learned(words, settings);
    kind.and_then(|kind| unknown.as_kind(kind)).ok_or_else(|| {
        let message = format!("`{address}` cannot be called by what it speaks");
        Failure::new(FailureKind::Unavailable, message)
    })
}

/// The address that would work for a program or a server that has failed because it does not speak
/// what its address says, if what it said shows that.
pub fn meant(address: &Address, failure: &Failure) -> Option<Address> {
    let (words, transport) = match address.place() {
        Place::Command(words) => (&words[..], None),
        Place::Url(url) => (&[][..], Some(url.carrier)),
        _ => return None,
    };
    let kind = recognised(words, failure)?;
    if kind.is(address.kind()) || address.is_bare() {
        return None;
    }
    let (_, rest) = address.as_str().split_once(':')?;
    let Some(transport) = transport else {
        return Address::parse(&with_scheme(kind, rest)?).ok();
    };
    let is_carried = |scheme: &&Scheme| match scheme.form {
        Form::Url(form) => form.transport == transport,
        _ => false,
    };
    let scheme = kind.schemes().iter().find(is_carried)?;
    Address::parse(&format!("{}{}", scheme.prefix, rest.strip_prefix("//")?)).ok()
}

/// What a process is that failed without having shown that it speaks its wire.
fn recognised(words: &[String], failure: &Failure) -> Option<&'static dyn PeerKind> {
    let said = failure.last_words.as_ref().filter(|words| words.is_unproven)?;
    let errors = said.stderr.iter().map(String::as_str).collect();
    recognised_by(&FirstWords { words, output: &said.said, errors, exit: said.exit })
}

fn recognised_by(heard: &FirstWords<'_>) -> Option<&'static dyn PeerKind> {
    Registry::default().kinds().find(|kind| kind.recognises(heard))
}

/// A name may say it all, and then nothing need be started.
fn by_name(words: &[String]) -> Option<&'static dyn PeerKind> {
    recognised_by(&FirstWords { words, output: &[], errors: Vec::new(), exit: None })
}

/// The command as an address of that kind.
fn with_scheme(kind: &dyn PeerKind, command: &str) -> Option<String> {
    let is_command = |scheme: &&Scheme| matches!(scheme.form, Form::Command);
    let scheme = kind.schemes().iter().find(is_command)?;
    Some(format!("{}{command}", scheme.prefix))
}

/// A back whose wire is found out when it is first asked.
struct DetectedBack(Rc<Unknown>);

/// Is told what a peer does.
type Hear = Rc<dyn Fn(&Notice)>;

struct Unknown {
    address: Address,
    settings: Settings,
    /// Set once it is known.
    back: RefCell<Option<Rc<dyn Back>>>,
    /// It has shown that it speaks what it is taken for.
    is_checked: Cell<bool>,
    /// Taken for what it is not any more, and told goodbye with the others.
    left: RefCell<Vec<Rc<dyn Back>>>,
    /// As what it is being tried. Kept when a caller gives up, for the next one.
    trying: RefCell<Option<Try>>,
    /// Of two first callers one tries it, of whatever back of the same command they are.
    turn: Rc<tokio::sync::Mutex<()>>,
    /// Calls that wait until its wire is known.
    waiting: Rc<WaitingCalls>,
    /// What it listed when it was tried, for the first who wants that.
    listed: RefCell<Option<Arc<[ToolSpec]>>>,
    /// Those who want to hear of it, until there is something to hear.
    watching: RefCell<Vec<Rc<dyn Fn()>>>,
    listening: RefCell<Vec<Hear>>,
}

#[derive(Clone)]
struct Try {
    kind: &'static dyn PeerKind,
    back: Rc<dyn Back>,
}

impl Unknown {
    fn new(address: &Address, settings: &Settings) -> Unknown {
        Unknown {
            address: address.clone(),
            settings: settings.clone(),
            back: RefCell::default(),
            is_checked: Cell::default(),
            left: RefCell::default(),
            trying: RefCell::default(),
            turn: memory::turn(address, settings),
            waiting: WaitingCalls::new(format!("`{}`", address.peer_name())),
            listed: RefCell::default(),
            watching: RefCell::default(),
            listening: RefCell::default(),
        }
    }

    fn words(&self) -> &[String] {
        match self.address.place() {
            Place::Command(words) => words,
            _ => &[],
        }
    }

    fn known(&self) -> Option<Rc<dyn Back>> {
        self.back.borrow().clone()
    }

    async fn find_out(&self) -> Result<Rc<dyn Back>, Failure> {
        if let Some(back) = self.known() {
            return Ok(back);
        }
        let _turn = self.turn.lock().await;
        if let Some(back) = self.known() {
            return Ok(back);
        }
        let began = Instant::now();
        for tries in 1.. {
            let Try { kind, back } = self.attempt()?;
            // The first has the time of a start by itself.
            let limit = self.settings.start_timeout.filter(|_| 1 < tries);
            let listed = match limit {
                None => back.tools().await,
                Some(limit) => {
                    let left = limit.saturating_sub(began.elapsed());
                    let late = |_| Err(Failure::new(FailureKind::TimedOut, "too late"));
                    tokio::time::timeout(left, back.tools()).await.unwrap_or_else(late)
                }
            };
            let failure = match listed {
                Ok(tools) => {
                    self.listed.replace(Some(tools));
                    return Ok(self.settle_on(kind, back));
                }
                // That it cannot list its tools is another matter.
                Err(failure) if has_proven(&failure) => return Ok(self.settle_on(kind, back)),
                Err(failure) => failure,
            };
            self.trying.take();
            memory::forget(self.words(), &self.settings);
            back.shutdown().await;
            let another = recognised(self.words(), &failure).filter(|found| !found.is(kind));
            match another.filter(|_| tries < TRIES_MAX) {
                Some(found) => self.try_as(found)?,
                None => return Err(self.explained(kind, failure)),
            };
        }
        unreachable!("the tries are counted")
    }

    /// As what it is tried now.
    fn attempt(&self) -> Result<Try, Failure> {
        if let Some(attempt) = &*self.trying.borrow() {
            return Ok(attempt.clone());
        }
        let words = self.words();
        let remembered = memory::kind_of(words, &self.settings).or_else(|| by_name(words));
        match (remembered, self.as_stranger()) {
            // One that was asked in this wire may show by it that it is another one now.
            (Some(kind), Ok(stranger)) if kind.is(stranger.kind) => Ok(self.begin(stranger)),
            (Some(kind), _) => self.try_as(kind),
            (None, stranger) => Ok(self.begin(stranger?)),
        }
    }

    fn begin(&self, attempt: Try) -> Try {
        self.trying.borrow_mut().insert(attempt).clone()
    }

    /// Opened in the wire that makes all others show what they are.
    fn as_stranger(&self) -> Result<Try, Failure> {
        let words: Arc<[String]> = self.words().into();
        Registry::default()
            .kinds()
            .find_map(|asking| {
                let words = words.clone();
                let judge = Arc::new(move |output: &[u8], errors: &[&str], exit| {
                    let heard = FirstWords { words: &words, output, errors: errors.to_vec(), exit };
                    recognised_by(&heard).is_some_and(|kind| !kind.is(asking))
                });
                let back = asking.open_stranger(self.words(), &self.settings, judge)?;
                Some(Try { kind: asking, back })
            })
            .ok_or_else(|| {
                let command = command_line(self.words());
                let message = format!("cannot find out what `{command}` speaks in this build");
                Failure::new(FailureKind::Unavailable, message)
            })
    }

    fn try_as(&self, kind: &'static dyn PeerKind) -> Result<Try, Failure> {
        let back = self.opened(kind)?;
        Ok(self.begin(Try { kind, back }))
    }

    fn opened(&self, kind: &'static dyn PeerKind) -> Result<Rc<dyn Back>, Failure> {
        let unavailable = |message: String| Failure::new(FailureKind::Unavailable, message);
        let address = self.as_kind(kind).ok_or_else(|| {
            unavailable(format!("cannot call `{}` as {}", self.address, kind.summary()))
        })?;
        open(&address, &self.settings)
            .map_err(|error| hinted(unavailable(error.to_string()), error.hint()))
    }

    fn as_kind(&self, kind: &dyn PeerKind) -> Option<Address> {
        Address::parse(&with_scheme(kind, self.address.as_str())?).ok()
    }

    /// It is of this kind from now on.
    fn settle_on(&self, kind: &'static dyn PeerKind, back: Rc<dyn Back>) -> Rc<dyn Back> {
        self.trying.take();
        self.is_checked.set(true);
        memory::remember(self.words(), &self.settings, kind);
        if let Some(address) = self.as_kind(kind) {
            let command = command_line(self.words());
            tracing::info!("`{command}` is {}: {address}", kind.summary());
        }
        self.watching.take().into_iter().for_each(|changed| back.watch(changed));
        self.listening.take().into_iter().for_each(|hear| back.listen(hear));
        self.back.borrow_mut().insert(back).clone()
    }

    /// A call of one that is only taken for what it was has ended.
    fn check(&self, ended: &Result<Outcome, Failure>) {
        match ended {
            Ok(_) => self.is_checked.set(true),
            Err(failure) if has_proven(failure) => self.is_checked.set(true),
            Err(failure) if failure.kind == FailureKind::Cancelled => {}
            Err(failure) => {
                memory::forget(self.words(), &self.settings);
                let wire = self.known().map(|back| back.wire());
                let another = recognised(self.words(), failure);
                if another.is_some_and(|kind| Some(kind.wire()) != wire) {
                    self.left.borrow_mut().extend(self.back.take());
                }
            }
        }
    }

    /// Why it could not be found out what it speaks.
    fn explained(&self, tried: &dyn PeerKind, failure: Failure) -> Failure {
        let said = failure.last_words.as_deref().cloned().unwrap_or_default();
        // It is what it was tried as, and only failed to become ready.
        if recognised(self.words(), &failure).is_some_and(|kind| kind.is(tried)) {
            return failure;
        }
        let name = self.words().first().map_or("", String::as_str);
        match (failure.kind, said.exit) {
            (_, Some(exit)) => {
                let message = format!("`{name}` ended with {exit} before it showed what it speaks");
                let stderr = match said.stderr.is_empty() {
                    true => shown(&said.said),
                    false => said.stderr,
                };
                let words = LastWords { stderr, ..said };
                Failure { message, ..failure }.with_last_words(words)
            }
            (FailureKind::TimedOut, None) => {
                let limit = self.settings.start_timeout.unwrap_or(Patience::USUAL.start);
                let message = format!("`{name}` did not show within {limit:?} what it speaks");
                let named = with_scheme(tried, &command_line(self.words()));
                let hint = named.map(|named| format!("say it before the command, as in `{named}`"));
                Failure { message, ..failure }.with_last_words(LastWords { hint, ..said })
            }
            (FailureKind::Unavailable, None) => match (self.words(), &said.hint) {
                // No program of the name is there.
                ([word], Some(hint)) if hint.starts_with("install ") => {
                    match crate::address::near_scheme(word) {
                        Some(scheme) => hinted(failure, Some(format!("did you mean `{scheme}`?"))),
                        None => failure,
                    }
                }
                _ => failure,
            },
            _ => failure,
        }
    }

    /// Whatever may run.
    fn all(&self) -> Vec<Rc<dyn Back>> {
        let trying = self.trying.borrow().as_ref().map(|attempt| attempt.back.clone());
        let left = self.left.borrow().clone();
        self.known().into_iter().chain(trying).chain(left).collect()
    }

    /// Says goodbye to all of it.
    async fn leave(&self) {
        let mut leaving = JoinSet::new();
        for back in self.all() {
            leaving.spawn_local(boxed(async move { back.shutdown().await }));
        }
        leaving.join_all().await;
    }
}

/// Did a process that failed speak the wire it was spoken to in?
fn has_proven(failure: &Failure) -> bool {
    failure.from_peer || failure.last_words.as_ref().is_some_and(|words| !words.is_unproven)
}

/// The first lines of what a program wrote, as they may be shown to people: some say what is wrong
/// on standard output.
fn shown(output: &[u8]) -> Vec<String> {
    Tail::of(output).lines().take(LINES_SHOWN_MAX).map(str::to_owned).collect()
}

fn command_line(words: &[String]) -> String {
    words.iter().map(|word| words::quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Passes a reply on, and looks whether it came from what its back is taken for.
struct Checked {
    down: ReplyTo,
    unknown: Rc<Unknown>,
}

impl Asker for Checked {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if let Down::Done(ended) = &down {
            self.unknown.check(ended);
        }
        self.down.send(down)
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}

impl Back for DetectedBack {
    fn wire(&self) -> Wire {
        self.0.known().map_or(DETECTED.wire(), |back| back.wire())
    }

    fn connection(&self, call: &Call) -> Connection {
        self.0.known().map_or(Connection::None, |back| back.connection(call))
    }

    fn rest(&self) -> bool {
        self.0.known().is_some_and(|back| back.rest())
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async move {
            let back = self.0.find_out().await?;
            if let Some(listed) = self.0.listed.take() {
                return Ok(listed);
            }
            let tools = back.tools().await;
            if !self.0.is_checked.get() {
                let ended = tools.as_ref().map(|_| Outcome::End(None)).map_err(Failure::clone);
                self.0.check(&ended);
            }
            tools
        })
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.known()?.timeout()
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        if let Some(back) = self.0.known() {
            if self.0.is_checked.get() {
                return back.start(call, down);
            }
            let checked = Checked { down, unknown: self.0.clone() };
            return back.start(call, ReplyTo::new(Rc::new(checked), Ticket(0)));
        }
        let relay = self.0.waiting.relay(call, down);
        if !relay.is_waiting() {
            return relay.running_call();
        }
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

    fn is_starting(&self) -> bool {
        self.0.known().is_some_and(|back| back.is_starting())
    }

    fn last_words(&self) -> Option<LastWords> {
        self.0.known()?.last_words()
    }

    fn restarts(&self) -> Option<u64> {
        self.0.known()?.restarts()
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.0.leave())
    }

    fn hurry(&self) {
        self.0.all().iter().for_each(|back| back.hurry());
    }

    fn kill(&self) {
        self.0.all().iter().for_each(|back| back.kill());
    }
}
