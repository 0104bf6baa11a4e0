//! 1 GiB through an in-memory front and back, both ways at once, while others cancel, are
//! answered early or do not read. Prints throughput and the most memory that was ever used.

use std::rc::Rc;
use std::time::Instant;

use toolbus_engine::client::{Client as Connection, Sharing};
use toolbus_engine::calls::{Inbox, Pressure, RunningCall};
use toolbus_bench_engine::{Echo, Over, hop, memory, run};
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::tool::{Call, Outcome, Part};
use toolbus_testkit::plain::Client;

const PART_BYTES: usize = 64 * 1024;
const PARTS: usize = 16 * 1024;

fn main() {
    run(async {
        println!("before: {:.1} MiB", memory("VmRSS"));
        let begun = Instant::now();
        let ((sent, received), early, (), slow) =
            tokio::join!(whole(), early(), cancelled(), slow());
        let seconds = begun.elapsed().as_secs_f64();
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        println!("sent {} MiB, received {} MiB", mib(sent), mib(received));
        println!("early answer after {early} parts; slow reader: {slow} parts taken unread");
        println!("{:.0} MiB/s each way through two hops", mib(received) / seconds);
        println!("at most: {:.1} MiB", memory("VmHWM"));
    });
}

fn two_hops() -> Connection<Client> {
    let far = hop(Sharing::Alone, Rc::new(Echo));
    hop(Sharing::Alone, Rc::new(Over(far)))
}

fn start(near: &Connection<Client>, tool: &str) -> (Rc<Inbox>, RunningCall) {
    let mut call = Call::tool(Instant::now(), tool, None);
    call.options.sends_parts = true;
    let (inbox, slot) = Inbox::new();
    let running = near.start(call, slot);
    (inbox, running)
}

fn part() -> Up {
    Up::Part(Part::Text("x".repeat(PART_BYTES)))
}

/// All of it, there and back.
async fn whole() -> (usize, usize) {
    let near = two_hops();
    let (inbox, running) = start(&near, "return");
    let send = async {
        for _ in 0..PARTS {
            if running.send(part()) == Pressure::Full {
                inbox.room().await;
            }
        }
        let _ = running.send(Up::End(None));
        PARTS * PART_BYTES
    };
    let receive = async {
        let mut received = 0;
        loop {
            match inbox.next(&running).await {
                Down::Part(part) => received += part.weight(),
                Down::Done(outcome) => {
                    assert_eq!(outcome, Ok(Outcome::End(None)));
                    return received;
                }
                _ => {}
            }
        }
    };
    tokio::join!(send, receive)
}

/// Sends until it is answered, which is long before the end.
async fn early() -> usize {
    let near = two_hops();
    let (inbox, running) = start(&near, "early");
    let mut sent = 0;
    let send = async {
        loop {
            sent += 1;
            if running.send(part()) == Pressure::Full {
                inbox.room().await;
            }
            tokio::task::yield_now().await;
        }
    };
    let answer = async { while !matches!(inbox.next(&running).await, Down::Done(_)) {} };
    tokio::select! {
        () = send => {}
        () = answer => {}
    }
    sent
}

/// Changes its mind in the middle, again and again.
async fn cancelled() {
    let near = two_hops();
    for _ in 0..100 {
        let (inbox, running) = start(&near, "return");
        for _ in 0..20 {
            let _ = running.send(part());
        }
        let _ = inbox.next(&running).await;
        drop(running);
    }
}

/// Sends as much as is taken from one who does not read a byte of what comes back.
async fn slow() -> usize {
    let near = two_hops();
    let (inbox, running) = start(&near, "return");
    let mut taken = 0;
    loop {
        taken += 1;
        if running.send(part()) == Pressure::Full {
            let room = tokio::time::timeout(std::time::Duration::from_secs(1), inbox.room());
            if room.await.is_err() {
                return taken;
            }
        }
    }
}
