//! Many streams in memory: two ends that open streams to each other, with heads, codes and
//! credit, as QUIC has them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::BytesMut;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use toolbus_proto::channel::{StreamLost, Streams};
use toolbus_proto::tool::{Failure, FailureKind};

use toolbus_engine::transport::io::{Lost, Opener, Reader, Sink, Source, Stop, Writer};

/// One end: opens streams, and is given those that the other end opens.
pub(super) struct End<O, A> {
    opener: MemoryOpener<O, A>,
    incoming: mpsc::UnboundedReceiver<Incoming<O, A>>,
}

/// A stream that the other end opened.
pub(super) struct Incoming<O, A> {
    /// What it begins with.
    pub(super) head: O,
    /// What the other end writes.
    pub(super) reader: MemoryReader<A>,
    /// What we write.
    pub(super) writer: MemoryWriter<A>,
}

/// Two ends. Each has so many streams of its own at a time, and each direction of a stream
/// holds so many bytes.
pub(super) fn pair<O, A>(streams_max: usize, bytes_max: usize) -> (End<O, A>, End<O, A>) {
    let (here, to_here) = mpsc::unbounded_channel();
    let (there, to_there) = mpsc::unbounded_channel();
    let end = |peer, incoming| End {
        opener: MemoryOpener { peer, credit: Arc::new(Semaphore::new(streams_max)), bytes_max },
        incoming,
    };
    (end(there, to_here), end(here, to_there))
}

impl<O, A> End<O, A> {
    /// Opens streams.
    pub(super) fn opener(&self) -> MemoryOpener<O, A> {
        self.opener.clone()
    }

    /// Waits for the other end to open a stream; `None` once it is gone.
    pub(super) async fn accept(&mut self) -> Option<Incoming<O, A>> {
        self.incoming.recv().await
    }
}

/// Opens streams to the other end. Clones share their credit.
pub(super) struct MemoryOpener<O, A> {
    peer: mpsc::UnboundedSender<Incoming<O, A>>,
    credit: Arc<Semaphore>,
    bytes_max: usize,
}

impl<O, A> Clone for MemoryOpener<O, A> {
    fn clone(&self) -> MemoryOpener<O, A> {
        let (peer, credit) = (self.peer.clone(), self.credit.clone());
        MemoryOpener { peer, credit, bytes_max: self.bytes_max }
    }
}

impl<O, A: 'static, M: Streams<Opening = O, Answer = A>> Opener<M> for MemoryOpener<O, A> {
    type Reader = MemoryReader<A>;
    type Writer = MemoryWriter<A>;

    async fn open(&self, head: O) -> Result<(MemoryReader<A>, MemoryWriter<A>), StreamLost> {
        let gone = || lost(None, "the other end is gone");
        let permit = self.credit.clone().acquire_owned().await.map_err(|_| gone())?;
        let permit = Some(Rc::new(permit));
        let (up, down) = (Way::new(self.bytes_max), Way::new(self.bytes_max));
        let theirs = Incoming {
            head,
            reader: MemoryReader { way: up.clone(), _permit: None },
            writer: MemoryWriter { way: down.clone(), _permit: None },
        };
        self.peer.send(theirs).map_err(|_| gone())?;
        let reader = MemoryReader { way: down, _permit: permit.clone() };
        Ok((reader, MemoryWriter { way: up, _permit: permit }))
    }
}

/// One direction of a stream.
struct Way<A>(RefCell<State<A>>);

struct State<A> {
    head: Option<A>,
    bytes: BytesMut,
    bytes_max: usize,
    /// How the writer ended it.
    end: Option<Result<(), u64>>,
    /// The reader wants no more.
    stopped: Option<u64>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    watcher: Option<Waker>,
}

impl<A> Way<A> {
    fn new(bytes_max: usize) -> Rc<Way<A>> {
        Rc::new(Way(RefCell::new(State {
            head: None,
            bytes: BytesMut::new(),
            bytes_max,
            end: None,
            stopped: None,
            reader: None,
            writer: None,
            watcher: None,
        })))
    }

