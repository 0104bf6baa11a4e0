//! The buffers that one thread reads to.
//!
//! What was read is handed on without a copy where it is much. Its room comes back when the
//! last piece of it is dropped, so that a stream of any length goes through the same few
//! buffers, which the processor has at hand.

use std::cell::RefCell;

use bytes::BytesMut;

/// What is read at most at once.
pub(crate) const READ_BYTES: usize = 128 * 1024;
/// From this size on what was read is not copied: a few bytes that are kept for long must not
/// keep all of the buffer they were read to.
pub(crate) const WHOLE_FROM: usize = READ_BYTES / 4;
/// What may stand in a buffer before what is read to it.
const AHEAD_MAX: usize = 1024;
/// How many buffers are kept for the next read, or in the hope that their room comes back.
const KEPT_MAX: usize = 4;

thread_local! {
    static KEPT: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// A buffer to read to, with what goes ahead of that: a frame that was cut by the end of the
/// last read is mostly short, and all that follows it would have to be copied behind it.
pub(crate) fn take(input: &BytesMut) -> BytesMut {
    let mut buffer = KEPT
        .with_borrow_mut(|kept| {
            // The last one first: it is the likeliest to be in the cache.
            let free = kept.iter_mut().rposition(|buffer| buffer.try_reclaim(READ_BYTES));
            free.map(|at| kept.remove(at))
        })
        .unwrap_or_else(|| BytesMut::with_capacity(READ_BYTES));
    buffer.extend_from_slice(&input[..ahead(input)]);
    buffer
}

/// Appends to `input` what was read, and keeps the buffer.
pub(crate) fn give_back(mut buffer: BytesMut, input: &mut BytesMut) {
    let ahead = ahead(input);
    if ahead == input.len() && WHOLE_FROM <= buffer.len() - ahead {
        *input = buffer.split();
    } else {
        input.extend_from_slice(&buffer[ahead..]);
        buffer.clear();
    }
    KEPT.with_borrow_mut(|kept| {
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push(buffer);
    });
}

/// So much of `input` stands in the buffer before what is read: all of it, if that is little.
fn ahead(input: &BytesMut) -> usize {
    if input.len() <= AHEAD_MAX { input.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], input: &mut BytesMut) {
        let mut buffer = take(input);
        assert!(READ_BYTES <= buffer.capacity());
        buffer.extend_from_slice(bytes);
        give_back(buffer, input);
    }

    #[test]
    fn room_is_used_again_and_never_while_somebody_holds_it() {
        let mut input = BytesMut::new();
        read(&[1; READ_BYTES], &mut input);
        let first = input.split().freeze();
        read(&[2; READ_BYTES], &mut input);
        let second = input.split().freeze();
        assert!(first.iter().all(|byte| *byte == 1) && second.iter().all(|byte| *byte == 2));
        let place = second.as_ptr();
        drop((second, input));
        let mut input = BytesMut::new();
        read(&[3; READ_BYTES], &mut input);
        assert_eq!(input.as_ptr(), place);
        assert!(first.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn a_few_bytes_do_not_keep_a_buffer() {
        let mut input = BytesMut::new();
        read(b"few", &mut input);
        assert!(input.capacity() < WHOLE_FROM);
        // What begins there already is gone on with in one piece.
        read(&[b'x'; WHOLE_FROM], &mut input);
        assert_eq!(input.len(), 3 + WHOLE_FROM);
        assert!(input.starts_with(b"fewx"));
    }

    #[test]
    fn only_what_went_ahead_is_copied() {
        for ahead in [1, AHEAD_MAX, AHEAD_MAX + 1] {
            let mut input = BytesMut::new();
            read(&vec![b'a'; ahead], &mut input);
            read(b"", &mut input);
            read(&[b'x'; WHOLE_FROM], &mut input);
            assert_eq!(input.len(), ahead + WHOLE_FROM);
            assert!(input[..ahead].iter().all(|byte| *byte == b'a'));
            assert!(input[ahead..].iter().all(|byte| *byte == b'x'));
        }
    }

    #[test]
    fn those_who_hold_much_do_not_make_us_keep_more() {
        let mut input = BytesMut::new();
        let held: Vec<_> = (0..2 * KEPT_MAX)
            .map(|_| {
                read(&[0; READ_BYTES], &mut input);
                input.split().freeze()
            })
            .collect();
        assert_eq!(KEPT.with_borrow(Vec::len), KEPT_MAX);
        drop(held);
    }
}
