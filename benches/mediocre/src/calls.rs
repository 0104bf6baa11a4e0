//! Calls one after the other, ours against tonic, both over TCP on this machine.

use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Outcome, Part};

use crate::ours::{Asked, Client};
use crate::table::{Table, Unit};
use crate::tonic::Tonic;

/// What goes there and back, in every call and every element.
pub(crate) const TEXT: &str = "the quick brown fox jumps over the lazy dog";
/// How many elements a short stream has, each way.
const FEW: usize = 10;
/// How many elements a long one has.
const MANY: usize = 10_000;

pub(crate) fn measure(rounds: usize) {
    if !Tonic::is_there() {
        println!("\ncalls: TONIC_ECHO is not set, so there is nothing to compare with");
    }
    let text = Json::of(TEXT);
    for (title, unit, elements) in [
        ("a single call, echoed", Unit::Micros, 0),
        ("a stream of 10 elements, echoed", Unit::Micros, FEW),
        ("elements of one long stream, echoed", Unit::PerSecond(MANY), MANY),
    ] {
        let mut table = Table::new(title, unit);
        if Tonic::is_there() {
            table.add("`tonic`", Tonic::start(elements));
        }
        let (client, text) = (Client::over_tcp(), text.clone());
        table.add("ours", move |count: u32| {
            let text = text.clone();
            client.run(async move |back| {
                for _ in 0..count {
                    match elements {
                        0 => {
                            let asked = Asked::single(&back, "echo", Some(text.clone()));
                            assert_eq!(asked.answer().await, text);
                        }
                        _ => echo(Asked::stream(&back, "echo", None), &text, elements).await,
                    }
                }
            });
        });
        table.measure(rounds);
    }
}

/// So many long streams, one after the other, and nothing is measured.
pub(crate) fn streams(count: u32) {
    let text = Json::of(TEXT);
    Client::over_tcp().run(async move |back| {
        for _ in 0..count {
            echo(Asked::stream(&back, "echo", None), &text, MANY).await;
        }
    });
}

async fn echo(asked: Asked, text: &Json, elements: usize) {
    let send = async {
        for _ in 0..elements {
            asked.send(Part::Json(text.clone())).await;
        }
        asked.end();
    };
    let receive = async {
        let mut received = 0;
        loop {
            match asked.next().await {
                Down::Part(Part::Json(part)) => {
                    assert_eq!(part, *text);
                    received += 1;
                }
                Down::Done(Ok(Outcome::End(None))) => return received,
                Down::Begin { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let ((), received) = tokio::join!(send, receive);
    assert_eq!(received, elements);
}
