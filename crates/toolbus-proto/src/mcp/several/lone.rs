//! A server that stands alone behind clients who are not shown all of it, or are told apart:
//! what is said passes as it is, but for what they are not to see, or to see otherwise.
//!
//! Which tools and prompts there are is known from the server's lists; those are read before the
//! first call that needs them. So a name that is hidden and one that is not there take one path.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::entry::{self, json_text};
use super::routing::{self, Subject};
use super::{Job, Purpose, Several, SeveralNotice, meta_of, on_behalf, params_of, unknown_method};
use crate::channel::{Down, Ticket};
use crate::counted::Counted;
use crate::json::{Json, edit};
use crate::mcp::calling::era_of;
use crate::mcp::translate::{Blocks, refusal};
use crate::mcp::wire::{Era, INVALID_PARAMS, Refusal, Revision, SUBSCRIPTION_KEY, put_member};
use crate::tool::{Call, Failure, FailureKind, Outcome, Part, ToolName, What};
use crate::view::{Changed, Names, Rule, filled_in, room_for_fixed};

/// How many pages of a list are read, and how many entries.
const PAGES_MAX: usize = 100;
const ENTRIES_MAX: usize = 10_000;
/// How long a call waits for the lists that say whether its name is there.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often lists are read again for a name that they do not have.
const AGAIN: Duration = Duration::from_secs(1);
/// How many tasks of a caller are known.
const TASKS_MAX: usize = 10_000;

/// What a server lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    const ALL: [List; 4] = [List::Tools, List::Prompts, List::Resources, List::Templates];

    fn method(self) -> &'static str {
        match self {
            List::Tools => "tools/list",
            List::Prompts => "prompts/list",
            List::Resources => "resources/list",
            List::Templates => "resources/templates/list",
        }
    }

    /// Where the entries stand in a result.
    fn member(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
        }
    }

    fn listed_by(method: &str) -> Option<List> {
        List::ALL.into_iter().find(|list| list.method() == method)
    }

    /// What a client is told that began so to listen, if it wants to hear of this list.
    fn changed(self, by: &Call) -> Option<Json> {
        let What::Native { method, .. } = &by.what else { return None };
        let kind = match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            // One word stands for both.
            List::Resources | List::Templates => "resources",
        };
        let params = match &method[..] {
            b"initialize" => String::new(),
            b"subscriptions/listen" => {
                let wanted = edit::member(params_of(by), "notifications").unwrap_or("{}");
                let wants = edit::member(wanted, &format!("{kind}ListChanged"));
                wants.filter(|wants| *wants == "true")?;
                // The id of its client is put there.
                format!(",\"params\":{{\"_meta\":{{\"{SUBSCRIPTION_KEY}\":0}}}}")
            }
            _ => return None,
        };
        let note = format!("{{\"method\":\"notifications/{kind}/list_changed\"{params}}}");
        Some(Json::from_trusted(note))
    }

    /// Those that are others when a server says so.
    fn changed_by(note: &str) -> &'static [List] {
        match note {
            "notifications/tools/list_changed" => &[List::Tools],
            "notifications/prompts/list_changed" => &[List::Prompts],
            "notifications/resources/list_changed" => &[List::Resources, List::Templates],
            _ => &[],
        }
    }
}

/// What is known of the one server.
#[derive(Debug, Default)]
pub(super) struct Lone {
    lists: [Known; 4],
    /// Tools by the names that clients know.
    tools: HashMap<String, Tool>,
    /// Names that clients would know without a view.
    hidden: HashSet<String>,
    prompts: HashSet<String>,
    /// Those that calls of these clients began, the oldest first.
    tasks: VecDeque<String>,
    /// Which changes of lists were told to whom.
    told: Counted<Ticket, [u64; 4]>,
}

#[derive(Debug)]
struct Tool {
    /// What the server calls it.
    own: ToolName,
    /// The same as JSON, if that is something else than clients call it.
    renamed: Option<String>,
    rule: Option<Arc<Rule>>,
}

/// One list.
#[derive(Debug, Default)]
struct Known {
    /// The entries as clients saw them last, each by its sum.
    seen: Option<Vec<u64>>,
    /// Those of the pages that a client has read so far.
    paging: Vec<u64>,
    /// How often it was another than before.
    changes: u64,
    read_at: Option<Instant>,
    reading: Option<Reading>,
}

#[derive(Debug, Default)]
struct Reading {
    entries: Vec<String>,
    pages: usize,
    /// Calls whose names are looked for.
    waiting: Vec<Ticket>,
    /// Those who are told of it if the list is another.
    notes: Vec<(Ticket, Json)>,
}

