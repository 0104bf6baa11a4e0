//! Callers over HTTP: each has a machine of its own, where callers are told apart.
//!
//! So a session, and all that is kept of it, belongs to the caller who began it, and no other
//! finds it. Requests that are no caller's go to one machine more: it refuses them, or serves all
//! where callers are not told apart.

use std::cell::RefCell;
use std::collections::HashMap;
#[cfg(feature = "oauth")]
use std::io::IoSlice;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use toolbus_proto::caller::CallerName;
use toolbus_proto::channel::{Serving, Streams};
use toolbus_proto::http::{Admission, RequestHead, ResponseHead};

use crate::bus::Bus;
use crate::engine::front::Front;
#[cfg(feature = "oauth")]
use crate::oauth::TokenJudge;
#[cfg(feature = "oauth")]
use crate::oauth::tokens::AskedTokens;
use crate::task::{boxed, spawn_local};
use crate::transport::http::{AnswerWriter, Body, Exchange, garbled};
#[cfg(feature = "oauth")]
use crate::transport::io::{Sink as _, Writer as _};

/// One machine, for a caller or for all who have no name.
pub(crate) struct Room<S: Serving + Streams + 'static> {
    front: Rc<Front<S>>,
    /// Leads it to the tools of now.
    renew: Box<dyn Fn()>,
    /// Looks at its clock, and at what else it has to look at. Dropped, its calls are cancelled.
    _tasks: JoinSet<()>,
}

impl<S: Serving + Streams + 'static> Room<S> {
    /// Joined by `front`; `renew` is called when there are other tools. Must be called inside a
    /// `LocalSet`.
    pub(crate) fn new(front: Rc<Front<S>>, renew: impl Fn() + 'static) -> Room<S> {
        let mut tasks = JoinSet::new();
        let run = front.clone();
        tasks.spawn_local(boxed(async move { run.run().await }));
        Room { front, renew: Box::new(renew), _tasks: tasks }
    }

    /// The same, while something else is looked after for it.
    pub(crate) fn with(mut self, task: impl Future<Output = ()> + 'static) -> Room<S> {
        self._tasks.spawn_local(boxed(task));
        self
    }

    /// Ends its sessions, streams and calls.
    fn cut_off(self) {
        spawn_local(async move { self.front.finish(Duration::ZERO).await });
    }
}

/// Makes a room for this caller, or for those who have no name, by what is asked of each request.
type Make<S> = Box<dyn Fn(Admission, Option<&CallerName>) -> Room<S>>;

/// What is asked of tokens of sign-in servers at one front.
#[derive(Default)]
pub(crate) struct Guard {
    #[cfg(feature = "oauth")]
    asked: Option<Rc<AskedTokens>>,
    #[cfg(feature = "oauth")]
    url: String,
    #[cfg(feature = "oauth")]
    path: String,
}

impl Guard {
    /// What the bus of a front asks that listens at this URL, and at this path of it.
    #[cfg(feature = "oauth")]
    pub(crate) fn of(bus: Option<&Bus>, url: impl Into<String>, path: &str) -> Guard {
        let asked = bus.and_then(Bus::asked_tokens);
        Guard { asked, url: url.into(), path: path.to_owned() }
    }

    /// Nothing is asked.
    #[cfg(not(feature = "oauth"))]
    pub(crate) fn of(_bus: Option<&Bus>, _url: impl Into<String>, _path: &str) -> Guard {
        Guard {}
    }
}

/// Writes a whole answer.
#[cfg(feature = "oauth")]
async fn tell(mut writer: AnswerWriter, head: ResponseHead, body: String) {
    writer.answer(head);
    let mut left = body.as_bytes();
    while !left.is_empty() {
        match writer.write(&[IoSlice::new(left)]).await {
            Ok(count) => left = &left[count..],
            Err(_) => return,
        }
    }
    writer.finish();
}

/// All rooms of one front.
pub(crate) struct Rooms<S: Serving + Streams + 'static> {
    make: Make<S>,
    admission: RefCell<Admission>,
    /// Who judges tokens of sign-in servers, if those are asked for.
    #[cfg(feature = "oauth")]
    judge: RefCell<Option<Rc<TokenJudge>>>,
    /// The URL at which they listen, and its path.
    #[cfg(feature = "oauth")]
    at: (String, String),
    hall: RefCell<Room<S>>,
    rooms: RefCell<HashMap<CallerName, Room<S>>>,
}

