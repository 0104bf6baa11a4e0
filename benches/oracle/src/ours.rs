//! Our ends: the blocking client, the bus on the reactor, the serving loop.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use toolbus::bus::back::Back;
use toolbus::wire::oracle::back::{Options, Oracle};
use toolbus::wire::oracle::blocking::{Oracles, Settings, serve as serve_blocking};
use toolbus_engine::child::supervisor::Restart;
use toolbus_engine::child::{Patience, Program};
use toolbus_engine::calls::Inbox;
use toolbus_proto::channel::{Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::oracle::felt::Felt;
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{self, Functions, Served, felts, signature};
use toolbus_proto::oracle::WIRE;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What, Wire};

use crate::{Contender, connection};

/// The blocking client against a bare oracle.
pub(crate) struct Blocking {
    oracles: Oracles,
    connection: String,
    calldata: Vec<Felt>,
}

impl Blocking {
    pub(crate) fn new(calldata: &[Felt]) -> Blocking {
        Blocking::with(Settings::default(), calldata)
    }

    pub(crate) fn with_deadline(calldata: &[Felt]) -> Blocking {
        let timeout = Some(Duration::from_secs(60));
        Blocking::with(Settings { timeout, ..Settings::default() }, calldata)
    }

    fn with(settings: Settings, calldata: &[Felt]) -> Blocking {
        let oracles = Oracles::new(settings);
        Blocking { oracles, connection: connection("role-peer"), calldata: calldata.to_vec() }
    }

    pub(crate) fn calls_for_ever(&mut self) {
        crate::pin();
        loop {
            self.calls(1000);
        }
    }
}

impl Contender for Blocking {
    fn calls(&mut self, count: u32) {
        for _ in 0..count {
            let answer = self.oracles.invoke(&self.connection, "f", &self.calldata);
            assert_eq!(answer.as_ref(), Ok(&self.calldata));
        }
    }
}

/// The bus's oracle back against a bare oracle, on a current-thread runtime.
pub(crate) struct Reactor {
    runtime: Runtime,
    local: LocalSet,
    oracle: Oracle,
    body: Bytes,
}

impl Reactor {
    pub(crate) fn new(calldata: &[Felt]) -> Reactor {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let local = LocalSet::new();
        let program = std::env::current_exe().expect("we have a path").display().to_string();
        let oracle = local.block_on(&runtime, async {
            Oracle::new(Options {
                name: "peer".to_owned(),
                program: Program::new(vec![program, "role-peer".to_owned()]),
                patience: toolbus::wire::oracle::PATIENCE,
                restart: Restart::OnDemand,
                settings: oracle::Settings::default(),
                functions: Functions::default(),
            })
        });
        let mut body = Vec::new();
        felts::write(calldata, &mut body);
        Reactor { runtime, local, oracle, body: body.into() }
    }
}

impl Contender for Reactor {
    fn calls(&mut self, count: u32) {
        let Reactor { runtime, local, oracle, body } = self;
        local.block_on(runtime, async {
            for _ in 0..count {
                let (inbox, slot) = Inbox::new();
                let method = Bytes::from_static(b"f");
                let what = What::Native { wire: WIRE, method, body: body.clone() };
                let running = oracle.start(Call::of(Instant::now(), what), slot);
                match inbox.whole(running).await {
                    Ok(Outcome::Value(answer)) => assert_eq!(answer.as_bytes(), body),
                    other => panic!("{other:?}"),
                }
            }
        });
    }
}

/// An oracle on our serving loop.
pub(crate) fn serve() {
    let text = "f(x: u64) -> u64; page(felts: Array<felt252>) -> Array<felt252>";
    let functions = signature::parse(text).expect("a signature");
    let served = functions.into_iter().map(|function| Served {
        tool: function.name().into(),
        binding: Binding::of_oracle(function),
    });
    let machine = oracle::Server::new(&oracle::Settings::default(), served.collect());
    serve_blocking(machine, |call| {
        let What::Tool { args: Some(args), .. } = call.what else {
            return Err(Failure::new(FailureKind::Failed, "expected a tool"));
        };
        // Gives back its only argument: what stands behind the first colon.
        let text = args.as_str();
        let at = text.find(':').expect("an object with one member");
        Ok(Outcome::Value(Json::part_of(args.as_bytes(), &text[at + 1..text.len() - 1])))
    })
    .expect("pipes that work");
}

/// Each line comes back as it came, by way of a machine that knows nothing but lines.
pub(crate) fn mirror() {
    serve_blocking(Mirror::default(), |call| match call.what {
        What::Native { body, .. } => Ok(Outcome::Native(body)),
        _ => Err(Failure::new(FailureKind::Failed, "expected a line")),
    })
    .expect("pipes that work");
}

#[derive(Default)]
struct Mirror {
    asked: VecDeque<(Ticket, Asked)>,
    out: Outbox,
}

impl Machine for Mirror {
    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }
}

impl Channel for Mirror {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while let Some(at) = memchr::memchr(b'\n', input) {
            let body = input.split_to(at + 1).freeze();
            let what = What::Native { wire: Wire::INSIDE, method: Bytes::new(), body };
            self.asked.push_back((Ticket(0), Asked::Call(Call::of(now, what))));
        }
        Flow::More
    }

    fn handle_eof(&mut self, _now: Instant, _input: &mut BytesMut) -> Flow {
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        out.append(&mut self.out);
    }
}

impl Serving for Mirror {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.asked.pop_front()
    }

    fn down(&mut self, _now: Instant, _ticket: Ticket, down: Down) -> Flow {
        if let Down::Done(Ok(Outcome::Native(body))) = down {
            self.out.put_shared(&body);
        }
        Flow::More
    }

    fn ended(&self) -> Option<&Ended> {
        None
    }
}
