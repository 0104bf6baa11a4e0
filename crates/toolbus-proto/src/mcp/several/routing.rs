//! Which server a request is meant for (`docs/protocols/mcp.md` 2.7.1, 2.7.6).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;

use super::lists::Kind;
use super::{Job, Several, params_of, unknown_method};
use crate::channel::Ticket;
use crate::json::{Json, edit};
use crate::mcp::calling::era_of;
use crate::mcp::wire::{Era, INVALID_PARAMS, Refusal, put_member, quoted};
use crate::tool::{Call, What};
use crate::view::Names;

/// Resource not found, of the legacy era.
const NOT_FOUND: i64 = -32002;

/// What a request names, by which its server is found.
pub(super) enum Subject {
    Prompt(String),
    Resource(String),
    /// A template of resources, whose argument is to be completed.
    Template(String),
}

impl Subject {
    pub(super) fn of(method: &str, params: &str) -> Result<Option<Subject>, Refusal> {
        let needs = |what: &str| Refusal::new(INVALID_PARAMS, format!("{method} needs {what}"));
        let text = |object: &str, name: &str| {
            let text = edit::text(object, name).map(Cow::into_owned);
            text.ok_or_else(|| needs(&format!("{name}, a string")))
        };
        Ok(Some(match method {
            "prompts/get" => Subject::Prompt(text(params, "name")?),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                Subject::Resource(text(params, "uri")?)
            }
            "completion/complete" => {
                let reference = edit::member(params, "ref").unwrap_or("{}");
                match &*text(reference, "type").unwrap_or_default() {
                    "ref/prompt" => Subject::Prompt(text(reference, "name")?),
                    "ref/resource" => Subject::Template(text(reference, "uri")?),
                    _ => return Err(needs("ref, of type ref/prompt or ref/resource")),
                }
            }
            _ => return Ok(None),
        }))
    }

    /// The lists that say whose it is.
    fn kinds(&self) -> &'static [Kind] {
        match self {
            Subject::Prompt(_) => &[Kind::Prompts],
            Subject::Resource(_) => &[Kind::Resources, Kind::Templates],
            Subject::Template(_) => &[Kind::Templates],
        }
    }
}

impl Several {
    pub(super) fn find(&mut self, now: Instant, front: Ticket, call: Call) {
        let What::Native { method, .. } = &call.what else { return };
        let method = method.clone();
        let method = str::from_utf8(&method).unwrap_or_default();
        let subject = match Subject::of(method, params_of(&call)) {
            Ok(Some(subject)) => subject,
            Ok(None) => return self.refuse(front, &unknown_method(method)),
            Err(refusal) => {
                // As long as no server has said that it can complete, we have not, either.
                let is_declared =
                    method != "completion/complete" || self.has_one(era_of(&call), "completions");
                let refusal = if is_declared { refusal } else { unknown_method(method) };
                return self.refuse(front, &refusal);
            }
        };
        if let Some(back) = self.surely(&subject) {
            return self.send_to(now, front, back, call, &subject);
        }
        let era = era_of(&call);
        let (waits, until) = (BTreeSet::new(), Several::patience(now));
        self.jobs.insert(front, Job::Find { call: call.clone(), waits, until });
        let servers: Vec<_> = self.servers().collect();
        for back in servers {
            for &kind in subject.kinds() {
                if !self.is_read(back, era, kind)
                    && self.read_list(now, front, back, kind, &call)
                    && let Some(Job::Find { waits, .. }) = self.jobs.get_mut(&front)
                {
                    waits.insert((back, kind));
                }
            }
        }
        self.found(now, front);
    }

    /// All lists are there, or are waited for no longer: whose is it?
    pub(super) fn found(&mut self, now: Instant, front: Ticket) {
        let Some(Job::Find { waits, .. }) = self.jobs.get(&front) else { return };
        if !waits.is_empty() {
            return;
        }
        let Some(Job::Find { call, .. }) = self.jobs.remove(&front) else { return };
        let What::Native { method, .. } = &call.what else { return };
        let method = method.clone();
        let method = str::from_utf8(&method).unwrap_or_default();
        let Ok(Some(subject)) = Subject::of(method, params_of(&call)) else { return };
        let era = era_of(&call);
        let needed = match (&subject, method) {
            (_, "completion/complete") => "completions",
            (Subject::Prompt(_), _) => "prompts",
            _ => "resources",
        };
        if !self.has_one(era, needed) {
            return self.refuse(front, &unknown_method(method));
        }
        match self.surely(&subject).or_else(|| self.probably(era, &subject)) {
            Some(back) => self.send_to(now, front, back, call, &subject),
            None => self.refuse(front, &unknown(era, &subject)),
        }
    }

