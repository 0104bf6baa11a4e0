//! What stands between the callers of a bus and its backs: what they are shown, and how often they
//! may call. A bus without views, callers and limits has none of it.
//!
//! A bus is made for one front, and for one caller of it where callers are told apart. What it shows
//! is worked out with its catalogue; here is what becomes of each call.

mod admitted;
mod held;
mod house;
mod limits;
mod spec;
mod warnings;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use toolbus_proto::caller::{CallerName, Doors};
use toolbus_proto::channel::Down;
use toolbus_proto::http::Visit;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolName, ToolSpec, What, Wire};
use toolbus_proto::view::{Changed, Names, Pattern, Rule, Selection, Sort, View, filled_in};

use super::catalogue::Naming;
use super::config::FrontConfig;
use super::observe::{Kept, Observed, kind_of};
use super::{Bus, Listed, Member, hand_to};
use crate::engine::calls::{ReplyTo, RunningCall};
#[cfg(feature = "oauth")]
use crate::oauth::TokenCounts;
#[cfg(feature = "oauth")]
use crate::oauth::tokens::AskedTokens;
use admitted::admitted;
use held::HeldCalls;
use limits::InUse;

pub(super) use house::House;
pub(super) use limits::Limiter;
pub(super) use spec::seen_as;
pub(super) use warnings::forget_same_names;
pub(crate) use warnings::warn_of_same_name;
pub use warnings::{ViewOrCaller, ViewTold, Warning};

/// What stands between the callers of one bus and its backs.
#[derive(Clone, Default)]
pub(super) struct Gate {
    /// That of the front.
    view: Option<Arc<View>>,
    /// What is shown: the front's view and the caller's together.
    pub(super) selection: Option<Rc<Selection>>,
    /// That of the front, then that of the caller.
    limiters: Vec<Rc<Limiter>>,
    /// Those of the caller for what a pattern matches, sorted by pattern.
    by_pattern: Rc<[(Pattern, Rc<Limiter>)]>,
    /// Whom the front is for.
    doors: Option<Doors>,
    /// The held calls that callers may go on with for free.
    held: Rc<HeldCalls>,
    /// What the front asks of tokens of sign-in servers.
    #[cfg(feature = "oauth")]
    tokens: Option<Rc<AskedTokens>>,
}

impl Bus {
    /// The same bus, for calls that come from this front of its config: with the front's view,
    /// limits and callers.
    #[must_use]
    pub fn at_front(self, front: &FrontConfig) -> Bus {
        let bus = self.for_front(&front.name);
        let Some(house) = bus.house.clone() else { return bus };
        let view = front.view.as_deref().and_then(|name| house.view(name));
        let doors = front.callers.as_ref().map(|allowed| house.doors(allowed));
        let limiters = house.limiter_of_front(&front.name).into_iter().collect();
        let gate = Gate {
            view,
            limiters,
            doors,
            #[cfg(feature = "oauth")]
            tokens: house.tokens(&front.name),
            ..house.gate()
        };
        bus.behind(&house, gate, None)
    }

    /// The same bus, for calls of this caller: with its view beside that of the front, and its
    /// limits.
    #[must_use]
    pub fn as_caller(&self, caller: &CallerName) -> Bus {
        let Some(house) = self.house.clone() else { return self.clone() };
        let gate = match &self.gate {
            Some(gate) => Gate::clone(gate),
            None => house.gate(),
        };
        self.clone().behind(&house, gate, Some(caller))
    }

    /// Has its config a caller of this name?
    #[allow(dead_code, reason = "a build may have no front that is told names")]
    pub(crate) fn knows_caller(&self, caller: &CallerName) -> bool {
        self.house.as_ref().is_some_and(|house| house.caller(caller).is_some())
    }

    /// The same bus in this view of its config, for calls of this caller of its config, as commands
    /// are told.
    #[must_use]
    pub fn seen_by(self, view: Option<&str>, caller: Option<&CallerName>) -> Bus {
        let Some(house) = self.house.clone() else { return self };
        let view = view.and_then(|name| house.view(name));
        self.behind(&house, Gate { view, ..house.gate() }, caller)
    }