impl<S> Rooms<S>
where
    S: Serving + Streams<Opening = RequestHead, Answer = ResponseHead> + 'static,
{
    /// Lets in who `admission` and `guard` say.
    pub(crate) fn new(
        admission: Admission,
        guard: Guard,
        make: impl Fn(Admission, Option<&CallerName>) -> Room<S> + 'static,
    ) -> Rooms<S> {
        #[cfg(feature = "oauth")]
        let admission = Admission { judges: guard.asked.is_some(), ..admission };
        let _ = &guard;
        let hall = RefCell::new(make(admission.clone(), None));
        let (make, admission) = (Box::new(make), RefCell::new(admission));
        Rooms {
            make,
            admission,
            #[cfg(feature = "oauth")]
            judge: RefCell::new(
                guard.asked.map(|asked| Rc::new(TokenJudge::new(asked, &guard.url, &guard.path))),
            ),
            #[cfg(feature = "oauth")]
            at: (guard.url, guard.path),
            hall,
            rooms: RefCell::default(),
        }
    }

    /// A request has come.
    pub(crate) fn welcome(self: &Rc<Self>, exchange: Exchange) {
        let rooms = self.clone();
        self.judged(exchange, move |head, body, writer| {
            let caller = rooms.caller_of(&head);
            rooms.front_of(caller.as_ref()).welcome(head, body, writer);
        });
    }

    /// Goes on with a request once it is known what its token is, where that is asked.
    #[cfg(not(feature = "oauth"))]
    pub(crate) fn judged(
        self: &Rc<Self>,
        exchange: Exchange,
        go_on: impl FnOnce(RequestHead, Body, AnswerWriter) + 'static,
    ) {
        let (head, body, writer) = exchange.into_stream(garbled);
        go_on(head, body, writer);
    }

    /// Goes on with a request once it is known what its token is, where that is asked. Who asks
    /// where one gets a token is answered at once.
    #[cfg(feature = "oauth")]
    pub(crate) fn judged(
        self: &Rc<Self>,
        exchange: Exchange,
        go_on: impl FnOnce(RequestHead, Body, AnswerWriter) + 'static,
    ) {
        let (mut head, body, writer) = exchange.into_stream(garbled);
        let judge = self.judge.borrow().clone();
        let Some(judge) = judge else { return go_on(head, body, writer) };
        let admission = self.admission.borrow();
        if admission.is_for_us(&head)
            && let Some((answer, said)) = judge.metadata(&head)
        {
            drop(body);
            spawn_local(boxed(tell(writer, answer, said)));
            return;
        }
        if admission.needs_no_judge(&head) {
            return go_on(head, body, writer);
        }
        head.judged = judge.at_once(&head, &admission);
        if head.judged.is_some() {
            drop(admission);
            return go_on(head, body, writer);
        }
        let admission = admission.clone();
        spawn_local(boxed(async move {
            head.judged = Some(judge.find_out(&head, &admission).await);
            go_on(head, body, writer);
        }));
    }

    /// Whose request it is, where callers are told apart and this is one of them.
    pub(crate) fn caller_of(&self, head: &RequestHead) -> Option<CallerName> {
        let admission = self.admission.borrow();
        admission.doors.as_ref()?;
        admission.admit(head).ok().flatten()
    }

    /// What is asked of every request.
    #[cfg(feature = "tls")]
    pub(crate) fn admission(&self) -> Admission {
        self.admission.borrow().clone()
    }

    /// All machines there are.
    fn fronts(&self) -> Vec<Rc<Front<S>>> {
        let rooms = self.rooms.borrow();
        let rooms = rooms.values().map(|room| room.front.clone());
        rooms.chain([self.hall.borrow().front.clone()]).collect()
    }

    /// The machine of this caller, or of those who have no name.
    pub(crate) fn front_of(&self, caller: Option<&CallerName>) -> Rc<Front<S>> {
        match caller {
            None => self.hall.borrow().front.clone(),
            Some(caller) => {
                let mut rooms = self.rooms.borrow_mut();
                let make = || (self.make)(self.admission.borrow().for_one(), Some(caller));
                rooms.entry(caller.clone()).or_insert_with(make).front.clone()
            }
        }
    }

    /// The tools are others, and `bus` says who may come in from now on. Who may not is cut off.
    pub(crate) fn follow(&self, bus: &Bus) {
        let doors = bus.doors();
        let before = std::mem::replace(&mut self.admission.borrow_mut().doors, doors.clone());
        if before == doors && self.judge_anew(bus) {
            (self.hall.borrow().renew)();
        } else {
            // Who came in without a name has none to go on with.
            let hall = (self.make)(self.admission.borrow().clone(), None);
            self.hall.replace(hall).cut_off();
        }
        let stays = |caller: &CallerName| doors.as_ref().is_some_and(|doors| doors.allows(caller));
        let mut rooms = self.rooms.borrow_mut();
        for (_, gone) in rooms.extract_if(|caller, _| !stays(caller)) {
            gone.cut_off();
        }
        rooms.values().for_each(|room| (room.renew)());
    }

    /// Tokens are judged as the bus says from now on. May those stay who have come in so far?
    #[cfg(feature = "oauth")]
    fn judge_anew(&self, bus: &Bus) -> bool {
        let asked = bus.asked_tokens();
        self.admission.borrow_mut().judges = asked.is_some();
        let mut judge = self.judge.borrow_mut();
        match (&*judge, asked) {
            (None, None) => true,
            (Some(judge), Some(asked)) => {
                judge.follow(asked);
                let stays = |holder: &str| judge.lets_in(holder);
                for front in self.fronts() {
                    front.tell_machine(|machine, now| machine.keep_holders(now, &stays));
                }
                true
            }
            (_, asked) => {
                let (url, path) = &self.at;
                *judge = asked.map(|asked| Rc::new(TokenJudge::new(asked, url, path)));
                false
            }
        }
    }

    #[cfg(not(feature = "oauth"))]
    fn judge_anew(&self, _bus: &Bus) -> bool {
        true
    }

    /// Takes no more calls, and waits for those under way, but no longer than `patience`.
    pub(crate) async fn finish(&self, patience: Duration) {
        let mut finishing = JoinSet::new();
        for front in self.fronts() {
            finishing.spawn_local(boxed(async move { front.finish(patience).await }));
        }
        finishing.join_all().await;
    }
}
