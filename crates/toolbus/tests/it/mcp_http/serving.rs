//! Clients of both eras, from their first word to their last.

use super::*;

#[test]
fn a_legacy_session_lasts_from_initialize_to_delete() {
    run(async {
        let served = Served::builtin().await;
        let session = session(&served).await;
        let session = borrowed(&session);
        let noted = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        served.post(&session, noted).await.is(202, "");

        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}"#;
        let answer = served.post(&session, call).await;
        assert_eq!(answer.header("Content-Type"), "application/json");
        answer.is(
            200,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}]}}"#,
        );

        let count = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"n":2},"_meta":{"progressToken":"t"}}}"#;
        let stream = served.post(&session, count).await;
        assert_eq!(stream.header("Content-Type"), "text/event-stream");
        assert_eq!(stream.header("X-Accel-Buffering"), "no");
        let events: Vec<_> = stream.body.split("\n\n").collect();
        assert_eq!(events[0], "id: 1.0\ndata:", "{stream:?}");
        assert!(events[1].starts_with("event: message\nid: 1.1\ndata: {"), "{stream:?}");
        assert!(events[1].contains(r#""method":"notifications/progress""#), "{stream:?}");
        let last = events[events.len() - 2];
        assert!(last.contains(r#""id":2,"result":{"content":[{"type":"text","text":"0"}"#));

        let mut own = served.send(get(&session)).await;
        assert_eq!(own.status(), 200);
        read_until(own.body_mut(), "id: 2.0\ndata:\n\n").await;

        let delete = with(Request::delete("/mcp"), &session);
        whole(served.send(delete).await).await.is(204, "");
        assert_eq!(own.body_mut().next().await.unwrap(), None, "the session's stream ends with it");
        let ping = r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#;
        assert_eq!(served.post(&session, ping).await.status, 404);
        served.stop().await;
    });
}

#[test]
fn a_modern_call_is_one_exchange() {
    run(async {
        let served = Served::builtin().await;
        let (headers, call) = modern("add", r#""arguments":{"a":1,"b":2},"#);
        let version = env!("CARGO_PKG_VERSION");
        served.post(&headers, &call).await.is(
            200,
            &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","content":[{{"type":"text","text":"3"}}],"structuredContent":3,"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"toolbus","version":"{version}"}}}}}}}}"#),
        );
        let (headers, other) = modern("upper", r#""arguments":{"a":1,"b":2},"#);
        let refused = served.post(&headers[..2], &other).await;
        refused.is(
            400,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"Mcp-Name is missing"}}"#,
        );
        served.stop().await;
    });
}

#[test]
fn a_modern_client_that_leaves_cancels_its_call() {
    run(async {
        let (route, mut strings) = puppet();
        let served = Served::with(Options::default(), route).await;
        let (headers, call) = modern("work", "");
        // Once before anything was answered, and once in the middle of a stream.
        let timeouts = Timeouts { connect: PATIENCE, head: None };
        let answer = spawn_local(served.client.ask(post(&headers, &call), timeouts));
        let slot = strings.calls.recv().await.unwrap();
        answer.abort();
        strings.cancels.recv().await.unwrap();
        assert_eq!(slot.send(progress(1)), Pressure::Ready);

        let answer = served.client.ask(post(&headers, &call), timeouts);
        let (answer, slot) = tokio::join!(answer, async {
            let slot = strings.calls.recv().await.unwrap();
            let _ = slot.send(progress(1));
            slot
        });
        let mut answer = answer.unwrap();
        read_until(answer.body_mut(), r#""progress":1"#).await;
        drop(answer);
        strings.cancels.recv().await.unwrap();
        drop(slot);
        served.stop().await;
    });
}

#[test]
fn a_legacy_client_that_lost_its_stream_resumes_it() {
    run(async {
        let (route, mut strings) = puppet();
        let served = Served::with(Options::default(), route).await;
        let session = session(&served).await;
        let session = borrowed(&session);
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"work","_meta":{"progressToken":"t"}}}"#;
        let (mut answer, slot) = tokio::join!(served.send(post(&session, call)), async {
            let slot = strings.calls.recv().await.unwrap();
            let _ = slot.send(progress(1));
            slot
        });
        read_until(answer.body_mut(), "id: 1.1\n").await;
        drop(answer);
        let _ = slot.send(progress(2));

        let seen = [&session[..], &[("Last-Event-ID", "1.1")]].concat();
        let mut again = served.send(get(&seen)).await;
        assert_eq!(again.status(), 200);
        let missed = read_until(again.body_mut(), "\n\n").await;
        assert!(missed.starts_with("event: message\nid: 1.2\n"), "{missed}");
        let _ = slot.send(Down::Done(Ok(Outcome::Text("done".into()))));
        let rest = whole(again).await;
        assert_eq!(
            rest.body,
            "event: message\nid: 1.3\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}}\n\n"
        );
        assert!(strings.cancels.try_recv().is_err(), "who vanishes does not cancel");
        served.stop().await;
    });
}

