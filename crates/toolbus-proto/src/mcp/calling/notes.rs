//! Notifications of a server: progress, log messages, changes (`docs/protocols/mcp.md` 2.5).

use std::time::Instant;

use bytes::Bytes;

use super::asks::Whom;
use super::crossing::Crossing;
use super::listens::ACKNOWLEDGED;
use super::{MessageClient, Purpose, Sent, Session, is_own};
use crate::channel::{Down, Notice, Ticket};
use crate::json::Json;
use crate::json::edit;
use crate::jsonrpc::Id;
use crate::mcp::wire::{self, Level, SUBSCRIPTION_KEY, put_member, quoted};
use crate::printable::printable;
use crate::tool::{CallerId, Failure, Part};

impl MessageClient {
    pub(super) fn handle_note(
        &mut self,
        now: Instant,
        line: &Bytes,
        method: &str,
        params: Option<&str>,
    ) {
        match (method, params) {
            ("notifications/progress", Some(params)) => self.handle_progress(now, line, params),
            ("notifications/message", Some(params)) => self.handle_log(line, params),
            ("notifications/cancelled", Some(params)) => self.handle_withdrawn(line, params),
            ("notifications/tasks" | "notifications/tasks/status", _) => {
                self.heed_note_of_task(now, params);
                self.handle_change(line, method, params);
            }
            (
                "notifications/tools/list_changed"
                | "notifications/prompts/list_changed"
                | "notifications/resources/list_changed"
                | "notifications/resources/updated"
                | "notifications/subscriptions/acknowledged"
                | "notifications/elicitation/complete",
                _,
            ) => self.handle_change(line, method, params),
            _ => self.desk.notice(Notice::Ignored(format!("notification {method}"))),
        }
    }

    fn handle_progress(&mut self, now: Instant, line: &Bytes, params: &str) {
        let token = edit::member(params, "progressToken").and_then(|raw| raw.parse().ok());
        let Some(&ticket) = token.and_then(|token: u64| self.tokens.get(&token)) else { return };
        if self.tasks.rests(ticket) {
            let told = edit::without(params, "progressToken");
            return self.desk.downs.push_back((ticket, Down::Progress(Json::from_trusted(told))));
        }
        let Some(id) = self.requests.of(ticket).map(|sent| sent.id) else { return };
        self.silence.answered();
        if !self.asks.waits(ticket) {
            self.requests.heard(now, id);
        }
        let Some(sent) = self.requests.get(id) else { return };
        // Its caller is away, and will call again.
        if is_own(ticket) {
            return;
        }
        let told = match sent.purpose {
            // Our token means nothing to other wires; the front of ours puts its own there.
            Purpose::Tool { .. } | Purpose::Task(_) => {
                edit::without(params, "progressToken").into()
            }
            _ => wire::in_a_line(line, params),
        };
        self.desk.downs.push_back((ticket, Down::Progress(Json::from_trusted(told))));
    }

    fn handle_log(&mut self, line: &Bytes, params: &str) {
        let grave = edit::text(params, "level").and_then(|name| Level::named(&name));
        let is_wanted = |level: Option<Level>| level <= grave;
        let whom = match self.whom_of_calls(|sent| sent.level.is_some() && is_wanted(sent.level)) {
            Whom::None => self.whom(|session| is_wanted(session.level)),
            found => found,
        };
        match whom {
            Whom::One(ticket) if !is_own(ticket) => {
                let params = Json::from_trusted(wire::in_a_line(line, params));
                self.desk.downs.push_back((ticket, Down::Log(params)));
            }
            Whom::One(_) | Whom::None | Whom::Many => {
                let level = grave.map_or("info", Level::as_str);
                let data = edit::member(params, "data").unwrap_or("null");
                let is_wanted = whom == Whom::Many;
                let data = printable(data.as_bytes(), 1000);
                self.desk.notice(Notice::Logged { level, data, is_wanted });
            }
        }
    }

    /// The server takes back a question.
    fn handle_withdrawn(&mut self, line: &Bytes, params: &str) {
        let id = edit::member(params, "requestId").and_then(|raw| Id::part_of(line, raw));
        let Some((ticket, ask)) = id.and_then(|id| self.asks.withdraw(&id)) else { return };
        let sent = self.requests.of(ticket);
        if sent.is_some_and(|sent| self.answers_itself(sent)) {
            // A caller of another wire has no word for it.
            return;
        }
        if sent.is_some_and(|sent| sent.crossing.is_some()) {
            // A modern caller learns it when it calls again: what it is asked no more is ignored.
            return;
        }
        let params = edit::replaced(params, "requestId", &ask.0.to_string());
        self.tell(ticket, "notifications/cancelled", params.as_deref());
    }

