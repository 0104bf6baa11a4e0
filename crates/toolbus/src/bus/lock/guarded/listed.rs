//! What is listed of a back: what the lock has of it, but for what is known to differ.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::json::Json;
use toolbus_proto::pin::{Definition, PinKind, Pinned};
use toolbus_proto::tool::ToolSpec;

use super::refusing::program_message;
use super::{Differs, Guarded};
use crate::bus::lock::verdict::{Stand, Verdict};
use crate::bus::lock::{Identity, OnChange, OnNew, OnProgram, mask};
use crate::peer::pins::Pins;

impl Guarded {
    /// How it differs from the lock, as far as is known.
    pub(crate) fn differs(&self) -> Option<Differs> {
        let name = &self.plan.name;
        let Some(pinned) = &self.plan.pinned else {
            return (self.plan.rules.new == OnNew::Refuse).then_some(Differs::NotLocked);
        };
        let verdict = self.verdict.borrow().clone();
        let tools = verdict.as_ref().map_or(0, |verdict| verdict.tools());
        if 0 < tools {
            return Some(Differs::Tools(tools));
        }
        if let Some(sentence) = verdict.as_ref().and_then(|verdict| others_differ(verdict)) {
            return Some(Differs::Otherwise(sentence));
        }
        if self.plan.rules.program != OnProgram::Ignore {
            let identity = Identity::of(&self.plan.address, &self.plan.settings);
            if !identity.is_as(&pinned.noted) {
                return Some(Differs::Otherwise(program_message(name, &identity)));
            }
        }
        let verdict = verdict.filter(|verdict| verdict.has_other_instructions);
        verdict.map(|_| {
            Differs::Otherwise(format!(
                "the instructions of back `{name}` have changed since they were locked"
            ))
        })
    }

    /// How many tools, prompts and templates are held back.
    pub(crate) fn held_back(&self) -> usize {
        let verdict = self.verdict.borrow().clone();
        let Some(verdict) = verdict else { return 0 };
        let is_held = |(_, _, stand): &(PinKind, &str, &Stand)| match stand {
            Stand::Changed(_) => self.plan.rules.changed == OnChange::Refuse,
            Stand::New => self.plan.rules.new == OnNew::Refuse,
            Stand::Gone => false,
        };
        verdict.all().filter(is_held).count()
    }

    /// How its tools stand to the lock that it refuses or warns of, with what they are now where
    /// they are held back: `changed` or `new`.
    #[allow(dead_code, reason = "a build may have no page")]
    pub(crate) fn standings(&self) -> Vec<(String, &'static str, Option<ToolSpec>)> {
        let Some(verdict) = self.verdict.borrow().clone() else { return Vec::new() };
        let standing = |(name, stand): (&str, &Stand)| {
            let (state, is_held) = match stand {
                Stand::Changed(_) => ("changed", self.plan.rules.changed == OnChange::Refuse),
                Stand::New if self.plan.rules.new == OnNew::Allow => return None,
                Stand::New => ("new", self.plan.rules.new == OnNew::Refuse),
                Stand::Gone => return None,
            };
            let now = verdict.now(PinKind::Tool, name).filter(|_| is_held);
            let spec = now.and_then(|now| self.spec(self.plan.pins?, now));
            Some((name.to_owned(), state, spec))
        };
        verdict.of_kind(PinKind::Tool).filter_map(standing).collect()
    }

    /// Another number for each comparison with the lock.
    #[allow(dead_code, reason = "a build may have no page")]
    pub(crate) fn compared_as(&self) -> usize {
        self.verdict.borrow().as_ref().map_or(0, |verdict| Rc::as_ptr(verdict) as usize)
    }

    pub(super) fn specs(&self, is_legacy: bool) -> &BTreeMap<String, ToolSpec> {
        self.pinned_specs[usize::from(is_legacy)].get_or_init(|| {
            let (Some(pinned), Some(pins)) = (&self.plan.pinned, self.plan.pins) else {
                return BTreeMap::new();
            };
            let spec = |(name, shown): (&String, &Definition)| {
                let legacy = pinned.legacy_definition(PinKind::Tool, name);
                let definition = legacy.filter(|_| is_legacy).unwrap_or(shown);
                Some((name.clone(), self.spec(pins, definition)?))
            };
            pinned.shown.tools.iter().filter_map(spec).collect()
        })
    }

    pub(super) fn spec(&self, pins: &dyn Pins, definition: &Definition) -> Option<ToolSpec> {
        let object = definition.object(pins.layouts().of(PinKind::Tool));
        pins.read(&Json::from_trusted(object))
    }

    /// The tools that such clients are shown: those of the lock, but for what is known to differ.
    pub(super) fn tools_now(&self, is_legacy: bool) -> Arc<[ToolSpec]> {
        if self.is_other_program.get() && self.plan.rules.program == OnProgram::Refuse {
            return Arc::new([]);
        }
        let mut all = self.specs(is_legacy).clone();
        for own in &self.generic {
            all.entry(own.name.to_string()).or_insert_with(|| own.clone());
        }
        let verdict = self.verdict.borrow().clone();
        if let (Some(verdict), Some(pins)) = (verdict, self.plan.pins) {
            for (name, stand) in verdict.of_kind(PinKind::Tool) {
                let is_shown = match stand {
                    Stand::Changed(_) => self.plan.rules.changed == OnChange::Warn,
                    Stand::New => self.plan.rules.new != OnNew::Refuse,
                    Stand::Gone => false,
                };
                all.remove(name);
                let now = verdict.now(PinKind::Tool, name).filter(|_| is_shown);
                if let Some(spec) = now.and_then(|now| self.spec(pins, now)) {
                    all.insert(name.to_owned(), spec);
                }
            }
        }
        let now: Arc<[ToolSpec]> = all.into_values().collect();
        let mut last = self.last_tools.borrow_mut();
        match &mut last[usize::from(is_legacy)] {
            Some(last) if *last == now => last.clone(),
            last => last.insert(now).clone(),
        }
    }

