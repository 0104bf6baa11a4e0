//! How calls become requests: `configure` before the first `execute`, and no more of those at a
//! time than the provider can do.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;

use super::answers::is_execute;
use super::requests::{Method, Request};
use super::{Client, Configured, telling};
use crate::channel::{Ticket, Up};
use crate::collect::InputCollector;
use crate::did_you_mean::nearest;
use crate::json::{Json, edit};
use crate::jsonrpc::string;
use crate::orchard::schema::{self, AttrError};
use crate::orchard::{WIRE, wire};
use crate::outstanding::Waiting;
use crate::tool::{Call, Failure, FailureKind, Outcome, ToolName, What, too_many_tools};

/// Executes that a provider with the extension `parallel` gets at a time.
const EXECUTES_MAX: usize = 1024;

/// An `execute` that is about to leave.
struct Prepared {
    action: ToolName,
    label: Option<String>,
    attrs: Bytes,
    gives_outputs: bool,
}

impl Client {
    /// Sends what can be sent. Only when it is really about to be written: until then another
    /// process could still take it.
    pub(super) fn send_next(&mut self) {
        if !self.desk.is_open() {
            return;
        }
        self.answer_what_needs_no_provider();
        while self.outstanding.count() < self.executes_max() {
            let next = self.desk.queue.calls().next().filter(|call| is_execute(call));
            match (self.configured, next) {
                (Configured::Asked, _) => return,
                // One that cannot be made is no reason to configure anything.
                (Configured::No, Some(call)) if self.prepare(&call.what).is_ok() => {
                    return self.configure_by_ourselves();
                }
                (Configured::No | Configured::Yes, _) => {}
            }
            let Some(Waiting { ticket, call, .. }) = self.desk.queue.pop() else { return };
            self.send(ticket, &call);
        }
    }

    fn executes_max(&self) -> usize {
        match self.schema().is_some_and(schema::ProviderSchema::is_parallel) {
            true => EXECUTES_MAX,
            false => 1,
        }
    }

    /// Lists and descriptions do not wait for what runs.
    fn answer_what_needs_no_provider(&mut self) {
        let is_wanted = |call: &Call| match &call.what {
            What::Tools => true,
            What::Native { method, .. } => method == "describe",
            What::Tool { .. } => false,
        };
        if !self.desk.queue.calls().any(is_wanted) {
            return;
        }
        for Waiting { ticket, call, .. } in self.desk.queue.take_asking(is_wanted) {
            let Some(described) = &self.described else { continue };
            let outcome = match call.what {
                What::Tools => match too_many_tools(described.tools.len(), described.bytes) {
                    Some(failure) => Err(failure),
                    None => Ok(Outcome::Tools(described.tools.clone())),
                },
                _ => Ok(Outcome::Native(described.schema.write().as_bytes().clone())),
            };
            self.desk.done(ticket, outcome);
        }
    }

    fn send(&mut self, ticket: Ticket, call: &Call) {
        let sent = match &call.what {
            What::Native { wire: WIRE, method, body } if method == "configure" => {
                Json::parse(body.clone())
                    .map_err(|error| Failure::new(FailureKind::InvalidArguments, error.to_string()))
                    .and_then(|config| self.send_configure(Some(ticket), Some(&config)))
            }
            what => match self.prepare(what) {
                Ok(prepared) => {
                    self.send_execute(ticket, call, prepared);
                    Ok(())
                }
                Err(failure) => Err(failure),
            },
        };
        if let Err(failure) = sent {
            self.desk.done(ticket, Err(failure));
        }
    }

    /// The config that was set for this provider, before its first call.
    fn configure_by_ourselves(&mut self) {
        let config = self.settings.config.clone();
        if let Err(failure) = self.send_configure(None, config.as_ref()) {
            for waiting in self.desk.queue.take_asking(is_execute) {
                self.desk.done(waiting.ticket, Err(failure.clone()));
            }
        }
    }

    fn send_configure(
        &mut self,
        ticket: Option<Ticket>,
        config: Option<&Json>,
    ) -> Result<(), Failure> {
        let Some(described) = &self.described else { return Err(Failure::cancelled()) };
        let mut text = Vec::new();
        let given = config.map(Json::as_str);
        schema::write_converted("config", &described.schema.config, given, &mut text)
            .map_err(|error| invalid(&self.settings.name, &error))?;
        let patience = self.settings.configure_timeout;
        let give_up = self.now.map(|now: Instant| now + patience);
        let patience = Some(patience);
        let request = Request { method: Method::Configure, ticket, patience };
        let id = self.outstanding.insert(give_up, request);
        wire::write_configure(&mut self.out, id, &text.into());
        self.configured = Configured::Asked;
        // What has a patience of its own takes nothing of a call's.
        self.desk.opened = None;
        Ok(())
    }

