//! Prompts, resources and templates of all servers as one list each (`docs/protocols/mcp.md`
//! 2.7.3, 2.7.4).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::{
    Back, Job, Purpose, Several, SeveralNotice, at, meta_of, on_behalf, params_of, unknown_method,
};
use crate::channel::{Down, Ticket};
use crate::json::{Json, Kind as JsonKind, edit};
use crate::jsonrpc::{kind as kind_of, string};
use crate::mcp::calling::era_of;
use crate::mcp::wire::{Era, INVALID_PARAMS, Refusal, SERVER_KEY, put_member, quoted};
use crate::tool::{Call, Failure, FailureKind, Outcome, Part};
use crate::view::Names;

/// How many entries a page of ours has.
const PAGE: usize = 1000;
/// How many pages of a server are read.
const PAGES_MAX: usize = 100;
/// How many entries of a server are listed.
const ENTRIES_MAX: usize = 10_000;

/// What servers list, besides tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    pub(super) const COUNT: usize = 3;

    pub(super) fn listed_by(method: &str) -> Option<Kind> {
        match method {
            "prompts/list" => Some(Kind::Prompts),
            "resources/list" => Some(Kind::Resources),
            "resources/templates/list" => Some(Kind::Templates),
            _ => None,
        }
    }

    /// Those that are others when a server says so.
    pub(super) fn changed_by(note: &str) -> &'static [Kind] {
        match note {
            "notifications/prompts/list_changed" => &[Kind::Prompts],
            "notifications/resources/list_changed" => &[Kind::Resources, Kind::Templates],
            _ => &[],
        }
    }

    fn method(self) -> &'static str {
        match self {
            Kind::Prompts => "prompts/list",
            Kind::Resources => "resources/list",
            Kind::Templates => "resources/templates/list",
        }
    }

    /// What a server must be able to do in order to have such a list.
    pub(super) fn capability(self) -> &'static str {
        match self {
            Kind::Prompts => "prompts",
            Kind::Resources | Kind::Templates => "resources",
        }
    }

    /// Where the entries stand in a result.
    fn member(self) -> &'static str {
        match self {
            Kind::Prompts => "prompts",
            Kind::Resources => "resources",
            Kind::Templates => "resourceTemplates",
        }
    }
}

/// One list of one back.
#[derive(Debug, Default)]
pub(super) struct List {
    /// As it was last.
    pub(super) last: Option<Arc<Listed>>,
    /// The back said that it has changed since.
    pub(super) is_stale: bool,
    /// It could not be read of late: clients are not shown what it was, and yet what it names is
    /// still known to be this back's.
    pub(super) is_left_out: bool,
    /// How often what is shown of it was another than before.
    pub(super) changes: u64,
    /// It is being read: what is there, and who waits for the rest.
    pub(super) reading: Option<Reading>,
}

/// What a back has listed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) entries: Vec<Json>,
    /// How long it may be kept, in milliseconds, and whether by this client alone.
    ttl_ms: u64,
    is_public: bool,
}

#[derive(Debug)]
pub(super) struct Reading {
    listed: Listed,
    pages: usize,
    waiting: BTreeSet<Ticket>,
    /// Who is told so if it is another than before.
    pub(super) notes: Vec<(Ticket, Json)>,
    /// A client was shown the list as it was before.
    is_late: bool,
}

impl Back {
    /// The server says that a list has changed.
    pub(super) fn changed(&mut self, method: &str) {
        for kind in Kind::changed_by(method) {
            self.lists[*kind as usize].is_stale = true;
        }
    }

    pub(super) fn listed(&self, kind: Kind) -> Option<&Arc<Listed>> {
        self.lists[kind as usize].last.as_ref()
    }
}

impl Several {
    pub(super) fn list(&mut self, now: Instant, front: Ticket, call: Call, kind: Kind) {
        let cursor = edit::member(params_of(&call), "cursor");
        let cursor = cursor.filter(|raw| kind_of(raw) != JsonKind::Null);
        let from = match cursor.map(|raw| offset(raw).ok_or(raw)) {
            None => 0,
            Some(Ok(from)) => from,
            Some(Err(raw)) => {
                let refusal = Refusal::new(INVALID_PARAMS, format!("unknown cursor: {raw}"));
                return self.refuse(front, &refusal);
            }
        };
        let first_until = self.begin_list(now);
        let (waits, until) = (BTreeSet::new(), Several::patience(now).min(first_until).max(now));
        let job = Job::List { call: call.clone(), kind, from, waits, asked: now, until };
        self.jobs.insert(front, job);
        let servers: Vec<_> = self.servers().collect();
        for back in servers {
            // The pages of one list are those of one moment.
            if 0 < from && self.backs[back].listed(kind).is_some() {
                continue;
            }
            let is_asked = self.read_list(now, front, back, kind, &call);
            // One that should have come by now is not waited for any more.
            let is_there = self.backs[back].greetings[at(era_of(&call))].is_some();
            if is_asked
                && (is_there || now < first_until)
                && let Some(Job::List { waits, .. }) = self.jobs.get_mut(&front)
            {
                waits.insert(back);
            }
        }
        self.listed(now, front);
    }

