//! What joins a machine to the bus, on either side: its streams, each driven by its own loop.
//!
//! A conversation over one stream has one lane and one loop, which also looks at the clock.
//! One over many has a lane for each; a keeper looks at the clock, and streams are opened and
//! woken as the machine says.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::task::AbortHandle;
use toolbus_proto::channel::{Flow, Machine, Outbox, StreamId, StreamLost, Streams, Writing};
use toolbus_proto::counted::Counted;

use super::alarm::{Alarm, Woken};
use super::drive::{Closing, Drivable, Forwarded, ReadNext, drive};
use super::lane::{Lane, Refused};
use super::moment::Moment;
use crate::account::{Account, Charge, KnownAccount};
use crate::task::LocalFuture;
use crate::task::spawn_local;
use crate::transport::io::{Lost, Opener, Reader, Sink, Source, Stop, Writer};
use crate::wake::{Wake, turn};

/// A machine with all that hangs on it. The methods are called with nothing borrowed, so that
/// they may call into other peers and be called back.
pub(crate) trait Joint: Sized + 'static {
    type Machine: Streams;

    fn machine(&self) -> &RefCell<Self::Machine>;
    fn lanes(&self) -> &Lanes<Self>;
    /// Passes on what the machine has to say, as far as its consumer can take it. It may
    /// have been heard on `lane`.
    fn pass_on(&self, lane: Option<&Rc<Lane>>) -> Forwarded;
    /// The same, after something was handed out to be written.
    fn handed_out(&self, lane: &Rc<Lane>) -> Forwarded;
    /// Is `lane` not to be read?
    fn is_paused(&self, lane: &Lane) -> bool;
    /// Is it of no use to go on?
    fn is_over(&self) -> bool {
        false
    }
    /// What is to be done though the machine would go on.
    fn part(&self, _lane: &Lane) -> Option<ReadNext> {
        None
    }
    /// How long the other side may read nothing, once it has said all it will say.
    fn unread_max(&self) -> Option<Duration> {
        None
    }
    /// Before something new is said: has the other side ended, though the machine was not told yet?
    fn has_ended(&self, _now: Instant) -> bool {
        false
    }
    /// The end of the one stream is here.
    fn ended(&self, flow: Flow) -> Option<ReadNext>;
    /// So many bytes wait to be written to `lane`.
    fn report_unwritten(&self, lane: &Lane, bytes: usize);
    /// All that was handed out has been written.
    fn sent(&self) {}
    /// The machine was told the time.
    fn time_passed(&self) {}
    /// The one stream broke.
    fn broke(&self, direction: Direction, error: &io::Error);
}

/// Which direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Reading,
    Writing,
}

/// A stream, and the task that drives it, which holds the joint.
struct OneOfMany {
    lane: Rc<Lane>,
    task: Option<AbortHandle>,
}

/// The streams of one conversation.
pub(crate) struct Lanes<J: Joint> {
    this: Weak<J>,
    /// Whose the conversation is.
    pub(super) account: Account,
    /// What its machine keeps.
    kept: Charge,
    /// Those whom the machine tells apart.
    owners: RefCell<HashMap<u64, KnownAccount>>,
    /// The one stream, where there is only one.
    pub(super) only: Rc<Lane>,
    many: RefCell<Counted<StreamId, OneOfMany>>,
    next_theirs: Cell<u64>,
    opener: Option<Rc<dyn Opens<J>>>,
    /// When something was said that the loops have not heard yet.
    pub(super) moment: Moment,
    alarm: Alarm,
    /// The machine has more to say than could be passed on.
    has_more: Cell<bool>,
    /// Rung when a stream is over.
    fewer: Wake,
}

impl<J: Joint> Lanes<J> {
    pub(super) fn new(this: Weak<J>, account: Account) -> Lanes<J> {
        Lanes {
            this,
            kept: Charge::on(&account),
            only: Rc::new(Lane::new(&account)),
            account,
            owners: RefCell::default(),
            many: RefCell::default(),
            next_theirs: Cell::new(0),
            opener: None,
            moment: Moment::default(),
            alarm: Alarm::default(),
            has_more: Cell::new(false),
            fewer: Wake::default(),
        }
    }

    /// With a way to open streams.
    pub(super) fn with_opener(
        this: Weak<J>,
        account: Account,
        opener: impl Opener<J::Machine> + 'static,
    ) -> Self {
        Lanes { opener: Some(Rc::new(Opening(opener))), ..Lanes::new(this, account) }
    }