    fn send_execute(&mut self, ticket: Ticket, call: &Call, prepared: Prepared) {
        let Prepared { action, label, attrs, gives_outputs } = prepared;
        let give_up = self.desk.give_up(&call.deadline);
        let patience = call.deadline.quiet.or(call.deadline.total);
        let method = Method::Execute { action: action.clone(), label, gives_outputs };
        let request = Request { method, ticket: Some(ticket), patience };
        let id = self.outstanding.insert(give_up, request);
        wire::write_execute(&mut self.out, id, action.as_str(), &attrs);
    }

    fn prepare(&self, what: &What) -> Result<Prepared, Failure> {
        match what {
            What::Tool { name, args } => {
                self.prepare_execute(name.clone(), None, args.as_ref().map(Json::as_str))
            }
            // `label` is how the owner of the call knows it, for what people are told of it.
            What::Native { wire: WIRE, method, body } if method == "execute" => {
                let body = Json::parse(body.clone());
                let body = body.as_ref().map_or("{}", Json::as_str);
                let [action, attrs, label] = edit::pick(body, ["action", "attrs", "label"]);
                let action = ToolName::new(action.and_then(string).unwrap_or_default());
                self.prepare_execute(action, label.and_then(string).map(Cow::into_owned), attrs)
            }
            What::Native { method, .. } => {
                let what = format!("has no method `{}`", method.escape_ascii());
                let message = telling::provider(&self.settings.name, &what);
                Err(Failure::new(FailureKind::InvalidArguments, message))
            }
            What::Tools => Err(Failure::cancelled()),
        }
    }

    fn prepare_execute(
        &self,
        name: ToolName,
        label: Option<String>,
        args: Option<&str>,
    ) -> Result<Prepared, Failure> {
        let Some(described) = &self.described else { return Err(Failure::cancelled()) };
        let actions = &described.schema.actions;
        let Some(action) = actions.get(name.as_str()) else {
            let meant = nearest(name.as_str(), actions.keys().map(String::as_str));
            let hint = meant.map(|meant| format!("did you mean `{meant}`?"));
            let what = format!("has no action `{name}`");
            let message = telling::provider(&self.settings.name, &what);
            return Err(telling::failure(FailureKind::UnknownTool, message, hint.as_deref()));
        };
        let mut attrs = Vec::new();
        schema::write_converted("attrs", &action.attrs, args, &mut attrs)
            .map_err(|error| Failure::new(FailureKind::InvalidArguments, error.to_string()))?;
        let gives_outputs = action.outputs.is_some();
        Ok(Prepared { action: name, label, attrs: attrs.into(), gives_outputs })
    }

    /// The input of a call is complete: it is one value, as the wire has no streams.
    pub(super) fn collected(&mut self, ticket: Ticket, end: Up) {
        let Some(Waiting { mut call, ups, .. }) = self.collecting.remove(ticket) else { return };
        let What::Tool { args, .. } = &mut call.what else { return };
        let mut parts = InputCollector::new(args.take());
        match ups.into_iter().chain([end]).find_map(|up| parts.take(up)) {
            Some(Ok(whole)) => *args = whole,
            Some(Err(failure)) => return self.desk.done(ticket, Err(failure)),
            None => {}
        }
        let limits = call.deadline;
        self.desk.wait(ticket, call, &limits);
    }

    /// A caller changed its mind. What the provider does already cannot be stopped; its answer
    /// is dropped.
    pub(super) fn cancel(&mut self, ticket: Ticket) {
        let was_here = self.desk.queue.remove(ticket).is_some()
            || self.collecting.remove(ticket).is_some()
            || self.cancel_request(ticket);
        if was_here {
            self.desk.done(ticket, Err(Failure::cancelled()));
        }
    }

    fn cancel_request(&mut self, ticket: Ticket) -> bool {
        let mut requests = self.outstanding.iter_mut().map(|(_, request)| &mut request.ticket);
        requests.find(|waiting| **waiting == Some(ticket)).and_then(Option::take).is_some()
    }
}

/// A config that the provider cannot take is found before anything is sent.
fn invalid(name: &str, error: &AttrError) -> Failure {
    let message = telling::provider(name, &format!("cannot be configured: {error}"));
    Failure::new(FailureKind::InvalidArguments, message)
}
