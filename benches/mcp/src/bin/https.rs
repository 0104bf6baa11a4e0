//! What TLS costs an MCP server over HTTP: `toolbus mcp --https` against `toolbus mcp --http`, over
//! connections that are kept, HTTP/1.1, 16 calls in flight, 64 bytes of text.
//!
//! `https --ca FILE HTTP-URL HTTPS-URL` prints the table. One thread has all connections: it writes a
//! call to each and reads an answer from each, so that 16 are always under way.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How many calls are under way.
const IN_FLIGHT: usize = 16;
/// How long each contender calls in a round.
const TURN: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [flag, ca, http, https] = words.as_slice() else { return usage() };
    if flag != "--ca" {
        return usage();
    }
    let tls = believing(ca);
    let mut contenders = [
        ("HTTP", Contender::new(http, None)),
        ("HTTPS", Contender::new(https, Some(tls))),
    ];
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(15);
    let mut rates = [Vec::new(), Vec::new()];
    // The first turns are not counted: connections are made, and what is made once is made.
    for round in 0..=rounds {
        for ((_, contender), rates) in contenders.iter_mut().zip(&mut rates) {
            let rate = contender.turn();
            if 0 < round {
                rates.push(rate);
            }
        }
    }
    println!("| kept connections, HTTP/1.1, {IN_FLIGHT} in flight, 64 B | calls a second | ratio |");
    println!("|---|---|---|");
    let [clear, _] = &rates;
    for ((name, _), own) in contenders.iter().zip(&rates) {
        let ratios = own.iter().zip(clear).map(|(own, clear)| own / clear);
        println!("| {name} | {} | {} |", middle(own.iter().copied(), 0), middle(ratios, 2));
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: https --ca FILE HTTP-URL HTTPS-URL");
    ExitCode::from(2)
}

/// The middle one, with the least and the most.
fn middle(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let [least, middle, most] = [0, values.len() / 2, values.len() - 1].map(|at| values[at]);
    format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
}

fn believing(ca: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(ca).expect("the authority can be read");
    roots.add(authority).expect("it is a certificate");
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .expect("ring has what they need")
        .with_root_certificates(roots);
    // Nothing to agree on: HTTP/1.1 is spoken.
    Arc::new(config.with_no_client_auth())
}

/// A server, and the connections to it.
struct Contender {
    connections: Vec<Box<dyn Connection>>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

trait Connection: Read + Write {}

impl<S: Read + Write> Connection for S {}

impl Contender {
    fn new(url: &str, tls: Option<Arc<ClientConfig>>) -> Contender {
        let (_, rest) = url.split_once("://").expect("a URL");
        let (authority, path) = rest.split_once('/').expect("a path");
        let connect = |_| -> Box<dyn Connection> {
            let stream = TcpStream::connect(authority).expect("the server listens");
            stream.set_nodelay(true).expect("a socket can do so");
            match &tls {
                None => Box::new(stream),
                Some(config) => {
                    let name = ServerName::try_from("127.0.0.1").expect("an address");
                    let connection = ClientConnection::new(config.clone(), name);
                    Box::new(StreamOwned::new(connection.expect("the config is sound"), stream))
                }
            }
        };
        let text = "x".repeat(64);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}},"name":"upper","arguments":{{"text":"{text}"}}}}}}"#
        );
        let request = format!(
            "POST /{path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: upper\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let connections = (0..IN_FLIGHT).map(connect).collect();
        Contender { connections, request: request.into(), answer: Vec::new() }
    }

    /// Calls for a while: how many calls there were in a second.
    fn turn(&mut self) -> f64 {
        let (begun, mut calls) = (Instant::now(), 0);
        while begun.elapsed() < TURN {
            for connection in &mut self.connections {
                connection.write_all(&self.request).expect("the server reads");
            }
            for connection in &mut self.connections {
                read_answer(connection, &mut self.answer);
            }
            calls += self.connections.len();
        }
        calls as f64 / begun.elapsed().as_secs_f64()
    }
}

/// Reads one whole answer, which has to be a good one.
fn read_answer(connection: &mut dyn Connection, answer: &mut Vec<u8>) {
    answer.clear();
    let mut chunk = [0; 4096];
    loop {
        if let Some(head) = memchr::memmem::find(answer, b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
            assert!(text.starts_with("http/1.1 200"), "{text}");
            let length = text.split("content-length: ").nth(1).expect("it has a length");
            let length = length.split("\r\n").next().and_then(|length| length.parse::<usize>().ok());
            if head + 4 + length.expect("a number") <= answer.len() {
                return;
            }
        }
        match connection.read(&mut chunk).expect("the server answers") {
            0 => panic!("the server has closed"),
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
}
