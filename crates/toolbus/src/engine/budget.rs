//! What waits to be written to all peers of this thread together has a limit.
//!
//! One peer's backlog is bounded by holding its callers back; a thousand peers that all read
//! slowly are bounded here: over the limit nobody reads, until somebody has written.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

use bytes::BytesMut;

use super::io::Source;

/// What may wait before reading pauses everywhere.
pub const BYTES_IN_FLIGHT_MAX: usize = 256 * 1024 * 1024;

thread_local! {
    static IN_FLIGHT: Cell<usize> = const { Cell::new(0) };
    /// The pumps that would read if they might.
    static WAITING: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

/// One peer's share of what is in flight; given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Share(usize);

impl Share {
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes == self.0 {
            return;
        }
        let before = IN_FLIGHT.get();
        let after = before - self.0 + bytes;
        self.0 = bytes;
        IN_FLIGHT.set(after);
        if BYTES_IN_FLIGHT_MAX < before && after <= BYTES_IN_FLIGHT_MAX {
            WAITING.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Reads from `source` once there is room for what that may set off.
    pub(crate) async fn read(
        &self,
        source: &mut impl Source,
        input: &mut BytesMut,
    ) -> io::Result<usize> {
        poll_fn(|context| {
            if IN_FLIGHT.get() <= BYTES_IN_FLIGHT_MAX {
                return Poll::Ready(());
            }
            WAITING.with_borrow_mut(|waiting| {
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
            });
            Poll::Pending
        })
        .await;
        source.read(input).await
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that always has one more byte.
    struct Endless;

    impl Source for Endless {
        async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
            input.extend_from_slice(b"x");
            Ok(1)
        }
    }

    #[tokio::test]
    async fn over_the_limit_nobody_reads_until_somebody_has_written() {
        let (mut mine, mut yours) = (Share::default(), Share::default());
        let (mut source, mut input) = (Endless, BytesMut::new());
        mine.set(BYTES_IN_FLIGHT_MAX);
        assert_eq!(yours.read(&mut source, &mut input).await.unwrap(), 1);
        yours.set(1);
        tokio::select! {
            biased;
            _ = mine.read(&mut source, &mut input) => panic!("read over the limit"),
            () = tokio::task::yield_now() => {}
        }
        let written = async { yours.set(0) };
        let (read, ()) = tokio::join!(biased; mine.read(&mut source, &mut input), written);
        assert_eq!(read.unwrap(), 1);
        // Who goes away gives back what was kept for him.
        drop((mine, yours));
        assert_eq!(IN_FLIGHT.get(), 0);
    }
}
