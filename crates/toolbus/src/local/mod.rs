//! Tools inside toolbus itself.

pub mod builtin;
