//! The calling end: connections that are shared out, given up, and used again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use toolbus::address::Address;
use toolbus::bus::back::Back;
use toolbus::peer::open;
use toolbus::peer::settings::Settings as BackSettings;
use toolbus::wire::mediocre::front::Settings;
use toolbus_engine::calls::{Inbox, Pressure};
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, Piece};
use toolbus_testkit::port;

use super::{Raw, run, served};

pub(super) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

pub(super) fn back(address: &str) -> Rc<dyn Back> {
    open(&Address::parse(address).unwrap(), &BackSettings::default()).unwrap()
}

pub(super) async fn call(back: &dyn Back, tool: &str, args: &str) -> Result<Outcome, Failure> {
    let (inbox, slot) = Inbox::new();
    let uplink = back.start(Call::tool(Instant::now(), tool, Some(json(args))), slot);
    inbox.whole(uplink).await
}

pub(super) fn value(text: &str) -> Result<Outcome, Failure> {
    Ok(Outcome::Value(json(text)))
}

/// A server that is played by hand, one connection after another.
async fn played() -> (TcpListener, Rc<dyn Back>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let back = back(&format!("mediocre+tcp://{}", listener.local_addr().unwrap()));
    (listener, back)
}

async fn accept(listener: &TcpListener) -> Raw<TcpStream> {
    Raw { stream: listener.accept().await.unwrap().0, heard: Vec::new() }
}