/// What becomes of what the server says to a request.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    /// It says who it is, or tells of changes for as long as its client listens.
    Session(Arc<Call>),
    /// A page of a list, the first or a further one.
    Page {
        list: List,
        is_first: bool,
        revision: Revision,
    },
    /// A call of a tool, which may have become a task.
    Call,
    /// One with arguments that it may not have, by the name that its client knows.
    Refused {
        call: Arc<Call>,
        name: String,
    },
    Other,
}

/// A call that was refused before any back heard of it.
#[derive(Debug)]
pub struct Kept {
    /// The call as its client made it.
    pub call: Call,
    /// Why.
    pub failure: Failure,
    /// The tool that it would have reached, if only its client were shown it.
    pub hidden: Option<String>,
}

impl Several {
    pub(super) fn call_alone(&mut self, now: Instant, front: Ticket, call: Call) {
        let What::Native { method, .. } = &call.what else { return };
        let method = method.clone();
        let method = str::from_utf8(&method).unwrap_or_default();
        if self.shown.is_as_it_is() {
            return self.pass(front, 0, call);
        }
        // Of a tool nothing matters but its name.
        if method != "tools/call"
            && let Some(refusal) = self.refusal_alone(&call, method)
        {
            return self.refuse(front, &refusal);
        }
        let sought = self.shown.selection.as_ref().and_then(|_| sought(&call, method));
        if let Some((list, name)) = sought {
            return self.seek(now, front, call, list, name);
        }
        let edit = match method {
            "initialize" | "server/discover" | "subscriptions/listen" => {
                self.lone.told.insert(front, self.lone.lists.each_ref().map(|list| list.changes));
                Edit::Session(Arc::new(call.clone()))
            }
            "tools/call" => Edit::Call,
            _ => match List::listed_by(method) {
                Some(list) => {
                    let cursor = edit::member(params_of(&call), "cursor");
                    let is_first = cursor.is_none_or(|cursor| cursor == "null");
                    Edit::Page { list, is_first, revision: revision_of(&call) }
                }
                None => Edit::Other,
            },
        };
        self.pass_shown(front, call, edit);
    }

    /// What is changed about this call, if it is of a tool of the only server that is known to be
    /// shown, and nothing is wrong with it: then only its way there is another, and it need not be
    /// remembered here. What the server answers is shown as it is, but for
    /// [tasks](Several::tells_of_tasks).
    pub fn changed_call(&self, call: &Call) -> Option<Changed> {
        let What::Native { method, .. } = &call.what else { return None };
        let [super::Back { peer: super::Peer { speaks_mcp: true, .. }, .. }] =
            self.backs.as_slice()
        else {
            return None;
        };
        if self.shown.lists_tools || method != "tools/call" {
            return None;
        }
        let params = params_of(call);
        let name = edit::text(params, "name")?;
        if self.shown.selection.is_none() {
            return Some(Changed { own: ToolName::new(&*name), params: Ok(None) });
        }
        let Tool { own, renamed, rule } = self.lone.tools.get(&*name)?;
        let rule = rule.as_ref().filter(|rule| !rule.fixed.is_empty());
        let params = sent(params, &name, renamed.as_deref(), rule.map(|rule| &**rule));
        let params = Ok(params.ok()?);
        Some(Changed { own: own.clone(), params })
    }

    /// Are tasks that calls have become known to those alone who began them?
    pub fn tells_of_tasks(&self) -> bool {
        self.shown.is_closed
    }

    /// The server has answered a [changed call](Several::changed_call).
    pub fn answered(&mut self, result: &[u8]) {
        if let Ok(result) = str::from_utf8(result) {
            self.remember_task(result);
        }
    }

    fn pass_shown(&mut self, front: Ticket, call: Call, edit: Edit) -> Ticket {
        let ticket = self.ask(0, call, Purpose::Shown { front, edit });
        self.jobs.insert(front, Job::Pass { back: 0, ticket });
        ticket
    }