    fn behind(self, house: &Rc<House>, mut gate: Gate, caller: Option<&CallerName>) -> Bus {
        let rules = caller.and_then(|caller| house.caller(caller));
        let own = rules.and_then(|rules| rules.view.clone());
        if let Some(rules) = rules {
            gate.limiters.extend(rules.limiter.clone());
            gate.by_pattern = rules.by_pattern.clone();
        }
        gate.selection = Selection::new(gate.view.clone(), own).map(Rc::new);
        let view = gate.selection.as_ref().map(|selection| selection.label());
        let observers = self.observers.of_caller(caller.map(CallerName::shared), view);
        let catalogue = house.catalogue(self.naming, gate.selection.as_deref());
        let catalogue = catalogue.unwrap_or_else(|| self.catalogue.clone());
        let lenient = Rc::default();
        Bus { gate: Some(Rc::new(gate)), catalogue, observers, lenient, ..self }
            .searched_as_wanted()
    }

    /// Whom its front is for; `None` if that lets in callers without knowing them.
    pub fn doors(&self) -> Option<Doors> {
        self.gate.as_ref()?.doors.clone()
    }

    /// What its front asks of tokens of sign-in servers, if it lets them in.
    #[cfg(feature = "oauth")]
    pub(crate) fn asked_tokens(&self) -> Option<Rc<AskedTokens>> {
        self.gate.as_ref()?.tokens.clone()
    }

    /// [`Bus::native_wire`], whatever a view shows of what that back has.
    pub fn lone_wire(&self) -> Option<Wire> {
        match self.members.as_slice() {
            [only] if only.allow.is_none() && !self.may_search() && !self.offers_sign_in() => {
                Some(only.back.wire())
            }
            _ => None,
        }
    }

    /// A call of this tool is one of several in a request: has the token of that all the scopes
    /// which the tool needs? If not, the request knows it from then on.
    #[cfg(feature = "oauth")]
    #[allow(dead_code, reason = "a build may have no front whose requests have several calls")]
    pub(crate) fn judge_call(&self, name: &str, args: Option<&Json>, visit: &Arc<Visit>) {
        let Some(gate) = &self.gate else { return };
        let visit = Some(visit.clone());
        let found = match self.members.as_slice() {
            [only] if self.lone_wire().is_some() && self.selection().is_none() => {
                Some((&**only, ToolName::from(name)))
            }
            _ => self.look_up(&name.into()).map(|(member, own, _)| (member, own)),
        };
        if let Some((member, own)) = found {
            let _ = gate.lacking(member, (Sort::Tool, own.as_str()), args, &visit);
        }
    }

    /// May callers be asked to sign in to one of its backs?
    pub(crate) fn offers_sign_in(&self) -> bool {
        self.members.iter().any(|member| member.bare.offers_sign_in())
    }

    /// What it shows, if that is not everything.
    pub fn selection(&self) -> Option<&Rc<Selection>> {
        self.gate.as_ref()?.selection.as_ref()
    }

    /// What it shows of the tools that a back has listed, as they are shown.
    pub fn shown_of<'a>(&'a self, listed: &'a Listed) -> impl Iterator<Item = ToolSpec> + 'a {
        self.shown_with_own_names(listed).map(|(_, spec)| spec)
    }

