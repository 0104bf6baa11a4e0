//! The engine over many streams: a call for each, opened by both sides, in memory.
//!
//! ```text
//! Inbox ─ Client ≡ streams ≡ Front ─ Tools
//! ```

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

use super::memory::{self, MemoryOpener, MemoryReader, MemoryWriter};
use bytes::BytesMut;
use tokio::task::{JoinHandle, spawn_local};
use toolbus_engine::calls::{Inbox, RunningCall};
use toolbus_engine::client::Client;
use toolbus_engine::front::Front;
use toolbus_engine::transport::io::{Lost, Opener, Reader, Sink, Source, Stop, Writer};
use toolbus_proto::channel::{Down, Notice, StreamLost, Up};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part};
use toolbus_testkit::many;

use super::tools::{Served, Tools, weight};
use super::{call, is_done, json, part, run, stream, value};

type Heads = MemoryOpener<String, String>;

/// A caller with tools behind one conversation over many streams.
struct House {
    client: Rc<Client<many::Client>>,
    front: Rc<Front<many::Server>>,
    tools: Rc<Tools>,
    tasks: Vec<JoinHandle<()>>,
}

impl House {
    fn new(streams_max: usize, bytes_max: usize) -> House {
        House::through(streams_max, bytes_max, |opener| opener)
    }

    /// With something between the client and the streams it opens.
    fn through<O: Opener<many::Client> + 'static>(
        streams_max: usize,
        bytes_max: usize,
        wrap: impl FnOnce(Heads) -> O,
    ) -> House {
        let tools = Tools::new();
        let (mut near, mut far) = memory::pair(streams_max, bytes_max);
        let (near_opener, far_opener) = (near.opener(), far.opener());
        let client = many::Client::new(many::Limits::default());
        let client = Rc::new(Client::over("peer", client, wrap(near_opener)));
        let server = many::Server::new(many::Limits::default());
        let front = Front::over(server, Rc::new(Served(tools.clone())), None, far_opener);
        let (welcomed, welcoming) = (client.clone(), front.clone());
        let tasks = vec![
            spawn_local(async move {
                while let Some(stream) = near.accept().await {
                    welcomed.welcome(stream.head, stream.reader, stream.writer);
                }
            }),
            spawn_local(async move {
                while let Some(stream) = far.accept().await {
                    welcoming.welcome(stream.head, stream.reader, stream.writer);
                }
            }),
        ];
        House { client, front, tools, tasks }
    }

    fn call(&self, call: Call) -> (Rc<Inbox>, RunningCall) {
        let (inbox, slot) = Inbox::new();
        let uplink = self.client.start(call, slot);
        (inbox, uplink)
    }

    async fn outcome(&self, call: Call) -> Result<Outcome, Failure> {
        let (inbox, uplink) = self.call(call);
        inbox.whole(uplink).await
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn within(millis: u64, mut call: Call) -> Call {
    call.deadline.total = Some(Duration::from_millis(millis));
    call
}

#[test]
fn calls_have_streams_of_their_own_whatever_a_stream_holds() {
    for (streams_max, bytes_max) in [(1, 1), (3, 7), (1000, 4096)] {
        run(async {
            let house = House::new(streams_max, bytes_max);
            let calls: Vec<_> =
                (0..200).map(|n| house.call(call("echo", &n.to_string()))).collect();
            for (n, (inbox, uplink)) in calls.into_iter().enumerate() {
                assert_eq!(inbox.whole(uplink).await, value(&n.to_string()));
            }
            let failure = house.outcome(call("fail", "{}")).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Failed);
            let (inbox, uplink) = house.call(stream("return", "[]"));
            let _ = uplink.send(Up::Part(Part::Text("one".into())));
            let _ = uplink.send(Up::End(Some(json("2"))));
            let mut downs = Vec::new();
            while !downs.last().is_some_and(is_done) {
                downs.push(inbox.next(&uplink).await);
            }
            assert_eq!(downs[1], Down::Part(Part::Text("one".into())));
            assert_eq!(downs[2], Down::Done(Ok(Outcome::End(Some(json("2"))))));
            assert_eq!((house.tools.started.get(), house.tools.cancelled.get()), (202, 0));
        });
    }
}