#[test]
fn what_is_under_way_is_answered_before_the_end() {
    run(async {
        let (route, mut strings) = puppet();
        let served = Served::with(Options::default(), route).await;
        let (headers, call) = modern("work", "");
        let timeouts = Timeouts { connect: PATIENCE, head: None };
        let answer = spawn_local(served.client.ask(post(&headers, &call), timeouts));
        let slot = strings.calls.recv().await.unwrap();
        served.stop.send(()).unwrap();
        let _ = slot.send(Down::Done(Ok(Outcome::Text("just so".into()))));
        let answer = whole(answer.await.unwrap().unwrap()).await;
        assert!(answer.body.contains(r#""text":"just so""#), "{answer:?}");
        served.task.await.unwrap();
    });
}

#[test]
fn what_is_under_way_is_cancelled_if_serving_is_given_up() {
    run(async {
        let (route, mut strings) = puppet();
        let served = Served::with(Options::default(), route).await;
        let session = session(&served).await;
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"work"}}"#;
        let timeouts = Timeouts { connect: PATIENCE, head: None };
        let _answer = spawn_local(served.client.ask(post(&borrowed(&session), call), timeouts));
        let _slot = strings.calls.recv().await.unwrap();
        served.task.abort();
        strings.cancels.recv().await.unwrap();
    });
}

#[test]
fn a_client_that_only_listens_is_told_of_the_end() {
    run(async {
        let served = Served::builtin().await;
        let session = session(&served).await;
        let mut own = served.send(get(&borrowed(&session))).await;
        read_until(own.body_mut(), "id: 1.0\ndata:\n\n").await;
        served.stop().await;
        assert_eq!(own.body_mut().next().await.unwrap(), None);
    });
}

#[test]
fn a_client_that_does_not_read_holds_its_call_back() {
    run(async {
        let (route, mut strings) = puppet();
        let served = Served::with(Options::default(), route).await;
        let (headers, call) = modern("work", "");
        let answer =
            served.client.ask(post(&headers, &call), Timeouts { connect: PATIENCE, head: None });
        let long = || {
            let text = "x".repeat(64 * 1024);
            Down::Progress(Json::parse(format!(r#"{{"progress":1,"message":"{text}"}}"#)).unwrap())
        };
        let (answer, slot) = tokio::join!(answer, async {
            let slot = strings.calls.recv().await.unwrap();
            let _ = slot.send(long());
            slot
        });
        let mut sent = 1;
        while slot.send(long()) == Pressure::Ready {
            sent += 1;
            assert!(sent < 10_000, "all of it is taken, though the client does not read");
            tokio::task::yield_now().await;
        }
        // Of what comes meanwhile only the latest is kept.
        for count in 0..100 {
            assert_eq!(slot.send(progress(count)), Pressure::Ready);
        }
        let mut answer = answer.unwrap();
        let read = read_until(answer.body_mut(), r#""progress":99"#).await;
        assert!(!read.contains(r#""progress":98"#));
        let _ = slot.send(Down::Done(Ok(Outcome::Text("end".into()))));
        read_until(answer.body_mut(), r#""text":"end""#).await;
        served.stop().await;
    });
}

fn get(headers: &[(&str, &str)]) -> Request<Bytes> {
    with(Request::get("/mcp").header("Accept", "text/event-stream"), headers)
}
