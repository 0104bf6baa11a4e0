//! What comes back for a request, and how the client is told.

use std::time::Instant;

use bytes::Bytes;

use super::native::{with_subscription, withdrawn};
use super::{Behind, Conversation, InFlight, Job, Origin, Pass, Place, Progress};
use crate::channel::{Asked, Down, Ticket, Up};
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::jsonrpc::Id;
use crate::mcp::translate::{Blocks, refusal, relayed};
use crate::mcp::wire::{self, ERROR_KEY, Era, Revision, put_member, quoted};
use crate::tool::{Code, Failure, FailureKind, Outcome, Part};

impl Conversation {
    /// Goes on with the reply to `ticket`. Nothing happens if that request is over.
    pub fn down(&mut self, now: Instant, ticket: Ticket, down: Down) {
        if self.session.as_ref().is_some_and(|session| session.link == Some(ticket)) {
            return self.session_down(ticket, &down);
        }
        if let Down::Begin { .. } | Down::Part(_) = &down {
            self.decide_form(ticket);
        }
        let Some(call) = self.calls.get_mut(ticket) else { return };
        let place = call.origin.place;
        match (down, &mut call.job) {
            (Down::Done(outcome), job) => {
                let is_greeting = matches!(job, Job::Initialize { .. } | Job::Discover);
                self.done(now, ticket, is_greeting, outcome);
            }
            (Down::Begin { head, .. }, Job::Initialize { .. } | Job::Discover) => {
                let head = head.unwrap_or_else(|| Json::from_trusted("{}"));
                self.greeted(now, ticket, Some(head.as_str()), true);
            }
            (Down::Begin { head, .. }, Job::CallTool { blocks, .. }) => {
                let put = blocks.put_head(head.as_ref());
                self.calls.weigh(ticket);
                self.or_give_up(ticket, put.err());
            }
            (Down::Part(Part::Json(note)), Job::CallTool { .. })
                if withdrawn(&note).is_some_and(|ask| {
                    self.questions.values().any(|known| *known == (ticket, ask))
                }) =>
            {
                self.pass_on(place, ticket, None, &note);
            }
            (Down::Part(part), Job::CallTool { blocks, progress, .. }) => {
                let put = blocks.put_part(&part);
                let told = put.as_ref().ok().and_then(Clone::clone);
                let progress = progress.as_mut().zip(told);
                let note = progress.map(|(progress, told)| progress.part(call.revision, &told));
                if let Some(note) = note {
                    self.say(place, wire::notification("notifications/progress", Some(&note)));
                }
                self.calls.weigh(ticket);
                self.or_give_up(ticket, put.err());
            }
            (Down::Part(Part::Json(note)), Job::Pass(Pass { listening: Some(listening), .. })) => {
                let id = call.id.clone();
                let is_acknowledged = edit::text(note.as_str(), "method").as_deref()
                    == Some("notifications/subscriptions/acknowledged");
                listening.is_acknowledged |= is_acknowledged;
                match is_acknowledged && 0 < listening.losses {
                    true => self.listens_again(place, &id, &note),
                    false => self.pass_on(place, ticket, Some(&id), &note),
                }
            }
            (Down::Part(Part::Json(note)), Job::Pass(_)) => {
                self.pass_on(place, ticket, None, &note);
            }
            (Down::Progress(params), Job::CallTool { progress: Some(progress), .. }) => {
                let note = progress.told(&params);
                self.say(place, wire::notification("notifications/progress", Some(&note)));
            }
            (Down::Progress(params), Job::Pass(pass)) => {
                let Some(token) = &pass.token else { return };
                let token = str::from_utf8(token).unwrap_or("null");
                let note = edit::with_first(params.as_str(), "progressToken", token);
                self.say(place, wire::notification("notifications/progress", Some(&note.into())));
            }
            (Down::Log(params), Job::Pass(Pass { level, .. }) | Job::CallTool { level, .. }) => {
                let (era, level) = (call.revision.era(), *level);
                let session = self.session.as_ref().and_then(|session| session.level);
                let level = if era == Era::Legacy { session } else { level };
                self.pass_log(place, era, level, &params);
            }
            (Down::Ask(ask, asked), _) => self.pass_question(place, ticket, ask, &asked),
            (Down::Begin { .. } | Down::Part(_) | Down::Progress(_) | Down::Log(_), _) => {}
        }
    }