    /// Has a server said that it can do that?
    fn has_one(&self, era: Era, capability: &str) -> bool {
        self.servers().any(|back| self.has(back, era, capability) == Some(true))
    }

    /// Whose it is by the lists as they are known.
    fn surely(&self, subject: &Subject) -> Option<usize> {
        let lists = |back: usize, kind: Kind, member: &str, value: &str| {
            let listed = self.backs[back].listed(kind);
            let mut entries = listed.into_iter().flat_map(|listed| &listed.entries);
            entries.any(|entry| edit::text(entry.as_str(), member).as_deref() == Some(value))
        };
        let has = |back: &usize| match subject {
            Subject::Prompt(name) => self
                .own_name(*back, name)
                .is_some_and(|own| lists(*back, Kind::Prompts, "name", own)),
            Subject::Resource(uri) => lists(*back, Kind::Resources, "uri", uri),
            Subject::Template(uri) => lists(*back, Kind::Templates, "uriTemplate", uri),
        };
        self.servers().filter(has).find(|back| self.shows(*back, subject))
    }

    /// Is a client shown this of the back? What is hidden is looked for like what is not there.
    fn shows(&self, back: usize, subject: &Subject) -> bool {
        let name = &self.backs[back].peer.name;
        match subject {
            Subject::Prompt(prompt) => {
                let own = self.own_name(back, prompt);
                own.is_some_and(|own| self.shown.prompt(name, own))
            }
            Subject::Resource(uri) | Subject::Template(uri) => self.shown.resource(name, uri),
        }
    }

    /// Whose it is if no list has it: by the template that begins most like it, or because only
    /// one server has resources at all.
    fn probably(&self, era: Era, subject: &Subject) -> Option<usize> {
        let (Subject::Resource(uri) | Subject::Template(uri)) = subject else { return None };
        let mut best: Option<(usize, usize)> = None;
        for back in self.servers() {
            let listed = self.backs[back].listed(Kind::Templates);
            for entry in listed.into_iter().flat_map(|listed| &listed.entries) {
                let template = edit::text(entry.as_str(), "uriTemplate").unwrap_or_default();
                let start = template.split('{').next().unwrap_or_default();
                let is_better = best.is_none_or(|(_, length)| length < start.len());
                if uri.starts_with(start) && is_better {
                    best = Some((back, start.len()));
                }
            }
        }
        let mut able =
            self.servers().filter(|back| self.has(*back, era, "resources") == Some(true));
        let only = able.next().filter(|_| able.next().is_none());
        best.map(|(back, _)| back).or(only).filter(|back| self.shows(*back, subject))
    }

    /// What this back calls the prompt that clients know by `name`.
    fn own_name<'a>(&self, back: usize, name: &'a str) -> Option<&'a str> {
        match self.shown.names() {
            Names::Plain => Some(name),
            Names::Back | Names::Full => {
                name.strip_prefix(&*self.backs[back].peer.name)?.strip_prefix('_')
            }
        }
    }

    fn send_to(&mut self, now: Instant, front: Ticket, back: usize, call: Call, subject: &Subject) {
        if era_of(&call) == Era::Legacy {
            self.link(now, call.caller, back);
        }
        let params = params_of(&call);
        let What::Native { wire, method, body } = &call.what else { return };
        let renamed = match subject {
            Subject::Prompt(name) => {
                let own = self.own_name(back, name).unwrap_or(name);
                let own = String::from_utf8(quoted(own)).unwrap_or_default();
                match &**method {
                    b"completion/complete" => edit::replaced_inside(params, "ref", "name", &own),
                    _ => edit::replaced(params, "name", &own),
                }
            }
            Subject::Resource(_) | Subject::Template(_) => None,
        };
        if let Subject::Resource(uri) = subject {
            match &**method {
                b"resources/subscribe" => self.remember(call.caller, back, uri, Some(body.clone())),
                b"resources/unsubscribe" => self.remember(call.caller, back, uri, None),
                _ => {}
            }
        }
        let body = renamed.map_or_else(|| body.clone(), Bytes::from);
        let what = What::Native { wire: *wire, method: method.clone(), body };
        self.pass(front, back, Call { what, ..call });
    }
}

pub(super) fn unknown(era: Era, subject: &Subject) -> Refusal {
    match subject {
        Subject::Prompt(name) => Refusal::new(INVALID_PARAMS, format!("unknown prompt: {name}")),
        Subject::Resource(uri) | Subject::Template(uri) => {
            let code = match era {
                Era::Legacy => NOT_FOUND,
                Era::Modern => INVALID_PARAMS,
            };
            let mut data = vec![b'{'];
            put_member(&mut data, "uri", quoted(uri));
            data.push(b'}');
            let data = Some(Json::from_trusted(data));
            Refusal { data, ..Refusal::new(code, format!("resource not found: {uri}")) }
        }
    }
}
