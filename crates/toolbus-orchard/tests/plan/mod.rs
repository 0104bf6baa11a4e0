//! Plans from outside: a corpus of scenarios, half of them wrong, with the pages that they give.

pub(crate) mod corpus;
mod drawings;
mod mutations;
mod pages;
mod planning;
