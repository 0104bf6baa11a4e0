//! How a server is asked which era it speaks (`docs/protocols/mcp.md` 2.3).
//!
//! Pure decisions: answers and the passing of time go in, what to send next comes out. The
//! verdict outlives the process in a [`Memory`], so that a restart asks only once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::json::edit;
use crate::mcp::wire::{Era, Revision, UNSUPPORTED_VERSION};
use crate::tool::{Code, Failure, FailureKind};

/// What is known of the eras a server speaks. Shared by all conversations with it.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<AtomicU8>);

impl Memory {
    /// Of a server that is to be spoken to in this era and no other, whatever it says.
    pub fn of(era: Era) -> Memory {
        let other = match era {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        };
        let (_, no) = Memory::bits(other);
        Memory(Arc::new(AtomicU8::new(no | FIXED)))
    }

    /// Does it speak this era, as far as is known?
    pub fn speaks(&self, era: Era) -> Option<bool> {
        let bits = self.0.load(Ordering::Relaxed);
        let (yes, no) = Memory::bits(era);
        if bits & yes != 0 { Some(true) } else { (bits & no != 0).then_some(false) }
    }

    /// Was it found behind the old pair of HTTP+SSE?
    pub(in crate::mcp) fn is_pair(&self) -> bool {
        self.0.load(Ordering::Relaxed) & PAIR != 0
    }

    /// It is behind the old pair of HTTP+SSE, which carries the old era alone.
    pub(in crate::mcp) fn learn_pair(&self) {
        self.learn(Era::Modern, false);
        self.0.fetch_or(PAIR, Ordering::Relaxed);
    }