    /// Counts what the machine keeps.
    #[inline]
    pub(super) fn weigh(&self, machine: &RefCell<J::Machine>) {
        self.kept.set_unread(machine.borrow().weight());
    }

    /// Puts what is on `lane` on the account of whoever the machine says it belongs to.
    #[inline]
    fn adopt(&self, machine: &RefCell<J::Machine>, id: StreamId, lane: &Rc<Lane>) {
        if J::Machine::IS_ONE || lane.has_owner.get() {
            return;
        }
        let owner = machine.borrow().owner(id);
        if let Some(owner) = owner {
            let account = self.account_of(owner);
            lane.has_owner.set(true);
            lane.charge.move_to(&account);
            let end: Weak<Lane> = Rc::downgrade(lane);
            account.on_cut(end);
        }
    }

    fn account_of(&self, owner: u64) -> Account {
        let mut owners = self.owners.borrow_mut();
        if let Some(account) = owners.get(&owner).and_then(KnownAccount::account) {
            return account;
        }
        if owners.len() == owners.capacity() {
            owners.retain(|_, known| known.account().is_some());
        }
        let account = Account::new("the client of a session");
        owners.insert(owner, account.known());
        account
    }

    /// Wakes the loop of every stream, so that each notices that the conversation is over.
    pub(super) fn wake_all(&self) {
        self.only.wake.ring();
        self.many.borrow().values().for_each(|one| one.lane.wake.ring());
    }

    /// Does what the machine wants done with its streams, after something was said to it.
    /// `ready` is told which of them have something to do.
    #[inline]
    pub(super) fn apply_stream_requests(
        &self,
        machine: &RefCell<J::Machine>,
        ready: impl FnMut(&Rc<Lane>),
    ) {
        if !J::Machine::IS_ONE {
            self.stir_many(machine, ready);
        }
    }

    fn stir_many(&self, machine: &RefCell<J::Machine>, mut ready: impl FnMut(&Rc<Lane>)) {
        loop {
            let open = machine.borrow_mut().poll_open();
            let Some((id, head)) = open else { break };
            let (Some(joint), Some(opener)) = (self.this.upgrade(), &self.opener) else { break };
            let lane = self.insert(id, &self.account);
            ready(&lane);
            let led = opener.clone().lead(joint, id, lane, head);
            self.spawn(id, led);
        }
        loop {
            let id = machine.borrow_mut().poll_ready();
            let Some(id) = id else { break };
            if let Some(OneOfMany { lane, .. }) = self.many.borrow().get(&id) {
                lane.wake.ring();
                ready(lane);
            }
        }
        self.weigh(machine);
        self.alarm.set(machine.borrow().poll_timeout());
    }

    fn insert(&self, id: StreamId, account: &Account) -> Rc<Lane> {
        let lane = Rc::new(Lane::new(account));
        self.many.borrow_mut().insert(id, OneOfMany { lane: lane.clone(), task: None });
        lane
    }

    /// `led` is in a box, because a task is moved around while it is made, and may be large.
    fn spawn(&self, id: StreamId, led: LocalFuture<'static, ()>) {
        let this = self.this.clone();
        let task = spawn_local(async move {
            led.await;
            if let Some(joint) = this.upgrade() {
                let lanes = joint.lanes();
                lanes.many.borrow_mut().remove(&id);
                joint.machine().borrow_mut().handle_closed(Instant::now(), id);
                joint.pass_on(None);
                lanes.apply_stream_requests(joint.machine(), |_| {});
                lanes.fewer.ring();
            }
        });
        if let Some(one) = self.many.borrow_mut().get_mut(&id) {
            one.task = Some(task.abort_handle());
        }
    }

    /// The peer opened a stream: it is driven in a task of its own.
    pub(super) fn welcome(
        &self,
        head: <J::Machine as Streams>::Opening,
        source: impl Source + 'static,
        writer: impl Writer<Head = <J::Machine as Streams>::Answer> + 'static,
    ) {
        let Some(joint) = self.this.upgrade() else { return };
        let id = StreamId::Theirs(self.next_theirs.get());
        self.next_theirs.set(self.next_theirs.get() + 1);
        let account = Account::new("a client");
        let lane = self.insert(id, &account);
        let end: Weak<Lane> = Rc::downgrade(&lane);
        account.on_cut(end);
        joint.machine().borrow_mut().handle_opened(Instant::now(), id, head);
        self.adopt(joint.machine(), id, &lane);
        joint.pass_on(Some(&lane));
        self.apply_stream_requests(joint.machine(), |_| {});
        // It may be answered without being read.
        lane.wake.ring();
        self.spawn(id, Box::pin(run(joint, id, lane, source, writer)));
    }