    /// Before the first part of a reply: are they shown collected, too?
    fn decide_form(&mut self, ticket: Ticket) {
        let Some(call) = self.calls.get_mut(ticket) else { return };
        let Job::CallTool { name, blocks, .. } = &call.job else { return };
        if !blocks.is_undecided() {
            return;
        }
        let (revision, name) = (call.revision, name.clone());
        let lists_output = self.lists_output(revision, &name);
        if let Some(Job::CallTool { blocks, .. }) =
            self.calls.get_mut(ticket).map(|call| &mut call.job)
        {
            blocks.decide(lists_output);
        }
    }

    /// What a server tells no request in particular.
    fn session_down(&mut self, ticket: Ticket, down: &Down) {
        match down {
            Down::Begin { head: Some(greeting), .. } => self.relinked(greeting.as_str()),
            Down::Part(Part::Json(note)) => self.pass_on(Place::SESSION, ticket, None, note),
            Down::Log(params) => {
                let level = self.session.as_ref().and_then(|session| session.level);
                self.pass_log(Place::SESSION, Era::Legacy, level, params);
            }
            Down::Ask(ask, asked) => self.pass_question(Place::SESSION, ticket, *ask, asked),
            Down::Done(_) => self.link_lost(ticket),
            Down::Begin { .. } | Down::Part(_) | Down::Progress(_) => {}
        }
    }

    /// A reply that met a limit is over: the rest need not be awaited.
    fn or_give_up(&mut self, ticket: Ticket, failure: Option<Failure>) {
        let Some(failure) = failure else { return };
        let Some(call) = self.forget(ticket) else { return };
        self.ups.push_back((ticket, Asked::Up(Up::Cancel(None))));
        self.fail(*call, &failure);
    }

    fn done(
        &mut self,
        now: Instant,
        ticket: Ticket,
        is_greeting: bool,
        outcome: Result<Outcome, Failure>,
    ) {
        if let Ok(Outcome::Tools(tools)) = &outcome {
            self.set_tools(tools.clone());
        }
        match &outcome {
            Ok(Outcome::Tools(_)) if is_greeting => return self.greeted(now, ticket, None, false),
            Ok(Outcome::Native(raw)) if is_greeting => {
                let raw = str::from_utf8(raw).ok();
                return self.greeted(now, ticket, raw, false);
            }
            _ => {}
        }
        let Some(mut call) = self.forget(ticket) else { return };
        if outcome.as_ref().is_err_and(|failure| failure.kind == FailureKind::Gone) {
            match self.listen_again(now, call) {
                Some(over) => call = over,
                None => return,
            }
        }
        let InFlight { id, origin, revision, job } = *call;
        match (job, outcome) {
            (Job::Compare(compare), outcome) => {
                return self.compare(now, origin, *compare, outcome.ok());
            }
            (Job::LookUpTool(tool), _) => return self.start_tool(now, id, origin, revision, tool),
            (Job::CallTool { .. }, Ok(Outcome::Native(result))) => {
                // A server that was asked as the client asked has answered in the client's era.
                let result = match self.settings.behind {
                    Behind::Several => result,
                    Behind::Hub | Behind::Server => relayed(revision, result, &self.us),
                };
                self.answer(origin, wire::result(&id, &result));
            }
            (Job::CallTool { name, blocks, .. }, Ok(end)) if blocks.needs_schema(&end) => {
                let job = Job::LookUpOutput { name: name.clone(), blocks, end };
                let call = Box::new(InFlight { id, origin, revision, job });
                self.look_up(now, call, name, None);
                return;
            }
            (Job::CallTool { blocks, .. }, Ok(outcome)) => {
                self.answer_tool(id, origin, revision, blocks, &outcome);
            }
            (Job::LookUpOutput { name, mut blocks, end }, _) => {
                blocks.settle(self.lists_output(revision, &name) == Some(true));
                self.answer_tool(id, origin, revision, blocks, &end);
            }
            (Job::ListTools { from }, Ok(Outcome::Tools(tools))) => {
                match self.page(revision, from, &tools) {
                    Ok(page) => self.answer(origin, wire::result(&id, &page)),
                    Err(refusal) => self.refuse(origin, &id, &refusal),
                }
            }
            (Job::Pass(pass), Ok(Outcome::Native(result))) => {
                let tagged = Some(&result).filter(|_| pass.listening.is_some());
                let tagged = tagged.and_then(|raw| str::from_utf8(raw).ok());
                let tagged = tagged.and_then(|raw| with_subscription(raw, &id));
                let result = tagged.map_or(result, Bytes::from);
                let mut text = self.spare.pop().unwrap_or_default();
                wire::put_result(&mut text, &id, &result);
                self.answer(origin, text);
                if let Some(memo) = pass.memo {
                    self.remember(memo);
                }
            }
            (Job::Aside, _) => {}
            (job, Err(failure)) => self.fail(InFlight { id, origin, revision, job }, &failure),
            (job, Ok(_)) => {
                let message = "the answer is of a kind that was not asked for";
                let failure = Failure::new(FailureKind::BrokeProtocol, message);
                self.fail(InFlight { id, origin, revision, job }, &failure);
            }
        }
        // Whether it went well or not: who waited for it is looked at now.
        self.opened(now, ticket);
    }

