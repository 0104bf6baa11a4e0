//! Small calls through an in-memory pair, so many in flight: how many a second, and does memory
//! stay flat over a million of them?

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::Instant;

use tokio::sync::Notify;
use toolbus_engine::client::{Client as Connection, Sharing};
use toolbus_engine::calls::{Asker, Pressure, ReplyTo};
use toolbus_bench_engine::{Echo, hop, memory, run};
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::tool::Call;
use toolbus_testkit::plain::Client;

const CALLS: u64 = 1_000_000;

fn main() {
    for in_flight in [1, 16, 256] {
        run(async move {
            let before = memory("VmRSS");
            let begun = Instant::now();
            Load::new(hop(Sharing::Shared, Rc::new(Echo))).run(in_flight).await;
            let a_second = CALLS as f64 / begun.elapsed().as_secs_f64();
            let after = memory("VmRSS");
            println!(
                "{in_flight:>3} in flight: {a_second:>7.0} calls/s, memory {before:.1} to {after:.1} MiB"
            );
        });
    }
}

/// Asks again as soon as it is answered.
struct Load {
    this: Weak<Load>,
    back: Connection<Client>,
    args: Json,
    asked: Cell<u64>,
    answered: Cell<u64>,
    over: Notify,
}

impl Load {
    fn new(back: Connection<Client>) -> Rc<Load> {
        Rc::new_cyclic(|this| Load {
            this: this.clone(),
            back,
            args: Json::from_trusted(r#"{"text":"hello"}"#),
            asked: Cell::new(0),
            answered: Cell::new(0),
            over: Notify::new(),
        })
    }

    async fn run(&self, in_flight: u64) {
        for _ in 0..in_flight {
            self.ask();
        }
        self.over.notified().await;
    }

    fn ask(&self) {
        self.asked.set(self.asked.get() + 1);
        let this = self.this.upgrade().expect("is running");
        let call = Call::tool(Instant::now(), "echo", Some(self.args.clone()));
        self.back.start(call, ReplyTo::new(this, Ticket(0))).forget();
    }
}

impl Asker for Load {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        assert!(matches!(down, Down::Done(Ok(_))), "{down:?}");
        self.answered.set(self.answered.get() + 1);
        if self.answered.get() == CALLS {
            self.over.notify_one();
        } else if self.asked.get() < CALLS {
            self.ask();
        }
        Pressure::Ready
    }

    fn resume(&self, _: Ticket) {}
}