    fn change(&self, change: impl FnOnce(&mut State<A>)) {
        let wakers = {
            let mut state = self.0.borrow_mut();
            change(&mut state);
            [state.reader.take(), state.writer.take(), state.watcher.take()]
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What the other end writes. Dropped before the end it tells the other end to stop.
pub(super) struct MemoryReader<A> {
    way: Rc<Way<A>>,
    _permit: Option<Rc<OwnedSemaphorePermit>>,
}

impl<A> Source for MemoryReader<A> {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        let read = poll_fn(|context| {
            let mut state = self.way.0.borrow_mut();
            match (state.bytes.len(), state.end) {
                (0, None) => {
                    state.reader = Some(context.waker().clone());
                    Poll::Pending
                }
                (_, Some(Err(code))) => Poll::Ready(Err(lost(Some(code), "the stream was reset"))),
                (count, _) => {
                    input.extend_from_slice(&state.bytes.split());
                    Poll::Ready(Ok(count))
                }
            }
        });
        let count = read.await.map_err(|lost| io::Error::from(Lost(lost)))?;
        self.way.change(|_| {});
        Ok(count)
    }
}

impl<A> Reader for MemoryReader<A> {
    type Head = A;

    async fn head(&mut self) -> Result<A, StreamLost> {
        poll_fn(|context| {
            let mut state = self.way.0.borrow_mut();
            if let Some(head) = state.head.take() {
                return Poll::Ready(Ok(head));
            }
            match state.end {
                Some(end) => Poll::Ready(Err(lost(end.err(), "the stream was not answered"))),
                None => {
                    state.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<A> Drop for MemoryReader<A> {
    fn drop(&mut self) {
        self.way.change(|state| {
            state.stopped.get_or_insert(0);
        });
    }
}

/// What we write. Dropped before it is finished, it resets the stream.
pub(super) struct MemoryWriter<A> {
    way: Rc<Way<A>>,
    _permit: Option<Rc<OwnedSemaphorePermit>>,
}

impl<A> MemoryWriter<A> {
    fn close(&self, end: Result<(), u64>) {
        self.way.change(|state| {
            state.end.get_or_insert(end);
        });
    }
}

impl<A> Sink for MemoryWriter<A> {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = poll_fn(|context| {
            let mut state = self.way.0.borrow_mut();
            if let Some(code) = state.stopped {
                return Poll::Ready(Err(lost(Some(code), "the other end reads no more")));
            }
            let room = state.bytes_max - state.bytes.len();
            if room == 0 {
                state.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            let mut count = 0;
            for piece in pieces {
                let fits = piece.len().min(room - count);
                state.bytes.extend_from_slice(&piece[..fits]);
                count += fits;
            }
            Poll::Ready(Ok(count))
        });
        let count = written.await.map_err(|lost| io::Error::from(Lost(lost)))?;
        self.way.change(|_| {});
        Ok(count)
    }
}

impl<A: 'static> Writer for MemoryWriter<A> {
    type Head = A;

    fn answer(&mut self, head: A) {
        self.way.change(|state| state.head = Some(head));
    }

    fn finish(self) {
        self.close(Ok(()));
    }

    fn reset(self, code: u64) {
        self.close(Err(code));
    }

    fn stopped(&self) -> impl Future<Output = Stop> + 'static {
        let way = self.way.clone();
        poll_fn(move |context| {
            let mut state = way.0.borrow_mut();
            // Who has seen the end to read wants no more either, which is no error.
            if let Some(code) = state.stopped.filter(|_| state.end.is_none()) {
                return Poll::Ready(Stop::Asked(Some(code)));
            }
            state.watcher = Some(context.waker().clone());
            Poll::Pending
        })
    }
}

impl<A> Drop for MemoryWriter<A> {
    fn drop(&mut self) {
        self.close(Err(0));
    }
}

fn lost(code: Option<u64>, why: &str) -> StreamLost {
    StreamLost { code, failure: Failure::new(FailureKind::Gone, why) }
}
