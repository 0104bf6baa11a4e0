//! The conversations `http_*` of `transcripts/mediocre/`, over real sockets, cut everywhere.
//!
//! Of a head that leaves us only the listed fields count; of a body its bytes, however they
//! are cut into chunks.

use std::rc::Rc;
use std::time::Instant;

use tokio::io::AsyncWriteExt;
use toolbus::peer::access::Access;
use toolbus_engine::calls::{Inbox, ReplyTo, RunningCall};
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Outcome, Part, What};
use toolbus_testkit::transcript::{self, unescape};

use super::super::calling::back;
use super::super::{ByHand, run, with_access};
use super::{Stranger, accept, played, visit};

#[test]
fn a_server_answers_as_it_is_written() {
    for name in ["http_single_call", "http_refusals_before_a_response"] {
        let steps = steps(name);
        let longest = steps.iter().map(|step| step.arrives().len()).max().unwrap();
        run(async {
            let route = Rc::new(ByHand::default());
            // Where other machines come by names of ours that are not known.
            let access = Access { insecure: true, ..Access::default() };
            let (_server, urls) =
                with_access(route.clone(), &["mediocre+http://0.0.0.0:0"], &access).await;
            for cut in 0..longest {
                serve(&mut visit(&urls[0]).await, &route, &steps, cut).await;
            }
        });
    }
}

#[test]
fn a_caller_asks_as_it_is_written() {
    let steps = steps("http_stream_response_is_chunked_and_chunk_borders_mean_nothing");
    let longest = steps.iter().map(|step| step.arrives().len()).max().unwrap();
    for cut in 0..longest {
        run(call(&steps, cut));
    }
}

async fn serve(client: &mut Stranger, route: &ByHand, steps: &[Step], cut: usize) {
    let mut asked: Option<(Call, ReplyTo)> = None;
    for step in steps {
        match step {
            Step::Arrives(bytes) => say(client, bytes, cut).await,
            Step::Leaves(bytes) => expect(client, bytes).await,
            Step::Learned(words) => {
                let found = route.next().await;
                let What::Tool { name, args } = &found.0.what else { panic!("{:?}", found.0) };
                let args = args.as_ref().map_or("null", Json::as_str);
                assert_eq!(*words, format!("c1 call {name} {args}"));
                asked = Some(found);
            }
            Step::Happens(words) => {
                let value = words.strip_prefix("reply c1 ").unwrap().to_owned();
                let (_, slot) = asked.take().unwrap();
                let _ = slot.send(Down::Done(Ok(Outcome::Value(Json::parse(value).unwrap()))));
            }
        }
    }
}

async fn call(steps: &[Step], cut: usize) {
    let (listener, address) = played().await;
    let back = back(&address);
    let mut caller: Option<(Rc<Inbox>, RunningCall)> = None;
    let mut server: Option<Stranger> = None;
    for step in steps {
        match step {
            Step::Happens(words) => {
                let method = words.strip_prefix("call t1 ").unwrap();
                let (inbox, slot) = Inbox::new();
                let uplink = back.start(Call::tool(Instant::now(), method, None), slot);
                caller = Some((inbox, uplink));
                server = Some(accept(&listener).await);
            }
            Step::Leaves(bytes) => expect(server.as_mut().unwrap(), bytes).await,
            Step::Arrives(bytes) => say(server.as_mut().unwrap(), bytes, cut).await,
            // The same connection carries the next call.
            Step::Learned("free") => {
                let (_inbox, slot) = Inbox::new();
                let _uplink = back.start(Call::tool(Instant::now(), "again", None), slot);
                let again = server.as_mut().unwrap().message().await;
                assert_eq!(again.body, "{\"method\":\"again\"}\n");
            }
            Step::Learned(words) => {
                let (inbox, uplink) = caller.as_ref().unwrap();
                let told = match inbox.next(uplink).await {
                    Down::Begin { head: None, .. } => "t1 head".to_owned(),
                    Down::Part(Part::Json(value)) => format!("t1 value {value}"),
                    Down::Done(Ok(Outcome::End(None))) => "t1 done".to_owned(),
                    down => format!("{down:?}"),
                };
                assert_eq!(told, *words);
            }
        }
    }
}

/// In two writes, where there is something to cut.
async fn say(stranger: &mut Stranger, bytes: &[u8], cut: usize) {
    let (before, behind) = bytes.split_at(cut.min(bytes.len()));
    for piece in [before, behind] {
        stranger.stream.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
}

async fn expect(stranger: &mut Stranger, expected: &[u8]) {
    let expected = std::str::from_utf8(expected).unwrap();
    let (head, body) = expected.split_once("\r\n\r\n").unwrap();
    let found = stranger.message().await;
    let mut lines = head.split("\r\n");
    assert_eq!(found.first, lines.next().unwrap());
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        assert_eq!(found.field(name), Some(value), "{name} in {found:?}");
    }
    assert_eq!(found.body, body);
}

#[derive(Debug)]
enum Step {
    Arrives(Vec<u8>),
    Leaves(Vec<u8>),
    Happens(&'static str),
    Learned(&'static str),
}

impl Step {
    fn arrives(&self) -> &[u8] {
        match self {
            Step::Arrives(bytes) => bytes,
            _ => &[],
        }
    }
}

/// Successive lines of one kind are one run of bytes.
fn steps(name: &str) -> Vec<Step> {
    let text = transcript::read(format!("transcripts/mediocre/{name}.txt"));
    let mut steps = Vec::new();
    for line in text.leak().lines() {
        let (arrow, words) = line.split_at(3);
        match (arrow, steps.last_mut()) {
            ("<< ", Some(Step::Arrives(run))) | (">> ", Some(Step::Leaves(run))) => {
                run.extend(unescape(words));
            }
            ("<< ", _) => steps.push(Step::Arrives(unescape(words))),
            (">> ", _) => steps.push(Step::Leaves(unescape(words))),
            ("-- ", _) => steps.push(Step::Happens(words)),
            ("== ", _) => steps.push(Step::Learned(words)),
            _ => panic!("not a line of a conversation: {line}"),
        }
    }
    steps
}
