//! A catalogue of 10,000 tools: how long it takes to list them, and whether a call of one of them
//! costs more than among ten.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus::bus::Bus;
use toolbus::bus::back::{Back, LocalFuture};
use toolbus_engine::calls::{ReplyTo, RunningCall};
use toolbus::{Call, Down, Failure, Json, Outcome, ToolSpec, What};
use toolbus_bench_engine::{memory, run};

const SIZES: [usize; 3] = [10, 1_000, 10_000];
const CALLS: usize = 200_000;
const LISTS: usize = 21;

fn main() {
    println!("| backs | tools in all | list, ms | call, ns | memory, MiB |");
    println!("|---|---|---|---|---|");
    for backs in [1, 10] {
        for tools in SIZES {
            run(measure(backs, tools));
        }
    }
}

async fn measure(backs: usize, tools: usize) {
    let mut bus = Bus::builder();
    for number in 0..backs {
        let offered = specs(tools / backs);
        bus = bus.foreign(&format!("b{number}"), move || Many(offered));
    }
    let bus = bus.build().expect("names are right");
    let mut lists: Vec<_> = Vec::new();
    for _ in 0..LISTS {
        let begun = Instant::now();
        let listed = bus.tools().await.expect("all of them answer");
        lists.push(begun.elapsed());
        assert_eq!(listed.len(), tools);
    }
    lists.sort_unstable();
    // All over the catalogue, so that no name is at hand by chance.
    let names: Vec<_> = bus.tools().await.expect("all answer").iter().map(|it| it.name.clone()).collect();
    let mut at = 0;
    let begun = Instant::now();
    for _ in 0..CALLS {
        at = (at + 7_919) % names.len();
        let (inbox, reply_to) = toolbus::Inbox::new();
        let call = Call::tool(begun, names[at].clone(), None);
        let running = bus.start(call, reply_to);
        black_box(inbox.whole(running).await.expect("it answers"));
    }
    let call = begun.elapsed() / CALLS as u32;
    let list: Duration = lists[LISTS / 2];
    println!(
        "| {backs} | {tools} | {:.2} | {} | {:.0} |",
        list.as_secs_f64() * 1000.0,
        call.as_nanos(),
        memory("VmRSS")
    );
}

fn specs(count: usize) -> Arc<[ToolSpec]> {
    let spec = |number: usize| {
        let input = r#"{"type":"object","properties":{"text":{"type":"string","description":"What to work on"},"count":{"type":"integer","minimum":1}},"required":["text"]}"#;
        let mut spec = ToolSpec::new(format!("tool_{number:05}"), Json::from_trusted(input));
        spec.description = Some(format!("Does what the tool number {number} does, and no more"));
        spec
    };
    (0..count).map(spec).collect()
}

struct Many(Arc<[ToolSpec]>);

impl Back for Many {
    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async { Ok(self.0.clone()) })
    }

    fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        let What::Tool { .. } = call.what else { return RunningCall::ended() };
        let _ = reply.send(Down::Done(Ok(Outcome::Value(Json::from_trusted("1")))));
        RunningCall::ended()
    }
}
