//! The server against clients that write by hand.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;
use toolbus::bus::Route;
use toolbus::wire::mediocre::front::{Mediocre, Settings, Talked};
use toolbus_engine::calls::{Answerer, Pressure, ReplyTo, RunningCall};
use toolbus_engine::transport::io::Sink;
use toolbus_engine::transport::{Listener, stdio};
use toolbus_proto::channel::{Ended, Ticket, Up};
use toolbus_proto::tool::Call;
use toolbus_testkit::scratch::Scratch;

use super::{Raw, builtin, quick, run, run_and_let_time_fly, served};

const ADD: &str = r#"{"method":"add","args":{"a":1,"b":2}}"#;

#[test]
fn pipelined_calls_are_answered_in_their_order_and_the_end_waits_for_them() {
    run(async {
        let server = served(Settings::default()).await;
        let mut client = Raw::to(server.at).await;
        let sleep = r#"{"method":"sleep","args":{"ms":50}}"#;
        client.say(&format!("{sleep}{ADD}\n\n {{\"method\":\"nope\"}}{{}}{ADD}")).await;
        client.hang_up().await;
        let expected = [
            r#"{"res":{"slept_ms":50}}"#,
            r#"{"res":3}"#,
            r#"{"err":{"msg":"no such method: `nope`","meta":{"code":"method_not_found"}}}"#,
            r#"{"err":{"msg":"method must be a non-empty string","meta":{"code":"invalid","reason":"method_missing"}}}"#,
            r#"{"res":3}"#,
            "",
        ];
        assert_eq!(client.rest().await, expected.join("\n"));
    });
}

