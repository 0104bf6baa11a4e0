//! `toolbus rpc` and its neighbours, between real processes.

mod call;
mod carriages;
mod doors;
mod serve;

use crate::listening::Server;
use crate::page::Page;

/// `toolbus rpc serve` that listens at these.
fn serve(listen: &[&str], words: &[&str]) -> Server {
    let options: Vec<&str> = listen.iter().flat_map(|url| ["--listen", url]).collect();
    Server::start(&[&["rpc", "serve"], &options[..], words].concat(), listen.len())
}

/// The built-in tools on a port of their own.
fn builtin() -> Server {
    serve(&["tcp://127.0.0.1:0"], &["builtin:"])
}

fn call(server: &Server, words: &[&str]) -> Page {
    Page::of(&[&["rpc", "call", server.url()], words].concat())
}

/// The URL of a server of ours over pipes.
fn over_pipes() -> String {
    format!("stdio:{} rpc serve --listen stdio: builtin:", env!("CARGO_BIN_EXE_toolbus"))
}
