//! Small elements on one connection: in, out, and both ways.

use std::rc::Rc;

use toolbus::wire::mediocre::back::Mediocre;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Outcome, Part};

use crate::ours::{Asked, Client};
use crate::table::{Table, Unit};

type Server = Rc<Mediocre>;

/// How many one call has.
const ELEMENTS: usize = 50_000;

pub(crate) fn measure(rounds: usize) {
    let title = "small elements, `{\"el\":N}`, one connection, TCP";
    let mut table = Table::new(title, Unit::PerSecond(ELEMENTS));
    table.add("in: `sink`", within(into_sink));
    table.add("out: `count`", within(count));
    table.add("both ways: `echo`", within(echo));
    table.measure(rounds);
}

fn within<F>(call: impl Fn(Server) -> F + Copy + 'static) -> impl FnMut(u32)
where
    F: Future<Output = ()> + 'static,
{
    let client = Client::over_tcp();
    move |count| {
        client.run(async move |back| {
            for _ in 0..count {
                call(back.clone()).await;
            }
        });
    }
}

async fn into_sink(back: Server) {
    let args = Json::from_trusted(r#"{"hash":false}"#);
    let asked = Asked::stream(&back, "sink", Some(args));
    send_all(&asked).await;
    let told = format!(r#"{{"elements":{ELEMENTS},"bytes":0}}"#);
    assert_eq!(asked.answer().await.as_str(), told);
}

async fn count(back: Server) {
    let args = Json::from_trusted(format!(r#"{{"n":{ELEMENTS}}}"#));
    receive_all(&Asked::single(&back, "count", Some(args))).await;
}

async fn echo(back: Server) {
    let asked = Asked::stream(&back, "echo", None);
    tokio::join!(send_all(&asked), receive_all(&asked));
}

async fn send_all(asked: &Asked) {
    for number in 0..ELEMENTS {
        asked.send(Part::Json(Json::from_trusted(number.to_string()))).await;
    }
    asked.end();
}

async fn receive_all(asked: &Asked) {
    let mut received = 0;
    loop {
        match asked.next().await {
            Down::Part(Part::Json(_)) => received += 1,
            Down::Done(Ok(Outcome::End(None))) => break,
            Down::Begin { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, ELEMENTS);
}