#[test]
fn an_echo_goes_both_ways_at_once() {
    run(async {
        let server = served(Settings::default()).await;
        let mut client = Raw::to(server.at).await;
        let head = r#"{"method":"echo","args":"h","streamStart":true}"#;
        assert_eq!(client.ask(head).await, r#"{"res":"h","streamStart":true}"#);
        assert_eq!(client.ask(r#"{"el":1.0}"#).await, r#"{"el":1.0}"#);
        // The first bytes come back before the last are sent, in a frame that is not ours.
        let header = client.ask("{\"elBytesFrame\":\"F9\"}\nF9some ").await;
        let frame = header.strip_prefix(r#"{"elBytesFrame":""#).unwrap();
        let frame = frame.strip_suffix(r#""}"#).unwrap().to_owned();
        assert_eq!(frame.len(), 25);
        let begun = format!("{frame}some ");
        while client.heard.len() < begun.len() {
            assert!(client.read().await);
        }
        assert_eq!(client.heard, begun.as_bytes());
        client.say("bytesF9 {\"args\":[],\"streamEnd\":true}").await;
        assert_eq!(client.line().await, format!("{begun}bytes{frame}"));
        assert_eq!(client.line().await, r#"{"args":[],"streamEnd":true}"#);
        assert_eq!(client.ask(ADD).await, r#"{"res":3}"#);
    });
}

#[test]
fn an_early_answer_leaves_the_rest_to_be_drained() {
    run(async {
        let server = served(Settings::default()).await;
        let mut client = Raw::to(server.at).await;
        let early = r#"{"method":"early","streamStart":true}"#;
        assert_eq!(client.ask(early).await, r#"{"res":{"early":true}}"#);
        client.say(&format!("{{\"el\":1}}{{\"streamEnd\":true}}{ADD}")).await;
        assert_eq!(client.line().await, r#"{"res":3}"#);
    });
}

#[test]
fn a_stream_that_is_not_cut_short_in_time_ends_the_connection() {
    run_and_let_time_fly(async {
        let server = served(Settings { idle_timeout: Duration::from_secs(300), ..quick() }).await;
        let mut client = Raw::to(server.at).await;
        client.say(r#"{"method":"early","streamStart":true}"#).await;
        assert_eq!(client.rest().await, "{\"res\":{\"early\":true}}\n");
    });
}

#[test]
fn a_late_failure_ends_the_connection_without_a_tail() {
    run(async {
        let server = served(Settings::default()).await;
        let mut client = Raw::to(server.at).await;
        let count = r#"{"method":"count","args":{"n":3,"fail_at":2}}"#;
        client.say(&format!("{count}{ADD}")).await;
        let expected = "{\"streamStart\":true,\"streamLen\":3}\n{\"el\":0}\n{\"el\":1}\n";
        assert_eq!(client.rest().await, expected);
    });
}

#[test]
fn stray_bytes_end_the_connection_behind_what_is_owed() {
    run(async {
        let server = served(Settings::default()).await;
        let mut client = Raw::to(server.at).await;
        client.say(&format!("{ADD} [1] {ADD}")).await;
        let expected = "{\"res\":3}\n{\"err\":{\"msg\":\"expected an object at byte 38\",\"meta\":{\"code\":\"protocol\",\"reason\":\"not_an_object\",\"offset\":38}}}\n";
        assert_eq!(client.rest().await, expected);
    });
}

#[test]
fn who_leaves_inside_a_call_gets_nothing_for_it() {
    run(async {
        let server = served(Settings::default()).await;
        let mut client = Raw::to(server.at).await;
        client.say(&format!("{ADD}{{\"method\":\"sink\",\"streamStart\":true}}{{\"el\":1}}")).await;
        client.hang_up().await;
        assert_eq!(client.rest().await, "{\"res\":3}\n");
    });
}

#[test]
fn who_is_idle_too_long_is_left() {
    run_and_let_time_fly(async {
        let server = served(quick()).await;
        let mut client = Raw::to(server.at).await;
        assert_eq!(client.ask(ADD).await, r#"{"res":3}"#);
        assert_eq!(client.rest().await, "");
    });
}

#[test]
fn who_reads_nothing_is_left_in_the_end() {
    run_and_let_time_fly(async {
        let server = served(quick()).await;
        let mut client = Raw::to(server.at).await;
        client.say(r#"{"method":"blob","args":{"bytes":1000000000}}"#).await;
        // Nothing is read until the server has given up, which a write of ours finds out. The
        // clock moves on when the server has filled all that is between it and us.
        while tokio::io::AsyncWriteExt::write_all(&mut client.stream, b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn a_stop_waits_for_calls_in_flight_and_for_nothing_else() {
    run(async {
        let served = served(Settings::default()).await;
        let mut idle = Raw::to(served.at).await;
        assert_eq!(idle.ask(ADD).await, r#"{"res":3}"#);
        let mut busy = Raw::to(served.at).await;
        let count = r#"{"method":"count","args":{"n":2,"ms":100}}"#;
        assert_eq!(busy.ask(count).await, r#"{"streamStart":true,"streamLen":2}"#);
        served.server.stop();
        assert_eq!(idle.rest().await, "");
        assert_eq!(busy.rest().await, "{\"el\":0}\n{\"el\":1}\n{\"streamEnd\":true}\n");
        drop((idle, busy));
        served.listening.await.unwrap();
        assert!(TcpStream::connect(served.at).await.is_err());
    });
}

/// Answers nothing, and counts who changed their mind.
#[derive(Default)]
struct Silent {
    started: Cell<usize>,
    cancelled: Rc<Cell<usize>>,
}

struct Counting(Rc<Cell<usize>>);

impl Route for Silent {
    fn start(&self, _call: Call, _down: ReplyTo) -> RunningCall {
        self.started.set(self.started.get() + 1);
        RunningCall::new(Rc::new(Counting(self.cancelled.clone())), Ticket(0))
    }
}

impl Answerer for Counting {
    fn send(&self, _ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            self.0.set(self.0.get() + 1);
        }
        Pressure::Ready
    }

    fn resume(&self, _ticket: Ticket) {}
}

#[test]
fn closing_inside_a_stream_cancels_the_call() {
    run(async {
        let route = Rc::new(Silent::default());
        let cancelled = route.cancelled.clone();
        let server = Mediocre::new(route.clone(), Settings::default());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (source, sink) = theirs.into_split();
        let talking = spawn_local(async move { server.talk(source, sink).await });
        let mut client = Raw { stream: ours, heard: Vec::new() };
        client.say(r#"{"method":"m","streamStart":true}{"el":1}"#).await;
        while route.started.get() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(cancelled.get(), 0);
        drop(client);
        let ended = talking.await.unwrap();
        assert!(matches!(ended, Talked::ToTheEnd(Ended::Broke(_))), "{ended:?}");
        assert_eq!(cancelled.get(), 1);
    });
}

/// Takes all that is written, and remembers in which portions.
#[derive(Clone, Default)]
struct Portions(Rc<RefCell<Vec<Vec<u8>>>>);

impl Sink for Portions {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let portion = pieces.iter().flat_map(|piece| piece.to_vec()).collect::<Vec<_>>();
        let count = portion.len();
        self.0.borrow_mut().push(portion);
        Ok(count)
    }
}

#[test]
fn what_one_read_sets_off_is_written_together() {
    let elements: String = (0..500).map(|number| format!("{{\"el\":{number}}}\n")).collect();
    let said =
        format!("{{\"method\":\"echo\",\"streamStart\":true}}\n{elements}{{\"streamEnd\":true}}\n");
    let written = Portions::default();
    let ended = run(async {
        let server = Mediocre::new(builtin().await, Settings::default());
        server.talk(said.as_bytes(), written.clone()).await
    });
    assert_eq!(ended, Talked::ToTheEnd(Ended::Well));
    let portions = written.0.take();
    let expected = format!("{{\"streamStart\":true}}\n{elements}{{\"streamEnd\":true}}\n");
    assert_eq!(String::from_utf8(portions.concat()).unwrap(), expected);
    // The tool takes sixteen elements at a time.
    assert!(portions.len() <= 2, "{} writes", portions.len());
}

#[test]
fn a_socket_file_serves_the_same() {
    run(async {
        let scratch = Scratch::new();
        let path = scratch.path().join("socket");
        let server = Mediocre::new(builtin().await, Settings::default());
        let listener = Listener::unix(&path).unwrap();
        let listens = server.clone();
        let listening = spawn_local(async move { listens.listen(listener).await });
        let stream = UnixStream::connect(&path).await.unwrap();
        let mut client = Raw { stream, heard: Vec::new() };
        assert_eq!(client.ask(ADD).await, r#"{"res":3}"#);
        drop(client);
        server.stop();
        listening.await.unwrap();
        assert!(!path.exists());
    });
}

#[test]
fn pipes_serve_the_same() {
    let (theirs_in, mut ours_out) = std::io::pipe().unwrap();
    let (ours_in, theirs_out) = std::io::pipe().unwrap();
    let client = std::thread::spawn(move || {
        ours_out.write_all(format!("{ADD}{ADD}").as_bytes()).unwrap();
        drop(ours_out);
        BufReader::new(ours_in).lines().map(Result::unwrap).collect::<Vec<_>>()
    });
    let ended = run(async {
        use std::os::fd::AsFd;
        let input = stdio::input(theirs_in.as_fd()).unwrap();
        let output = stdio::output(theirs_out.as_fd()).unwrap();
        let server = Mediocre::new(builtin().await, Settings::default());
        server.talk(input, output).await
    });
    assert_eq!(ended, Talked::ToTheEnd(Ended::Well));
    drop(theirs_out);
    assert_eq!(client.join().unwrap(), [r#"{"res":3}"#, r#"{"res":3}"#]);
}

#[test]
fn a_tool_has_a_turn_before_what_is_wrong_behind_its_call() {
    const BROKEN: &str = r#"{"err":{"msg":"expected an object at byte 36","meta":{"code":"protocol","reason":"not_an_object","offset":36}}}"#;
    run(async {
        let server = served(Settings::default()).await;
        for (method, answer) in [
            ("echo", r#"{"streamStart":true}"#),
            (
                "none",
                r#"{"err":{"msg":"no such method: `none`","meta":{"code":"method_not_found"}}}"#,
            ),
            ("early", r#"{"res":{"early":true}}"#),
            // It says nothing before its tail, which does not come.
            ("sink", BROKEN),
        ] {
            let mut client = Raw::to(server.at).await;
            client.say(&format!(r#"{{"method":"{method}","streamStart":true}}]"#)).await;
            assert_eq!(client.rest().await, format!("{answer}\n"), "{method}");
        }
    });
}