    /// Why a request is not for the server, as far as no list has to be known.
    fn refusal_alone(&self, call: &Call, method: &str) -> Option<Refusal> {
        let (params, era) = (params_of(call), era_of(call));
        if self.shown.is_closed && method.starts_with("tasks/") {
            let id = edit::text(params, "taskId");
            return match id {
                _ if method == "tasks/list" => Some(unknown_method(method)),
                Some(id) if !self.lone.tasks.iter().any(|known| *known == *id) => {
                    Some(Refusal::new(INVALID_PARAMS, format!("unknown task: {id}")))
                }
                _ => None,
            };
        }
        self.shown.selection.as_ref()?;
        let capability = super::capability_of(method);
        if capability.is_some_and(|capability| !self.shown.may_show(capability))
            || (!is_known(method) && !self.shown.method(method))
        {
            return Some(unknown_method(method));
        }
        let back = &self.backs[0].peer.name;
        let hidden = |uri: String| (!self.shown.resource(back, &uri)).then_some(uri);
        let uri = match method {
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                edit::text(params, "uri").and_then(|uri| hidden(uri.into_owned()))
            }
            "completion/complete" => match routing::Subject::of(method, params) {
                Ok(Some(Subject::Template(uri))) => hidden(uri),
                _ => None,
            },
            "subscriptions/listen" => {
                let wanted = edit::member(params, "notifications").unwrap_or("{}");
                let uris = edit::member(wanted, "resourceSubscriptions").unwrap_or("[]");
                let uris = edit::elements(uris).filter_map(crate::jsonrpc::string);
                uris.into_iter().find_map(|uri| hidden(uri.into_owned()))
            }
            _ => None,
        };
        uri.map(|uri| routing::unknown(era, &Subject::Resource(uri)))
    }

    /// Looks for the name of a call in the lists, which are read first if they were not.
    fn seek(&mut self, now: Instant, front: Ticket, call: Call, list: List, name: String) {
        if self.lone.has(list, &name) {
            return self.send_found(front, call, list, &name);
        }
        let known = &mut self.lone.lists[list as usize];
        if let Some(reading) = &mut known.reading {
            reading.waiting.push(front);
        } else if known.read_at.is_some_and(|at| now < at + AGAIN) {
            return self.not_there(front, call, list, &name);
        } else {
            known.reading = Some(Reading { waiting: vec![front], ..Reading::default() });
            self.read_page(now, list, &call, None);
        }
        self.jobs.insert(front, Job::Seek { call: Box::new(call), until: now + PATIENCE });
    }

    /// The list was read: is the name there now?
    fn sought_again(&mut self, front: Ticket, failure: Option<&Failure>) {
        let Some(Job::Seek { .. }) = self.jobs.get(&front) else { return };
        let Some(Job::Seek { call, .. }) = self.jobs.remove(&front) else { return };
        let Some((list, name)) = sought_in(&call) else { return };
        match failure {
            Some(failure) if self.may_be_away(list, &name) => self.fail(front, failure.clone()),
            None if self.lone.has(list, &name) => self.send_found(front, *call, list, &name),
            _ => self.not_there(front, *call, list, &name),
        }
    }

    /// May the server have this, which could not be read now? If it never was, patterns alone decide.
    fn may_be_away(&self, list: List, name: &str) -> bool {
        let Some(selection) = &self.shown.selection else { return true };
        let back = &self.backs[0].peer.name;
        if self.lone.lists[list as usize].read_at.is_some() {
            return false;
        }
        if list != List::Tools {
            return selection.shows_prompt(back, name);
        }
        let called = match selection.names() {
            Names::Full => name.strip_prefix(&**back).and_then(|rest| rest.strip_prefix('_')),
            Names::Back | Names::Plain => Some(name),
        };
        let own = called.and_then(|called| selection.own_name(back, called));
        own.is_some_and(|own| selection.shows_tool(back, &own, None, false))
    }

    fn not_there(&mut self, front: Ticket, call: Call, list: List, name: &str) {
        let refusal = match list {
            List::Tools => Refusal::new(INVALID_PARAMS, format!("unknown tool: {name}")),
            _ => routing::unknown(era_of(&call), &Subject::Prompt(name.to_owned())),
        };
        if list == List::Tools {
            let hidden = self.lone.hidden.get(name).cloned();
            let failure = Failure::new(FailureKind::UnknownTool, &*refusal.message);
            self.kept.push_back(Kept { call, failure, hidden });
        }
        self.refuse(front, &refusal);
    }

    /// The server is asked, in its own words.
    fn send_found(&mut self, front: Ticket, call: Call, list: List, name: &str) {
        let tool = self.lone.tools.get(name).filter(|_| list == List::Tools);
        let Some(Tool { own, renamed, rule }) = tool else {
            self.pass_shown(front, call, Edit::Other);
            return;
        };
        let rule = rule.as_ref().filter(|rule| !rule.fixed.is_empty());
        let params = sent(params_of(&call), name, renamed.as_deref(), rule.map(|rule| &**rule));
        let own = own.clone();
        let edit = match &params {
            Ok(_) => Edit::Call,
            Err(_) => Edit::Refused { call: Arc::new(call.clone()), name: name.to_owned() },
        };
        let is_changed = !matches!(params, Ok(None));
        let ticket = self.pass_shown(front, call, edit);
        if is_changed {
            self.changed.insert(ticket, Changed { own, params });
        }
    }

    /// What is changed about the call that is asked with this ticket, if something is.
    pub fn changed(&mut self, ticket: Ticket) -> Option<Changed> {
        self.changed.remove(&ticket)
    }

    /// As any tool whose arguments are wrong says so.
    fn refuse_arguments(&mut self, front: Ticket, call: &Call, name: &str, failure: &Failure) {
        let revision = revision_of(call);
        match refusal(revision, Some(&ToolName::new(name)), failure) {
            Some(refusal) => self.refuse(front, &refusal),
            None => {
                let told = Blocks::new(revision).failed(failure, &self.us);
                self.succeed(front, told);
            }
        }
    }

    fn read_page(&mut self, now: Instant, list: List, by: &Call, cursor: Option<&str>) {
        let mut params = vec![b'{'];
        if let Some(cursor) = cursor {
            put_member(&mut params, "cursor", cursor);
        }
        if let Some(meta) = meta_of(by) {
            put_member(&mut params, "_meta", meta);
        }
        params.push(b'}');
        let params = if params == b"{}" { Vec::new() } else { params };
        let asked = on_behalf(now, by, list.method(), params);
        self.ask(0, asked, Purpose::ReadAlone { list, call: Box::new(by.clone()) });
    }

    /// A page of a list has come that we read ourselves.
    pub(super) fn page_alone(
        &mut self,
        now: Instant,
        list: List,
        by: &Call,
        outcome: Result<Outcome, Failure>,
    ) {
        let known = &mut self.lone.lists[list as usize];
        let Some(reading) = &mut known.reading else { return };
        let failure = match outcome {
            Ok(Outcome::Native(raw)) => {
                let text = str::from_utf8(&raw).unwrap_or_default();
                let entries = edit::elements(edit::member(text, list.member()).unwrap_or("[]"));
                let room = ENTRIES_MAX - reading.entries.len();
                reading.entries.extend(entries.take(room).map(str::to_owned));
                reading.pages += 1;
                let cursor = edit::member(text, "nextCursor").filter(|cursor| *cursor != "null");
                let is_more = reading.pages < PAGES_MAX && reading.entries.len() < ENTRIES_MAX;
                if let Some(cursor) = cursor.filter(|_| is_more) {
                    let cursor = cursor.to_owned();
                    return self.read_page(now, list, by, Some(&cursor));
                }
                None
            }
            Ok(_) => Some(Failure::new(FailureKind::BrokeProtocol, "expected a list")),
            Err(failure) => Some(failure),
        };
        let Some(Reading { entries, waiting, notes, .. }) = known.reading.take() else { return };
        if failure.is_none() {
            self.lone.forget(list);
            let entries = entries.iter().map(String::as_str).collect::<Vec<_>>();
            let shown = self.shown_entries(list, &entries, revision_of(by), true);
            let known = &mut self.lone.lists[list as usize];
            known.read_at = Some(now);
            known.see(shown.iter().map(|(_, entry)| sum(entry)).collect());
        }
        for (front, note) in notes {
            let changes = self.lone.lists[list as usize].changes;
            let Some(told) = self.lone.told.get_mut(&front) else { continue };
            // What cannot be read may well be another.
            if told[list as usize] < changes || failure.is_some() {
                told[list as usize] = changes;
                self.downs.push_back((front, Down::Part(Part::Json(note))));
            }
        }
        for front in waiting {
            self.sought_again(front, failure.as_ref());
        }
    }

    /// What the server says to a request of a client.
    pub(super) fn down_alone(
        &mut self,
        now: Instant,
        ticket: Ticket,
        front: Ticket,
        edit: &Edit,
        down: Down,
    ) {
        let down = match (down, edit) {
            (Down::Begin { head, parts }, Edit::Session(_)) => {
                let back = self.backs[0].peer.name.clone();
                let shown =
                    |head: Json| Json::from_trusted(self.shown.greeting(&back, head.as_str()));
                Down::Begin { head: head.map(shown), parts }
            }
            (Down::Part(Part::Json(note)), Edit::Session(by)) => {
                return self.note_alone(now, front, by, note);
            }
            (Down::Done(done), edit) => {
                self.asked.remove(&ticket);
                self.jobs.remove(&front);
                self.lone.told.remove(&front);
                if let (Edit::Refused { call, name }, Err(failure)) = (edit, &done)
                    && failure.kind == FailureKind::InvalidArguments
                {
                    return self.refuse_arguments(front, call, name, failure);
                }
                Down::Done(match done {
                    Ok(Outcome::Native(result)) => {
                        Ok(Outcome::Native(self.result_alone(result, edit)))
                    }
                    done => done,
                })
            }
            (down, _) => down,
        };
        self.downs.push_back((front, down));
    }

    fn result_alone(&mut self, result: Bytes, edit: &Edit) -> Bytes {
        let text = str::from_utf8(&result).unwrap_or_default();
        let result = match edit {
            Edit::Session(by) => {
                let is_greeting = matches!(&by.what, What::Native { method, .. }
                    if method == "initialize" || method == "server/discover");
                match is_greeting {
                    true => self.shown.greeting(&self.backs[0].peer.name, text).into(),
                    false => result,
                }
            }
            Edit::Page { list, is_first, revision } => {
                self.page_shown(*list, *is_first, *revision, text).map_or(result, Bytes::from)
            }
            Edit::Call => {
                self.remember_task(text);
                return result;
            }
            Edit::Refused { .. } | Edit::Other => result,
        };
        self.shown.result(result)
    }

    /// A page that a client asked for; `None` if it is shown as it is.
    fn page_shown(
        &mut self,
        list: List,
        is_first: bool,
        revision: Revision,
        text: &str,
    ) -> Option<String> {
        self.shown.selection.as_ref()?;
        let entries: Vec<_> = edit::elements(edit::member(text, list.member())?).collect();
        let shown = self.shown_entries(list, &entries, revision, false);
        let known = &mut self.lone.lists[list as usize];
        if is_first {
            known.paging.clear();
        }
        let room = ENTRIES_MAX.saturating_sub(known.paging.len());
        known.paging.extend(shown.iter().take(room).map(|(_, entry)| sum(entry)));
        if edit::member(text, "nextCursor").is_none_or(|cursor| cursor == "null") {
            let paging = std::mem::take(&mut known.paging);
            known.see(paging);
        }
        let is_as_it_is = |(place, (at, shown)): (usize, &(usize, String))| {
            place == *at && *shown == entries[*at]
        };
        if shown.len() == entries.len() && shown.iter().enumerate().all(is_as_it_is) {
            return None;
        }
        let mut shown = shown.into_iter().peekable();
        let mut place = 0;
        let page = edit::kept(edit::member(text, list.member())?, |_| {
            let shown = shown.next_if(|(at, _)| *at == place);
            place += 1;
            shown.map(|(_, entry)| entry.into())
        });
        edit::replaced(text, list.member(), &page)
    }

    /// The entries that are shown, as they are, each with its place among all. What they are called is
    /// known from then on; of the whole list more is known than of a page.
    fn shown_entries(
        &mut self,
        list: List,
        entries: &[&str],
        revision: Revision,
        is_whole: bool,
    ) -> Vec<(usize, String)> {
        let Some(selection) = self.shown.selection.clone() else {
            let all = entries.iter().enumerate();
            return all.map(|(at, entry)| (at, (*entry).to_owned())).collect();
        };
        let back = self.backs[0].peer.name.clone();
        let member = match list {
            List::Tools | List::Prompts => "name",
            List::Resources => "uri",
            List::Templates => "uriTemplate",
        };
        let mut shown: Vec<(usize, String)> = Vec::new();
        // By the name that clients know: the place, and whether it was given by the view.
        let mut places: HashMap<String, (usize, bool, String)> = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            let Some(own) = edit::text(entry, member) else { continue };
            match list {
                List::Prompts if selection.shows_prompt(&back, &own) => {
                    self.lone.prompts.insert(own.into_owned());
                    shown.push((at, (*entry).to_owned()));
                }
                List::Resources | List::Templates if self.shown.resource(&back, &own) => {
                    shown.push((at, (*entry).to_owned()));
                }
                List::Tools => {
                    let hints = entry::hints(entry);
                    let plain = match selection.names() {
                        Names::Full => format!("{back}_{own}"),
                        Names::Back | Names::Plain => own.clone().into_owned(),
                    };
                    if !selection.shows_tool(&back, &own, hints.as_ref(), false) {
                        self.lone.hidden.insert(own.into_owned());
                        continue;
                    }
                    let rule = selection.rule(&back, &own);
                    let renamed = rule.as_ref().and_then(|rule| rule.rename.clone());
                    let is_renamed = renamed.is_some();
                    let name = match renamed {
                        Some(renamed) if selection.names() == Names::Full => {
                            format!("{back}_{renamed}")
                        }
                        Some(renamed) => renamed,
                        None => plain,
                    };
                    if name != *own {
                        self.lone.hidden.insert(own.clone().into_owned());
                    }
                    let changed = entry::tool(entry, &name, rule.as_ref(), revision);
                    match places.get(&name) {
                        Some((_, was_renamed, first)) if *was_renamed || !is_renamed => {
                            self.warn_of_name(&name, first.clone(), &own);
                            continue;
                        }
                        Some((place, _, first)) => {
                            let (place, first) = (*place, first.clone());
                            self.warn_of_name(&name, own.clone().into_owned(), &first);
                            shown[place].1.clear();
                        }
                        None => {}
                    }
                    // On a page of its own it gives way to what is known to have the name.
                    let known = self.lone.tools.get(&name);
                    let has_other = known
                        .is_some_and(|tool| tool.own.as_str() != own && tool.renamed.is_some());
                    if has_other && !is_renamed && !is_whole {
                        continue;
                    }
                    places
                        .insert(name.clone(), (shown.len(), is_renamed, own.clone().into_owned()));
                    let renamed = (name != *own).then(|| json_text(&own));
                    let (own, rule) = (ToolName::new(&*own), rule.map(Arc::new));
                    self.lone.tools.insert(name, Tool { own, renamed, rule });
                    shown.push((at, changed));
                }
                _ => {}
            }
        }
        // What gave way is empty.
        shown.retain(|(_, entry)| !entry.is_empty());
        shown
    }

    fn warn_of_name(&mut self, name: &str, first: String, second: &str) {
        let back = &self.backs[0].peer.name;
        let Some(selection) = &self.shown.selection else { return };
        let view = selection.label();
        let told = format!(
            "view {view}: tool name {name} stands for both {back}.{first} and {back}.{second}"
        );
        if self.warned.insert(told.clone()) {
            self.notices.push_back(SeveralNotice::SameTool(told));
        }
    }

    /// The server tells something for as long as a client listens.
    fn note_alone(&mut self, now: Instant, front: Ticket, by: &Arc<Call>, note: Json) {
        let method = edit::text(note.as_str(), "method").unwrap_or_default().into_owned();
        let lists = List::changed_by(&method);
        if self.shown.lists_tools && lists == [List::Tools] {
            return;
        }
        let back = &self.backs[0].peer.name;
        if method == "notifications/resources/updated" {
            let params = edit::member(note.as_str(), "params").unwrap_or("{}");
            let is_shown =
                edit::text(params, "uri").is_none_or(|uri| self.shown.resource(back, &uri));
            if !is_shown {
                return;
            }
        }
        let capability = method.split('/').nth(1).unwrap_or_default();
        if !lists.is_empty() && !self.shown.may_show(capability) {
            return;
        }
        let is_seen = |list: &&List| self.lone.lists[**list as usize].seen.is_some();
        let seen: Vec<_> = lists.iter().filter(is_seen).copied().collect();
        if self.shown.selection.is_none() || seen.is_empty() {
            self.downs.push_back((front, Down::Part(Part::Json(note))));
            return;
        }
        for list in seen {
            let known = &mut self.lone.lists[list as usize];
            let is_begun = known.reading.is_some();
            let reading = known.reading.get_or_insert_default();
            reading.notes.push((front, note.clone()));
            if !is_begun {
                self.read_page(now, list, by, None);
            }
        }
    }

    /// Clients are shown the server otherwise than before: those whose lists are others by that are
    /// told, once these were read again.
    pub fn lists_anew(&mut self, now: Instant) {
        let sessions = self.asked.values().filter_map(|purpose| match purpose {
            Purpose::Shown { front, edit: Edit::Session(by) } => Some((*front, by.clone())),
            _ => None,
        });
        let mut sessions: Vec<_> = sessions.collect();
        sessions.sort_unstable_by_key(|(front, _)| *front);
        for (front, by) in sessions {
            for list in List::ALL {
                let known = &mut self.lone.lists[list as usize];
                let is_of_bus = self.shown.lists_tools && list == List::Tools;
                let Some(note) = list.changed(&by).filter(|_| !is_of_bus) else { continue };
                // Of what was seen in part it is not known what the rest would have been.
                if known.seen.is_none() && !known.paging.is_empty() {
                    self.downs.push_back((front, Down::Part(Part::Json(note))));
                    continue;
                }
                if known.seen.is_none() {
                    continue;
                }
                let is_begun = known.reading.is_some();
                known.reading.get_or_insert_default().notes.push((front, note));
                if !is_begun {
                    self.read_page(now, list, &by, None);
                }
            }
        }
    }

    /// A call has become a task, if it has: it is known to those who began it.
    fn remember_task(&mut self, result: &str) {
        if !self.shown.is_closed || memchr::memmem::find(result.as_bytes(), b"taskId").is_none() {
            return;
        }
        let task = edit::member(result, "task").unwrap_or(result);
        let Some(id) = edit::text(task, "taskId") else { return };
        if TASKS_MAX <= self.lone.tasks.len() {
            self.lone.tasks.pop_front();
        }
        self.lone.tasks.push_back(id.into_owned());
    }

    /// The next call that was refused before any back heard of it, for those who keep count.
    pub fn poll_kept(&mut self) -> Option<Kept> {
        self.kept.pop_front()
    }
}