    /// The objects of a kind that are shown, as the wire writes them.
    pub(super) fn objects(&self, kind: PinKind, is_legacy: bool) -> Vec<String> {
        let (Some(pinned), Some(pins)) = (&self.plan.pinned, self.plan.pins) else {
            return Vec::new();
        };
        let layouts = pins.layouts();
        let verdict = self.verdict.borrow().clone().unwrap_or_default();
        let mut all: BTreeMap<&str, String> = BTreeMap::new();
        for name in pinned.shown.of(kind).keys() {
            let definition = match is_legacy {
                true => pinned.legacy_definition(kind, name),
                false => pinned.shown.of(kind).get(name),
            };
            if let Some(definition) = definition {
                all.insert(name, definition.object(layouts.of(kind)));
            }
        }
        for (name, stand) in verdict.of_kind(kind) {
            let is_shown = match stand {
                Stand::Changed(_) => self.plan.rules.changed == OnChange::Warn,
                Stand::New => self.plan.rules.new != OnNew::Refuse,
                Stand::Gone => false,
            };
            all.remove(name);
            if let Some(now) = verdict.now(kind, name).filter(|_| is_shown) {
                all.insert(name, now.object(layouts.of(kind)));
            }
        }
        all.into_values().collect()
    }

    /// Is what is listed by this object as the lock has it, or let through?
    pub(super) fn is_shown(&self, kind: PinKind, object: &str) -> bool {
        let (Some(pinned), Some(pins)) = (&self.plan.pinned, self.plan.pins) else { return true };
        let read = Definition::read(pins.layouts().of(kind), object, &mask);
        let Some(now) = read else { return true };
        let known = pinned.shown.of(kind).get(&now.name);
        let legacy = pinned.legacy_definition(kind, &now.name);
        match known {
            None => self.plan.rules.new != OnNew::Refuse,
            Some(known) => {
                let is_same = |known: &Definition| known.digest == now.digest;
                self.plan.rules.changed == OnChange::Warn
                    || is_same(known)
                    || legacy.is_some_and(is_same)
            }
        }
    }

    /// What is shown, by its texts.
    pub(super) fn shown_names(&self) -> (Arc<[ToolSpec]>, Vec<String>, Vec<String>) {
        let prompts = self.objects(PinKind::Prompt, false);
        (self.tools_now(false), prompts, self.objects(PinKind::Template, false))
    }

    /// What the back says of itself to a legacy and to a modern client, as the lock has it.
    pub(crate) fn greetings(&self) -> Option<[Json; 2]> {
        if !self.is_answered_for() || self.passes.get() {
            return None;
        }
        let pins = self.plan.pins?;
        Some([true, false].map(|is_legacy| self.greeting(pins, is_legacy)))
    }

    /// What the back says of itself to such a client: as the lock has it, but for instructions
    /// that may be others.
    pub(super) fn greeting(&self, pins: &dyn Pins, is_legacy: bool) -> Json {
        let empty = Pinned::default();
        let pinned = self.plan.pinned.as_deref().unwrap_or(&empty);
        let greeting = pins.greeting(is_legacy, pinned);
        let now = self.instructions.borrow()[usize::from(is_legacy)].clone();
        match now.filter(|_| self.plan.rules.changed == OnChange::Warn) {
            Some(now) => pins.with_instructions(&greeting, now.as_deref()),
            None => greeting,
        }
    }

    /// Is this tool one that the lock does not have, and that is let through?
    pub(crate) fn lets_through(&self, own: &str) -> bool {
        let verdict = self.verdict.borrow().clone();
        let stand = verdict.as_ref().and_then(|verdict| verdict.stand(PinKind::Tool, own));
        stand == Some(&Stand::New) && self.plan.rules.new != OnNew::Refuse
    }

    /// Is this prompt held back, so that it is not in the lists?
    pub(crate) fn holds_prompt(&self, own: &str) -> bool {
        let verdict = self.verdict.borrow().clone();
        let stand = verdict.as_ref().and_then(|verdict| verdict.stand(PinKind::Prompt, own));
        matches!(stand, Some(Stand::Changed(_))) && self.plan.rules.changed == OnChange::Refuse
    }
}

/// A sentence about prompts and templates that are not the same.
fn others_differ(verdict: &Verdict) -> Option<String> {
    let is_other = |(kind, ..): &(PinKind, &str, &Stand)| *kind != PinKind::Tool;
    let kinds: Vec<_> = verdict.all().filter(is_other).map(|(kind, ..)| kind.as_str()).collect();
    match kinds.as_slice() {
        [] => None,
        [one] => Some(format!("1 {one} is not as toolbus.lock has it")),
        all => {
            Some(format!("{} prompts and templates are not as toolbus.lock has them", all.len()))
        }
    }
}
