//! The joint between a serving machine and the bus, over one stream or many.
//!
//! What the machine is asked goes to the route, what comes back goes to the machine, and a
//! loop for each stream moves the bytes.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use std::{io, iter};

use toolbus_proto::channel::{
    Asked, Channel, Down, Ended, Flow, Notice, ONLY, Serving, Streams, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome};

use super::UNREAD_MAX;
use super::calls::{Asker, Pressure, ReplyTo, RunningCall, RunningCalls, Sharing, Slow};
use super::drive::{Closing, Forwarded, ReadNext, drive};
use super::joint::{Direction, Joint, Lanes, Stream};
use super::lane::Lane;
use super::route::Route;
use crate::account::{Account, CutOff};
use crate::transport::crowd;
use crate::transport::io::{Opener, Sink, Source, Writer};
use crate::wake::Wake;

/// How long streams that are given up may take to end.
const LAST_TURN: Duration = Duration::from_secs(1);

/// Who keeps what belongs to no one client of many.
const OURSELVES: &str = "a front";

/// A serving machine and the calls it has under way.
pub struct Front<S: Serving + Streams + 'static> {
    this: Weak<Front<S>>,
    machine: RefCell<S>,
    route: Rc<dyn Route>,
    /// How long a call may be quiet.
    timeout: Option<Duration>,
    sharing: Sharing,
    running: RunningCalls<Origin>,
    /// Calls whose back has been given all that it can take for now.
    slow: Slow,
    /// The last words of replies that were collected, for a client that has enough to read.
    last_words: RefCell<VecDeque<(Ticket, Down)>>,
    lanes: Lanes<Front<S>>,
    /// What the log calls the client.
    peer: OnceCell<String>,
    /// The stream broke: whatever is asked, no answer can be given.
    client_gone: Cell<bool>,
    /// Nothing more will be asked.
    is_all_asked: Cell<bool>,
    /// No call is under way, and every answer is written.
    is_idle: Cell<bool>,
    /// Rung when that has come to be.
    idle: Wake,
    /// Rung when the machine may have ended the conversation, or has more to tell than its client.
    news: Wake,
    /// What the machine asks is being passed on.
    is_passing: Cell<bool>,
    /// What answers made the machine ask meanwhile, and for whom: calls that are answered at once
    /// must not stand on each other's shoulders.
    asked_meanwhile: RefCell<VecDeque<(Ticket, Asked, Option<Account>)>>,
}

/// Where a call under way came from.
#[derive(Default)]
struct Origin {
    /// Where its reply was written last, where there are many streams.
    lane: Option<Rc<Lane>>,
    /// Who asked, where there are many.
    asker: Option<Account>,
}

impl<S: Serving + Channel + 'static> Front<S> {
    /// Joins `machine` to `route`; many calls may share its wire, and none waits for another.
    pub fn new(machine: S, route: Rc<dyn Route>, timeout: Option<Duration>) -> Rc<Front<S>> {
        Front::with_sharing(machine, route, timeout, Sharing::Shared)
    }

    /// Like [`Front::new`], for a wire that may carry one call at a time: what its back cannot
    /// take yet is not read.
    pub fn with_sharing(
        machine: S,
        route: Rc<dyn Route>,
        timeout: Option<Duration>,
        sharing: Sharing,
    ) -> Rc<Front<S>> {
        let client = Account::new("the client");
        let front =
            Front::make(machine, route, timeout, sharing, |this| Lanes::new(this, client.clone()));
        let end: Weak<Front<S>> = Rc::downgrade(&front);
        client.on_cut(end);
        front
    }

    /// Serves until the conversation is over, and says how it ended. What still runs then, or
    /// when this is dropped, is cancelled.
    pub async fn serve(&self, source: impl Source, sink: impl Sink) -> Ended {
        let _cancels = CancelAll(self);
        let stream = Stream { joint: self, id: ONLY, lane: &self.lanes.only };
        drive(&stream, source, sink).await;
        let unsaid = match self.client_gone.get() && !self.is_all_asked.get() {
            true => Ended::PeerStoppedReading,
            false => Ended::Well,
        };
        self.machine.borrow().ended().cloned().unwrap_or(unsaid)
    }

    /// What the log calls the client, where it has a name.
    pub fn set_peer(&self, name: String) {
        let _ = self.peer.set(name);
    }

    /// Is no call under way, and every answer written?
    pub fn is_idle(&self) -> bool {
        self.is_idle.get()
    }

    /// Waits until no call is under way and every answer is written. One task may wait.
    pub async fn idle(&self) {
        while !self.is_idle.get() {
            self.idle.rung().await;
        }
    }
}

