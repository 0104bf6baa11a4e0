//! Runs from outside, against providers inside the process: what is told, what is recorded, and
//! what can be undone.

// The lint knows tests, but not the functions they share.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../plan/corpus.rs"]
mod corpus;
mod engine;
mod pages;
mod stage;
