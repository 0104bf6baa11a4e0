//! The connections of one listener: only so many at a time, and who goes when there are more.
//!
//! A client that connects while there is no room waits outside. It is let in as soon as a
//! connection ends, or one has been silent for a while: of those the oldest is closed. So
//! clients that connect and say nothing keep no other client out, and those with a call under way
//! are never closed.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::{Arrival, Listener};
use crate::task::boxed;

/// How many connections there may be, and when one has to make room.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Connections at a time.
    pub(crate) connections_max: usize,
    /// How long a connection must have been silent before another may take its place: a client
    /// that has just come, or just read an answer, is about to ask.
    pub(crate) silence: Duration,
}

impl Room {
    /// What a listener has where nothing else is said.
    pub const USUAL: Room = Room { connections_max: 1024, silence: Duration::from_secs(1) };
}

/// What the crowd knows of one connection.
pub struct Member {
    /// Counted up as they come.
    number: u64,
    came: Instant,
    quiet_since: RefCell<Option<QuietSince>>,
}

type QuietSince = Box<dyn Fn() -> Option<Instant>>;

impl Member {
    /// The connection is open; from now on this says since when nothing is under way on it.
    pub fn opened(&self, quiet_since: impl Fn() -> Option<Instant> + 'static) {
        *self.quiet_since.borrow_mut() = Some(Box::new(quiet_since));
    }

    fn quiet_since(&self) -> Option<Instant> {
        match &*self.quiet_since.borrow() {
            Some(quiet_since) => quiet_since(),
            // It still shakes hands.
            None => Some(self.came),
        }
    }
}

/// Lets clients in until `stop`, at most as many at a time as there is room for, and serves each by a task.
/// Gives the tasks that are left then. Must be called inside a `LocalSet`.
pub async fn serve_all<T, F: Future<Output = ()> + 'static>(
    listener: Listener,
    room: Room,
    stop: impl Future<Output = T>,
    serve: impl Fn(Arrival, Rc<Member>) -> F,
) -> (T, JoinSet<()>) {
    let mut stop = std::pin::pin!(stop);
    let mut tasks = JoinSet::new();
    let mut crowd = Crowd::default();
    let mut has_said = false;
    // It has connected, and waits for its turn.
    let mut outside: Option<Arrival> = None;
    loop {
        let is_full = room.connections_max <= tasks.len();
        if let Some(arrival) = outside.take_if(|_| !is_full) {
            let member = crowd.member();
            let task = tasks.spawn_local(boxed(serve(arrival, member.clone())));
            crowd.insert(task, member);
            continue;
        }
        // If all of them are busy now, they are looked at again after a while.
        let oldest = outside.as_ref().and_then(|_| crowd.oldest());
        let look_at = oldest.map_or_else(Instant::now, |(since, _)| since) + room.silence;
        tokio::select! {
            arrival = listener.accept(), if outside.is_none() => outside = Some(arrival),
            Some(ended) = tasks.join_next_with_id() => crowd.forget(&ended),
            () = sleep_until(look_at), if outside.is_some() => {
                if crowd.shed(Instant::now(), room.silence) {
                    connection_closed();
                    if !std::mem::replace(&mut has_said, true) {
                        let max = room.connections_max;
                        tracing::warn!(
                            "there are {max} connections, as many as there may be: for each new \
                             one the one that was silent longest is closed, which is counted from \
                             now on"
                        );
                    }
                    if let Some(ended) = tasks.join_next_with_id().await {
                        crowd.forget(&ended);
                    }
                }
            }
            stopped = &mut stop => return (stopped, tasks),
        }
    }
}

thread_local! {
    /// How many connections and sessions had to make room for others.
    static MADE_ROOM: Cell<MadeRoom> = const { Cell::new(MadeRoom { connections: 0, sessions: 0 }) };
}

/// What had to make room for others on this thread, because there were as many as there may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MadeRoom {
    /// Connections that were closed.
    pub connections: u64,
    /// Sessions that were ended.
    pub sessions: u64,
}

/// How many had to since this thread began.
pub fn made_room() -> MadeRoom {
    MADE_ROOM.get()
}

fn connection_closed() {
    MADE_ROOM.set(MadeRoom { connections: MADE_ROOM.get().connections + 1, ..MADE_ROOM.get() });
}

pub(crate) fn session_ended() {
    MADE_ROOM.set(MadeRoom { sessions: MADE_ROOM.get().sessions + 1, ..MADE_ROOM.get() });
}

type Ended = Result<(tokio::task::Id, ()), tokio::task::JoinError>;

/// Who is inside.
#[derive(Default)]
struct Crowd {
    inside: HashMap<tokio::task::Id, (AbortHandle, Rc<Member>)>,
    /// How many have come in all.
    came: u64,
}

impl Crowd {
    fn member(&mut self) -> Rc<Member> {
        self.came += 1;
        let (number, came) = (self.came, Instant::now());
        Rc::new(Member { number, came, quiet_since: RefCell::default() })
    }

    fn insert(&mut self, task: AbortHandle, member: Rc<Member>) {
        self.inside.insert(task.id(), (task, member));
    }

    fn forget(&mut self, ended: &Ended) {
        let id = match ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.inside.remove(&id);
    }

    /// Who has been silent for the longest time, and since when.
    fn oldest(&self) -> Option<(Instant, &AbortHandle)> {
        let quiet = self
            .inside
            .values()
            .filter_map(|(task, member)| Some((member.quiet_since()?, member.number, task)));
        // Of two at the same instant it is the one that came first.
        let oldest = quiet.min_by_key(|(since, number, _)| (*since, *number));
        oldest.map(|(since, _, task)| (since, task))
    }

    /// Closes that connection, if it was for long enough. Tells whether it did.
    fn shed(&self, now: Instant, silence: Duration) -> bool {
        match self.oldest() {
            Some((since, task)) if since + silence <= now => {
                tracing::debug!("closed the connection that was silent longest: others wait");
                task.abort();
                true
            }
            _ => false,
        }
    }
}