impl<S: Serving + Streams + 'static> Front<S> {
    /// Joins a machine that speaks over many streams to `route`. The peer opens them:
    /// [`Front::welcome`]. A stream waits for whom it fills, and for nothing else.
    pub fn over_many(machine: S, route: Rc<dyn Route>, timeout: Option<Duration>) -> Rc<Front<S>> {
        let lanes = |this| Lanes::new(this, Account::new(OURSELVES));
        Front::make(machine, route, timeout, Sharing::Alone, lanes)
    }

    /// Like [`Front::over_many`], where the machine opens streams too.
    pub fn over(
        machine: S,
        route: Rc<dyn Route>,
        timeout: Option<Duration>,
        opener: impl Opener<S> + 'static,
    ) -> Rc<Front<S>> {
        let lanes = |this| Lanes::with_opener(this, Account::new(OURSELVES), opener);
        Front::make(machine, route, timeout, Sharing::Alone, lanes)
    }

    fn make(
        machine: S,
        route: Rc<dyn Route>,
        timeout: Option<Duration>,
        sharing: Sharing,
        lanes: impl FnOnce(Weak<Front<S>>) -> Lanes<Front<S>>,
    ) -> Rc<Front<S>> {
        Rc::new_cyclic(|this| Front {
            this: this.clone(),
            machine: RefCell::new(machine),
            route,
            timeout,
            sharing,
            running: RunningCalls::default(),
            slow: Slow::default(),
            last_words: RefCell::default(),
            lanes: lanes(this.clone()),
            peer: OnceCell::new(),
            client_gone: Cell::new(false),
            is_all_asked: Cell::new(false),
            is_idle: Cell::new(true),
            idle: Wake::default(),
            news: Wake::default(),
            is_passing: Cell::new(false),
            asked_meanwhile: RefCell::default(),
        })
    }

    /// The peer opened a stream: it is driven in a task of its own. Must be called inside a
    /// `LocalSet`.
    pub fn welcome(
        &self,
        head: S::Opening,
        source: impl Source + 'static,
        writer: impl Writer<Head = S::Answer> + 'static,
    ) {
        self.lanes.welcome(head, source, writer);
    }

    /// Looks at the clock for a conversation over many streams, for ever. What runs when this
    /// is dropped is cancelled.
    pub async fn run(&self) {
        let _cancels = CancelAll(self);
        Lanes::keep(self.this.clone()).await;
    }

    /// Waits until there is no stream any more. One task may wait.
    pub async fn quiet(&self) {
        self.lanes.all_over().await;
    }

    /// Waits until the machine has ended the conversation, and its streams are over. One task at
    /// a time may wait.
    pub async fn ended(&self) -> Ended {
        self.until(|machine| machine.ended().is_some()).await;
        self.lanes.all_over().await;
        self.machine.borrow().ended().cloned().unwrap_or(Ended::Well)
    }

    /// Waits until the machine says so, once it has something to tell or has ended the
    /// conversation. One task at a time may wait, here or above.
    pub async fn until(&self, is_so: impl Fn(&S) -> bool) {
        while !is_so(&self.machine.borrow()) {
            self.news.rung().await;
        }
    }

    /// The connection that carried all streams is gone: ends them, and what was asked on them.
    pub fn disconnected(&self) {
        self.cancel_all();
        self.lanes.abort();
    }

    /// Takes no more calls and waits until those under way are answered, but no longer than
    /// `patience`; whatever streams are left are ended.
    pub async fn finish(&self, patience: Duration) {
        self.tell_machine(Serving::close);
        let _ = tokio::time::timeout(patience, self.lanes.all_over()).await;
        self.cancel_all();
        self.tell_machine(Serving::give_up);
        // They end in their own time, which is now.
        let _ = tokio::time::timeout(LAST_TURN, self.lanes.all_over()).await;
        self.lanes.abort();
    }

    /// Something changed behind us that the client may want to know.
    pub fn tell(&self, notice: &Notice) {
        self.tell_machine(|machine, now| machine.tell(now, notice));
    }

    /// What the machine has to say about itself.
    pub fn ask<T>(&self, question: impl FnOnce(&S) -> T) -> T {
        question(&self.machine.borrow())
    }

    /// Ends what is under way: the client waits for it no more.
    pub fn cancel_all(&self) {
        self.running.cancel_all(|ticket, origin| self.lane_of(origin).forget(ticket));
        self.slow.clear();
        self.last_words.take();
    }

    /// Says something to the machine that only its own wire knows of.
    pub fn tell_machine(&self, tell: impl FnOnce(&mut S, Instant)) {
        tell(&mut self.machine.borrow_mut(), Instant::now());
        match S::IS_ONE {
            true => self.lanes.only.wake.ring(),
            false => {
                self.pass_on(None);
                self.lanes.apply_stream_requests(&self.machine, |_| {});
            }
        }
    }

    /// Who asked.
    fn asker_of(&self, origin: &Origin) -> Option<Account> {
        match S::IS_ONE {
            true => Some(self.lanes.account.clone()),
            false => origin.asker.clone(),
        }
    }

    /// Where the reply to a call goes, or went last.
    fn lane_of<'a>(&'a self, origin: &'a Origin) -> &'a Rc<Lane> {
        origin.lane.as_ref().unwrap_or(&self.lanes.only)
    }

    /// Has the client not read so much that it is asked no further?
    fn is_unread(&self, lane: &Lane) -> bool {
        lane.backlog.is_unread() || lane.charge.is_full()
    }

    /// Would this bring out a reply that was collected, for a client that has enough to read? It
    /// weighs nothing by itself, so that it can wait here: no other waits behind it.
    fn is_to_wait(&self, down: &Down) -> bool {
        let is_last = matches!(down, Down::Done(Ok(Outcome::End(None) | Outcome::Tools(_))));
        if !S::IS_ONE || !is_last {
            return false;
        }
        let machine = self.machine.borrow();
        let is_enough =
            self.lanes.account.is_full() || self.lanes.account.bytes_max() <= machine.untold();
        is_enough && 0 < machine.collected()
    }

    /// Why there is no room for this: the asker does not read, or the parts of so many replies are
    /// collected for it that those of this one find no room.
    fn no_room(&self, origin: &Origin, down: &Down) -> Option<Failure> {
        if down.weight() == 0 {
            return None;
        }
        if self.lanes.account.is_any_full()
            && let Some(asker) = self.asker_of(origin).filter(Account::is_full)
        {
            return Some(asker.refusal());
        }
        let collected = match down {
            Down::Begin { .. } | Down::Part(_) => self.machine.borrow().collected(),
            _ => 0,
        };
        let asker = self.asker_of(origin).filter(|asker| asker.bytes_max() <= collected)?;
        Some(asker.collected_refusal(collected))
    }

    /// Passes on what the machine was asked by the client of `lane`, and what else it has to say.
    fn pass_up(&self, lane: Option<&Rc<Lane>>) -> Forwarded {
        let asker = lane.filter(|_| !S::IS_ONE).and_then(|lane| lane.charge.account());
        let passed = self.pass_asked(lane, asker.as_ref());
        if let Some(lane) = lane.filter(|_| passed != Forwarded::Nothing) {
            lane.noise.set(0);
        }
        if passed == Forwarded::EnoughForNow {
            return passed;
        }
        loop {
            let notice = self.machine.borrow_mut().poll_notice();
            let Some(notice) = notice else { break };
            if let Some(lane) = lane.filter(|_| passed == Forwarded::Nothing && notice.is_noise()) {
                lane.heard_noise();
            }
            match notice {
                Notice::Noted(rule) => tracing::info!("note: {rule}"),
                Notice::Refused(why) => {
                    let peer = self.peer.get().map_or("the client", String::as_str);
                    tracing::info!(peer, "refused: {why}");
                }
                Notice::Ignored(what) => tracing::debug!("ignored {what}"),
                Notice::Warning(what) => tracing::warn!("{what}"),
                Notice::MadeRoom => crowd::session_ended(),
                notice => tracing::debug!("{notice:?}"),
            }
        }
        self.ring_if_news();
        passed
    }

    fn ring_if_news(&self) {
        let machine = self.machine.borrow();
        if machine.ended().is_some() || (!S::IS_ONE && 0 < machine.untold()) {
            self.news.ring();
        }
    }

    /// Passes on what the machine was asked. Nothing stays borrowed meanwhile: a call may be
    /// answered before it has been started.
    fn pass_asked(&self, lane: Option<&Rc<Lane>>, asker: Option<&Account>) -> Forwarded {
        if self.is_passing.replace(true) {
            let mut machine = self.machine.borrow_mut();
            let asked = iter::from_fn(|| machine.poll_up());
            let asked = asked.map(|(ticket, asked)| (ticket, asked, asker.cloned()));
            self.asked_meanwhile.borrow_mut().extend(asked);
            return Forwarded::Nothing;
        }
        let (mut passed, mut has_started) = (Forwarded::Nothing, false);
        loop {
            // What was read already waits like what was not.
            if S::IS_ONE && self.is_unread(&self.lanes.only) {
                break;
            }
            let meanwhile = self.asked_meanwhile.borrow_mut().pop_front();
            let asked = meanwhile.or_else(|| {
                let (ticket, asked) = self.machine.borrow_mut().poll_up()?;
                Some((ticket, asked, asker.cloned()))
            });
            let Some((ticket, asked, asker)) = asked else { break };
            passed = Forwarded::Something;
            let is_enough = match asked {
                Asked::Call(call) => {
                    // The tool that answers has a turn before the input is read, which may be broken.
                    let goes_on = call.options.sends_parts;
                    self.start(ticket, call, asker);
                    has_started = true;
                    goes_on
                }
                Asked::Up(Up::Cancel(why)) => {
                    self.cancel(ticket, why);
                    false
                }
                Asked::Up(up) => self.go_on(ticket, up, lane) == Pressure::Full,
            };
            if is_enough {
                passed = Forwarded::EnoughForNow;
                break;
            }
        }
        self.is_passing.set(false);
        // A call that has begun is told so: tools that answer at once have a turn before that is
        // written, and both go out together.
        match has_started && self.sharing == Sharing::Credited {
            true => Forwarded::EnoughForNow,
            false => passed,
        }
    }

    fn start(&self, ticket: Ticket, mut call: Call, asker: Option<Account>) {
        let Some(this) = self.this.upgrade() else { return };
        call.deadline.quiet = call.deadline.quiet.or(self.timeout);
        self.is_idle.set(false);
        let refusal = asker.as_ref().filter(|asker| asker.is_full()).map(Account::refusal);
        let reply_to = ReplyTo::new(this, ticket);
        self.running.start(ticket, Origin { asker, lane: None }, || match refusal {
            None => self.route.start(call, reply_to),
            Some(refusal) => {
                self.route.refuse(call, reply_to, refusal);
                RunningCall::ended()
            }
        });
    }

    fn cancel(&self, ticket: Ticket, why: Option<Json>) {
        if let Some(uplink) = self.end(ticket) {
            uplink.cancel(why);
        }
    }

    /// Says [`Pressure::Full`] once: when the back has just got all that it can take.
    fn go_on(&self, ticket: Ticket, up: Up, lane: Option<&Rc<Lane>>) -> Pressure {
        let Some(uplink) = self.running.get(ticket) else { return Pressure::Ready };
        if self.sharing == Sharing::Shared && self.slow.contains(ticket) {
            let message = "the input was not taken in time, and others wait behind it";
            let failure = Failure::new(FailureKind::TooLarge, message);
            let _ = self.receive(ticket, Down::Done(Err(failure)));
            // The last one who holds it: dropping it cancels.
            return Pressure::Ready;
        }
        let room = uplink.send(up);
        let is_held = room == Pressure::Full && self.running.about(ticket).is_some();
        if self.sharing == Sharing::Credited && is_held {
            self.machine.borrow_mut().hold(Instant::now(), ticket, true);
        }
        let waits = lane.filter(|_| self.sharing == Sharing::Alone);
        // It may have been answered meanwhile, and then takes anything.
        match room == Pressure::Full && self.running.about(ticket).is_some() {
            true if self.slow.insert(ticket, waits) => Pressure::Full,
            _ => Pressure::Ready,
        }
    }

    /// A reply may make the machine ask more for the one who asked first, such as the call that
    /// waited for a list. Over one stream its loop does that.
    fn pass_what_follows(&self, asker: Option<&Account>) {
        if S::IS_ONE {
            return;
        }
        match self.pass_asked(None, asker) {
            Forwarded::Nothing => return,
            Forwarded::Something => {}
            Forwarded::EnoughForNow => self.lanes.come_back(),
        }
        self.lanes.apply_stream_requests(&self.machine, |_| {});
    }

    /// The call is over, or as good as.
    fn end(&self, ticket: Ticket) -> Option<RunningCall> {
        self.slow.forget(ticket);
        let (call, origin) = self.running.take(ticket)?;
        self.lane_of(&origin).forget(ticket);
        call
    }
}