impl Lone {
    fn has(&self, list: List, name: &str) -> bool {
        match list {
            List::Tools => self.tools.contains_key(name),
            _ => self.prompts.contains(name),
        }
    }

    /// The whole list is known anew.
    fn forget(&mut self, list: List) {
        match list {
            List::Tools => {
                self.tools.clear();
                self.hidden.clear();
            }
            List::Prompts => self.prompts.clear(),
            List::Resources | List::Templates => {}
        }
    }

    /// Clients are shown otherwise from now on: nothing is known of what they will see, only of what
    /// they saw.
    pub(super) fn begin_anew(&mut self) {
        self.tools.clear();
        self.hidden.clear();
        self.prompts.clear();
        self.lists.iter_mut().for_each(|list| list.read_at = None);
    }
}

impl Known {
    fn see(&mut self, entries: Vec<u64>) {
        if self.seen.as_ref().is_some_and(|seen| *seen != entries) {
            self.changes += 1;
        }
        self.seen = Some(entries);
    }
}

/// The parameters of a call as the server gets them: with its own name for the tool, as JSON, and
/// what is fixed. `None` if nothing changes.
fn sent(
    params: &str,
    name: &str,
    own: Option<&str>,
    rule: Option<&Rule>,
) -> Result<Option<String>, Failure> {
    if own.is_none() && rule.is_none() {
        return Ok(None);
    }
    // They are looked through once. Who has one of them twice is left to those who change all.
    let (mut named, mut given, mut is_odd) = (None, None, false);
    for (key, value) in edit::members(params) {
        match &*key {
            "name" => is_odd |= named.replace(value).is_some(),
            "arguments" => is_odd |= given.replace(value).is_some(),
            _ => {}
        }
    }
    if is_odd {
        let filled = match rule {
            Some(rule) => {
                let given = given.map(|raw| Json::from_trusted(raw.to_owned()));
                Some(filled_in(name, given.as_ref(), &rule.fixed)?)
            }
            None => None,
        };
        let mut params = params.to_owned();
        if let Some(own) = own {
            params = edit::replaced(&params, "name", own).unwrap_or(params);
        }
        if let Some(filled) = &filled {
            params = edit::replaced(&params, "arguments", filled.as_str())
                .or_else(|| edit::with_behind(&params, "name", "arguments", filled.as_str()))
                .unwrap_or(params);
        }
        return Ok(Some(params));
    }
    let place = |part: &str| edit::offset(params, part);
    let named_own = named.zip(own).map(|(named, own)| Splice {
        at: place(named),
        length: named.len(),
        texts: ["", own, ""],
    });
    let filled = match (rule, given, named) {
        (Some(rule), Some("null"), _) => {
            let given = given.unwrap_or_default();
            let texts = ["{", rule.fixed.as_members(), "}"];
            Some(Splice { at: place(given), length: given.len(), texts })
        }
        (Some(rule), Some(given), _) => {
            let room = room_for_fixed(name, given, &rule.fixed)?;
            let comma = if room.is_behind_others { "," } else { "" };
            let texts = [comma, rule.fixed.as_members(), ""];
            Some(Splice { at: place(given) + room.at, length: 0, texts })
        }
        (Some(rule), None, Some(named)) => {
            let texts = [",\"arguments\":{", rule.fixed.as_members(), "}"];
            Some(Splice { at: place(named) + named.len(), length: 0, texts })
        }
        _ => None,
    };
    Ok(Some(match (named_own, filled) {
        (Some(one), Some(other)) if other.at < one.at => spliced(params, [other, one]),
        (Some(one), Some(other)) => spliced(params, [one, other]),
        (one, other) => spliced(params, one.or(other)),
    }))
}

