//! A thousand connections that crawl, and one beside them that does not.

use std::time::Duration;

use tokio::net::TcpStream;
use toolbus::wire::mediocre::front::Settings;

use super::{Raw, run, run_and_let_time_fly, served};

const CROWD: usize = 1000;

#[test]
fn a_thousand_slow_clients_keep_no_other_waiting() {
    raise_limit();
    run(async {
        // However long it takes here, nobody is late.
        let long = Duration::from_secs(3600);
        let patient = Settings {
            drain_timeout: long,
            idle_timeout: long,
            call_timeout: long,
            ..Settings::default()
        };
        let server = served(patient).await;
        let mut crowd: Vec<Raw<TcpStream>> = Vec::new();
        for number in 0..CROWD {
            let mut client = Raw::to(server.at).await;
            match number % 2 {
                // Never reads what it asked for.
                0 => client.say(r#"{"method":"blob","args":{"bytes":100000000}}"#).await,
                // Never comes to the end of what it has to say.
                _ => client.say(r#"{"method":"echo","streamStart":true}{"el":"#).await,
            }
            crowd.push(client);
        }
        let mut fast = Raw::to(server.at).await;
        for number in 0..1000 {
            let call = format!(r#"{{"method":"add","args":{{"a":{number},"b":1}}}}"#);
            assert_eq!(fast.ask(&call).await, format!(r#"{{"res":{}}}"#, number + 1));
        }
        // And each of the crowd still gets its own.
        for (number, client) in crowd.iter_mut().enumerate().step_by(101) {
            let head = client.line().await;
            if number % 2 == 1 {
                assert_eq!(client.ask("7}").await, r#"{"el":7}"#);
            } else {
                assert_eq!(head, r#"{"streamStart":true,"streamLen":1}"#);
            }
        }
    });
}

/// As many as there may be at a time, and none of them says anything.
#[test]
fn silent_clients_keep_no_other_out() {
    raise_limit();
    run_and_let_time_fly(async {
        let server = served(Settings::default()).await;
        let mut first = Raw::to(server.at).await;
        assert_eq!(first.ask(ADD).await, r#"{"res":3}"#);
        let mut busy = Raw::to(server.at).await;
        busy.say(r#"{"method":"echo","streamStart":true}"#).await;
        assert_eq!(busy.line().await, r#"{"streamStart":true}"#);
        let mut crowd: Vec<Raw<TcpStream>> = Vec::new();
        for _ in 0..1022 {
            crowd.push(Raw::to(server.at).await);
        }
        for _ in 0..3 {
            let mut late = Raw::to(server.at).await;
            assert_eq!(late.ask(ADD).await, r#"{"res":3}"#);
        }
        // The oldest had to go, and who has a call under way had not.
        assert_eq!(first.rest().await, "");
        assert_eq!(busy.ask(r#"{"el":1}"#).await, r#"{"el":1}"#);
    });
}

const ADD: &str = r#"{"method":"add","args":{"a":1,"b":2}}"#;

/// Both ends of each connection are ours.
fn raise_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}