#[test]
fn a_caller_is_asked_back_on_its_own_stream() {
    run(async {
        let house = House::new(8, 64);
        let (inbox, uplink) = house.call(call("ask", "\"sure?\""));
        let Down::Ask(ask, question) = inbox.next(&uplink).await else { panic!("no question") };
        assert_eq!(question, json("\"sure?\""));
        let _ = uplink.send(Up::Answer(ask, json("true")));
        assert_eq!(inbox.whole(uplink).await, value("true"));
    });
}

/// Cuts the first stream at a byte, on the way up or down.
struct Cutting {
    opener: Heads,
    at: usize,
    direction: Direction,
    is_first: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Up,
    Down,
}

struct CutReader(MemoryReader<String>, Option<usize>);
struct CutWriter(Option<MemoryWriter<String>>, Option<usize>);

fn reset() -> io::Error {
    let failure = Failure::new(FailureKind::Gone, "reset");
    Lost(StreamLost { code: Some(9), failure }).into()
}

impl Opener<many::Client> for Cutting {
    type Reader = CutReader;
    type Writer = CutWriter;

    async fn open(&self, head: String) -> Result<(CutReader, CutWriter), StreamLost> {
        let (reader, writer) = Opener::<many::Client>::open(&self.opener, head).await?;
        let is_cut = self.is_first.take();
        let at = |direction| (is_cut && self.direction == direction).then_some(self.at);
        Ok((CutReader(reader, at(Direction::Down)), CutWriter(Some(writer), at(Direction::Up))))
    }
}

impl Source for CutReader {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        if self.1 == Some(0) {
            return Err(reset());
        }
        let before = input.len();
        let count = self.0.read(input).await?;
        let count = self.1.map_or(count, |left| left.min(count));
        input.truncate(before + count);
        self.1 = self.1.map(|left| left - count);
        Ok(count)
    }
}

impl Reader for CutReader {
    type Head = String;

    async fn head(&mut self) -> Result<String, StreamLost> {
        self.0.head().await
    }
}

impl Sink for CutWriter {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.1 == Some(0) {
            drop(self.0.take());
        }
        let Some(writer) = &mut self.0 else { return Err(reset()) };
        let first = &pieces[0];
        let piece = &first[..self.1.map_or(first.len(), |left| left.min(first.len()))];
        let count = writer.write(&[IoSlice::new(piece)]).await?;
        self.1 = self.1.map(|left| left - count);
        Ok(count)
    }
}

impl Writer for CutWriter {
    type Head = String;

    fn answer(&mut self, head: String) {
        if let Some(writer) = &mut self.0 {
            writer.answer(head);
        }
    }

    fn finish(mut self) {
        if let Some(writer) = self.0.take() {
            writer.finish();
        }
    }

    fn reset(mut self, code: u64) {
        if let Some(writer) = self.0.take() {
            writer.reset(code);
        }
    }

    fn stopped(&self) -> impl Future<Output = Stop> + 'static {
        let stopped = self.0.as_ref().map(Writer::stopped);
        async move {
            match stopped {
                Some(stopped) => stopped.await,
                None => std::future::pending().await,
            }
        }
    }
}

#[test]
fn a_stream_cut_at_any_byte_ends_its_own_call_and_no_other() {
    for direction in [Direction::Up, Direction::Down] {
        // More bytes than either side writes.
        for at in 0..80 {
            run(async {
                let house = House::through(8, 16, |opener| Cutting {
                    opener,
                    at,
                    direction,
                    is_first: Cell::new(true),
                });
                let (cut, other) =
                    (house.call(call("echo", "[1, 2]")), house.call(call("echo", "[3]")));
                let outcome = cut.0.whole(cut.1).await;
                if outcome != value("[1, 2]") {
                    let kind = outcome.unwrap_err().kind;
                    assert_eq!(kind, FailureKind::Gone, "{direction:?} at {at}");
                }
                assert_eq!(other.0.whole(other.1).await, value("[3]"), "{direction:?} at {at}");
                assert_eq!(house.outcome(call("echo", "[4]")).await, value("[4]"));
                while house.client.streams() != 0 || house.tools.running() != 0 {
                    tokio::task::yield_now().await;
                }
            });
        }
    }
}

#[test]
fn a_call_on_a_stream_that_never_ends_is_given_up_in_time() {
    run(async {
        let house = House::new(8, 64);
        let failure = house.outcome(within(20, call("never", "0"))).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
        house.tools.cancelled(1).await;
    });
}

