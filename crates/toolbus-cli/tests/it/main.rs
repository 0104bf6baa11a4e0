//! The program as its users meet it: pages of arguments in; stdout, stderr and exit code out.

// The lint knows tests, but not the functions they share.
#![allow(clippy::unwrap_used)]

mod admin;
mod answers;
mod answers_unread;
mod author;
mod call;
mod call_arguments;
mod check_mcp;
mod check_oracle;
mod color;
mod context;
mod decode_mcp;
mod decode_mediocre;
mod decode_oracle;
mod decode_orchestra;
mod demo;
mod describe;
mod docs;
mod first_list;
mod found;
mod godex;
mod help;
mod http;
// Looks at processes by /proc.
#[cfg(target_os = "linux")]
mod in_flight;
mod init;
mod inside;
mod journal;
mod links;
mod listening;
mod live;
mod log;
mod matrix;
mod matrix_killed;
mod mcp;
// Looks at processes by /proc.
#[cfg(target_os = "linux")]
mod mcp_abuse;
mod mcp_asked;
mod mcp_backs;
mod mcp_cancel;
mod mcp_eras;
mod mcp_http;
mod mcp_serve;
mod mcp_several;
mod mcp_stop;
// Looks at processes by /proc.
#[cfg(target_os = "linux")]
mod memory;
mod missing;
mod oracle_batch;
mod oracle_calls;
mod oracle_invoke;
mod oracle_serve;
mod oracle_serve_backs;
mod oracle_start;
mod oracle_stop;
mod orchard;
mod orchestra;
mod page;
// Looks at processes by /proc.
#[cfg(target_os = "linux")]
mod reliability;
mod reload;
mod rpc;
mod scripts;
mod secrets;
mod seen;
mod serve;
// Looks at processes by /proc, and has a terminal by util-linux.
#[cfg(target_os = "linux")]
mod serve_ends;
mod shell;
// Looks at processes by /proc.
#[cfg(target_os = "linux")]
mod soak;
mod streams;
mod surroundings;
mod terminal;
mod time;
mod tools;
mod traces;
mod usage;
mod waiting;
