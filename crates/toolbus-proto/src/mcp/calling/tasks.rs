//! Tools that are carried out as tasks (`docs/protocols/mcp.md` 1.2, 1.3), for callers that do not
//! speak MCP: the server is asked how far it is until it is done. Clients that do speak it ask
//! themselves.
//!
//! A server of 2025-11-25 says of a tool that it must be a task, by a refusal where its list is not
//! known; its result is asked for apart. A modern server makes a task of a call as it likes, and the
//! result comes with the last status.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::crossing::LegacyCaller;
use super::{Form, MessageClient, Outgoing, Purpose, RequestId, Sent, missed};
use crate::channel::{Down, Ticket};
use crate::counted::Counted;
use crate::json::{Json, Kind, edit};
use crate::jsonrpc::{kind, string};
use crate::mcp::translate::with_last;
use crate::mcp::wire::{Era, UNKNOWN_METHOD, put_member, quoted};
use crate::tool::{Code, Deadline, Failure, FailureKind, TOOLS_MAX};

/// By which both sides of the modern era say that they know tasks.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// How often a server is asked that does not say how often it wants to be, and how often at most
/// and at least.
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(20);
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Up to which size the parameters of a call are kept that may have to be made again.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// What is known of tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Those that nothing is asked about at the moment.
    resting: Counted<Ticket, Resting>,
    /// The tools that must be tasks.
    required: HashSet<String>,
    /// A server of the old era carries out tools as tasks.
    are_taken: bool,
    /// A modern server may make tasks of calls.
    may_come: bool,
}

#[derive(Debug)]
struct Resting {
    sent: Sent,
    task: Box<Task>,
    /// When the server is asked next.
    at: Instant,
}

/// A call that became a task.
#[derive(Debug)]
pub(super) struct Task {
    /// Raw.
    id: String,
    name: String,
    form: Form,
    /// Who is asked what a modern server wants to know.
    pub(super) caller: Option<LegacyCaller>,
    interval: Duration,
    /// How often something was told of it, and what last.
    told: u64,
    message: Option<String>,
}

/// What a call has to do with tasks.
#[derive(Debug)]
pub(super) enum AsTask {
    Never,
    /// The server may say that it has to be one; the parameters, to send them again.
    IfRefused(Bytes),
    Asked,
    /// It is one of this id, raw, and done: its result is being asked for.
    Done(String),
}

impl Tasks {
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.resting.keys().copied()
    }

    pub(super) fn rests(&self, ticket: Ticket) -> bool {
        self.resting.contains_key(&ticket)
    }

    pub(super) fn take_all(&mut self) -> Vec<Ticket> {
        self.resting.drain().map(|(ticket, _)| ticket).collect()
    }

    /// Is none waited for?
    pub(super) fn is_empty(&self) -> bool {
        self.resting.is_empty()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.resting.values().map(Resting::next).min()
    }

    /// Learns of a list of tools, raw, which of them must be tasks.
    pub(super) fn learn(&mut self, listed: &str) {
        for tool in edit::elements(listed) {
            let support =
                edit::member(tool, "execution").and_then(|raw| edit::text(raw, "taskSupport"));
            if let (Some("required"), Some(name)) = (support.as_deref(), edit::text(tool, "name")) {
                self.require(name.into_owned());
            }
        }
    }

    fn require(&mut self, name: String) {
        if self.required.len() < TOOLS_MAX {
            self.required.insert(name);
        }
    }
}

impl Resting {
    /// When the server is asked, or the caller waits no longer.
    fn next(&self) -> Instant {
        let Deadline { asked, total, .. } = self.sent.deadline;
        total.map_or(self.at, |total| self.at.min(asked + total))
    }
}

impl MessageClient {
    /// Looks what the server has said of tasks, now that it has introduced itself.
    pub(super) fn learn_of_tasks(&mut self) {
        let theirs = self.server_capabilities();
        let extension = edit::member(theirs, "extensions")
            .and_then(|extensions| edit::member(extensions, EXTENSION));
        let path = ["tasks", "requests", "tools", "call"];
        let calls = path.iter().try_fold(theirs, |raw, name| edit::member(raw, name));
        let (has_extension, takes_calls) = (extension.is_some(), calls.is_some());
        self.tasks.may_come = has_extension;
        self.tasks.are_taken = takes_calls && self.era_spoken() == Some(Era::Legacy);
    }