    /// The same, each with its name without that of its back.
    pub fn shown_with_own_names<'a>(
        &'a self,
        listed: &'a Listed,
    ) -> impl Iterator<Item = (ToolName, ToolSpec)> + 'a {
        let Listed { back, address, tools } = listed;
        let selection = self.selection();
        tools.iter().flat_map(|tools| tools.iter()).filter_map(move |spec| {
            let Some(selection) = selection else {
                let name = self.name_of(back, &spec.name);
                return Some((spec.name.clone(), ToolSpec { name, ..spec.clone() }));
            };
            let (own, hints) = (spec.name.as_str(), spec.hints.as_ref());
            let is_generic = address.kind().generic_tools().contains(&own);
            let rule = selection.rule(back, own);
            let name = self.name_of(back, &spec.name);
            selection.shows_tool(back, own, hints, is_generic).then(|| {
                let renamed = rule.as_ref().and_then(|rule| rule.rename.as_deref());
                let own = renamed.map_or_else(|| spec.name.clone(), ToolName::from);
                (own, seen_as(spec, name, rule.as_ref()))
            })
        })
    }

    /// What a view changes about the tool of this name.
    pub(crate) fn rule_of(&self, name: &ToolName) -> Option<Rc<Rule>> {
        self.look_up(name).and_then(|(_, _, rule)| rule)
    }

    /// Would a view refuse these arguments, since it fills in some itself?
    pub fn refuses_arguments(&self, name: &ToolName, given: Option<&Json>) -> bool {
        let rule = self.rule_of(name).filter(|rule| !rule.fixed.is_empty());
        rule.is_some_and(|rule| filled_in(name.as_str(), given, &rule.fixed).is_err())
    }

    /// What its tools are called.
    pub(super) fn shown_naming(&self) -> Naming {
        match (self.selection().map(|selection| selection.names()), self.naming) {
            (Some(Names::Plain), _) => Naming::Plain,
            (Some(Names::Full), Naming::Plain) => Naming::Underscored,
            (_, naming) => naming,
        }
    }

    /// Can a tool of this back be shown?
    pub(super) fn may_show_tools(&self, index: usize) -> bool {
        let may_match =
            |selection: &Rc<Selection>| selection.may_match(Sort::Tool, &self.members[index].name);
        index < self.plain || self.selection().is_none_or(may_match)
    }

    /// Whose tool a caller means by a name that is in no list, because its back was never listed:
    /// by patterns alone.
    pub(super) fn shown_away(
        &self,
        selection: &Selection,
        name: &ToolName,
    ) -> Option<(usize, ToolName)> {
        let naming = self.shown_naming();
        let known = self.known.borrow();
        let unheard = self.members.iter().enumerate().filter(|(index, _)| {
            self.plain <= *index && known[*index].tools.is_none() && known[*index].failure.is_some()
        });
        let fits = unheard.filter_map(|(index, member)| {
            let behind = |dot: char| name.as_str().strip_prefix(&*member.name)?.strip_prefix(dot);
            let called = match naming {
                Naming::Plain => name.as_str(),
                Naming::Dotted => behind('.')?,
                Naming::Underscored => behind('_')?,
            };
            let own = selection.own_name(&member.name, called)?;
            let is_generic = member.address.kind().generic_tools().contains(&own.as_str());
            let is_shown = selection.shows_tool(&member.name, &own, None, is_generic);
            (is_shown && member.allows(&own.as_str().into())).then(|| (index, own.as_str().into()))
        });
        fits.max_by_key(|(index, _)| self.members[*index].name.len())
    }

    /// The tool that a name would stand for if all were shown.
    pub(super) fn hidden(&self, name: &ToolName) -> Option<(Arc<str>, ToolName)> {
        self.selection()?;
        let known = self.known.borrow();
        self.members.iter().zip(known.iter()).find_map(|(member, known)| {
            let behind = |dot: char| name.as_str().strip_prefix(&*member.name)?.strip_prefix(dot);
            let own = match self.naming {
                Naming::Plain => name.as_str(),
                Naming::Dotted => behind('.')?,
                Naming::Underscored => behind('_')?,
            };
            let is_there = |tool: &&ToolName| tool.as_str() == own;
            let tools = known.tools.as_ref()?;
            let own = tools.iter().map(|tool| &tool.name).find(is_there)?;
            Some((member.name.clone(), own.clone()))
        })
    }

    /// Calls a tool of a bus that has a gate.
    pub(super) fn start_behind(
        &self,
        gate: &Gate,
        call: Call,
        down: ReplyTo,
        seen: Option<&Rc<Observed>>,
    ) -> RunningCall {
        let refused = |down: ReplyTo, done: Result<Outcome, Failure>| {
            let _ = down.send(Down::Done(done));
            RunningCall::ended()
        };
        let name = match &call.what {
            What::Tool { name, .. } => name,
            What::Tools => return refused(down, Ok(Outcome::Tools(self.offered().into()))),
            What::Native { wire, .. } => {
                let member = match self.only(*wire) {
                    Ok(member) => member,
                    Err(failure) => return refused(down, Err(failure)),
                };
                return self.hand_natively(member, call, down, seen);
            }
        };
        let Some((member, own, rule)) = self.look_up(name) else {
            let failure = self.outage(name).unwrap_or_else(|| self.unknown(name));
            self.see_refusal(seen, name, &failure);
            if let Some(seen) = seen
                && failure.kind == FailureKind::UnknownTool
                && let Some((back, own)) = self.hidden(name)
            {
                seen.keep(&back, &own, Kept::Hidden);
            }
            return refused(down, Err(failure));
        };
        self.start_found(gate, (member, own, rule), call, down, seen)
    }

    /// The same where it is known whose tool it is, and what a view changes about it.
    pub(super) fn start_found(
        &self,
        gate: &Gate,
        (member, own, rule): (&Member, ToolName, Option<Rc<Rule>>),
        mut call: Call,
        down: ReplyTo,
        seen: Option<&Rc<Observed>>,
    ) -> RunningCall {
        let refused = |down: ReplyTo, failure: Failure| {
            let _ = down.send(Down::Done(Err(failure)));
            RunningCall::ended()
        };
        let What::Tool { name, args } = &mut call.what else {
            return self.hand_natively(member, call, down, seen);
        };
        let called = std::mem::replace(name, own);
        let tool = (Sort::Tool, name.as_str());
        if let Some(failure) = gate.lacking(member, tool, args.as_ref(), &call.visit) {
            if let Some(seen) = seen {
                seen.keep(&member.name, name, Kept::NoScope);
            }
            return refused(down, failure);
        }
        let said = call.options.native.zip(call.request.as_ref());
        let down = match gate.admit(member, (Sort::Tool, name.as_str()), said, down) {
            Ok(down) => down,
            Err((limit, failure, down)) => {
                if let Some(seen) = seen {
                    seen.keep(&member.name, name, Kept::Limited(limit));
                }
                return refused(down, failure);
            }
        };
        if let Some(rule) = rule.filter(|rule| !rule.fixed.is_empty()) {
            match filled_in(called.as_str(), args.as_ref(), &rule.fixed) {
                Ok(filled) => {
                    call.request = call.request.take().and_then(|request| {
                        let kind = kind_of(call.options.native?)?;
                        kind.native_with_arguments(&request, &filled)
                    });
                    *args = Some(filled);
                }
                Err(failure) => {
                    let kind = member.address.kind();
                    let begun = seen
                        .map(|seen| seen.begin(&member.name, member.back.wire(), kind, &mut call));
                    let failure = begun.and_then(Result::err).unwrap_or(failure);
                    return refused(down, failure);
                }
            }
        }
        hand_to(member, self.observers.caller(), call, down, seen)
    }

    /// Makes a call of a tool in the words of its wire, which a view changes, if its limits allow:
    /// they come before what is wrong with its arguments.
    #[allow(dead_code, reason = "a build may have no wire that passes as it is")]
    pub(crate) fn start_changed_at(
        &self,
        back: usize,
        call: Call,
        changed: Changed,
        down: ReplyTo,
    ) -> RunningCall {
        let Some(member) = self.members.get(back) else { return self.start_at(back, call, down) };
        let Changed { own, params } = changed;
        self.observers.start(call, down, |mut call, down, seen| {
            let said = match &call.what {
                What::Native { wire, body, .. } => Some((*wire, body)),
                _ => None,
            };
            let lacking = self.gate.as_ref().and_then(|gate| {
                gate.lacking(member, (Sort::Tool, own.as_str()), None, &call.visit)
            });
            if let Some(failure) = lacking {
                if let Some(seen) = seen {
                    seen.keep(&member.name, &own, Kept::NoScope);
                }
                let _ = down.send(Down::Done(Err(failure)));
                return RunningCall::ended();
            }
            let admitted = match &self.gate {
                Some(gate) => gate.admit(member, (Sort::Tool, own.as_str()), said, down),
                None => Ok(down),
            };
            let (down, failure) = match (admitted, params) {
                (Ok(down), Ok(params)) => {
                    if let (What::Native { body, .. }, Some(params)) = (&mut call.what, params) {
                        *body = params.into();
                    }
                    if let Some(seen) = seen {
                        seen.is_of(&own, Some(&call));
                    }
                    return hand_to(member, self.observers.caller(), call, down, seen);
                }
                (Ok(down), Err(failure)) => {
                    let begun = seen.map(|seen| {
                        seen.is_of(&own, None);
                        let kind = member.address.kind();
                        seen.begin(&member.name, member.back.wire(), kind, &mut call)
                    });
                    (down, begun.and_then(Result::err).unwrap_or(failure))
                }
                (Err((limit, failure, down)), _) => {
                    if let Some(seen) = seen {
                        seen.keep(&member.name, &own, Kept::Limited(limit));
                    }
                    (down, failure)
                }
            };
            let _ = down.send(Down::Done(Err(failure)));
            RunningCall::ended()
        })
    }

    /// Makes a call of a back in the words of its wire, if its limits allow.
    pub(super) fn hand_natively(
        &self,
        member: &Member,
        call: Call,
        down: ReplyTo,
        seen: Option<&Rc<Observed>>,
    ) -> RunningCall {
        let (counted, said) = match &call.what {
            What::Native { wire, method, body } => {
                (counted(*wire, method, body), Some((*wire, body)))
            }
            _ => (None, None),
        };
        if let (Some(gate), Some((sort, name))) = (&self.gate, &counted)
            && let Some(failure) = gate.lacking(member, (*sort, name), None, &call.visit)
        {
            if let Some(seen) = seen {
                seen.keep(&member.name, &name.as_str().into(), Kept::NoScope);
            }
            let _ = down.send(Down::Done(Err(failure)));
            return RunningCall::ended();
        }
        let down = match (&self.gate, counted) {
            (Some(gate), Some((sort, name))) => match gate.admit(member, (sort, &name), said, down)
            {
                Ok(down) => down,
                Err((limit, failure, down)) => {
                    match seen {
                        Some(seen) => {
                            let name = name.as_str().into();
                            seen.keep(&member.name, &name, Kept::Limited(limit));
                        }
                        None => self.observers.tell_limit(&limit, &failure),
                    }
                    let _ = down.send(Down::Done(Err(failure)));
                    return RunningCall::ended();
                }
            },
            _ => down,
        };
        hand_to(member, self.observers.caller(), call, down, seen)
    }
}