    /// Is it said which era to speak?
    fn is_fixed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & FIXED != 0
    }

    pub(super) fn learn(&self, era: Era, speaks: bool) {
        if self.is_fixed() {
            return;
        }
        let (yes, no) = Memory::bits(era);
        let bits = self.0.load(Ordering::Relaxed) & !(yes | no);
        self.0.store(bits | if speaks { yes } else { no }, Ordering::Relaxed);
    }

    /// The remembered way failed: the next conversation asks anew.
    pub(in crate::mcp) fn forget(&self) {
        if !self.is_fixed() {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    fn bits(era: Era) -> (u8, u8) {
        match era {
            Era::Legacy => (1, 2),
            Era::Modern => (4, 8),
        }
    }
}

/// Beside the bits of the eras.
const PAIR: u8 = 16;
const FIXED: u8 = 32;

/// The question that is being asked.
#[derive(Debug)]
pub(super) struct Opening {
    memory: Memory,
    stage: OpeningState,
}

#[derive(Debug)]
enum OpeningState {
    /// `server/discover` went first; if it stays unanswered, `initialize` follows.
    Probing {
        id: u64,
        until: Option<Instant>,
        is_second: bool,
    },
    /// Both are out, and the handshake decides.
    Both {
        probe: u64,
        heard: Heard,
        handshake: u64,
    },
    /// Both were out, the handshake was refused; what was the slow probe's answer?
    Late {
        probe: u64,
        refusal: Failure,
    },
    /// `initialize` is out.
    Shaking {
        id: u64,
        may_probe: bool,
    },
    /// `initialize` was refused; `server/discover` is out.
    LastProbe {
        id: u64,
        refusal: Option<Failure>,
        is_second: bool,
    },
    Over,
}

/// What became of a probe that was slow to be answered.
#[derive(Debug)]
enum Heard {
    Nothing,
    Modern(Bytes),
    /// A refusal that names our version: it is to be asked again.
    AskAgain,
    Other,
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    /// Ask this; [`Opening::sent`] tells by which id.
    Discover,
    Initialize,
    /// It speaks this revision; what it said of itself, raw.
    Open(Revision, Bytes),
    /// It speaks this legacy revision, and has said by then that it is modern as well.
    OpenBoth(Revision, Bytes),
    Fail(Failure),
    Wait,
}

/// What a server answered: the raw result or error.
pub(super) type Answer<'a> = Result<&'a str, &'a str>;

impl Opening {
    /// Begins in the era of the client that calls first, unless it is known better.
    pub(super) fn new(
        now: Instant,
        memory: Memory,
        probe_timeout: Duration,
        first: Era,
    ) -> (Opening, Step) {
        let knows = |era| memory.speaks(era);
        let (stage, step) = match (first, knows(Era::Legacy), knows(Era::Modern)) {
            (_, _, Some(false)) if memory.is_fixed() => {
                (OpeningState::Shaking { id: 0, may_probe: false }, Step::Initialize)
            }
            (_, Some(false), _) if memory.is_fixed() => {
                (OpeningState::LastProbe { id: 0, refusal: None, is_second: false }, Step::Discover)
            }
            (Era::Modern, _, Some(false)) => {
                (OpeningState::Shaking { id: 0, may_probe: false }, Step::Initialize)
            }
            (Era::Legacy, Some(false), _) => {
                (OpeningState::LastProbe { id: 0, refusal: None, is_second: false }, Step::Discover)
            }
            (Era::Legacy, ..) => {
                (OpeningState::Shaking { id: 0, may_probe: true }, Step::Initialize)
            }
            (Era::Modern, ..) => {
                let until = Some(now + probe_timeout);
                (OpeningState::Probing { id: 0, until, is_second: false }, Step::Discover)
            }
        };
        (Opening { memory, stage }, step)
    }

    /// The question of the last step went out under this id.
    pub(super) fn sent(&mut self, sent: u64) {
        match &mut self.stage {
            OpeningState::Probing { id, .. }
            | OpeningState::Shaking { id, .. }
            | OpeningState::LastProbe { id, .. }
            | OpeningState::Both { handshake: id, .. } => *id = sent,
            OpeningState::Late { .. } | OpeningState::Over => {}
        }
    }

    /// An answer to one of our questions.
    pub(super) fn answered(&mut self, line: &Bytes, answered: u64, answer: Answer<'_>) -> Step {
        let modern = discovered(line, answer);
        match std::mem::replace(&mut self.stage, OpeningState::Over) {
            OpeningState::Probing { id, until, is_second } if id == answered => match modern {
                Some(greeting) => self.open_modern(greeting),
                None if !is_second && names_ours(answer) => {
                    self.stage = OpeningState::Probing { id: 0, until, is_second: true };
                    Step::Discover
                }
                None if speaks_neither(answer) => self.fail(refused(answer)),
                None => {
                    self.memory.learn(Era::Modern, false);
                    self.stage = OpeningState::Shaking { id: 0, may_probe: false };
                    Step::Initialize
                }
            },
            OpeningState::Both { probe, handshake, .. } if probe == answered => {
                let heard = match modern {
                    Some(greeting) => Heard::Modern(greeting),
                    None if names_ours(answer) => Heard::AskAgain,
                    None => Heard::Other,
                };
                self.stage = OpeningState::Both { probe, heard, handshake };
                Step::Wait
            }
            OpeningState::Both { probe, heard, handshake } if handshake == answered => {
                match (shaken(line, answer), heard) {
                    (Ok(Some((revision, greeting))), Heard::Modern(_)) => {
                        self.memory.learn(Era::Modern, true);
                        self.memory.learn(Era::Legacy, true);
                        Step::OpenBoth(revision, greeting)
                    }
                    (Ok(Some((revision, greeting))), _) => {
                        self.memory.learn(Era::Modern, false);
                        self.open_legacy(revision, greeting)
                    }
                    (Ok(None), Heard::Modern(greeting)) => self.open_modern(greeting),
                    (Ok(None), Heard::AskAgain) => self.ask_again(Some(refused(answer))),
                    (Ok(None), Heard::Other) => self.fail(refused(answer)),
                    (Ok(None), Heard::Nothing) => {
                        self.stage = OpeningState::Late { probe, refusal: refused(answer) };
                        Step::Wait
                    }
                    (Err(failure), _) => self.fail(failure),
                }
            }
            OpeningState::Late { probe, refusal } if probe == answered => match modern {
                Some(greeting) => self.open_modern(greeting),
                None if names_ours(answer) => self.ask_again(Some(refusal)),
                None => self.fail(refusal),
            },
            OpeningState::Shaking { id, may_probe } if id == answered => match shaken(line, answer)
            {
                Ok(Some((revision, greeting))) => self.open_legacy(revision, greeting),
                Ok(None) if may_probe => {
                    let refusal = Some(refused(answer));
                    self.stage = OpeningState::LastProbe { id: 0, refusal, is_second: false };
                    Step::Discover
                }
                Ok(None) => self.fail(refused(answer)),
                Err(failure) => self.fail(failure),
            },
            OpeningState::LastProbe { id, refusal, is_second } if id == answered => match modern {
                Some(greeting) => {
                    self.memory.learn(Era::Legacy, false);
                    self.open_modern(greeting)
                }
                None if !is_second && names_ours(answer) => self.ask_again(refusal),
                None => {
                    let refusal = refusal.unwrap_or_else(|| refused(answer));
                    self.fail(refusal)
                }
            },
            other => {
                self.stage = other;
                Step::Wait
            }
        }
    }

    /// Is `id` a question of ours that is still open?
    pub(super) fn waits_for(&self, asked: u64) -> bool {
        match &self.stage {
            OpeningState::Probing { id, .. }
            | OpeningState::Shaking { id, .. }
            | OpeningState::LastProbe { id, .. }
            | OpeningState::Late { probe: id, .. } => *id == asked,
            OpeningState::Both { probe, handshake, heard } => {
                *handshake == asked || (*probe == asked && matches!(heard, Heard::Nothing))
            }
            OpeningState::Over => false,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            OpeningState::Probing { until, .. } => until,
            _ => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) -> Step {
        match self.stage {
            OpeningState::Probing { id: probe, until: Some(until), .. } if until <= now => {
                self.stage = OpeningState::Both { probe, heard: Heard::Nothing, handshake: 0 };
                Step::Initialize
            }
            _ => Step::Wait,
        }
    }

    /// The process ended before it answered. Tells which era it died of, if it may do better
    /// in the other.
    pub(super) fn handle_lost(&self) -> Option<Era> {
        match self.stage {
            OpeningState::Probing { .. } => Some(Era::Modern),
            OpeningState::Shaking { may_probe: true, .. } => Some(Era::Legacy),
            _ => {
                self.memory.forget();
                None
            }
        }
    }

    /// The server speaks our version, and says so in a refusal.
    fn ask_again(&mut self, refusal: Option<Failure>) -> Step {
        self.stage = OpeningState::LastProbe { id: 0, refusal, is_second: true };
        Step::Discover
    }

    fn open_modern(&self, greeting: Bytes) -> Step {
        self.memory.learn(Era::Modern, true);
        Step::Open(Revision::MODERN, greeting)
    }

    fn open_legacy(&self, revision: Revision, greeting: Bytes) -> Step {
        self.memory.learn(Era::Legacy, true);
        Step::Open(revision, greeting)
    }

    fn fail(&self, failure: Failure) -> Step {
        self.memory.forget();
        Step::Fail(failure)
    }
}

/// The answer of a modern server to `server/discover`, if it is one.
fn discovered(line: &Bytes, answer: Answer<'_>) -> Option<Bytes> {
    let result = answer.ok()?;
    let versions = edit::member(result, "supportedVersions")?;
    names(versions, |version| version == Revision::MODERN.as_str())
        .then(|| line.slice_ref(result.as_bytes()))
}

/// Does the refusal of `server/discover` say that there is no version we share?
fn speaks_neither(answer: Answer<'_>) -> bool {
    let known = |version: &str| Revision::named(version).is_some();
    supported(answer).is_some_and(|supported| !names(supported, known))
}

/// Does it name the version that we asked in? Then the server has to be asked once more.
fn names_ours(answer: Answer<'_>) -> bool {
    let is_ours = |version: &str| version == Revision::MODERN.as_str();
    supported(answer).is_some_and(|supported| names(supported, is_ours))
}

/// The versions that a server names which refuses ours, raw.
fn supported(answer: Answer<'_>) -> Option<&str> {
    let error = answer.err()?;
    let code = edit::member(error, "code").and_then(|code| code.parse::<i64>().ok());
    let data = edit::member(error, "data").unwrap_or("{}");
    edit::member(data, "supported").filter(|_| code == Some(UNSUPPORTED_VERSION))
}

fn names(versions: &str, is_it: impl Fn(&str) -> bool) -> bool {
    edit::elements(versions)
        .any(|raw| crate::jsonrpc::string(raw).is_some_and(|version| is_it(&version)))
}

/// What `initialize` came to: a revision, `None` for a refusal, or a broken promise.
fn shaken(line: &Bytes, answer: Answer<'_>) -> Result<Option<(Revision, Bytes)>, Failure> {
    let Ok(result) = answer else { return Ok(None) };
    let version = edit::text(result, "protocolVersion").unwrap_or_default();
    match Revision::legacy(&version) {
        Some(revision) => Ok(Some((revision, line.slice_ref(result.as_bytes())))),
        None => {
            let message = format!("answered initialize with the unknown version `{version}`");
            Err(Failure::new(FailureKind::BrokeProtocol, message))
        }
    }
}

fn refused(answer: Answer<'_>) -> Failure {
    let error = answer.err().unwrap_or("{}");
    let told = edit::text(error, "message").unwrap_or_else(|| "no reason given".into());
    let code = edit::member(error, "code").and_then(|code| code.parse().ok()).map(Code::Number);
    let message = format!("refused the handshake: {told}");
    Failure { code, ..Failure::new(FailureKind::Unavailable, message) }
}