impl<S: Serving + Streams + 'static> Asker for Front<S> {
    fn receive(&self, ticket: Ticket, mut down: Down) -> Pressure {
        let mut is_refused = false;
        let asker;
        if let Some(origin) = self.running.about(ticket) {
            if self.is_to_wait(&down) {
                self.last_words.borrow_mut().push_back((ticket, down));
                return Pressure::Ready;
            }
            asker = origin.asker.clone();
            let lane = self.lane_of(&origin);
            if matches!(down, Down::Progress(_)) && lane.backlog.is_full() {
                lane.put_off(ticket, down);
                return Pressure::Ready;
            }
            // Others wait for what comes behind it, so it cannot wait where it comes from.
            if let Some(refusal) = self.no_room(&origin, &down) {
                is_refused = !matches!(down, Down::Done(_));
                down = Down::Done(Err(refusal));
            }
        } else {
            return Pressure::Ready;
        }
        let (weight, is_done) = (down.weight(), matches!(down, Down::Done(_)));
        self.machine.borrow_mut().down(self.lanes.moment.now(Instant::now), ticket, down);
        let mut room = Pressure::Ready;
        if S::IS_ONE {
            let lane = &self.lanes.only;
            lane.wake.ring();
            lane.charge.add(weight);
            room = lane.backlog.add(ticket, weight);
            let is_credited = self.sharing == Sharing::Credited && !is_done;
            if is_credited && self.machine.borrow_mut().is_full(ticket) {
                room = Pressure::Full;
            }
        } else {
            self.lanes.apply_stream_requests(&self.machine, |lane| {
                lane.charge.add(weight);
                room = room.max(lane.backlog.add(ticket, weight));
                if let Some(mut origin) = self.running.about_mut(ticket) {
                    origin.lane = Some(lane.clone());
                }
            });
        }
        if !is_done {
            self.pass_what_follows(asker.as_ref());
            return room;
        }
        self.ring_if_news();
        match self.end(ticket) {
            // Whoever answers need not go on.
            Some(uplink) if is_refused => drop(uplink),
            Some(uplink) => uplink.forget(),
            None => {}
        }
        self.pass_what_follows(asker.as_ref());
        Pressure::Ready
    }

    fn is_full(&self, ticket: Ticket) -> bool {
        let asker = self.running.about(ticket).and_then(|origin| self.asker_of(&origin));
        asker.is_some_and(|asker| asker.is_full())
    }

    fn resume(&self, ticket: Ticket) {
        self.slow.go_on(ticket);
        if self.sharing == Sharing::Credited {
            self.machine.borrow_mut().hold(Instant::now(), ticket, false);
        }
        self.lanes.only.wake.ring();
    }
}

