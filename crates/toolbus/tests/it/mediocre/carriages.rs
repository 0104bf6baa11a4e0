//! Our own ends over everything that carries them: the same calls have the same answers.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolbus::bus::Route;
use toolbus::bus::back::Back;
use toolbus_engine::calls::{Inbox, Pressure, RunningCall};
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::tool::{Call, FailureKind, Outcome, Part, Piece};
use toolbus_testkit::certificates::Certificates;

use super::calling::{back, call, json, value};
use super::{ByHand, at_doors, builtin, run, run_and_let_time_fly};

/// A server with a door of each kind, and the addresses that lead to them.
async fn everywhere(files: &Certificates, route: Rc<dyn Route>) -> Vec<String> {
    let proof = format!("?cert={}&key={}", files.file("server.pem"), files.file("server.key"));
    let doors = [
        "mediocre+tcp://127.0.0.1:0".to_owned(),
        format!("mediocre+unix:{}", files.file("socket")),
        "mediocre+http://127.0.0.1:0".to_owned(),
        format!("mediocre+tls://127.0.0.1:0{proof}"),
        format!("mediocre+https://127.0.0.1:0{proof}"),
    ];
    let doors: Vec<&str> = doors.iter().map(String::as_str).collect();
    let (_server, mut urls) = at_doors(route, &doors).await;
    for url in &mut urls {
        if url.contains("tls:") || url.contains("https:") {
            url.push_str(&format!("?ca={}", files.file("ca.pem")));
        }
    }
    urls
}