    /// Something changed. A modern server says for which listening; a legacy one tells all.
    fn handle_change(&mut self, line: &Bytes, method: &str, params: Option<&str>) {
        if method == "notifications/tools/list_changed" {
            self.tools = None;
            self.desk.notice(Notice::ToolsChanged);
        }
        let tag = params.and_then(|params| edit::member(params, "_meta"));
        let tag = tag.and_then(|meta| edit::member(meta, SUBSCRIPTION_KEY));
        let params = params.map(|params| wire::in_a_line(line, params));
        let params = params.as_ref().and_then(|params| str::from_utf8(params).ok());
        if let Some(tag) = tag {
            let ticket = tag.parse().ok().and_then(|id: u64| self.requests.ticket(id));
            let Some(ticket) = ticket else { return };
            if self.listens.is_own(ticket) {
                return self.handle_own_note(ticket, method, params);
            }
            let is_news = method != ACKNOWLEDGED || self.handle_agreement(ticket);
            if is_news {
                self.tell(ticket, method, params);
            }
            return;
        }
        let mut sessions: Vec<_> = self.sessions.values().map(|session| session.ticket).collect();
        sessions.sort_unstable();
        for ticket in sessions {
            self.tell(ticket, method, params);
        }
        self.tell_listeners(method, params);
    }

    pub(super) fn tell(&mut self, ticket: Ticket, method: &str, params: Option<&str>) {
        let mut note = vec![b'{'];
        put_member(&mut note, "method", quoted(method));
        if let Some(params) = params {
            put_member(&mut note, "params", params);
        }
        note.push(b'}');
        let part = Part::Json(Json::from_trusted(note));
        self.desk.downs.push_back((ticket, Down::Part(part)));
    }

    /// Whose it is, among those whose session is `able`: the caller with a call under way, if
    /// there is one such caller; else the one session there is.
    fn whom(&self, able: impl Fn(&Session) -> bool) -> Whom {
        let session_of = |caller: &CallerId| self.sessions.get(caller).filter(|s| able(s));
        // What modern calls want they say themselves.
        let is_legacy = |sent: &Sent| sent.crossing.is_none();
        match self.whom_of_calls(|sent| is_legacy(sent) && session_of(&sent.caller).is_some()) {
            Whom::None => self.whom_of_sessions(able),
            found => found,
        }
    }

    /// Likewise, among those whose capabilities are `able`, of whichever era.
    pub(super) fn whom_able(&self, able: impl Fn(&Json) -> bool) -> Whom {
        let is_able = |sent: &Sent| match sent.crossing.as_deref() {
            Some(Crossing::Modern(caller)) => able(&caller.capabilities),
            _ if self.answers_itself(sent) => sent.user().is_some_and(|it| able(&it.capabilities)),
            _ => self.sessions.get(&sent.caller).is_some_and(|s| able(&s.capabilities)),
        };
        match self.whom_of_calls(is_able) {
            Whom::None => self.whom_of_sessions(|session| able(&session.capabilities)),
            found => found,
        }
    }

    /// The one session there is.
    fn whom_of_sessions(&self, able: impl Fn(&Session) -> bool) -> Whom {
        if self.heard_for.is_some_and(|id| self.requests.get(id).is_some()) {
            return Whom::None;
        }
        let mut sessions = self.sessions.values();
        match (sessions.next(), sessions.next()) {
            (Some(session), None) if able(session) => Whom::One(session.ticket),
            _ => Whom::None,
        }
    }