    /// What we declare that we can do, for a server that may make tasks of calls.
    pub(super) fn with_tasks(&self, capabilities: &str) -> String {
        match self.tasks.may_come {
            true => with_last(capabilities, "extensions", format!(r#"{{"{EXTENSION}":{{}}}}"#)),
            false => capabilities.to_owned(),
        }
    }

    /// Whether the call of a tool is to be a task, and its parameters accordingly.
    pub(super) fn as_task(&self, name: &str, form: Form, params: Vec<u8>) -> (AsTask, Bytes) {
        let params = Bytes::from(params);
        if form == Form::Native || !self.tasks.are_taken {
            return (AsTask::Never, params);
        }
        match self.tasks.required.contains(name) {
            true => (AsTask::Asked, augmented(&params)),
            false if KEPT_BYTES_MAX < params.len() => (AsTask::Never, params),
            false => (AsTask::IfRefused(params.clone()), params),
        }
    }

    /// Was the call of a tool refused because it has to be a task? Then it is made again as one.
    pub(super) fn must_be_task(&self, purpose: &Purpose, failure: &Failure) -> bool {
        matches!(purpose, Purpose::Tool { task: AsTask::IfRefused(_), .. })
            && failure.code == Some(Code::Number(UNKNOWN_METHOD))
    }

    pub(super) fn call_as_task(&mut self, now: Instant, ticket: Ticket, mut sent: Sent) {
        let Purpose::Tool { name, task, .. } = &mut sent.purpose else { return };
        let AsTask::IfRefused(params) = std::mem::replace(task, AsTask::Asked) else { return };
        self.tasks.require(name.clone());
        self.ask_of_task(now, ticket, sent, "tools/call", augmented(&params));
    }

    /// Is it no result, but the promise of one?
    pub(super) fn is_task(&self, purpose: &Purpose, result: &str) -> bool {
        match purpose {
            Purpose::Tool { form: Form::Native, .. } => false,
            Purpose::Tool { task: AsTask::Asked, .. } => edit::member(result, "task").is_some(),
            Purpose::Tool { .. } => {
                edit::text(result, "resultType").as_deref() == Some("task")
                    && edit::member(result, "taskId").is_some()
            }
            _ => false,
        }
    }

    /// The call has become a task.
    pub(super) fn begin_task(
        &mut self,
        now: Instant,
        line: &Bytes,
        ticket: Ticket,
        mut sent: Sent,
        result: &str,
    ) {
        let Purpose::Tool { name, form, user, .. } = sent.purpose else { return };
        let status = edit::member(result, "task").unwrap_or(result);
        let id = edit::member(status, "taskId").filter(|raw| kind(raw) == Kind::String);
        let Some(id) = id.map(str::to_owned) else {
            let failure = Failure::new(FailureKind::BrokeProtocol, "gave a task without an id");
            return self.done(ticket, Err(failure));
        };
        let caller = user.map(|user| *user);
        let interval = INTERVAL;
        let task = Task { id, name, form, caller, interval, told: 0, message: None };
        sent.purpose = Purpose::Own;
        self.heed_status(now, line, ticket, sent, Box::new(task), status);
    }

    /// The server says how far a task is.
    pub(super) fn heed_status(
        &mut self,
        now: Instant,
        line: &Bytes,
        ticket: Ticket,
        mut sent: Sent,
        mut task: Box<Task>,
        status: &str,
    ) {
        if let Some(told) = task.news(status)
            && sent.token.is_some()
        {
            self.desk.downs.push_back((ticket, Down::Progress(told)));
        }
        let is_modern = self.era_spoken() == Some(Era::Modern);
        match (edit::text(status, "status").as_deref(), is_modern) {
            (Some("completed" | "failed" | "cancelled" | "input_required"), false) => {
                let params = self.task_params(&task.id);
                let Task { id, name, form, .. } = *task;
                let task = AsTask::Done(id);
                sent.purpose = Purpose::Tool { name, form, user: None, task };
                self.ask_of_task(now, ticket, sent, "tasks/result", params);
            }
            (Some("completed"), true) => {
                let result = edit::member(status, "result").unwrap_or("{}");
                sent.purpose = task.over();
                self.handle_answer(now, line, sent, Ok(result));
            }
            (Some("failed"), true) => {
                let error = edit::member(status, "error").unwrap_or("{}");
                sent.purpose = task.over();
                self.handle_answer(now, line, sent, Err(error));
            }
            (Some("cancelled"), true) => {
                let message = "the server has cancelled the task";
                self.done(ticket, Err(Failure::new(FailureKind::Failed, message)));
            }
            (Some("input_required"), true) => self.ask_for_task(now, ticket, sent, task, status),
            _ => {
                if let Some(token) = sent.token {
                    self.tokens.insert(token, ticket);
                }
                let at = now + task.interval;
                self.tasks.resting.insert(ticket, Resting { sent, task, at });
            }
        }
    }

    /// A modern server wants to know something before it goes on.
    fn ask_for_task(
        &mut self,
        now: Instant,
        ticket: Ticket,
        mut sent: Sent,
        mut task: Box<Task>,
        status: &str,
    ) {
        let caller = task.caller.take().filter(|caller| caller.can_answer(status));
        let Some(mut caller) = caller else {
            self.cancel_task(now, &task.id);
            let message = "the tool needs input, for which this caller cannot be asked";
            let code = Some(Code::Word("input_required".to_owned()));
            let failure = Failure::new(FailureKind::Failed, message);
            return self.done(ticket, Err(Failure { code, from_peer: true, ..failure }));
        };
        caller.method = Bytes::from_static(b"tasks/update");
        caller.params = self.task_params(&task.id);
        sent.purpose = Purpose::Task(task);
        // What is wanted back of a task is its id alone.
        let status = edit::without(status, "requestState");
        self.ask_round(now, ticket, sent, caller, &status);
    }

    /// Asks about the tasks whose time has come.
    pub(super) fn expire_tasks(&mut self, now: Instant) {
        let due = self.tasks.resting.iter().filter(|(_, resting)| resting.next() <= now);
        let mut due: Vec<_> = due.map(|(ticket, _)| *ticket).collect();
        due.sort_unstable();
        for ticket in due {
            let Some(Resting { mut sent, task, at }) = self.tasks.resting.remove(&ticket) else {
                continue;
            };
            if now < at {
                self.cancel_task(now, &task.id);
                self.forget_token(&sent);
                let failure = missed(now, &sent.deadline);
                self.done(ticket, Err(failure));
                continue;
            }
            let params = self.task_params(&task.id);
            sent.purpose = Purpose::Task(task);
            self.ask_of_task(now, ticket, sent, "tasks/get", params);
        }
    }

    /// The server tells something of a task by itself: it is asked at once how far that is.
    pub(super) fn heed_note_of_task(&mut self, now: Instant, params: Option<&str>) {
        let id = params.and_then(|params| edit::member(params, "taskId"));
        let resting = self.tasks.resting.values_mut();
        for resting in resting.filter(|resting| id == Some(&*resting.task.id)) {
            resting.at = now;
        }
    }

    /// The caller of a task that nothing is asked about waits no longer; tells whether it is one.
    pub(super) fn leave_task(&mut self, ticket: Ticket) -> bool {
        let Some(Resting { sent, task, at }) = self.tasks.resting.remove(&ticket) else {
            return false;
        };
        self.forget_token(&sent);
        self.cancel_task(self.latest.unwrap_or(at), &task.id);
        true
    }

    /// Tells the server to give up the task of a call whose answer is not wanted any more.
    pub(super) fn cancel_task_of(&mut self, now: Instant, purpose: &Purpose) {
        match purpose {
            Purpose::Task(task) => self.cancel_task(now, &task.id),
            Purpose::Tool { task: AsTask::Done(id), .. } => self.cancel_task(now, id),
            _ => {}
        }
    }

    fn cancel_task(&mut self, now: Instant, id: &str) {
        let tasks = edit::member(self.server_capabilities(), "tasks").unwrap_or("{}");
        let takes = edit::member(tasks, "cancel").is_some();
        if self.era_spoken() == Some(Era::Legacy) && !takes {
            return;
        }
        let params = str::from_utf8(&self.task_params(id)).unwrap_or("{}").to_owned();
        let timeout = self.settings.probe_timeout;
        self.ask_own(now, "tasks/cancel", params, Some(timeout));
    }

    fn forget_token(&mut self, sent: &Sent) {
        if let Some(token) = sent.token {
            self.tokens.remove(&token);
        }
    }

    fn task_params(&self, id: &str) -> Bytes {
        let mut params = vec![b'{'];
        put_member(&mut params, "taskId", id);
        self.put_meta(&mut params, None, None, None);
        params.push(b'}');
        params.into()
    }

    /// Asks the next thing for a call that goes on.
    fn ask_of_task(
        &mut self,
        now: Instant,
        ticket: Ticket,
        mut sent: Sent,
        method: &'static str,
        params: Bytes,
    ) {
        sent.since = self.silence.since();
        if let Some(token) = sent.token {
            self.tokens.insert(token, ticket);
        }
        let id = RequestId::Number(self.requests.ask(now, sent));
        let method = Bytes::from_static(method.as_bytes());
        self.outgoing.push_back(Outgoing::Request { id, method, params: Some(params) });
    }

    fn era_spoken(&self) -> Option<Era> {
        self.revision().map(super::Revision::era)
    }
}

impl Task {
    /// What the caller is told of a status, if there is something new in it.
    fn news(&mut self, status: &str) -> Option<Json> {
        let millis =
            edit::member(status, "pollInterval").or(edit::member(status, "pollIntervalMs"));
        if let Some(millis) = millis.and_then(|millis| millis.parse().ok()) {
            self.interval = Duration::from_millis(millis).clamp(INTERVAL_MIN, INTERVAL_MAX);
        }
        let message = edit::member(status, "statusMessage").and_then(string)?.into_owned();
        if self.message.as_ref() == Some(&message) {
            return None;
        }
        self.told += 1;
        let mut told = format!("{{\"progress\":{}", self.told).into_bytes();
        put_member(&mut told, "message", quoted(&message));
        told.push(b'}');
        self.message = Some(message);
        Some(Json::from_trusted(told))
    }

    /// What becomes of the result.
    fn over(self: Box<Task>) -> Purpose {
        let Task { name, form, .. } = *self;
        Purpose::Tool { name, form, user: None, task: AsTask::Never }
    }
}

/// The parameters of a call that is to be a task.
fn augmented(params: &Bytes) -> Bytes {
    with_last(str::from_utf8(params).unwrap_or("{}"), "task", "{}").into()
}