    /// Reads a list of this back for a call that waits for it; tells whether it has to wait.
    pub(super) fn read_list(
        &mut self,
        now: Instant,
        front: Ticket,
        back: usize,
        kind: Kind,
        call: &Call,
    ) -> bool {
        let era = era_of(call);
        match self.has(back, era, kind.capability()) {
            None => {
                return self.ask_greeting(now, front, back, call, Some(kind));
            }
            Some(false) => {
                let list = &mut self.backs[back].lists[kind as usize];
                (list.last, list.is_left_out) = (Some(Arc::default()), false);
                return false;
            }
            Some(true) => {}
        }
        if era == Era::Legacy {
            self.link(now, call.caller, back);
        }
        let list = &mut self.backs[back].lists[kind as usize];
        if let Some(reading) = &mut list.reading {
            reading.waiting.insert(front);
            return true;
        }
        let (listed, waiting) = (Listed::new(), BTreeSet::from([front]));
        let notes = Vec::new();
        list.reading = Some(Reading { listed, pages: 0, waiting, notes, is_late: false });
        list.is_stale = false;
        self.ask_page(now, back, kind, call, None);
        true
    }

    fn ask_page(
        &mut self,
        now: Instant,
        back: usize,
        kind: Kind,
        call: &Call,
        cursor: Option<&str>,
    ) {
        let mut params = vec![b'{'];
        if let Some(cursor) = cursor {
            put_member(&mut params, "cursor", cursor);
        }
        if let Some(meta) = meta_of(call) {
            put_member(&mut params, "_meta", meta);
        }
        params.push(b'}');
        let params = if params == b"{}" { Vec::new() } else { params };
        let asked = on_behalf(now, call, kind.method(), params);
        self.ask(back, asked, Purpose::Page { back, kind, call: Box::new(call.clone()) });
    }

    pub(super) fn page_came(
        &mut self,
        now: Instant,
        back: usize,
        kind: Kind,
        call: &Call,
        outcome: Result<Outcome, Failure>,
    ) {
        let raw = match outcome {
            Ok(Outcome::Native(raw)) => Ok(raw),
            Ok(_) => Err(Failure::new(FailureKind::BrokeProtocol, "expected a list")),
            Err(failure) => Err(failure),
        };
        let list = &mut self.backs[back].lists[kind as usize];
        let Some(reading) = &mut list.reading else { return };
        let read = raw.and_then(|raw| reading.read(kind, &raw));
        let failure = match read {
            Ok(Some(cursor)) => return self.ask_page(now, back, kind, call, Some(&cursor)),
            Ok(None) => None,
            Err(failure) => Some(failure),
        };
        let Some(Reading { listed, waiting, notes, is_late, .. }) = list.reading.take() else {
            return;
        };
        let is_read = failure.is_none();
        match failure {
            None => {
                let last = list.last.clone();
                let is_news = last.is_some_and(|last| !self.are_alike(back, kind, &last, &listed));
                let list = &mut self.backs[back].lists[kind as usize];
                list.changes += u64::from(is_news);
                (list.last, list.is_left_out) = (Some(Arc::new(listed)), false);
                if is_late && is_news {
                    self.tell_all(kind);
                }
            }
            Some(failure) => {
                list.is_left_out = true;
                self.left_out(back, failure);
            }
        }
        self.tell_noted(back, kind, notes, is_read);
        for front in waiting {
            self.list_settled(now, front, back, kind);
        }
    }

    /// A call need not wait for this list any longer.
    pub(super) fn list_settled(&mut self, now: Instant, front: Ticket, back: usize, kind: Kind) {
        match self.jobs.get_mut(&front) {
            Some(Job::List { waits, .. }) => {
                waits.remove(&back);
                self.listed(now, front);
            }
            Some(Job::Find { waits, .. }) => {
                waits.remove(&(back, kind));
                self.found(now, front);
            }
            _ => {}
        }
    }