    /// Waits until there is no stream any more. One task at a time may wait.
    pub(super) async fn all_over(&self) {
        while !self.many.borrow().is_empty() {
            self.fewer.rung().await;
        }
    }

    /// How many streams there are.
    pub(super) fn count(&self) -> usize {
        self.many.borrow().len()
    }

    /// Ends all streams at once.
    pub(super) fn abort(&self) {
        // Nothing stays borrowed: what is dropped may call back.
        let many = self.many.take();
        many.values().filter_map(|one| one.task.as_ref()).for_each(AbortHandle::abort);
        drop(many);
        self.fewer.ring();
    }

    /// Not all that the machine has to say could be passed on: the keeper does, in a turn of its
    /// own.
    pub(super) fn come_back(&self) {
        self.has_more.set(true);
        self.alarm.ring();
    }

    /// Looks at the clock for a conversation over many streams, until it is dropped.
    pub(super) async fn keep(this: Weak<J>) {
        loop {
            let Some(joint) = this.upgrade() else { return };
            let lanes = joint.lanes();
            let timeout = joint.machine().borrow().poll_timeout();
            match lanes.alarm.wait(timeout).await {
                Woken::Rung => {
                    while lanes.has_more.take() {
                        turn().await;
                        lanes.has_more.set(joint.pass_on(None) == Forwarded::EnoughForNow);
                        lanes.apply_stream_requests(joint.machine(), |_| {});
                    }
                }
                Woken::Due => {
                    joint.machine().borrow_mut().handle_timeout(Instant::now());
                    joint.pass_on(None);
                    lanes.apply_stream_requests(joint.machine(), |_| {});
                    joint.time_passed();
                }
            }
        }
    }
}

/// Leads a stream that we open to its end.
trait Opens<J: Joint> {
    fn lead(
        self: Rc<Self>,
        joint: Rc<J>,
        id: StreamId,
        lane: Rc<Lane>,
        head: <J::Machine as Streams>::Opening,
    ) -> LocalFuture<'static, ()>;
}

struct Opening<O>(O);

impl<J: Joint, O: Opener<J::Machine> + 'static> Opens<J> for Opening<O> {
    fn lead(
        self: Rc<Self>,
        joint: Rc<J>,
        id: StreamId,
        lane: Rc<Lane>,
        head: <J::Machine as Streams>::Opening,
    ) -> LocalFuture<'static, ()> {
        Box::pin(async move {
            let stream = Stream { joint: &*joint, id, lane: &lane };
            let opened = {
                let mut opening = pin!(self.0.open(head));
                loop {
                    tokio::select! {
                        biased;
                        opened = &mut opening => break opened,
                        // What it was for may be over before there is a free one.
                        () = lane.wake.rung() => if stream.is_reset() {
                            return;
                        },
                    }
                }
            };
            match opened {
                Ok((reader, writer)) => {
                    let source = Awaited { stream: &stream, reader, is_answered: false };
                    run_stream(&stream, source, writer).await;
                }
                Err(why) => stream.lost(why),
            }
        })
    }
}

/// Drives one of many streams to its end.
async fn run<J: Joint>(
    joint: Rc<J>,
    id: StreamId,
    lane: Rc<Lane>,
    source: impl Source,
    writer: impl Writer<Head = <J::Machine as Streams>::Answer>,
) {
    let stream = Stream { joint: &*joint, id, lane: &lane };
    run_stream(&stream, source, writer).await;
}

async fn run_stream<J: Joint>(
    stream: &Stream<'_, J>,
    source: impl Source,
    writer: impl Writer<Head = <J::Machine as Streams>::Answer>,
) {
    let mut stopped = pin!(writer.stopped());
    let sink = Outgoing { stream, writer: Some(writer), is_written: false };
    let mut driven = pin!(drive(stream, source, sink));
    let mut is_stopped = false;
    loop {
        tokio::select! {
            biased;
            () = &mut driven => return,
            stop = &mut stopped, if !is_stopped => match stop {
                Stop::Asked(code) => {
                    is_stopped = true;
                    stream.stopped(code);
                }
                Stop::Lost(why) => return stream.lost(why),
            },
        }
    }
}

/// One stream of a conversation, as its loop drives it.
pub(super) struct Stream<'a, J: Joint> {
    pub(super) joint: &'a J,
    pub(super) id: StreamId,
    pub(super) lane: &'a Rc<Lane>,
}

