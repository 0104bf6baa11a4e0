//! Many sessions, and more than there may be.

use super::*;

const SESSIONS_MAX: usize = 300;

async fn session(served: &Served) -> String {
    let begun = served.post(&[], INITIALIZE).await;
    assert_eq!(begun.status, 200, "{begun:?}");
    begun.header("Mcp-Session-Id").to_owned()
}

#[test]
fn the_session_that_was_idle_longest_makes_room() {
    run(async {
        let options = Options { sessions_max: SESSIONS_MAX, ..Options::default() };
        let served = Served::with(options, builtin().await).await;
        let busy = session(&served).await;
        let oldest = session(&served).await;
        let listening = session(&served).await;
        let used = session(&served).await;
        let mut others = Vec::new();
        for _ in 4..SESSIONS_MAX {
            others.push(session(&served).await);
        }
        // One has a call under way, one listens, and one was used since.
        let sleep = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":86400000}}}"#;
        let (client, request) = (served.client.clone(), post(&[(ID, &busy)], sleep));
        let running = client.ask(request, Timeouts { connect: PATIENCE, head: None });
        let running = spawn_local(running);
        let listen = Request::get("/mcp").header("Accept", "text/event-stream");
        let stream = served.send(with(listen, &[(ID, &listening)])).await;
        assert_eq!(stream.status(), 200);
        let ping = r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#;
        assert_eq!(served.post(&[(ID, &used)], ping).await.status, 200);
        for _ in 0..3 {
            session(&served).await;
        }
        for (name, status) in [
            (&busy, 200),
            (&listening, 200),
            (&used, 200),
            (&oldest, 404),
            (&others[0], 404),
            (&others[1], 404),
            (&others[2], 200),
        ] {
            assert_eq!(served.post(&[(ID, name)], ping).await.status, status, "{name}");
        }
        assert!(!running.is_finished());
        // All that are idle make room in turn, the longest first, however many come.
        for _ in 0..SESSIONS_MAX {
            session(&served).await;
        }
        for (name, status) in [(&busy, 200), (&listening, 200), (&used, 404)] {
            let found = served.post(&[(ID, name)], ping).await.status;
            assert_eq!(found, status, "{name}");
        }
        assert!(!running.is_finished());
        drop(stream);
    });
}

#[test]
fn thousands_of_clients_keep_their_sessions() {
    run(async {
        let served = Served::builtin().await;
        let mut names = Vec::new();
        for _ in 0..1500 {
            names.push(session(&served).await);
        }
        let ping = r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#;
        for name in [&names[0], &names[749], &names[1499]] {
            assert_eq!(served.post(&[(ID, name)], ping).await.status, 200);
        }
    });
}

const ID: &str = "Mcp-Session-Id";
