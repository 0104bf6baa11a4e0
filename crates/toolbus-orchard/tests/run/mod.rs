//! Runs from outside, against providers inside the process: what is told, what is recorded, and
//! what can be undone.

mod engine;
mod pages;
mod stage;
