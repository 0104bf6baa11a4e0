//! The program as its users meet it: pages of arguments in; stdout, stderr and exit code out.

// The lint knows tests, but not the functions they share.
#![allow(clippy::unwrap_used)]

mod add;
mod admin;
mod answers;
mod answers_unread;
mod author;
mod browser;
mod call;
mod call_arguments;
mod callers;
mod check_mcp;
mod check_oracle;
mod color;
mod config;
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
mod front_oauth;
mod godex;
mod help;
mod http;
mod https;
// Looks at processes by /proc.
#[cfg(target_os = "linux")]
mod in_flight;
mod init;
mod inside;
mod journal;
mod link;
mod links;
mod listening;
mod live;
mod lock;
mod lock_fronts;
mod lock_serve;
mod log;
mod matrix;
mod matrix_killed;
mod matrix_met;
mod matrix_viewed;
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
mod nats;
mod nats_seen;
mod nats_sessions;
mod oauth;
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
mod page_api;
// Looks at processes by /proc.
#[cfg(target_os = "linux")]
mod reliability;
mod reload;
mod rpc;
mod run_socket;
mod scripts;
mod search;
mod secrets;
mod seen;
mod serve;
// Looks at processes by /proc, and has a terminal by util-linux.
#[cfg(target_os = "linux")]
mod serve_ends;
mod serve_threads;
mod service;
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
mod views;
mod waiting;