/// What stands in the place of so many bytes, in parts.
#[derive(Clone)]
struct Splice<'a> {
    at: usize,
    length: usize,
    texts: [&'a str; 3],
}

/// The text with these in it, in order.
fn spliced<'a>(text: &str, all: impl IntoIterator<Item = Splice<'a>> + Clone) -> String {
    let more = |splice: Splice<'_>| splice.texts.iter().map(|text| text.len()).sum::<usize>();
    let more: usize = all.clone().into_iter().map(more).sum();
    let mut out = String::with_capacity(text.len() + more);
    let mut kept_from = 0;
    for Splice { at, length, texts } in all {
        out.push_str(&text[kept_from..at]);
        texts.iter().for_each(|part| out.push_str(part));
        kept_from = at + length;
    }
    out.push_str(&text[kept_from..]);
    out
}

/// By what an entry is known again.
fn sum(entry: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    entry.hash(&mut hasher);
    hasher.finish()
}

/// The tool or prompt that a request names, and the list that says whether it is there.
fn sought(call: &Call, method: &str) -> Option<(List, String)> {
    let params = params_of(call);
    match method {
        "tools/call" => Some((List::Tools, edit::text(params, "name")?.into_owned())),
        "prompts/get" | "completion/complete" => match Subject::of(method, params) {
            Ok(Some(Subject::Prompt(name))) => Some((List::Prompts, name)),
            _ => None,
        },
        _ => None,
    }
}