impl<J: Joint> Stream<'_, J> {
    const IS_ONE: bool = J::Machine::IS_ONE;

    /// Says something to the machine, and does what that makes necessary.
    fn tell<T>(&self, tell: impl FnOnce(&mut J::Machine, Instant) -> T) -> (T, Forwarded) {
        let told = tell(&mut self.joint.machine().borrow_mut(), Instant::now());
        let passed = self.joint.pass_on(Some(self.lane));
        self.joint.lanes().apply_stream_requests(self.joint.machine(), |_| {});
        (told, passed)
    }

    fn answered(&self, head: <J::Machine as Streams>::Answer) {
        let (flow, passed) = self.tell(|machine, now| machine.handle_answered(now, self.id, head));
        // What comes of it need not wait for the next byte.
        if flow != Flow::More || passed != Forwarded::Nothing {
            self.lane.wake.ring();
        }
    }

    fn stopped(&self, code: Option<u64>) {
        self.lane.closing.set(Closing::Now);
        self.tell(|machine, now| machine.handle_stopped(now, self.id, code));
        self.lane.wake.ring();
    }

    fn lost(&self, why: StreamLost) {
        self.tell(|machine, now| Streams::handle_lost(machine, now, self.id, why));
    }

    /// There is no room for what the peer sends, or for the peer.
    fn refuse(&self, now: Instant, input: &mut BytesMut, refused: Refused) -> ReadNext {
        match refused {
            Refused::Input(failure) => {
                let why = StreamLost { code: None, failure };
                let told =
                    |machine: &mut J::Machine, _| machine.handle_cut(now, self.id, input, why);
                let (flow, passed) = self.tell(told);
                ReadNext::after(flow, passed).unwrap_or(ReadNext::Turn)
            }
            Refused::Whole(failure) => {
                *input = BytesMut::new();
                self.lane.closing.set(Closing::Now);
                self.lost(StreamLost { code: None, failure });
                ReadNext::Close
            }
        }
    }

    fn is_reset(&self) -> bool {
        matches!(self.joint.machine().borrow().writing(self.id), Writing::Reset(_))
    }
}

impl<J: Joint> Drivable for Stream<'_, J> {
    fn bytes(&self, now: Instant, input: &mut BytesMut) -> ReadNext {
        if self.joint.is_over() || (!Self::IS_ONE && self.is_reset()) {
            return ReadNext::Close;
        }
        if let Some(refused) = self.lane.take_refused() {
            return self.refuse(now, input, refused);
        }
        self.lane.turn_passed();
        loop {
            let flow = match self.joint.is_paused(self.lane) {
                true => Flow::Pause,
                false => self.joint.machine().borrow_mut().handle_bytes(now, self.id, input),
            };
            self.joint.lanes().adopt(self.joint.machine(), self.id, self.lane);
            let passed = self.joint.pass_on(Some(self.lane));
            self.joint.lanes().apply_stream_requests(self.joint.machine(), |_| {});
            // What the machine said may be all that its hearers can take.
            let flow = match flow {
                Flow::More if self.joint.is_paused(self.lane) => Flow::Pause,
                flow => flow,
            };
            match ReadNext::after(flow, passed) {
                Some(ReadNext::Turn) => return ReadNext::Turn,
                Some(next) => return self.joint.part(self.lane).unwrap_or(next),
                None => {}
            }
        }
    }

    fn eof(&self, now: Instant, input: &mut BytesMut) -> ReadNext {
        let flow = {
            let mut machine = self.joint.machine().borrow_mut();
            match self.lane.cut.take() {
                None => machine.handle_eof(now, self.id, input),
                Some(why) => machine.handle_cut(now, self.id, input, why),
            }
        };
        if Self::IS_ONE
            && let Some(next) = self.joint.ended(flow)
        {
            return next;
        }
        self.joint.lanes().adopt(self.joint.machine(), self.id, self.lane);
        let passed = self.joint.pass_on(Some(self.lane));
        self.joint.lanes().apply_stream_requests(self.joint.machine(), |_| {});
        ReadNext::after(flow, passed).unwrap_or(ReadNext::Turn)
    }

    fn timeout(&self, now: Instant) {
        self.joint.machine().borrow_mut().handle_timeout(now);
    }

    /// The keeper looks at the clock for many.
    fn poll_timeout(&self) -> Option<Instant> {
        match Self::IS_ONE {
            true => self.joint.machine().borrow().poll_timeout(),
            false => None,
        }
    }

    fn transmit(&self, out: &mut Outbox) -> Forwarded {
        self.joint.lanes().moment.pass();
        self.joint.machine().borrow_mut().poll_transmit(self.id, out);
        self.joint.lanes().weigh(self.joint.machine());
        let passed = self.joint.handed_out(self.lane);
        self.joint.lanes().apply_stream_requests(self.joint.machine(), |_| {});
        passed
    }

    fn report_buffered(&self, unwritten: usize, half_read: usize) {
        self.lane.charge.set(unwritten, half_read);
        if !Self::IS_ONE {
            self.lane.refuse_if_over();
        }
        self.joint.report_unwritten(self.lane, unwritten);
    }

    fn sent(&self) -> Option<ReadNext> {
        if !self.joint.machine().borrow().heeds_sent() {
            self.joint.sent();
            return Some(self.joint.part(self.lane).unwrap_or(ReadNext::Read));
        }
        self.joint.machine().borrow_mut().handle_sent(Instant::now(), self.id);
        self.joint.lanes().apply_stream_requests(self.joint.machine(), |_| {});
        self.joint.sent();
        None
    }

    fn read_failed(&self, error: io::Error) {
        match Self::IS_ONE {
            true => self.joint.broke(Direction::Reading, &error),
            false => *self.lane.cut.borrow_mut() = Some(Lost::of(error)),
        }
    }

    fn write_failed(&self, _now: Instant, error: io::Error) {
        match Self::IS_ONE {
            true => self.joint.broke(Direction::Writing, &error),
            false => self.stopped(Lost::of(error).code),
        }
    }

    fn closing(&self) -> Closing {
        match (self.lane.closing.get(), self.joint.machine().borrow().writing(self.id)) {
            (Closing::No, Writing::Open) => Closing::No,
            (Closing::No, Writing::Finish | Writing::BreakOff(_)) => Closing::AfterWriting,
            (Closing::No, Writing::Reset(_)) => Closing::Now,
            (closing, _) => closing,
        }
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.joint.has_ended(now)
    }

    fn unread_max(&self) -> Option<Duration> {
        self.joint.unread_max()
    }

    fn noise(&self) -> usize {
        self.lane.noise.get()
    }

    fn wake(&self) -> &Wake {
        &self.lane.wake
    }

    fn caller_drained(&self) -> Option<&Wake> {
        Some(&self.lane.taken)
    }
}