#[test]
fn tools_are_listed_and_called() {
    run(async {
        let server = served(Settings::default()).await;
        let back = back(&format!("mediocre+tcp://{}", server.at));
        let tools = back.tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let expected =
            ["add", "blob", "call", "count", "early", "echo", "fail", "sink", "sleep", "upper"];
        assert_eq!(names, expected);
        assert_eq!(call(&*back, "add", r#"{"a":1,"b":2}"#).await, value("3"));
        let generic = r#"{"method":"sink","elements":[1,{"$bytes":"aGk="}],"args":{"hash":false}}"#;
        assert_eq!(call(&*back, "call", generic).await, value(r#"{"elements":2,"bytes":2}"#));
        let failure = call(&*back, "fail", r#"{"message":"no","code":"luck"}"#).await.unwrap_err();
        assert_eq!(failure.to_string(), "luck: no");
        let count = call(&*back, "count", r#"{"n":2,"fail_at":1}"#).await.unwrap_err();
        assert_eq!(count.kind, FailureKind::BrokeProtocol);
        assert_eq!(call(&*back, "add", r#"{"a":1,"b":2}"#).await, value("3"));
        back.shutdown().await;
    });
}

#[test]
fn many_calls_at_once_use_sixteen_connections_and_wait_for_them() {
    run(async {
        let (listener, back) = played().await;
        let connections = Rc::new(Cell::new(0));
        let counted = connections.clone();
        spawn_local(async move {
            loop {
                let mut client = accept(&listener).await;
                counted.set(counted.get() + 1);
                let counted = counted.clone();
                spawn_local(async move {
                    while client.read().await {
                        // One call at a time: what arrives is one line.
                        assert_eq!(client.line().await, r#"{"method":"m","args":1}"#);
                        assert!(client.heard.is_empty());
                        // No call is answered before all connections are there.
                        while counted.get() < 16 {
                            tokio::task::yield_now().await;
                        }
                        client.say("{\"res\":2}\n").await;
                    }
                });
            }
        });
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let back = back.clone();
                spawn_local(async move { call(&*back, "m", "1").await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap(), value("2"));
        }
        assert_eq!(connections.get(), 16);
        back.shutdown().await;
    });
}

#[test]
fn a_call_in_line_gives_up_at_its_deadline() {
    run(async {
        let (listener, back) = played().await;
        let (_inboxes, _uplinks): (Vec<_>, Vec<_>) = (0..16)
            .map(|_| {
                let (inbox, slot) = Inbox::new();
                (inbox, back.start(Call::tool(Instant::now(), "m", None), slot))
            })
            .unzip();
        let mut held = Vec::new();
        while held.len() < 16 {
            held.push(accept(&listener).await);
        }
        let (inbox, slot) = Inbox::new();
        let mut late = Call::tool(Instant::now(), "m", None);
        late.deadline.total = Some(Duration::from_millis(50));
        let failure = inbox.whole(back.start(late, slot)).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
    });
}

#[test]
fn a_connection_that_the_server_closed_meanwhile_costs_no_call() {
    run(async {
        let (listener, back) = played().await;
        for _ in 0..20 {
            let answered = async {
                let mut client = accept(&listener).await;
                client.line().await;
                client.say("{\"res\":1}\n").await;
                // A process that is just being started may hold a copy of the socket.
                client.hang_up().await;
            };
            let (answer, ()) = tokio::join!(call(&*back, "m", "1"), answered);
            assert_eq!(answer, value("1"));
        }
    });
}

#[test]
fn cancelling_closes_the_connection() {
    run(async {
        let (listener, back) = played().await;
        let (_inbox, slot) = Inbox::new();
        let uplink = back.start(Call::tool(Instant::now(), "m", None), slot);
        let mut client = accept(&listener).await;
        assert_eq!(client.line().await, r#"{"method":"m"}"#);
        drop(uplink);
        assert_eq!(client.rest().await, "");
    });
}

#[test]
fn an_early_answer_cuts_the_stream_and_the_connection_is_used_again() {
    run(async {
        let (listener, back) = played().await;
        let (inbox, slot) = Inbox::new();
        let mut streamed = Call::tool(Instant::now(), "m", None);
        streamed.options.sends_parts = true;
        let uplink = back.start(streamed, slot);
        let piece = Piece { data: "ab".into(), media_type: None, len: None, last: false };
        let _ = uplink.send(Up::Part(Part::Bytes(piece)));
        let mut client = accept(&listener).await;
        assert_eq!(client.line().await, r#"{"method":"m","streamStart":true}"#);
        let header = client.line().await;
        let frame = &header[r#"{"elBytesFrame":""#.len()..header.len() - 2];
        client.say("{\"res\":true}\n").await;
        assert_eq!(client.line().await, format!("{frame}ab{frame}"));
        assert_eq!(client.line().await, r#"{"streamEnd":true}"#);
        assert_eq!(inbox.whole(uplink).await, value("true"));
        let answered = async {
            assert_eq!(client.line().await, r#"{"method":"n","args":1}"#);
            client.say("{\"res\":2}").await;
        };
        let (answer, ()) = tokio::join!(call(&*back, "n", "1"), answered);
        assert_eq!(answer, value("2"));
    });
}

#[test]
fn a_stream_that_was_cut_short_is_ended_before_the_goodbye() {
    run(async {
        let (listener, back) = played().await;
        let (inbox, slot) = Inbox::new();
        let mut streamed = Call::tool(Instant::now(), "m", None);
        streamed.options.sends_parts = true;
        let uplink = back.start(streamed, slot);
        let mut client = accept(&listener).await;
        assert_eq!(client.line().await, r#"{"method":"m","streamStart":true}"#);
        client.say("{\"res\":true}\n").await;
        assert_eq!(inbox.whole(uplink).await, value("true"));
        let (said, ()) = tokio::join!(client.rest(), back.shutdown());
        assert_eq!(said, "{\"streamEnd\":true}\n");
    });
}

#[test]
fn much_flows_both_ways_at_once() {
    const PIECES: usize = 400;
    run(async {
        let server = served(Settings::default()).await;
        let back = back(&format!("mediocre+tcp://{}", server.at));
        let (inbox, slot) = Inbox::new();
        let mut echo = Call::tool(Instant::now(), "echo", None);
        echo.options.sends_parts = true;
        let uplink = Rc::new(back.start(echo, slot));
        let (up, room) = (uplink.clone(), inbox.clone());
        let mut bytes = 0;
        // What comes back is taken between what is sent, as fast as either goes.
        for sent in 0..PIECES {
            let data = vec![b'x'; 64 * 1024].into();
            let piece = Piece { data, media_type: None, len: None, last: sent + 1 == PIECES };
            let mut is_full = up.send(Up::Part(Part::Bytes(piece))) == Pressure::Full;
            while is_full || 0 < room.waiting() {
                tokio::select! {
                    () = room.room(), if is_full => is_full = false,
                    down = inbox.next(&uplink), if 0 < room.waiting() => bytes += weight(&down),
                    () = tokio::task::yield_now() => {}
                }
            }
        }
        let _ = uplink.send(Up::End(None));
        loop {
            let down = inbox.next(&uplink).await;
            bytes += weight(&down);
            if let Down::Done(done) = down {
                assert_eq!(done, Ok(Outcome::End(None)));
                break;
            }
        }
        assert_eq!(bytes, PIECES * 64 * 1024);
    });
}

fn weight(down: &Down) -> usize {
    match down {
        Down::Part(Part::Bytes(piece)) => piece.data.len(),
        _ => 0,
    }
}

#[test]
fn no_server_there_is_unavailable() {
    run(async {
        let at = format!("127.0.0.1:{}", port::free());
        let back = back(&format!("mediocre+tcp://{at}"));
        let failure = call(&*back, "m", "1").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(failure.message, format!("nothing listens on {at}"));
        let hint = failure.last_words.unwrap().hint.unwrap();
        assert_eq!(hint, "is the server running, and is this its address?");
    });
}

#[test]
fn a_program_is_started_and_called_over_its_pipes() {
    run(async {
        let script = r#"while read -r line; do echo "{\"res\":$$}"; done"#;
        let back = back(&format!("mediocre+stdio:sh -c '{script}'"));
        let first = call(&*back, "m", "1").await.unwrap();
        let second = call(&*back, "m", "1").await;
        assert_eq!(second, Ok(first));
        back.shutdown().await;
        let dying = self::back("mediocre+stdio:sh -c 'read -r line; echo bye >&2; exit 3'");
        let failure = call(&*dying, "m", "1").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Gone);
        assert_eq!(failure.message, "`sh` ended with exit status 3 before it answered");
        assert_eq!(failure.last_words.unwrap().stderr, ["bye"]);
    });
}
