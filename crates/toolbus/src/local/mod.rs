//! Tools inside toolbus itself: the built-in ones, and the shell.

pub mod builtin;
pub mod shell;
