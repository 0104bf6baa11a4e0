//! Any tool answers any caller, whatever wire each of them speaks.

pub mod back;
pub mod child;
pub mod link;
mod pump;
