//! Our rules with our hands: the back that the bus has, and a program made of a function.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use toolbus::author::{Json as Answer, Tools};
use toolbus::bus::back::Back;
use toolbus_engine::child::supervisor::Restart;
use toolbus_engine::child::{Patience, Program};
use toolbus_engine::calls::{Inbox, RunningCall};
use toolbus::wire::orchard::WIRE;
use toolbus::wire::orchard::back::{Options, Orchard};
use toolbus_proto::json::Json;
use toolbus_proto::orchard::Settings;
use toolbus_proto::tool::{Call, Outcome};

use crate::Contender;
use crate::bare::attrs;

/// The bus's back against a bare provider, on a current-thread runtime.
pub(crate) struct Reactor {
    runtime: Runtime,
    local: LocalSet,
    back: Orchard,
    args: Json,
    in_flight: usize,
}

impl Reactor {
    pub(crate) fn new(role: &str, text_bytes: usize, in_flight: u32) -> Reactor {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let local = LocalSet::new();
        let program = std::env::current_exe().expect("we have a path").display().to_string();
        let back = local.block_on(&runtime, async {
            Orchard::new(Options {
                program: Program::new(vec![program, role.to_owned()]),
                patience: toolbus::wire::orchard::PATIENCE,
                restart: Restart::OnDemand,
                settings: Settings::new("peer"),
            })
        });
        let args = Json::from_trusted(attrs(text_bytes));
        Reactor { runtime, local, back, args, in_flight: in_flight as usize }
    }
}

impl Contender for Reactor {
    fn calls(&mut self, count: u32) {
        let Reactor { runtime, local, back, args, in_flight } = self;
        local.block_on(runtime, async {
            let mut running = VecDeque::new();
            for _ in 0..count {
                if running.len() == *in_flight {
                    answered(running.pop_front()).await;
                }
                let (inbox, reply_to) = Inbox::new();
                let call = Call::tool(Instant::now(), "echo", Some(args.clone()));
                running.push_back((inbox, back.start(call, reply_to)));
            }
            while !running.is_empty() {
                answered(running.pop_front()).await;
            }
        });
    }
}

async fn answered(oldest: Option<(Rc<Inbox>, RunningCall)>) {
    let (inbox, running) = oldest.expect("one runs");
    let outcome = inbox.whole(running).await;
    assert!(matches!(outcome, Ok(Outcome::Value(_))), "{outcome:?}");
}

/// What is said, and said back.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// A provider as an author writes it.
pub(crate) fn authored() {
    let tools = Tools::new("echo", "0.1.0").tool("echo", |echo: Echo| Answer(echo));
    tools.serve(WIRE).expect("pipes that work");
}
