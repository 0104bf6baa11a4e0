//! Plans from outside: a corpus of scenarios, half of them wrong, with the pages that they give.

// The lint knows tests, but not the functions they share.
#![allow(clippy::unwrap_used)]

mod corpus;
mod mutations;
mod pages;
mod planning;