fn sought_in(call: &Call) -> Option<(List, String)> {
    let What::Native { method, .. } = &call.what else { return None };
    sought(call, str::from_utf8(method).ok()?)
}

fn revision_of(call: &Call) -> Revision {
    let known = call.options.known.and_then(|known| Revision::numbered(known.revision));
    known.unwrap_or_else(|| match era_of(call) {
        Era::Modern => Revision::MODERN,
        Era::Legacy => Revision::LAST_LEGACY,
    })
}

/// Does a revision of MCP have it?
fn is_known(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "ping"
            | "server/discover"
            | "tools/list"
            | "tools/call"
            | "prompts/list"
            | "prompts/get"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "completion/complete"
            | "logging/setLevel"
            | "subscriptions/listen"
            | "tasks/list"
            | "tasks/get"
            | "tasks/result"
            | "tasks/update"
            | "tasks/cancel"
            | "notifications/initialized"
            | "notifications/cancelled"
            | "notifications/progress"
            | "notifications/roots/list_changed"
            | "notifications/tasks/status"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_sent_with_the_servers_name_and_what_is_fixed() {
        let json = |text: &'static str| Json::parse(text).unwrap();
        let rule =
            Rule { fixed: [("b".to_owned(), json("2"))].into_iter().collect(), ..Rule::default() };
        let sent = |params: &str, own: Option<&str>, rule| {
            let own = own.map(json_text);
            sent(params, "t", own.as_deref(), rule).unwrap()
        };
        assert_eq!(sent(r#"{"name":"t"}"#, None, None), None);
        for (params, expected) in [
            (
                r#"{"x":1e400, "n\u0061me" : "t","arguments":{ "a":1 }, "y":[1.0]}"#,
                r#"{"x":1e400, "n\u0061me" : "own","arguments":{ "a":1,"b":2 }, "y":[1.0]}"#,
            ),
            (
                r#"{"arguments" : null,"_meta":{},"name":"t" }"#,
                r#"{"arguments" : {"b":2},"_meta":{},"name":"own" }"#,
            ),
            (r#"{"name":"t" ,"_meta":{}}"#, r#"{"name":"own","arguments":{"b":2} ,"_meta":{}}"#),
            // Which of two the server reads is not known.
            (
                r#"{"name":"s","arguments":[],"name":"t","arguments":{}}"#,
                r#"{"name":"own","arguments":{"b":2},"name":"own","arguments":{"b":2}}"#,
            ),
        ] {
            assert_eq!(sent(params, Some("own"), Some(&rule)).unwrap(), expected, "{params}");
        }
        let only_named = sent(r#"{"name":"t","arguments":[1]}"#, Some("own"), None).unwrap();
        assert_eq!(only_named, r#"{"name":"own","arguments":[1]}"#);
    }
}
