//! A small call to a plugin, directly and by way of a hub that looks at nothing, so many in
//! flight; and the same frames by quinn alone. Contenders take turns.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use toolbus_engine::calls::{Asker, Pressure, ReplyTo};
use toolbus_engine::transport::quic::Dialler;
use toolbus::wire::orchestra::link::Link;
use toolbus_bench_orchestra::bare::{Bare, FRAME, ask};
use toolbus_bench_orchestra::{Certs, Echo, Over, link, median, run, serve};
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::orchestra::Role;
use toolbus_proto::tool::Call;

const ROUNDS: usize = 15;
const TURN: Duration = Duration::from_millis(200);

fn main() {
    println!("{:>9}  {:>5}  {:>12}  {:>12}  ratio", "in flight", "hops", "ours", "quinn alone");
    for hops in [1, 2] {
        for in_flight in [1, 64] {
            run(compare(hops, in_flight));
        }
    }
}

async fn compare(hops: usize, in_flight: usize) {
    let (certs, dialler) = (Certs::make(), Dialler::new());
    let mut port = serve(&certs, Role::Plugin, Rc::new(Echo)).await;
    for _ in 1..hops {
        let next = link(&certs, &dialler, port).await;
        port = serve(&certs, Role::Hub, Rc::new(Over(next))).await;
    }
    let ours = Load::new(link(&certs, &dialler, port).await);
    let bare = Bare::new();
    let mut at = bare.serve(None);
    for _ in 1..hops {
        let next = bare.dial(at).await;
        at = bare.serve(Some(next));
    }
    let bare = bare.dial(at).await;
    let (mut rates, mut bares, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // One of them alone, to be looked at by other tools.
    let only = std::env::args().nth(1);
    for round in 0..=ROUNDS {
        let (mut rate, mut limit) = (f64::NAN, f64::NAN);
        if only.as_deref() != Some("bare") {
            rate = ours.run(in_flight).await;
        }
        if only.as_deref() != Some("ours") {
            limit = bare_rate(&bare, in_flight).await;
        }
        // The first round only warms up.
        if 0 < round {
            rates.push(rate);
            bares.push(limit);
            ratios.push(rate / limit);
        }
    }
    let (rate, limit, ratio) = (median(rates), median(bares), median(ratios));
    println!("{in_flight:>9}  {hops:>5}  {rate:>10.0}/s  {limit:>10.0}/s  {ratio:.2}");
}

async fn bare_rate(connection: &quinn::Connection, in_flight: usize) -> f64 {
    let (begun, answered) = (Instant::now(), Rc::new(Cell::new(0u64)));
    let mut callers = JoinSet::new();
    for _ in 0..in_flight {
        let (connection, answered) = (connection.clone(), answered.clone());
        callers.spawn_local(async move {
            while begun.elapsed() < TURN {
                ask(&connection, FRAME).await;
                answered.set(answered.get() + 1);
            }
        });
    }
    callers.join_all().await;
    answered.get() as f64 / begun.elapsed().as_secs_f64()
}

/// Asks again as soon as it is answered.
struct Load {
    this: Weak<Load>,
    link: Link,
    args: Json,
    until: Cell<Instant>,
    asked: Cell<u64>,
    answered: Cell<u64>,
    over: Notify,
}

impl Load {
    fn new(link: Link) -> Rc<Load> {
        Rc::new_cyclic(|this| Load {
            this: this.clone(),
            link,
            args: Json::from_trusted(r#"{"text":"hello"}"#),
            until: Cell::new(Instant::now()),
            asked: Cell::new(0),
            answered: Cell::new(0),
            over: Notify::new(),
        })
    }

    async fn run(&self, in_flight: usize) -> f64 {
        let begun = Instant::now();
        self.until.set(begun + TURN);
        self.asked.set(0);
        self.answered.set(0);
        for _ in 0..in_flight {
            self.ask();
        }
        self.over.notified().await;
        self.answered.get() as f64 / begun.elapsed().as_secs_f64()
    }

    fn ask(&self) {
        self.asked.set(self.asked.get() + 1);
        let this = self.this.upgrade().expect("is running");
        let call = Call::tool(Instant::now(), "echo", Some(self.args.clone()));
        self.link.start(call, ReplyTo::new(this, Ticket(0))).forget();
    }
}

impl Asker for Load {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        assert!(matches!(down, Down::Done(Ok(_))), "{down:?}");
        self.answered.set(self.answered.get() + 1);
        if Instant::now() < self.until.get() {
            self.ask();
        } else if self.answered.get() == self.asked.get() {
            self.over.notify_one();
        }
        Pressure::Ready
    }

    fn resume(&self, _: Ticket) {}
}
