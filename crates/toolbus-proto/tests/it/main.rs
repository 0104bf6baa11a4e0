//! The rules as a user of the crate sees them.
//!
//! Tests that use the testkit stand here rather than beside the code: inside the crate its
//! types and those the testkit knows would be two builds of the same, and not fit together.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod contract;
mod edit;
mod fuzz;
mod godex;
mod mcp_bridge;
mod mcp_calling;
mod mcp_faults;
mod mcp_http;
mod mcp_http_faults;
mod mcp_memory;
mod mcp_remote;
mod mcp_serving;
mod mcp_several;
mod mediocre;
mod nats;
mod oauth_tokens;
mod oracle_faults;
mod oracle_serving;
mod oracle_vectors;
mod orchard;
mod orchestra;
mod pins;
mod run;
