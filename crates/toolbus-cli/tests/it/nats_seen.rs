//! What is seen of calls over NATS: the journals of both ends, and the numbers.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use toolbus_testkit::broker::Broker;
use toolbus_testkit::patience::{PATIENCE, eventually};
use toolbus_testkit::scratch::Scratch;

use crate::http::Request;
use crate::listening::Server;
use crate::page::Page;

/// Sends a request with these headers as a plain client, and waits for its answer.
fn request(url: &str, subject: &str, headers: &str, payload: &str) -> String {
    let host = url.strip_prefix("nats://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("NATS/1.0\r\n{headers}\r\n");
    let text = format!(
        "CONNECT {{\"headers\":true,\"no_responders\":true}}\r\nSUB in 1\r\nHPUB {subject} in {} {}\r\n{head}{payload}\r\n",
        head.len(),
        head.len() + payload.len(),
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.find(|line| line.contains("MSG in 1 "));
    lines.next().unwrap()
}

#[test]
fn both_ends_write_down_a_call_and_count_it() {
    let (broker, scratch) = (Broker::start(), Scratch::new());
    let address = broker.address("team");
    let config = |name: &str, text: &str| {
        let file = scratch.file(name);
        let journal = scratch.file(&format!("{name}.jsonl"));
        fs::write(&file, format!("{text}[journal]\npath = \"{journal}\"\n")).unwrap();
        (file, journal)
    };
    let node = format!(
        "[back.try]\nconnect = \"builtin:\"\n[front.team]\nserve = \"{address}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    let (node, of_node) = config("node.toml", &node);
    let served = Server::start(&["serve", "--config", &node], 2);
    let caller = format!(
        "[back.far]\nconnect = \"{address}\"\n[front.web]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    let (caller, of_caller) = config("caller.toml", &caller);
    let page =
        Page::of(&["--config", &caller, "call", "far.try.add", "a=1", "b=2"]).process().run();
    assert_eq!(page.stdout, "3\n", "{page}");
    let answer = request(&address, "team.try.add", "Toolbus-Caller: ann\r\n", r#"{"a":1,"b":2}"#);
    assert_eq!(answer, "3");
    let nodes = Page::of(&["nats", "nodes", "--json", &address]).process().run();
    let id = nodes.stdout.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let journal = |file: &str| {
        let text = fs::read_to_string(file).unwrap();
        let line = |line: &str| {
            let (_, rest) = line.split_once("\"front\":").unwrap();
            let (said, _) = rest.split_once(",\"duration\"").unwrap();
            format!("{}\n", said.replace(&id, "ID"))
        };
        text.lines().map(line).collect::<String>()
    };
    assert_eq!(
        journal(&of_caller),
        "\"call\",\"back\":\"far\",\"node\":\"ID\",\"tool\":\"try.add\",\"outcome\":\"ok\"\n"
    );
    assert_eq!(
        journal(&of_node),
        concat!(
            "\"team\",\"back\":\"try\",\"tool\":\"add\",\"outcome\":\"ok\"\n",
            "\"team\",\"claimed_caller\":\"ann\",\"back\":\"try\",\"tool\":\"add\",\"outcome\":\"ok\"\n",
        )
    );
    // The numbers of both.
    let numbers = |server: &Server| {
        let url = server.urls.iter().find(|url| url.starts_with("http://")).unwrap();
        let get = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let page = Request::connect(url).say(get).answer();
        let own = page.lines().filter(|line| line.starts_with("toolbus_nats_"));
        own.map(|line| format!("{line}\n")).collect::<String>()
    };
    served.ready();
    assert_eq!(
        numbers(&served),
        concat!(
            "toolbus_nats_connected{front=\"team\"} 1\n",
            "toolbus_nats_reconnects_total 0\n",
            "toolbus_nats_windows_bytes{front=\"team\"} 0\n",
        )
    );
    let calling = Server::start(&["serve", "--config", &caller], 2);
    calling.ready();
    assert_eq!(
        numbers(&calling),
        concat!(
            "toolbus_nats_connected{back=\"far\"} 1\n",
            "toolbus_nats_nodes{back=\"far\"} 1\n",
            "toolbus_nats_reconnects_total 0\n",
            "toolbus_nats_windows_bytes{back=\"far\"} 0\n",
        )
    );
    // That a node is gone is found out without a call.
    served.signal(Signal::KILL);
    eventually("it is gone", || numbers(&calling).contains("toolbus_nats_nodes{back=\"far\"} 0\n"));
}
