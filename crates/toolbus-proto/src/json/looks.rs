//! How often a text is looked through: whatever reads or searches a whole text says so here.
//!
//! Counted in tests alone, and in bytes, so that what is small beside a payload does not matter.
//! That a text is UTF-8 is checked where it is read, and counts as part of that.

/// So many bytes are looked through.
#[inline]
pub(crate) fn add(bytes: usize) {
    #[cfg(test)]
    counted::BYTES.set(counted::BYTES.get() + bytes);
    let _ = bytes;
}

#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;

    thread_local! {
        pub(super) static BYTES: Cell<usize> = const { Cell::new(0) };
    }

    /// How many it were since this was asked last, in this thread.
    pub(crate) fn take() -> usize {
        BYTES.take()
    }
}