/// All of these scopes.
#[cfg(feature = "oauth")]
fn both(mut scopes: Vec<String>, more: Vec<String>) -> Vec<String> {
    for scope in more {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

/// As what a request in the words of its wire counts; `None` if it is free.
fn counted(wire: Wire, method: &[u8], body: &Bytes) -> Option<(Sort, String)> {
    kind_of(wire)?.counted_as(method, body)
}

impl Gate {
    /// Why a call cannot be made by the token that its request shows. The whole request is refused
    /// for it then.
    #[cfg(feature = "oauth")]
    fn lacking(
        &self,
        member: &Member,
        (sort, own): (Sort, &str),
        args: Option<&Json>,
        visit: &Option<Arc<Visit>>,
    ) -> Option<Failure> {
        let (tokens, visit) = (self.tokens.as_ref()?, visit.as_ref()?);
        if sort != Sort::Tool {
            return None;
        }
        let (kind, back) = (member.address.kind(), &*member.name);
        let needed = match kind.generic_tools().contains(&own) {
            false => tokens.settings.needed(back, own)?,
            true => match args.and_then(|args| kind.reached_by(own, args)) {
                // What another toolbus reserves reaches whatever that has.
                Some(reached) if !reached.starts_with("toolbus.") => {
                    let names = [own, reached.as_str()];
                    let each = names.map(|name| tokens.settings.needed(back, name));
                    each.into_iter().flatten().reduce(both)?
                }
                _ => tokens.settings.needed_by_any(back)?,
            },
        };
        if visit.allows(&needed) {
            return None;
        }
        let message = format!("the token needs the scope `{}`", needed.join(" "));
        TokenCounts::of(&tokens.front).refused("scope", &message);
        Some(Failure::new(FailureKind::Unavailable, message))
    }

    #[cfg(not(feature = "oauth"))]
    fn lacking(
        &self,
        _member: &Member,
        _called: (Sort, &str),
        _args: Option<&Json>,
        _visit: &Option<Arc<Visit>>,
    ) -> Option<Failure> {
        None
    }

    /// Takes a call into account, or says which limit does not allow it and what its caller is told.
    /// `said` is its request in the words of a wire, where its caller used those.
    #[expect(clippy::result_large_err, reason = "a refusal is rare, and gives the reply back")]
    fn admit(
        &self,
        member: &Member,
        (sort, own): (Sort, &str),
        said: Option<(Wire, &Bytes)>,
        down: ReplyTo,
    ) -> Result<ReplyTo, (Arc<str>, Failure, ReplyTo)> {
        let is_limited =
            !self.limiters.is_empty() || !self.by_pattern.is_empty() || member.limiter.is_some();
        if !is_limited {
            return Ok(down);
        }
        // Mostly the caller uses the words of the back.
        let usual = member.address.kind();
        let kind = said.and_then(|(wire, _)| match usual.wire() == wire {
            true => Some(usual),
            false => kind_of(wire),
        });
        let holding = kind.map(|kind| (self.held.clone(), kind));
        if let (Some(kind), Some((_, request))) = (kind, said)
            && self.held.let_go_on(kind, request)
        {
            return Ok(admitted(InUse::default(), holding, down));
        }
        let name = (!self.by_pattern.is_empty()).then(|| match sort {
            Sort::Method => own.to_owned(),
            _ => format!("{}.{own}", member.name),
        });
        let matched = |(pattern, _): &&(Pattern, Rc<Limiter>)| {
            pattern.sort == sort && name.as_deref().is_some_and(|name| pattern.matches(name))
        };
        let by_pattern = self.by_pattern.iter().filter(matched).map(|(_, limiter)| limiter);
        let limiters = self.limiters.iter().chain(by_pattern).chain(&member.limiter);
        match limits::admit(Instant::now(), limiters) {
            Ok(in_use) => Ok(admitted(in_use, holding, down)),
            Err((limit, failure)) => Err((limit, failure, down)),
        }
    }
}
