//! How many calls a second does a stream a request allow, and how often do frame and FIN part?
//!
//! Run with `cargo run --release --example quic_calls_a_second`. Both ends are in this
//! process, each on its own thread, so the numbers are for comparing and not for boasting.

use std::time::{Duration, Instant};

use tokio::{runtime, task::JoinSet};
use toolbus_spikes::quic::{Bench, Manners, call, frame};

const MEASURED_FOR: Duration = Duration::from_secs(2);

fn main() {
    println!("runtime         at once   calls/s   datagrams/call   parted");
    for at_once in [1, 16, 64] {
        let one = runtime::Builder::new_current_thread().enable_all().build();
        let many = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        one.expect("a runtime")
            .block_on(measure("current-thread", at_once));
        many.expect("a runtime")
            .block_on(measure("multi-thread", at_once));
    }
}

async fn measure(runtime: &str, at_once: usize) {
    // Drains: a parted frame must cost nothing but its second frame, or the run would end
    // when credit does.
    let mut bench = Bench::start(Manners::Drains);
    let (connection, _) = bench.dial().await;
    let before = connection.stats();
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..at_once {
        let connection = connection.clone();
        callers.spawn(async move {
            // So small that no packet's end cuts it: a second STREAM frame is a FIN by itself.
            let request = frame(&[7; 5]);
            let mut calls = 0_u64;
            while began.elapsed() < MEASURED_FOR {
                call(&connection, &request).await;
                calls += 1;
            }
            calls
        });
    }
    let calls = callers.join_all().await.into_iter().sum::<u64>();
    let took = began.elapsed().as_secs_f64();
    let after = connection.stats();
    println!(
        "{runtime:14} {at_once:8} {:9.0} {:16.2} {:8}",
        calls as f64 / took,
        (after.udp_tx.datagrams - before.udp_tx.datagrams) as f64 / calls as f64,
        after.frame_tx.stream - before.frame_tx.stream - calls,
    );
    bench.stop().await;
}