impl<S: Serving + Streams + 'static> Joint for Front<S> {
    type Machine = S;

    fn machine(&self) -> &RefCell<S> {
        &self.machine
    }

    fn lanes(&self) -> &Lanes<Front<S>> {
        &self.lanes
    }

    fn pass_on(&self, lane: Option<&Rc<Lane>>) -> Forwarded {
        self.pass_up(lane)
    }

    fn handed_out(&self, _lane: &Rc<Lane>) -> Forwarded {
        Forwarded::Nothing
    }

    /// A back cannot take what is asked, or the other side has not read what it was answered.
    fn is_paused(&self, lane: &Lane) -> bool {
        lane.is_held() || (S::IS_ONE && self.is_unread(lane)) || lane.backlog.is_unread()
    }

    fn is_over(&self) -> bool {
        self.client_gone.get()
    }

    /// Whoever asks over one of many streams ends it with the question.
    fn unread_max(&self) -> Option<Duration> {
        S::IS_ONE.then_some(UNREAD_MAX)
    }

    fn ended(&self, _flow: Flow) -> Option<ReadNext> {
        self.is_all_asked.set(true);
        None
    }

    fn report_unwritten(&self, lane: &Lane, bytes: usize) {
        let is_idle = bytes == 0 && self.running.is_empty();
        if !self.is_idle.replace(is_idle) && is_idle {
            self.idle.ring();
        }
        let was_unread = lane.backlog.is_unread();
        let may_go_on = lane.backlog.set(bytes);
        if was_unread && !self.is_unread(lane) {
            lane.wake.ring();
        }
        // One at a time: what comes of it is known when it is handed out.
        if S::IS_ONE && !lane.charge.is_full() {
            let last_word = self.last_words.borrow_mut().pop_front();
            if let Some((ticket, down)) = last_word {
                let _ = self.receive(ticket, down);
                lane.wake.ring();
            }
        }
        for (ticket, progress) in lane.take_progress() {
            let _ = self.receive(ticket, progress);
        }
        for ticket in may_go_on {
            self.running.resume(ticket);
        }
        if self.sharing == Sharing::Credited {
            loop {
                let ticket = self.machine.borrow_mut().poll_room();
                let Some(ticket) = ticket else { break };
                self.running.resume(ticket);
            }
        }
    }

    fn broke(&self, _direction: Direction, _error: &io::Error) {
        self.client_gone.set(true);
    }
}

/// A client that carries all on one stream: that ends, and with it what is under way.
impl<S: Serving + Streams + 'static> CutOff for Front<S> {
    fn cut_off(&self, _why: &Failure) {
        self.client_gone.set(true);
        self.lanes.only.closing.set(Closing::Now);
        self.lanes.only.wake.ring();
    }
}

/// Cancels what a front has under way, however its serving ends.
pub(crate) struct CancelAll<'a, S: Serving + Streams + 'static>(pub(crate) &'a Front<S>);

impl<S: Serving + Streams + 'static> Drop for CancelAll<'_, S> {
    fn drop(&mut self) {
        self.0.cancel_all();
    }
}
