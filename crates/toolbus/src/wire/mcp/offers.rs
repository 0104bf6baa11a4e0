//! Sign-ins offered to clients who can open a page (`ask = true`): a call that lacks a token waits
//! until its user has agreed, and is made once more then.
//!
//! What is asked, and what an answer means, is decided in `toolbus_proto::mcp::calling::offers`; the
//! sign-in itself is that of `crate::oauth::offer`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Instant;

use toolbus_proto::channel::{AskId, Down, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::calling::era_of;
use toolbus_proto::mcp::calling::offers::{
    Consent, Offer, Offered, completed, declared, opens_pages,
};
use toolbus_proto::mcp::view;
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::tool::{Call, CallerId, Deadline, Failure, FailureKind, Outcome, Part, What};

use super::eras::unguessable;
use crate::bus::Route;
use crate::engine::calls::{Answerer, Asker, Pressure, ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::oauth::credential::Credential;
use crate::oauth::offer::{OfferedSignIn, is_any_offered, offered_for};
use crate::task::{boxed, spawn_local};

/// How many calls of modern clients wait for their users.
const HELD_MAX: usize = 64;
/// Our one question of a call. Those of a back are counted from zero.
const ASK: AskId = AskId(u64::MAX);
/// Each call that is offered something has one asker and one answerer.
const TICKET: Ticket = Ticket(0);

/// The way of clients on this machine.
pub(super) struct SignInOffers {
    this: Weak<SignInOffers>,
    route: Rc<dyn Route>,
    /// What legacy clients take, and where they are told that something is over.
    sessions: RefCell<HashMap<CallerId, LegacySession>>,
    /// By the tokens that modern clients call again with.
    held: RefCell<HashMap<String, HeldCall>>,
    asked: Cell<u64>,
}

struct LegacySession {
    declared: Option<Json>,
    down: ReplyTo,
}

/// A call whose client was told to come again.
struct HeldCall {
    offered: Offered,
    call: Call,
    sign_in: Rc<OfferedSignIn>,
    offer: Offer,
    failure: Failure,
    until: Instant,
}

impl SignInOffers {
    pub(super) fn new(route: Rc<dyn Route>) -> Rc<SignInOffers> {
        Rc::new_cyclic(|this| SignInOffers {
            this: this.clone(),
            route,
            sessions: RefCell::default(),
            held: RefCell::default(),
            asked: Cell::new(0),
        })
    }

    /// Begins a session, and forgets it at its end.
    fn start_session(&self, call: Call, down: ReplyTo) -> RunningCall {
        let caller = call.caller;
        let session = LegacySession { declared: declared(&call), down: down.clone() };
        self.sessions.borrow_mut().insert(caller, session);
        let relay = Relay::new(call, down);
        let this = self.this.clone();
        relay.at_end(move || {
            if let Some(this) = this.upgrade() {
                this.sessions.borrow_mut().remove(&caller);
            }
        });
        relay.begin(|call, down| self.route.start(call, down));
        relay.running_call()
    }

    /// A modern client calls again with a token of ours.
    fn resume(&self, token: &str, held: HeldCall, call: Call, down: ReplyTo) -> RunningCall {
        let refused = |failure: Failure| {
            let _ = down.send(Down::Done(Err(failure)));
            RunningCall::ended()
        };
        match held.offered.resumed_by(&call) {
            Err(failure) => {
                self.held.borrow_mut().insert(token.to_owned(), held);
                refused(failure)
            }
            Ok(Consent::Missing) => {
                let result = self.hold(held);
                let _ = down.send(Down::Done(Ok(Outcome::Native(result))));
                RunningCall::ended()
            }
            Ok(Consent::Refused) => refused(held.failure),
            Ok(Consent::Given) => {
                let HeldCall { call: first, sign_in, failure, .. } = held;
                let again = Call { what: first.what, request: first.request, ..call };
                let offering = Offering::new(self, again, down);
                offering.clone().wait(sign_in, failure);
                RunningCall::new(offering, TICKET)
            }
        }
    }

    /// Keeps a call, and gives the result by which its client comes again.
    fn hold(&self, held: HeldCall) -> bytes::Bytes {
        let token = unguessable();
        let result = held.offer.result(&token);
        self.held.borrow_mut().insert(token, held);
        result
    }

    /// The held call that this one goes on with.
    fn taken(&self, call: &Call) -> Option<(String, HeldCall)> {
        let mut held = self.held.borrow_mut();
        let now = Instant::now();
        held.retain(|_, held| now < held.until);
        let said = match &call.what {
            What::Native { body, .. } => Some(body),
            What::Tool { .. } | What::Tools => call.request.as_ref(),
        };
        let token = view::resumed_by(said?)?;
        held.remove(&token).map(|held| (token, held))
    }

    fn can_be_asked(&self, call: &Call) -> bool {
        let sessions = self.sessions.borrow();
        let declared = sessions.get(&call.caller).and_then(|session| session.declared.as_ref());
        opens_pages(call, declared)
    }

    /// A legacy client may close what it has opened.
    fn tell_completed(&self, caller: CallerId, id: &str) {
        let session = self.sessions.borrow().get(&caller).map(|session| session.down.clone());
        if let Some(down) = session {
            let _ = down.send(Down::Part(Part::Json(completed(id))));
        }
    }
}

impl Route for SignInOffers {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        if !is_any_offered() {
            return self.route.start(call, down);
        }
        match &call.what {
            What::Native { method, .. } if method == "initialize" => {
                return self.start_session(call, down);
            }
            // Says what there is, also where there is nothing yet.
            What::Native { method, .. } if method == "server/discover" => {
                return self.route.start(call, down);
            }
            _ => {}
        }
        if let Some((token, held)) = self.taken(&call) {
            return self.resume(&token, held, call, down);
        }
        // A list needs no token: who cannot be listed is left out of it.
        if matches!(call.what, What::Tools) || !self.can_be_asked(&call) {
            return self.route.start(call, down);
        }
        let offering = Offering::new(self, call, down);
        offering.clone().make();
        RunningCall::new(offering, TICKET)
    }

    fn refuse(&self, call: Call, down: ReplyTo, why: Failure) {
        self.route.refuse(call, down, why);
    }
}

/// One call that may be made twice.
struct Offering {
    this: Weak<Offering>,
    offers: Weak<SignInOffers>,
    call: Call,
    down: ReplyTo,
    stage: RefCell<OfferStage>,
    /// It is offered a sign-in once.
    was_offered: Cell<bool>,
}

enum OfferStage {
    /// It is just being made.
    Leaving,
    Asking(Rc<RunningCall>),
    /// The sign-in begins, or the browser is waited for.
    Waiting,
    /// Its client was asked.
    Asked(Rc<OfferedSignIn>, String, Failure),
    Over,
}

impl Offering {
    fn new(offers: &SignInOffers, call: Call, down: ReplyTo) -> Rc<Offering> {
        Rc::new_cyclic(|this| Offering {
            this: this.clone(),
            offers: offers.this.clone(),
            call,
            down,
            stage: RefCell::new(OfferStage::Waiting),
            was_offered: Cell::new(false),
        })
    }

    /// Makes the call, with all the time that it has.
    fn make(self: Rc<Self>) {
        let Some(offers) = self.offers.upgrade() else { return };
        self.stage.replace(OfferStage::Leaving);
        let deadline = Deadline { asked: Instant::now(), ..self.call.deadline };
        let call = Call { deadline, ..self.call.clone() };
        let uplink = Rc::new(offers.route.start(call, ReplyTo::new(self.clone(), TICKET)));
        let mut stage = self.stage.borrow_mut();
        match *stage {
            OfferStage::Leaving => *stage = OfferStage::Asking(uplink),
            // It is over already, and there is nothing to cancel.
            _ => {
                drop(stage);
                forget(uplink);
            }
        }
    }

    fn finish(&self, outcome: Result<Outcome, Failure>) {
        if !matches!(self.stage.replace(OfferStage::Over), OfferStage::Over) {
            let _ = self.down.send(Down::Done(outcome));
        }
    }

    fn is_over(&self) -> bool {
        matches!(*self.stage.borrow(), OfferStage::Over)
    }

    /// The call lacks a token: a sign-in begins, or is under way.
    fn offer(self: Rc<Self>, credential: Rc<Credential>, failure: Failure) {
        self.was_offered.set(true);
        spawn_local(boxed(async move {
            match credential.offer().await {
                Ok(sign_in) => self.ask(sign_in, &credential, failure),
                Err(why) => {
                    credential.tell_of_offer(&why.to_string());
                    self.finish(Err(failure));
                }
            }
        }));
    }

    fn ask(self: Rc<Self>, sign_in: Rc<OfferedSignIn>, of: &Credential, failure: Failure) {
        let Some(offers) = self.offers.upgrade() else { return self.finish(Err(failure)) };
        if self.is_over() {
            return;
        }
        let message = format!("`{}` needs a sign-in at {}", of.name(), sign_in.issuer);
        let offer = Offer { message, url: sign_in.url.clone() };
        let patience = of.input_timeout();
        if era_of(&self.call) == Era::Modern {
            if HELD_MAX <= offers.held.borrow().len() {
                return self.finish(Err(failure));
            }
            let held = HeldCall {
                offered: Offered::of(&self.call),
                call: self.call.clone(),
                sign_in,
                offer,
                failure,
                until: Instant::now() + patience,
            };
            let result = offers.hold(held);
            return self.finish(Ok(Outcome::Native(result)));
        }
        let number = offers.asked.get() + 1;
        offers.asked.set(number);
        let id = format!("tb{number}");
        let question = offer.question(&id);
        self.stage.replace(OfferStage::Asked(sign_in, id, failure));
        let _ = self.down.send(Down::Ask(ASK, question));
        let this = self.this.clone();
        spawn_local(boxed(async move {
            tokio::time::sleep(patience).await;
            // Its user has not even said whether the page is open.
            if let Some(this) = this.upgrade() {
                this.answered(Consent::Missing);
            }
        }));
    }

    /// The client of a legacy call has answered, or will not any more.
    fn answered(self: &Rc<Self>, consent: Consent) {
        let stage = self.stage.replace(OfferStage::Waiting);
        let OfferStage::Asked(sign_in, id, failure) = stage else {
            self.stage.replace(stage);
            return;
        };
        if consent != Consent::Given {
            return self.finish(Err(failure));
        }
        let this = self.clone();
        spawn_local(boxed(async move {
            let is_signed_in = sign_in.is_signed_in().await;
            if let Some(offers) = this.offers.upgrade() {
                offers.tell_completed(this.call.caller, &id);
            }
            this.go_on(is_signed_in, failure);
        }));
    }

    /// Waits for the browser, and makes the call then.
    fn wait(self: Rc<Self>, sign_in: Rc<OfferedSignIn>, failure: Failure) {
        self.was_offered.set(true);
        spawn_local(boxed(async move {
            let is_signed_in = sign_in.is_signed_in().await;
            self.go_on(is_signed_in, failure);
        }));
    }

    fn go_on(self: Rc<Self>, is_signed_in: bool, failure: Failure) {
        match is_signed_in {
            _ if self.is_over() => {}
            true => self.make(),
            false => self.finish(Err(failure)),
        }
    }
}

fn forget(uplink: Rc<RunningCall>) {
    if let Some(uplink) = Rc::into_inner(uplink) {
        uplink.forget();
    }
}

impl Asker for Offering {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        let Down::Done(done) = &down else { return self.down.send(down) };
        let lacks = done.as_ref().err().filter(|_| !self.was_offered.get());
        let offered = lacks.and_then(|failure| Some((offered_for(failure)?, failure.clone())));
        let after = match offered {
            Some(_) => OfferStage::Waiting,
            None => OfferStage::Over,
        };
        if let OfferStage::Asking(uplink) = self.stage.replace(after) {
            forget(uplink);
        }
        match (offered, self.this.upgrade()) {
            (Some((credential, failure)), Some(this)) => {
                this.offer(credential, failure);
                Pressure::Ready
            }
            _ => self.down.send(down),
        }
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}

impl Answerer for Offering {
    fn send(&self, _: Ticket, up: Up) -> Pressure {
        let uplink = match &*self.stage.borrow() {
            OfferStage::Asking(uplink) => Some(uplink.clone()),
            _ => None,
        };
        match (uplink, up) {
            (Some(uplink), up) => return uplink.send(up),
            (None, Up::Answer(ASK, answer)) => {
                if let Some(this) = self.this.upgrade() {
                    this.answered(Consent::of(&answer));
                }
            }
            (None, Up::Cancel(_)) => {
                self.finish(Err(Failure::new(FailureKind::Cancelled, "cancelled")));
            }
            (None, _) => {}
        }
        Pressure::Ready
    }

    fn resume(&self, _: Ticket) {
        if let OfferStage::Asking(uplink) = &*self.stage.borrow() {
            uplink.resume();
        }
    }
}