#[test]
fn the_same_calls_have_the_same_answers() {
    run(async {
        let files = Certificates::new();
        for address in everywhere(&files, builtin().await).await {
            let back = back(&address);
            let tools = back.tools().await.unwrap();
            assert_eq!(tools.len(), 10, "{address}");
            for _ in 0..2 {
                assert_eq!(call(&*back, "add", r#"{"a":1,"b":2}"#).await, value("3"), "{address}");
            }
            let failed = call(&*back, "fail", r#"{"message":"no","code":"luck"}"#).await;
            assert_eq!(failed.unwrap_err().to_string(), "luck: no", "{address}");
            // A failure behind the head has no place; it must not look like an end.
            let count = call(&*back, "count", r#"{"n":2,"fail_at":1}"#).await.unwrap_err();
            let told = (count.kind, count.to_string());
            let broke = "truncated_stream: the response broke off".to_owned();
            assert_eq!(told, (FailureKind::BrokeProtocol, broke), "{address}");
            assert_eq!(call(&*back, "add", r#"{"a":1,"b":2}"#).await, value("3"), "{address}");
            back.shutdown().await;
        }
    });
}

fn stream(back: &Rc<dyn Back>, tool: &str) -> (Rc<Inbox>, RunningCall) {
    let (inbox, slot) = Inbox::new();
    let mut streamed = Call::tool(Instant::now(), tool, None);
    streamed.options.sends_parts = true;
    (inbox, back.start(streamed, slot))
}

fn piece(len: usize, last: bool) -> Up {
    let piece = Piece { data: vec![b'x'; len].into(), media_type: None, len: None, last };
    Up::Part(Part::Bytes(piece))
}

#[test]
fn what_is_not_taken_is_not_sent_and_nothing_is_lost() {
    const PIECE: usize = 64 * 1024;
    /// More than all buffers on the way together.
    const PIECES_MAX: usize = 512;
    run_and_let_time_fly(async {
        let files = Certificates::new();
        for address in everywhere(&files, builtin().await).await {
            let back = back(&address);
            let (inbox, uplink) = stream(&back, "echo");
            let mut sent = 0;
            // Nothing that comes back is taken: sooner or later there is no room.
            loop {
                assert!(sent < PIECES_MAX, "{address} takes whatever it is given");
                sent += 1;
                if uplink.send(piece(PIECE, false)) == Pressure::Full {
                    // The clock moves on when no task has anything to do, so nothing makes room.
                    let room = tokio::time::timeout(Duration::from_millis(200), inbox.room());
                    if room.await.is_err() {
                        break;
                    }
                }
            }
            let _ = uplink.send(piece(0, true));
            let _ = uplink.send(Up::End(Some(json("7"))));
            let mut bytes = 0;
            let end = loop {
                match inbox.next(&uplink).await {
                    Down::Part(Part::Bytes(piece)) => bytes += piece.data.len(),
                    Down::Done(done) => break done,
                    _ => {}
                }
            };
            assert_eq!(
                (bytes, end),
                (sent * PIECE, Ok(Outcome::End(Some(json("7"))))),
                "{address}"
            );
        }
    });
}

#[test]
fn a_slow_reader_holds_up_no_other_call() {
    run(async {
        let files = Certificates::new();
        for address in everywhere(&files, builtin().await).await {
            let back = back(&address);
            // Over HTTP/2 there is a connection now, for all of them.
            back.tools().await.unwrap();
            // Each has more to read than all buffers hold, and reads nothing.
            let slow: Vec<_> = (0..12)
                .map(|_| {
                    let (inbox, slot) = Inbox::new();
                    let args = Some(json(r#"{"bytes":8000000}"#));
                    (inbox, back.start(Call::tool(Instant::now(), "blob", args), slot))
                })
                .collect();
            for (inbox, _) in &slow {
                while inbox.waiting() == 0 {
                    tokio::task::yield_now().await;
                }
            }
            // Often enough for all of them to fill whatever they share.
            for _ in 0..100 {
                let sum = call(&*back, "add", r#"{"a":1,"b":2}"#).await;
                assert_eq!(sum, value("3"), "{address}");
            }
        }
    });
}

#[test]
fn an_answer_may_overtake_the_stream() {
    run(async {
        let files = Certificates::new();
        for address in everywhere(&files, builtin().await).await {
            let back = back(&address);
            let (inbox, uplink) = stream(&back, "early");
            let _ = uplink.send(piece(10, false));
            let answer = loop {
                if let Down::Done(done) = inbox.next(&uplink).await {
                    break done;
                }
            };
            assert_eq!(answer, value(r#"{"early":true}"#), "{address}");
        }
    });
}

#[test]
fn cancelling_reaches_the_tool() {
    run(async {
        let files = Certificates::new();
        let route = Rc::new(ByHand::default());
        for address in everywhere(&files, route.clone()).await {
            route.cancelled.set(0);
            let back = back(&address);
            let (_inbox, uplink) = stream(&back, "m");
            let (_call, _slot) = route.next().await;
            drop(uplink);
            route.cancelled().await;
        }
    });
}

#[test]
fn who_cannot_prove_who_they_are_is_not_talked_to() {
    run(async {
        let (files, others) = (Certificates::new(), Certificates::new());
        let proof = format!("?cert={}&key={}", files.file("server.pem"), files.file("server.key"));
        let closed = format!("{proof}&client_ca={}", files.file("ca.pem"));
        let doors = [
            format!("mediocre+tls://127.0.0.1:0{proof}"),
            format!("mediocre+https://127.0.0.1:0{proof}"),
            format!("mediocre+tls://127.0.0.1:0{closed}"),
            format!("mediocre+https://127.0.0.1:0{closed}"),
        ];
        let doors: Vec<&str> = doors.iter().map(String::as_str).collect();
        let (_server, urls) = at_doors(builtin().await, &doors).await;
        let add = async |url: &str, parameters: &str| {
            call(&*back(&format!("{url}{parameters}")), "add", r#"{"a":1,"b":2}"#).await
        };
        let ca = format!("?ca={}", files.file("ca.pem"));
        for url in &urls[..2] {
            assert_eq!(add(url, &ca).await, value("3"), "{url}");
            // Neither the public roots nor another authority vouch for it.
            for wrong in [String::new(), format!("?ca={}", others.file("ca.pem"))] {
                let failure = add(url, &wrong).await.unwrap_err();
                assert_eq!(failure.kind, FailureKind::Unavailable, "{url}");
                assert!(failure.message.contains(": invalid peer certificate: "), "{failure}");
            }
        }
        let ours =
            format!("{ca}&cert={}&key={}", files.file("client.pem"), files.file("client.key"));
        for url in &urls[2..] {
            assert_eq!(add(url, &ours).await, value("3"), "{url}");
            let failure = add(url, &ca).await.unwrap_err();
            assert_ne!(failure.kind, FailureKind::Failed, "{url}: {failure}");
        }
    });
}

#[test]
fn who_does_not_speak_tls_at_its_port_gets_no_answer_and_does_no_harm() {
    run(async {
        let files = Certificates::new();
        let addresses = everywhere(&files, builtin().await).await;
        for address in &addresses[3..] {
            let at = address.split('/').nth(2).unwrap().split('?').next().unwrap();
            let mut plain = TcpStream::connect(at).await.unwrap();
            plain.write_all(b"{\"method\":\"add\"}\n").await.unwrap();
            let mut heard = Vec::new();
            let _ = plain.read_to_end(&mut heard).await;
            assert!(!heard.contains(&b'{'), "{heard:?}");
            assert_eq!(call(&*back(address), "add", r#"{"a":1,"b":2}"#).await, value("3"));
        }
        // And the other way round.
        let at = addresses[0].trim_start_matches("mediocre+tcp:");
        let ca = files.file("ca.pem");
        let failure = call(&*back(&format!("mediocre+tls:{at}?ca={ca}")), "add", "1").await;
        assert_eq!(failure.unwrap_err().kind, FailureKind::Unavailable);
    });
}