    /// Time has passed: some backs are not waited for any longer. What is looked for in lists is
    /// looked for in those that are there.
    pub(super) fn wait_no_longer(&mut self, now: Instant, front: Ticket) {
        let first_until = self.begin_list(now);
        let backs = &mut self.backs;
        match self.jobs.get_mut(&front) {
            Some(Job::List { call, kind, waits, asked, until, .. }) => {
                let era = at(era_of(call));
                let is_again = *asked + super::PATIENCE <= now;
                waits.retain(|back| {
                    let is_there = backs[*back].greetings[era].is_some();
                    let list = &mut backs[*back].lists[*kind as usize];
                    if is_again && list.last.is_some() {
                        if let Some(reading) = list.reading.as_mut() {
                            reading.is_late = true;
                        }
                        return false;
                    }
                    // One that is there has the time that it is given for any answer.
                    is_there || list.last.is_some() || now < first_until
                });
                *until = if is_again { now + super::PATIENCE } else { *asked + super::PATIENCE };
                if now < first_until {
                    *until = first_until.min(*until);
                }
                self.listed(now, front);
            }
            Some(Job::Find { waits, .. }) => {
                waits.clear();
                self.found(now, front);
            }
            _ => {}
        }
    }

    fn listed(&mut self, _now: Instant, front: Ticket) {
        let Some(Job::List { waits, .. }) = self.jobs.get(&front) else { return };
        if !waits.is_empty() {
            return;
        }
        let Some(Job::List { call, kind, from, .. }) = self.jobs.remove(&front) else { return };
        let era = era_of(&call);
        let lacks = |back| self.has(back, era, kind.capability()) == Some(false);
        if self.servers().all(lacks) {
            return self.refuse(front, &unknown_method(kind.method()));
        }
        let is_missing = |back: &usize| self.backs[*back].greetings[at(era)].is_none();
        let missing: Vec<_> = self.servers().filter(is_missing).collect();
        for back in missing {
            self.missed(era, call.caller, back);
        }
        let entries = self.entries(kind);
        let shown = entries.get(from..).filter(|shown| from == 0 || !shown.is_empty());
        let Some(shown) = shown else {
            let message = format!("unknown cursor: \"tb{from}\"");
            return self.refuse(front, &Refusal::new(INVALID_PARAMS, message));
        };
        let result = self.page(era, kind, from, shown);
        self.succeed(front, result);
    }

    /// A list came later than clients were shown it.
    fn tell_all(&mut self, kind: Kind) {
        let method = format!("notifications/{}/list_changed", kind.capability());
        let note = Json::from_trusted(format!("{{\"method\":\"{method}\"}}"));
        let is_session = |job: &Job| matches!(job, Job::Session(_));
        let sessions = self.jobs.iter().filter(|(_, job)| is_session(job));
        let mut told: Vec<_> = sessions.map(|(front, _)| *front).collect();
        told.sort_unstable();
        for front in told {
            self.downs.push_back((front, Down::Part(Part::Json(note.clone()))));
        }
        self.tell_listening(&method);
    }

    /// The entries of all backs, in their order, under the names that clients know.
    fn entries(&mut self, kind: Kind) -> Vec<Bytes> {
        let mut entries = Vec::new();
        // By name, whose it is and what its back calls it.
        let mut taken: HashMap<String, (usize, String)> = HashMap::new();
        for (index, back) in self.backs.iter().enumerate() {
            let list = &back.lists[kind as usize];
            let Some(listed) = list.last.as_ref().filter(|_| !list.is_left_out) else { continue };
            for entry in &listed.entries {
                let peer = &back.peer.name;
                if kind != Kind::Prompts {
                    let member = if kind == Kind::Resources { "uri" } else { "uriTemplate" };
                    let uri = edit::text(entry.as_str(), member).unwrap_or_default();
                    if self.shown.resource(peer, &uri) {
                        entries.push(entry.as_bytes().clone());
                    }
                    continue;
                }
                let Some(own) = edit::text(entry.as_str(), "name") else { continue };
                if !self.shown.prompt(peer, &own) {
                    continue;
                }
                let name = match self.shown.names() {
                    Names::Plain => own.clone().into_owned(),
                    Names::Back | Names::Full => format!("{peer}_{own}"),
                };
                if let Some((first, firsts)) = taken.get(&name) {
                    let first = &self.backs[*first].peer.name;
                    let both = format!("{first}.{firsts} and {}.{own}", back.peer.name);
                    if *firsts != *own && self.warned.insert(name.clone()) {
                        let told = format!("prompt name {name} stands for both {both}");
                        self.notices.push_back(SeveralNotice::SameName(told));
                    }
                    continue;
                }
                let shown = String::from_utf8(quoted(&name)).unwrap_or_default();
                let renamed = edit::replaced(entry.as_str(), "name", &shown);
                entries.extend(renamed.map(Bytes::from));
                taken.insert(name, (index, own.into_owned()));
            }
        }
        entries
    }

