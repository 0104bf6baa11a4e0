//! What servers say of changes of their lists, for clients who are shown only a part of those: they are
//! told if that part is another than before, for which the list is read again.

use std::time::Instant;

use super::lists::{Kind, Listed};
use super::{Several, on_behalf};
use crate::channel::{Down, Ticket};
use crate::json::{Json, edit};
use crate::tool::{Call, CallerId, Part, What};

impl Several {
    /// What a client that begins to listen now has been told of, list by list.
    pub(super) fn begin_telling(&mut self, front: Ticket) {
        if self.shown.selection.is_none() {
            return;
        }
        let jobs = &self.jobs;
        self.told.retain(|(front, _), _| jobs.contains_key(front));
        for (index, back) in self.backs.iter().enumerate() {
            let changes = back.lists.each_ref().map(|list| list.changes);
            self.told.insert((front, index), changes);
        }
    }

    /// A server says this to a session.
    pub(super) fn noted_by_session(
        &mut self,
        now: Instant,
        front: Ticket,
        back: usize,
        caller: CallerId,
        note: Json,
    ) {
        let Some(session) = self.sessions.get(&caller) else { return };
        let client = Call { caller, ..Call::of(now, What::Tools) };
        let by = on_behalf(now, &client, "initialize", session.params());
        self.noted(now, front, back, &by, note);
    }

    /// A server says this to a client that listens by this call.
    pub(super) fn noted(
        &mut self,
        now: Instant,
        front: Ticket,
        back: usize,
        by: &Call,
        note: Json,
    ) {
        let method = edit::text(note.as_str(), "method").unwrap_or_default().into_owned();
        self.backs[back].changed(&method);
        if !self.is_told(back, &method, &note) {
            return;
        }
        let kinds = Kind::changed_by(&method);
        if kinds.is_empty() || self.shown.selection.is_none() {
            return self.downs.push_back((front, Down::Part(Part::Json(note))));
        }
        for kind in kinds {
            let list = &self.backs[back].lists[*kind as usize];
            // What no client was shown is no other than before.
            if list.last.is_none() {
                continue;
            }
            // One that was begun for others may be older than the change.
            let is_begun_for_others =
                list.reading.as_ref().is_some_and(|reading| reading.notes.is_empty());
            if !is_begun_for_others {
                self.read_list(now, front, back, *kind, by);
            }
            match &mut self.backs[back].lists[*kind as usize].reading {
                Some(reading) if !is_begun_for_others => reading.notes.push((front, note.clone())),
                _ => self.downs.push_back((front, Down::Part(Part::Json(note.clone())))),
            }
        }
    }

    /// A list was read again for these, or could not be.
    pub(super) fn tell_noted(
        &mut self,
        back: usize,
        kind: Kind,
        notes: Vec<(Ticket, Json)>,
        is_read: bool,
    ) {
        let changes = self.backs[back].lists[kind as usize].changes;
        for (front, note) in notes {
            let told = &mut self.told.entry((front, back)).or_default()[kind as usize];
            if self.jobs.contains_key(&front) && (*told < changes || !is_read) {
                *told = changes;
                self.downs.push_back((front, Down::Part(Part::Json(note))));
            }
        }
    }

    /// Do clients see the same in both of these lists of a back?
    pub(super) fn are_alike(&self, back: usize, kind: Kind, one: &Listed, other: &Listed) -> bool {
        let name = &self.backs[back].peer.name;
        let is_shown = |entry: &&Json| {
            let text = |member| edit::text(entry.as_str(), member).unwrap_or_default();
            match kind {
                Kind::Prompts => self.shown.prompt(name, &text("name")),
                Kind::Resources => self.shown.resource(name, &text("uri")),
                Kind::Templates => self.shown.resource(name, &text("uriTemplate")),
            }
        };
        one.entries.iter().filter(is_shown).eq(other.entries.iter().filter(is_shown))
    }
}