    /// The oldest such call, if all of them are of one caller; rather one that does not wait for
    /// an answer already, since most servers ask one thing after the other.
    fn whom_of_calls(&self, is_it: impl Fn(&Sent) -> bool) -> Whom {
        let is_pass = |sent: &Sent| {
            let is_native = matches!(sent.purpose, Purpose::Pass | Purpose::Listen);
            is_native || self.answers_itself(sent)
        };
        let is_it = |sent: &Sent| is_pass(sent) && is_it(sent);
        if let Some(ticket) = self.heard_for.and_then(|id| self.requests.ticket(id)) {
            let is_it = self.requests.of(ticket).is_some_and(is_it);
            return if is_it { Whom::One(ticket) } else { Whom::None };
        }
        let mut oldest: Option<(bool, u64, Ticket, CallerId)> = None;
        for sent in self.requests.iter().filter(|sent| is_it(sent)) {
            let this = (self.asks.waits(sent.ticket), sent.id, sent.ticket, sent.caller);
            match oldest {
                Some((.., caller)) if caller != sent.caller => return Whom::Many,
                Some(other) if (other.0, other.1) < (this.0, this.1) => {}
                _ => oldest = Some(this),
            }
        }
        oldest.map_or(Whom::None, |(_, _, ticket, _)| Whom::One(ticket))
    }

    /// Is it the call of a tool whose caller said what it answers?
    fn answers_itself(&self, sent: &Sent) -> bool {
        // A user of the command line is asked where no such caller is.
        sent.user().is_some() && self.user().is_none()
    }

    pub(super) fn handle_cancel(&mut self, ticket: Ticket, reason: Option<&Json>) {
        let cancelled = || Err(Failure::cancelled());
        if self.desk.queue.remove(ticket).is_some() {
            return self.done(ticket, cancelled());
        }
        let is_session = |session: &Session| session.ticket == ticket;
        if let Some(caller) = self.sessions.iter().find(|(_, s)| is_session(s)).map(|(c, _)| *c) {
            self.sessions.remove(&caller);
            if let Some(now) = self.latest {
                self.listen_for_sessions(now, 0);
            }
            return self.done(ticket, cancelled());
        }
        if let Some(round) = self.rounds.remove(&ticket) {
            if let Some(token) = round.token() {
                self.tokens.remove(&token);
            }
            return self.done(ticket, cancelled());
        }
        if self.leave_listening(ticket) || self.leave_task(ticket) {
            return self.done(ticket, cancelled());
        }
        if let Some(sent) = self.take_sent_of(ticket) {
            let reason = reason.map(|reason| reason.as_bytes().clone());
            self.cancel(sent.id, reason.as_deref());
            self.cancel_task_of(self.now(sent.deadline.asked), &sent.purpose);
            self.done(ticket, cancelled());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Calling as _, Outbox};
    use crate::mcp::calling::{Settings, Tokens};
    use crate::tool::{Call, Outcome, What};

    const MODERN: &str = r#"{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}"#;

    /// A legacy server that two modern callers have called, with ids 3 and 4.
    fn called_by_two(now: Instant) -> MessageClient {
        let tokens = Some(Tokens::new(|| "TOKEN".to_owned()));
        let mut client = MessageClient::new(Settings { tokens, ..Settings::new("w", "1") });
        for number in [0, 1] {
            let (method, body) =
                (Bytes::from_static(b"tools/call"), Bytes::from_static(MODERN.as_bytes()));
            let what = What::Native { wire: crate::mcp::WIRE, method, body };
            let call = Call { caller: CallerId(number), ..Call::of(now, what) };
            client.call(now, Ticket(number), call);
        }
        for said in [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
        ] {
            client.handle_message(now, &Bytes::from_static(said.as_bytes()));
        }
        while client.poll_message().is_some() {}
        client
    }

    const QUESTION: Bytes =
        Bytes::from_static(br#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);

    #[test]
    fn what_comes_on_the_stream_of_a_call_is_for_that_call() {
        let now = Instant::now();
        let mut client = called_by_two(now);
        client.handle_message_for(now, 4, &QUESTION);
        let (ticket, down) = client.poll_down().expect("one is asked");
        let Down::Done(Ok(Outcome::Native(asked))) = down else { panic!("{down:?}") };
        assert_eq!(ticket, Ticket(1));
        assert!(str::from_utf8(&asked).unwrap().contains("roots/list"), "{asked:?}");
    }

    #[test]
    fn what_comes_on_no_stream_may_be_for_either_and_is_for_neither() {
        let now = Instant::now();
        let mut client = called_by_two(now);
        client.handle_message(now, &QUESTION);
        assert_eq!(client.poll_down(), None);
        let mut told = Outbox::new();
        client.poll_message().expect("the server is told").write(&mut told);
        let told = told.take();
        assert!(str::from_utf8(&told).unwrap().contains("cannot tell which caller"), "{told:?}");
    }
}
