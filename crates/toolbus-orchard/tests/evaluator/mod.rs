//! The evaluator from outside: values of the transcripts, tables of our own, a second opinion.

mod evaluating;
mod expressions;
mod functions;
mod fuzzed;
mod limits;
mod numbers;
mod page;
mod second_opinion;
mod unknowns;
mod values;
