//! Why a call is refused: its tool or prompt, its program or its back is not as the lock has it.

use std::time::Instant;

use toolbus_proto::did_you_mean::hinted;
use toolbus_proto::pin::{PinKind, escaped};
use toolbus_proto::tool::{Call, Failure, FailureKind, ToolName, What};

use super::{Finding, Guarded};
use crate::bus::lock::verdict::{Stand, Verdict};
use crate::bus::lock::{Identity, NOT_LOCKED, OnChange, OnNew, OnProgram, refused};

impl Guarded {
    /// The name in full.
    pub(super) fn full(&self, name: &str) -> String {
        format!("{}.{}", self.plan.name, escaped(name))
    }

    /// Why a tool or prompt cannot be called, as far as the lock and this verdict know.
    pub(super) fn refusal(
        &self,
        kind: PinKind,
        name: &str,
        verdict: Option<&Verdict>,
    ) -> Option<Failure> {
        let pinned = self.plan.pinned.as_ref()?;
        // What comes with the program stands in no lock.
        self.plan.pins?;
        if kind == PinKind::Tool && self.generic.iter().any(|own| own.name.as_str() == name) {
            return None;
        }
        let full = || self.full(name);
        match verdict.and_then(|verdict| verdict.stand(kind, name)) {
            Some(Stand::Changed(keys)) if self.plan.rules.changed == OnChange::Refuse => {
                let (what, full) = (kind.as_str(), full());
                let message = format!(
                    "{what} `{full}` has changed since it was locked: {}; see `toolbus lock diff {full}`",
                    keys.join(", ")
                );
                Some(refused("changed", message))
            }
            Some(Stand::Gone) => Some(unknown(kind, &full(), None)),
            Some(Stand::New) if self.plan.rules.new != OnNew::Refuse => None,
            Some(Stand::Changed(_)) => None,
            Some(Stand::New) => Some(self.not_offered(kind, &full())),
            None if pinned.shown.of(kind).contains_key(name) => None,
            None if self.plan.rules.new == OnNew::Refuse => Some(self.not_offered(kind, &full())),
            None => None,
        }
    }

    /// What is said of a tool of this back that is not offered under the name that a caller used.
    pub(crate) fn refusal_of(&self, called: &ToolName, own: &str) -> Option<Failure> {
        if self.is_shut() {
            return Some(self.not_locked());
        }
        let verdict = self.verdict.borrow().clone();
        let refusal = self.refusal(PinKind::Tool, own, verdict.as_deref())?;
        Some(match refusal.kind {
            FailureKind::UnknownTool => {
                Failure { message: format!("no such tool: `{called}`"), ..refusal }
            }
            _ => refusal,
        })
    }

    pub(super) fn not_offered(&self, kind: PinKind, full: &str) -> Failure {
        let back = &self.plan.name;
        let hint = format!(
            "what `toolbus.lock` does not have is not offered; `toolbus lock diff {back}` shows what is new"
        );
        unknown(kind, full, Some(hint))
    }

    pub(super) fn not_locked(&self) -> Failure {
        let name = &self.plan.name;
        let message = format!(
            "back `{name}` is not in `toolbus.lock`; `toolbus lock approve {name}` takes it in"
        );
        refused(NOT_LOCKED, message)
    }

    /// The tools of a program that must not be started are not listed either.
    pub(super) fn look_at_program(&self) {
        let list = Call::of(Instant::now(), What::Tools);
        if self.plan.rules.program == OnProgram::Refuse && self.connection(&list).is_none() {
            let _ = self.program_refusal();
        }
    }

    /// Looks at the program before it is started.
    pub(super) fn program_refusal(&self) -> Option<Failure> {
        let pinned = self.plan.pinned.as_ref()?;
        if self.plan.rules.program == OnProgram::Ignore {
            return None;
        }
        let identity = Identity::of(&self.plan.address, &self.plan.settings);
        let is_other = !identity.is_as(&pinned.noted);
        self.is_other_program.set(is_other);
        let name = &self.plan.name;
        let told = is_other.then(|| {
            let shown = identity.shown();
            format!("back.{name}: its program has changed since it was locked: {shown}")
        });
        self.tell_once(Finding::Program, false, told);
        (is_other && self.plan.rules.program == OnProgram::Refuse)
            .then(|| refused("program_changed", program_message(name, &identity)))
    }

    /// Why this call cannot be made, in the words of its caller.
    pub(super) fn refusal_for(
        &self,
        call: &Call,
        (kind, name): &(PinKind, String),
        verdict: Option<&Verdict>,
    ) -> Option<Failure> {
        let failure = self.refusal(*kind, name, verdict)?;
        Some(match (&call.what, failure.kind) {
            (What::Native { .. }, FailureKind::UnknownTool) => {
                Failure { message: format!("unknown {}: {name}", kind.as_str()), ..failure }
            }
            _ => failure,
        })
    }
}

fn unknown(kind: PinKind, full: &str, hint: Option<String>) -> Failure {
    let message = match kind {
        PinKind::Tool => format!("no such tool: `{full}`"),
        PinKind::Prompt | PinKind::Template => format!("unknown {}: {full}", kind.as_str()),
    };
    hinted(Failure::new(FailureKind::UnknownTool, message), hint)
}

pub(super) fn program_message(name: &str, identity: &Identity) -> String {
    format!(
        "the program of back `{name}` has changed since it was locked: {}; see `toolbus lock diff {name}`",
        identity.shown()
    )
}
