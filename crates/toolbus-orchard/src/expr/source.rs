//! Where an expression stands, and what it may learn of the world.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::diagnostic::{FileId, Span};

/// Where an expression stands, and what it may learn of the world.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The file that holds it.
    pub file: FileId,
    /// The folder of that file: paths in the expression are relative to it.
    pub folder: &'a Path,
    /// Files that functions may read.
    pub files: &'a dyn Files,
    /// What the clock and chance say.
    pub impure: Impure<'a>,
}

impl<'a> Source<'a> {
    /// An expression that may learn nothing.
    pub fn pure(file: FileId) -> Source<'a> {
        Source { file, folder: Path::new(""), files: &NoFiles, impure: Impure::Unknown }
    }

    /// A place in this file.
    pub fn span(&self, range: Range<usize>) -> Span {
        Span::new(self.file, range)
    }
}

/// What the clock and chance say.
#[derive(Clone, Copy)]
pub enum Impure<'a> {
    /// Only the run will tell: the functions that ask are unknown.
    Unknown,
    /// This.
    Known {
        /// Now, in seconds since 1970.
        now: i64,
        /// Where the random functions of this node draw from.
        random: &'a Random,
    },
}

/// Files that functions may read.
pub trait Files {
    /// What is in the file; at most `bytes_max`, else an error.
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>>;
    /// Is there a file (no folder)?
    fn exists(&self, path: &Path) -> bool;
}

/// No files.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "files cannot be read here"))
    }

    fn exists(&self, _: &Path) -> bool {
        false
    }
}

/// Chance that is the same for the same seed and address, whatever else runs beside it.
#[derive(Debug)]
pub struct Random {
    state: Cell<u64>,
}

impl Random {
    /// What the node at this address draws from.
    pub fn new(seed: u64, address: &str) -> Random {
        // Each byte is stirred in, so that addresses that are alike have nothing in common.
        let state = address.bytes().fold(stirred(seed), |state, byte| {
            stirred(state ^ u64::from(byte).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        });
        Random { state: Cell::new(state) }
    }

    /// The next 64 bits (SplitMix64).
    pub fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        stirred(state)
    }

    /// A number below `end`, each as likely as the others.
    pub fn below(&self, end: u128) -> u128 {
        debug_assert!(0 < end);
        // What does not divide evenly is drawn again.
        let even = u128::MAX - u128::MAX % end;
        loop {
            let drawn = (u128::from(self.next()) << 64) | u128::from(self.next());
            if drawn < even {
                return drawn % end;
            }
        }
    }
}

/// The finalizer of SplitMix64.
fn stirred(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