    /// What a tool of the hub answered well.
    fn answer_tool(
        &mut self,
        id: Id,
        origin: Origin,
        revision: Revision,
        blocks: Blocks,
        outcome: &Outcome,
    ) {
        let mut text = self.spare.pop().unwrap_or_default();
        wire::begin_result(&mut text, &id);
        match blocks.write_result(&mut text, outcome, &self.us) {
            Ok(()) => {
                text.put(b"}");
                self.answer(origin, text);
            }
            Err(failure) => {
                let job = Job::Discover;
                self.fail(InFlight { id, origin, revision, job }, &failure);
            }
        }
    }

    fn fail(&mut self, call: InFlight, failure: &Failure) {
        let InFlight { id, origin, revision, job } = call;
        if failure.kind == FailureKind::Cancelled {
            return self.leave_unanswered(origin);
        }
        let (tool, blocks) = match job {
            Job::CallTool { name, blocks, .. } => {
                // The error of a server that was asked as the client asked passes as it is.
                let detail = failure.detail.as_ref().filter(|_| failure.from_peer);
                let raw = detail.and_then(|detail| {
                    let raw = edit::member(detail.as_str(), ERROR_KEY)?;
                    Some(detail.as_bytes().slice_ref(raw.as_bytes()))
                });
                if let Some(raw) = raw {
                    return self.pass_error(origin, &id, failure, &raw);
                }
                (Some(name), Some(blocks))
            }
            Job::Pass(_) => {
                // What a server answered passes as it is, whatever it means.
                if let Some(error) = failure.detail.as_ref().filter(|_| failure.from_peer) {
                    return self.pass_error(origin, &id, failure, error.as_bytes());
                }
                (None, None)
            }
            _ => (None, None),
        };
        match refusal(revision, tool.as_ref(), failure) {
            Some(refusal) => self.answer_error(origin, &id, refusal.code, refusal.answer(&id)),
            None => {
                let blocks = blocks.unwrap_or_else(|| Blocks::new(revision));
                self.answer(origin, wire::result(&id, &blocks.failed(failure, &self.us)));
            }
        }
    }

    /// `error` is what a server said, of which `failure` tells.
    fn pass_error(&mut self, origin: Origin, id: &Id, failure: &Failure, error: &Bytes) {
        let code = match failure.code {
            Some(Code::Number(code)) => code,
            Some(Code::Word(_)) | None => 0,
        };
        self.answer_error(origin, id, code, wire::error(id, error));
    }
}

impl Progress {
    /// A part that came is progress, too.
    fn part(&mut self, revision: Revision, told: &str) -> Bytes {
        self.count += 1;
        let mut params = self.begin();
        put_member(&mut params, "progress", self.count.to_string());
        if Revision::V2025_03_26 <= revision {
            put_member(&mut params, "message", quoted(told));
        }
        params.push(b'}');
        params.into()
    }

    /// What a back tells of its progress.
    fn told(&mut self, told: &Json) -> Bytes {
        // A server was given a token in the place of the client's; all else is as it says.
        if let Ok(token) = str::from_utf8(&self.token)
            && let Some(told) = edit::replaced(told.as_str(), "progressToken", token)
        {
            return told.into();
        }
        let mut params = self.begin();
        let own = edit::member(told.as_str(), "progress");
        if own.is_some() {
            let others = edit::members(told.as_str()).filter(|(key, _)| key != "progressToken");
            for (key, value) in others {
                put_member(&mut params, &key, value);
            }
        } else if told.kind() == Kind::Number {
            put_member(&mut params, "progress", told.as_bytes());
        } else {
            self.count += 1;
            put_member(&mut params, "progress", self.count.to_string());
            put_member(&mut params, "message", quoted(&told.shown()));
        }
        params.push(b'}');
        params.into()
    }

    fn begin(&self) -> Vec<u8> {
        let mut params = vec![b'{'];
        put_member(&mut params, "progressToken", &self.token);
        params
    }
}
