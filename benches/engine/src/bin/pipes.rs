//! One call after the other to an oracle over real pipes: what a round trip costs, and by
//! `strace -c -f` what it asks of the kernel.

use std::time::Instant;

use bytes::Bytes;
use toolbus::bus::back::Back;
use toolbus::wire::oracle::back::{Options, Oracle};
use toolbus_engine::child::supervisor::Restart;
use toolbus_engine::child::{Patience, Program};
use toolbus_engine::calls::Inbox;
use toolbus_bench_engine::{oracle, run};
use toolbus_proto::oracle::{Functions, Settings};
use toolbus_proto::oracle::WIRE;
use toolbus_proto::tool::{Call, What};

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("oracle") => oracle(),
        count => call(count.and_then(|count| count.parse().ok()).unwrap_or(100_000)),
    }
}

fn call(count: u32) {
    let this = std::env::current_exe().expect("has a path").display().to_string();
    run(async move {
        let oracle = Oracle::new(Options {
            name: "echo".to_owned(),
            program: Program::new(vec![this, "oracle".to_owned()]),
            patience: toolbus::wire::oracle::PATIENCE,
            restart: Restart::OnDemand,
            settings: Settings::default(),
            functions: Functions::default(),
        });
        invoke(&oracle).await;
        let begun = Instant::now();
        for _ in 0..count {
            invoke(&oracle).await;
        }
        let a_call = begun.elapsed() / count;
        println!("{a_call:?} a call, one after the other");
        oracle.shutdown().await;
    });
}

async fn invoke(oracle: &Oracle) {
    let method = Bytes::from_static(b"f");
    let body = Bytes::from_static(b"[\"0x1\"]");
    let (inbox, slot) = Inbox::new();
    let mut call = Call::of(Instant::now(), What::Native { wire: WIRE, method, body });
    call.deadline.quiet = Some(std::time::Duration::from_secs(60));
    let running = oracle.start(call, slot);
    inbox.whole(running).await.expect("the oracle answers");
}
