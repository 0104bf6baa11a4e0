//! What an idle connection to a plugin costs, at the end that dials and at the end that accepts:
//! the other end is a process of its own. Each connection has carried a call.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use toolbus_engine::calls::Inbox;
use toolbus_engine::transport::quic::Dialler;
use toolbus_bench_orchestra::{Certs, Echo, link, memory, run, serve};
use toolbus_proto::json::Json;
use toolbus_proto::orchestra::Role;
use toolbus_proto::tool::Call;

const CONNECTIONS: usize = 1000;

fn main() {
    let mut words = std::env::args().skip(1);
    match words.next() {
        Some(certs) => run(be_called(certs)),
        None => run(call()),
    }
}

/// Says at which port, and at each line of standard input how much memory is used.
async fn be_called(certs: String) {
    let port = serve(&Certs::at(&certs), Role::Plugin, Rc::new(Echo)).await;
    println!("{port}");
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || tell.send(()).is_err() {
                break;
            }
        }
    });
    while told.recv().await.is_some() {
        println!("{}", memory("VmRSS"));
    }
}

async fn call() {
    let certs = Certs::make();
    // Made before the two of them look for it.
    drop((certs.server(), certs.client()));
    let program = std::env::current_exe().expect("we are somewhere");
    let mut child = Command::new(program)
        .arg(certs.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut ask = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = move || lines.next().expect("a line").expect("text");
    let port = line().parse().expect("a port");
    let mut theirs = move || -> f64 {
        ask.write_all(b"\n").expect("it listens");
        line().parse().expect("a number")
    };
    let dialler = Dialler::new();
    let mut links = Vec::new();
    let mut before = (0.0, 0.0);
    // The first connections pay for what all share.
    for count in 0..=CONNECTIONS {
        if count == 10 {
            before = (memory("VmRSS"), theirs());
        }
        let link = link(&certs, &dialler, port).await;
        let args = Json::from_trusted(r#"{"text":"hello"}"#);
        let (inbox, down) = Inbox::new();
        let call = Call::tool(Instant::now(), "echo", Some(args));
        inbox.whole(link.start(call, down)).await.expect("an answer");
        links.push(link);
    }
    let counted = (CONNECTIONS + 1 - 10) as f64;
    let dialled = (memory("VmRSS") - before.0) / counted;
    let accepted = (theirs() - before.1) / counted;
    println!("{CONNECTIONS} idle connections, KiB each: {dialled:.1} dialled, {accepted:.1} accepted");
    let _ = child.kill();
    let _ = child.wait();
}
