//! Finds tools by words: an [`Index`] over a catalogue, and what fits a query, best first
//! (`docs/search.md`).
//!
//! The same catalogue and query give the same answer everywhere. Nothing is learned and nothing
//! asked elsewhere: words, their stems, a few synonyms, one slip of the finger, and BM25F.

mod index;
mod query;
mod terms;
mod words;

pub use index::{Document, Index};
pub use query::{Found, Matches};

/// Whether the tools of a front are searched for, and only some of them listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Search {
    /// All are listed.
    #[default]
    Off,
    /// They are.
    On,
    /// They are if there are many.
    Auto,
}

/// The most words of a query that are looked at.
pub const WORDS_MAX: usize = 32;

#[cfg(test)]
mod tests;