#[test]
fn who_waits_for_a_free_stream_waits_no_longer_than_its_deadline() {
    run(async {
        let house = House::new(1, 64);
        let (_inbox, first) = house.call(call("never", "0"));
        let failure = house.outcome(within(20, call("echo", "1"))).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
        // Nobody was asked.
        assert_eq!(house.tools.started.get(), 1);
        let (inbox, waiting) = house.call(call("echo", "2"));
        drop(first);
        assert_eq!(inbox.whole(waiting).await, value("2"));
    });
}

#[test]
fn a_peer_that_has_heard_enough_stops_only_what_it_does_not_read() {
    run(async {
        let house = House::new(8, 16);
        let (inbox, uplink) = house.call(stream("early", "0"));
        for _ in 0..100 {
            let _ = uplink.send(Up::Part(part(100)));
        }
        assert_eq!(inbox.whole(uplink).await, value("\"enough\""));
        assert_eq!(house.outcome(call("echo", "1")).await, value("1"));
        while house.client.streams() != 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn the_answering_side_opens_streams_too() {
    run(async {
        let house = House::new(8, 4);
        let changed = Rc::new(tokio::sync::Notify::new());
        let told = changed.clone();
        house.client.watch(Rc::new(move || told.notify_one()));
        house.front.tell(&Notice::ToolsChanged);
        changed.notified().await;
        house.front.tell(&Notice::ToolsChanged);
        changed.notified().await;
    });
}

#[test]
fn a_slow_reader_holds_up_its_own_stream_and_no_other() {
    run(async {
        let house = House::new(8, 64);
        let (slow, uplink) = house.call(call("count", "[1000, 1000]"));
        while !house.tools.is_quiet().await {}
        let waiting = slow.waiting();
        for n in 0..50 {
            assert_eq!(house.outcome(call("echo", &n.to_string())).await, value(&n.to_string()));
        }
        // Nothing was thrown away, and nothing piled up.
        assert!(slow.waiting() <= waiting + 1 && waiting < 100, "{waiting}");
        let mut bytes = 0;
        loop {
            let down = slow.next(&uplink).await;
            bytes += weight(&down);
            if is_done(&down) {
                break;
            }
        }
        assert_eq!(bytes, 1000 * 1000);
    });
}

#[test]
fn a_slow_tool_holds_up_its_own_stream_and_no_other() {
    run(async {
        let house = House::new(8, 64);
        let (_inbox, uplink) = house.call(stream("never", "0"));
        let mut sent = 0;
        while sent < 10_000
            && uplink.send(Up::Part(part(1000))) == toolbus_engine::calls::Pressure::Ready
        {
            sent += 1;
        }
        assert!(sent < 10_000, "nobody held the caller back");
        assert_eq!(house.outcome(call("echo", "1")).await, value("1"));
    });
}

#[test]
fn who_stops_answers_what_is_under_way_and_takes_nothing_new() {
    run(async {
        let house = House::new(8, 64);
        let (inbox, uplink) = house.call(call("ask", "\"last?\""));
        let Down::Ask(ask, _) = inbox.next(&uplink).await else { panic!("no question") };
        let (_unheard, _never) = house.call(call("never", "0"));
        let finishing = spawn_local({
            let front = house.front.clone();
            async move { front.finish(Duration::from_millis(50)).await }
        });
        tokio::task::yield_now().await;
        let refused = house.outcome(call("echo", "1")).await.unwrap_err();
        assert_eq!(refused.message, "the stream was reset with code 3");
        let _ = uplink.send(Up::Answer(ask, json("true")));
        assert_eq!(inbox.whole(uplink).await, value("true"));
        finishing.await.unwrap();
        // What would never have ended was given up.
        assert_eq!(house.tools.running(), 0);
    });
}

#[test]
fn a_client_that_is_dropped_ends_its_calls_and_its_streams() {
    run(async {
        let house = House::new(8, 64);
        let (inbox, uplink) = house.call(call("never", "0"));
        while house.tools.running() == 0 {
            tokio::task::yield_now().await;
        }
        house.client.fail(Failure::new(FailureKind::Gone, "enough"));
        assert_eq!(inbox.whole(uplink).await.unwrap_err().message, "enough");
        house.tools.cancelled(1).await;
        assert_eq!(house.outcome(call("echo", "1")).await.unwrap_err().message, "enough");
    });
}