    fn page(&self, era: Era, kind: Kind, from: usize, shown: &[Bytes]) -> Bytes {
        let mut result = vec![b'{'];
        if era == Era::Modern {
            put_member(&mut result, "resultType", "\"complete\"");
        }
        put_member(&mut result, kind.member(), "[");
        for (index, entry) in shown.iter().take(PAGE).enumerate() {
            if index > 0 {
                result.push(b',');
            }
            result.extend_from_slice(entry);
        }
        result.push(b']');
        if PAGE < shown.len() {
            put_member(&mut result, "nextCursor", format!("\"tb{}\"", from + PAGE));
        }
        if era == Era::Modern {
            let capability = kind.capability();
            let asked =
                self.servers().filter(|back| self.has(*back, era, capability) == Some(true));
            let listed = asked.filter_map(|back| self.backs[back].listed(kind));
            let (ttl_ms, is_public) = listed.fold((u64::MAX, true), |(ttl, public), listed| {
                (ttl.min(listed.ttl_ms), public && listed.is_public)
            });
            let ttl_ms = if ttl_ms == u64::MAX { 0 } else { ttl_ms };
            let is_public = is_public && !shown.is_empty() && self.shown.is_public();
            put_member(&mut result, "ttlMs", ttl_ms.to_string());
            let scope = if is_public { "\"public\"" } else { "\"private\"" };
            put_member(&mut result, "cacheScope", scope);
            put_member(&mut result, "_meta", format!("{{\"{SERVER_KEY}\":{}}}", self.us));
        }
        result.push(b'}');
        result.into()
    }

    /// Has every server that has such a list been read, and not changed since?
    pub(super) fn is_read(&self, back: usize, era: Era, kind: Kind) -> bool {
        if self.backs[back].greetings[at(era)].is_none() {
            return false;
        }
        let list = &self.backs[back].lists[kind as usize];
        self.has(back, era, kind.capability()) == Some(false)
            || (list.last.is_some() && !list.is_stale && !list.is_left_out)
    }
}

impl Listed {
    /// Nothing is known yet of how long it may be kept: whatever a page says is less.
    fn new() -> Listed {
        Listed { entries: Vec::new(), ttl_ms: u64::MAX, is_public: true }
    }
}

impl Reading {
    /// Takes a page; gives the cursor of the next, raw.
    fn read(&mut self, kind: Kind, raw: &Bytes) -> Result<Option<String>, Failure> {
        let result = str::from_utf8(raw).unwrap_or("{}");
        let entries = edit::elements(edit::member(result, kind.member()).unwrap_or("[]"));
        let room = ENTRIES_MAX + 1 - self.listed.entries.len();
        self.listed.entries.extend(entries.take(room).map(|entry| Json::part_of(raw, entry)));
        let too_large = |what: String| Failure::new(FailureKind::TooLarge, what);
        let name = kind.method();
        if ENTRIES_MAX < self.listed.entries.len() {
            return Err(too_large(format!("its {name} has more than {ENTRIES_MAX} entries")));
        }
        let ttl_ms = edit::member(result, "ttlMs").and_then(|raw| raw.parse().ok()).unwrap_or(0);
        self.listed.ttl_ms = self.listed.ttl_ms.min(ttl_ms);
        self.listed.is_public &= edit::text(result, "cacheScope").as_deref() == Some("public");
        self.pages += 1;
        let cursor = edit::member(result, "nextCursor").filter(|raw| string(raw).is_some());
        match cursor {
            Some(_) if self.pages == PAGES_MAX => {
                Err(too_large(format!("its {name} has more than {PAGES_MAX} pages")))
            }
            cursor => Ok(cursor.map(str::to_owned)),
        }
    }
}

/// The place in a list that a cursor of ours stands for.
fn offset(raw: &str) -> Option<usize> {
    let cursor = string(raw)?;
    let offset: usize = cursor.strip_prefix("tb")?.parse().ok()?;
    (offset > 0 && offset.is_multiple_of(PAGE)).then_some(offset)
}
