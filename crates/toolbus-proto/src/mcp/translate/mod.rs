//! Between MCP and the hub (`docs/protocols/mcp.md` 2.11): tools, replies and failures, in both directions.
//!
//! Two ends of MCP do not go this way: between them everything passes raw. Where the hub
//! stands between them, because it has several backs, results of tools still do.

mod blocks;
mod eras;
mod failure;
mod reply;
mod tools;

pub(super) use blocks::Blocks;
pub(super) use eras::{
    Introduced, ModernError, crossed_greeting, input_required, is_in_both, legacy_error,
    legacy_params, legacy_result, modern_error, modern_params, modern_result, with_last,
};
pub(super) use failure::refusal;
pub(super) use failure::{failure_kind_of_result, failure_of_error, failure_of_result};
pub(super) use reply::{is_complete, may_be_typed, outcome, relayed, text_of, typed};
pub(super) use tools::{as_toolbus_means, shown_output};
pub use tools::{read_tool, takes_wrapped, unwrapped, write_tool};