/// A stream that we opened: the peer's answer is waited for, then read.
struct Awaited<'a, J: Joint, R> {
    stream: &'a Stream<'a, J>,
    reader: R,
    is_answered: bool,
}

impl<J: Joint, R: Reader<Head = <J::Machine as Streams>::Answer>> Source for Awaited<'_, J, R> {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        if !self.is_answered {
            let head = self.reader.head().await.map_err(Lost)?;
            self.is_answered = true;
            self.stream.answered(head);
        }
        self.reader.read(input).await
    }

    fn is_at_end(&self) -> bool {
        self.reader.is_at_end()
    }
}

/// What we write on one of many streams. The loop drops it when all is written, or nothing
/// more is to be: then the stream ends as the machine says.
struct Outgoing<'a, J: Joint, W: Writer<Head = <J::Machine as Streams>::Answer>> {
    stream: &'a Stream<'a, J>,
    writer: Option<W>,
    /// All that was handed out has been written.
    is_written: bool,
}

impl<J: Joint, W: Writer<Head = <J::Machine as Streams>::Answer>> Sink for Outgoing<'_, J, W> {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.writer {
            Some(writer) => writer.write(pieces).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    async fn take_from(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        match &mut self.writer {
            Some(writer) => writer.take_from(outbox).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn begin(&mut self) {
        let head = self.stream.joint.machine().borrow_mut().poll_answer(self.stream.id);
        if let (Some(writer), Some(head)) = (&mut self.writer, head) {
            writer.answer(head);
        }
        if let (Some(writer), Some(account)) = (&self.writer, self.stream.lane.charge.account()) {
            writer.charge_to(&account);
        }
    }

    fn end(&mut self) {
        self.is_written = true;
    }
}

impl<J: Joint, W: Writer<Head = <J::Machine as Streams>::Answer>> Drop for Outgoing<'_, J, W> {
    fn drop(&mut self) {
        self.begin();
        let Some(writer) = self.writer.take() else { return };
        match self.stream.joint.machine().borrow().writing(self.stream.id) {
            Writing::Finish if self.is_written => writer.finish(),
            Writing::BreakOff(code) | Writing::Reset(code) => writer.reset(code),
            Writing::Open | Writing::Finish => writer.reset(0),
        }
    }
}
