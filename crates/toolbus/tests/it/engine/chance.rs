//! Random operations over random wires, cut at random moments.

use std::rc::Rc;

use proptest::prelude::*;
use tokio::task::{JoinHandle, spawn_local};
use toolbus_engine::calls::{Inbox, RunningCall};
use toolbus_engine::client::Sharing;
use toolbus_proto::channel::{AskId, Up};

use super::{Chain, call, is_done, json, part, run, stream};

#[derive(Debug, Clone)]
enum Step {
    Call(&'static str, &'static str),
    Part(usize, usize),
    End(usize),
    Answer(usize),
    Cancel(usize),
    /// Lets go of a call's uplink.
    Leave(usize),
    /// Lets everybody run for a while.
    Turns(usize),
    CutNear,
    CutFar,
    EndFarFront,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tool = prop::sample::select(vec![
        ("echo", "[1]"),
        ("fail", "{}"),
        ("never", "{}"),
        ("ask", "\"sure?\""),
        ("progress", "50"),
        ("count", "[30, 100]"),
        ("count", "[3, 50000]"),
        ("return", "{}"),
        ("total", "{}"),
        ("early", "{}"),
    ]);
    let len = prop::sample::select(vec![0, 1, 100, 20_000]);
    let which = 0usize..8;
    let step = prop_oneof![
        8 => tool.prop_map(|(tool, args)| Step::Call(tool, args)),
        8 => (which.clone(), len).prop_map(|(which, len)| Step::Part(which, len)),
        3 => which.clone().prop_map(Step::End),
        3 => which.clone().prop_map(Step::Answer),
        2 => which.clone().prop_map(Step::Cancel),
        2 => which.prop_map(Step::Leave),
        8 => (1usize..40).prop_map(Step::Turns),
        1 => Just(Step::CutNear),
        1 => Just(Step::CutFar),
        1 => Just(Step::EndFarFront),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_call_ends_exactly_once_whatever_is_cut(
        steps in steps(),
        buffer in prop::sample::select(vec![1, 2, 7, 100, 4096, 1 << 16]),
        sharing in prop::sample::select(vec![Sharing::Alone, Sharing::Shared]),
    ) {
        run(play(steps, buffer, sharing));
    }
}

async fn play(steps: Vec<Step>, buffer: usize, sharing: Sharing) {
    let chain = Chain::new(sharing, buffer);
    let mut asked: Vec<Asked> = Vec::new();
    for step in steps {
        let nth =
            |which: usize| asked.iter().rev().nth(which).and_then(|asked| asked.uplink.clone());
        match step {
            Step::Call(tool, args) => {
                let call = if tool == "echo" { call(tool, args) } else { stream(tool, args) };
                let (inbox, uplink) = chain.call(call);
                asked.push(Asked::new(inbox, uplink));
            }
            Step::Part(which, len) => send(nth(which), Up::Part(part(len))),
            Step::End(which) => send(nth(which), Up::End(None)),
            Step::Answer(which) => send(nth(which), Up::Answer(AskId(7), json("true"))),
            Step::Cancel(which) => send(nth(which), Up::Cancel(None)),
            Step::Leave(which) => {
                let at = asked.len().checked_sub(which + 1);
                if let Some(asked) = at.and_then(|at| asked.get_mut(at)) {
                    asked.uplink = None;
                }
            }
            Step::Turns(count) => {
                for _ in 0..count {
                    tokio::task::yield_now().await;
                }
            }
            Step::CutNear => chain.near_cable.cut(),
            Step::CutFar => chain.far_cable.cut(),
            Step::EndFarFront => chain.fronts[1].abort(),
        }
    }
    // Whoever still waits changes its mind: some wait for an answer that nobody gives.
    for asked in &asked {
        send(asked.uplink.clone(), Up::Cancel(None));
    }
    for asked in asked {
        asked.ended().await;
    }
    let tools = chain.tools.clone();
    chain.end().await;
    assert_eq!(tools.running(), 0, "every call that reached its tool ended there");
}

fn send(uplink: Option<Rc<RunningCall>>, up: Up) {
    if let Some(uplink) = uplink {
        // Nobody minds being told that it is too much: that is to be survived too.
        let _ = uplink.send(up);
    }
}

/// One call, and a task that reads its reply.
struct Asked {
    inbox: Rc<Inbox>,
    uplink: Option<Rc<RunningCall>>,
    reader: JoinHandle<()>,
}

impl Asked {
    fn new(inbox: Rc<Inbox>, uplink: RunningCall) -> Asked {
        let uplink = Rc::new(uplink);
        let reader = {
            let (inbox, uplink) = (inbox.clone(), Rc::downgrade(&uplink));
            spawn_local(async move {
                // The reader must not keep the call alive by holding on to its uplink.
                let nobody = RunningCall::ended();
                loop {
                    let down = inbox.next(&nobody).await;
                    if is_done(&down) {
                        return;
                    }
                    if let Some(uplink) = uplink.upgrade() {
                        uplink.resume();
                    }
                }
            })
        };
        Asked { inbox, uplink: Some(uplink), reader }
    }

    /// Exactly one end has come, and nothing behind it.
    async fn ended(self) {
        self.reader.await.unwrap();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let nobody = RunningCall::ended();
        tokio::select! {
            biased;
            down = self.inbox.next(&nobody) => panic!("behind the end: {down:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
}
