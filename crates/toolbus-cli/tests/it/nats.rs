//! `toolbus nats`, and addresses of NATS wherever one may stand, at a server of the testkit.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use bytes::BytesMut;
use expect_test::expect;
use rustix::process::Signal;
use toolbus_proto::nats::headers::Headers;
use toolbus_proto::nats::protocol::{Message, Op, OpReader};
use toolbus_testkit::broker::{Broker, Denied};
use toolbus_testkit::patience::{PATIENCE, eventually};

use crate::http::Request;
use crate::listening::Server;
use crate::page::Page;
use crate::serve::Config;

fn serve(address: &str) -> Server {
    Server::start(&["nats", "serve", address, "builtin:"], 1)
}

/// What a command prints, if it goes well.
fn printed(words: &[&str]) -> String {
    let page = Page::of(words).process().run();
    assert!(page.status.success(), "{page}");
    page.stdout
}

#[test]
fn tools_are_called_through_a_server() {
    let broker = Broker::start();
    let address = broker.address("team");
    let node = serve(&address);
    assert_eq!(node.url(), address);
    let tools = printed(&["tools", &address]);
    assert!(tools.contains("upper") && tools.contains("sleep"), "{tools}");
    assert_eq!(printed(&["call", &address, "upper", "text=hello"]), "\"HELLO\"\n");
    assert_eq!(
        printed(&["call", "--stream", &address, "count", "n=2"]),
        concat!("{\"part\":0}\n", "{\"part\":1}\n", "{\"end\":null}\n")
    );
    // More than a window, both ways.
    let text = "x".repeat(1 << 20);
    let file = std::env::temp_dir().join(format!("toolbus-nats-{}", std::process::id()));
    std::fs::write(&file, &text).unwrap();
    let arg = format!("text=@{}", file.display());
    let answer = printed(&["call", &address, "upper", &arg]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(answer.len(), text.len() + 3);
    let failed = Page::of(&["call", &address, "fail", "message=out of luck"]).process().run();
    assert_eq!((failed.stderr.as_str(), failed.status.code()), ("error: out of luck\n", Some(1)));
    let nodes = printed(&["nats", "nodes", "--json", &address]);
    assert!(nodes.starts_with(r#"{"service":"team","id":""#), "{nodes}");
    assert!(nodes.contains(r#""toolbus":true,"#) && nodes.contains(r#""draining":false,"#));
    // The same with the names of services before those of tools.
    let all = address.strip_suffix("team").unwrap();
    assert_eq!(printed(&["call", all, "team.add", "a=1", "b=2"]), "3\n");
}

#[test]
fn any_client_can_call() {
    let broker = Broker::start();
    let address = broker.address("team");
    let _node = serve(&address);
    let mut client = Foreign::connect(&address);
    let answer = client.request("team.add", r#"{"a":19,"b":23}"#);
    assert_eq!((&answer.payload[..], answer.head), (&b"42"[..], None));
    let failed = client.request("team.fail", r#"{"message":"out of luck"}"#);
    let headers = Headers::read(&failed.head.unwrap()).unwrap();
    assert_eq!(headers.get("Nats-Service-Error"), Some("out of luck"));
    assert_eq!(headers.get("Nats-Service-Error-Code"), Some("500"));
    let failed = client.request("team.toolbus.tools", "[]");
    let headers = Headers::read(&failed.head.unwrap()).unwrap();
    assert_eq!(headers.get("Nats-Service-Error-Code"), Some("400"));
    let parts = client.request("team.count", r#"{"n":2}"#);
    assert_eq!(&parts.payload[..], br#"{"elements":[0,1]}"#);
    let info = client.request("$SRV.INFO.team", "");
    let info = String::from_utf8(info.payload.to_vec()).unwrap();
    assert!(info.contains(r#""name":"toolbus_tools","subject":"team.toolbus.tools""#), "{info}");
    let stats = client.request("$SRV.STATS.team", "");
    let stats = String::from_utf8(stats.payload.to_vec()).unwrap();
    // With microseconds.
    let (_, started) = stats.split_once(r#""started":""#).unwrap();
    let digits = |of: &str| of.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let shape: String = digits(started);
    assert_eq!(shape, "0000-00-00T00:00:00.000000Z\"}");
    // NATS itself says so of what nobody serves.
    assert!(is_nobody(&client.request("team.nope", "")));
}

#[test]
fn a_call_of_another_toolbus_has_begun_before_it_is_answered() {
    let broker = Broker::start();
    let address = broker.address("team");
    let _node = serve(&address);
    let mut client = Foreign::connect(&address);
    let mut call = |subject: &str| {
        let headers = "Toolbus: call 0\r\nToolbus-Wire: 1\r\nToolbus-Window: 1000\r\n";
        let reply = client.ask_with(headers, subject, r#"{"a":1,"b":2}"#);
        [client.answer(&reply), client.answer(&reply)].map(|message| {
            let headers = Headers::read(&message.head.unwrap()).unwrap();
            let answer = headers.get("Toolbus-Answer").unwrap_or("-");
            let payload = String::from_utf8(message.payload.to_vec()).unwrap();
            format!("{} {answer} {payload}", headers.get("Toolbus").unwrap())
        })
    };
    assert_eq!(call("team.add"), ["begun 0 - ", "end 1 value 3"]);
}

#[test]
fn the_list_says_whose_a_tool_is_and_what_keeps_state() {
    let broker = Broker::start();
    let (team, alone) = (broker.address("team"), broker.address("alone"));
    let config = Config::of(&format!(
        "[back.a]\nconnect = \"builtin:\"\npin = true\n[back.b]\nconnect = \"builtin:\"\n\
         [back.far]\nconnect = \"{alone}\"\n[front.nodes]\nserve = \"{team}\"\nprefix = \"x.y\"\n"
    ));
    let _alone = serve(&alone);
    let _node = config.serve(1);
    let mut client = Foreign::connect(&team);
    let mut list = |subject: &str| {
        let list = client.request(subject, "");
        let list: serde_json::Value = serde_json::from_slice(&list.payload).unwrap();
        let tools = list["tools"].as_array().unwrap().iter();
        let told = tools.filter(|tool| tool["name"].as_str().unwrap().ends_with("add"));
        told.map(|tool| format!("{} {} {}", tool["subject"], tool["back"], tool["pinned"]))
            .collect::<Vec<_>>()
    };
    // What comes over NATS is not passed on over it.
    let own = [r#""x.y.a.add" "a" true"#, r#""x.y.b.add" "b" null"#];
    assert_eq!(list("x.y.toolbus.tools"), own);
    assert_eq!(list("alone.toolbus.tools"), [r#""alone.add" "builtin" null"#]);
}

#[test]
fn a_caller_that_is_trusted_has_its_own_view_and_an_unknown_one_none() {
    let broker = Broker::start();
    let address = broker.address("team");
    let config = |trusts: bool| {
        Config::of(&format!(
            "[back.a]\nconnect = \"builtin:\"\n[view.sums]\nshow = [\"a.add\"]\n\
             [caller.ann]\ntoken = \"t\"\nview = \"sums\"\n\
             [front.nodes]\nserve = \"{address}\"\ntrust_callers = {trusts}\n"
        ))
    };
    let calls = [
        ("ann", "team.a.add", r#"{"a":1,"b":2}"#),
        ("ann", "team.a.upper", r#"{"text":"x"}"#),
        ("eve", "team.a.add", r#"{"a":1,"b":2}"#),
    ];
    let told = |trusts: bool| {
        let config = config(trusts);
        let _node = config.serve(1);
        let mut client = Foreign::connect(&address);
        let answers = calls.map(|(caller, subject, payload)| {
            let answer = client.request_of(caller, subject, payload);
            String::from_utf8(answer.payload.to_vec()).unwrap()
        });
        answers.join("\n") + "\n"
    };
    expect![[r#"
        3
        {"error":{"kind":"unknown_tool","message":"no such tool: a.upper"}}
        {"error":{"kind":"unavailable","message":"there is no caller `eve` here","detail":{"reason":"unknown_caller"}}}
    "#]].assert_eq(&told(true));
    // Else it is a claim, and gives no right.
    assert_eq!(told(false), "3\n\"X\"\n3\n");
}

#[test]
fn a_trusted_caller_calls_by_its_own_names_and_what_is_hidden_is_not_there() {
    let broker = Broker::start();
    let address = broker.address("team");
    let config = Config::of(&format!(
        "[back.a]\nconnect = \"builtin:\"\n[view.sums]\nshow = [\"a.add\"]\n\
         [view.sums.tool.\"a.add\"]\nrename = \"sum\"\n\
         [caller.ann]\ntoken = \"t\"\nview = \"sums\"\n\
         [front.nodes]\nserve = \"{address}\"\ntrust_callers = true\n"
    ));
    let _node = config.serve(1);
    let mut client = Foreign::connect(&address);
    let ping = client.request("$SRV.PING.team", "");
    let ping = String::from_utf8(ping.payload.to_vec()).unwrap();
    let (_, id) = ping.split_once(r#""id":""#).unwrap();
    let (id, _) = id.split_once('"').unwrap();
    let sum = format!("team.toolbus.node.{id}.a.sum");
    let answer = client.request_of("ann", &sum, r#"{"a":1,"b":2}"#);
    assert_eq!((&answer.payload[..], answer.head), (&b"3"[..], None));
    let [hidden, renamed, none] = ["a.upper", "a.add", "a.nope"].map(|tool| {
        let subject = format!("team.toolbus.node.{id}.{tool}");
        let answer = client.request_of("ann", &subject, "{}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(tool, "NAME");
        (text(&answer.head.unwrap()), text(&answer.payload))
    });
    assert!(none.0.contains("no such tool: NAME"), "{none:?}");
    assert_eq!((&hidden, &renamed), (&none, &none));
}

#[test]
fn a_connection_that_is_lost_is_made_again() {
    let broker = Broker::start();
    let address = broker.address("team");
    let _node = serve(&address);
    assert_eq!(printed(&["call", &address, "add", "a=1", "b=2"]), "3\n");
    broker.cut();
    let mut client = Foreign::connect(&address);
    // The last of its subjects.
    eventually("the node is back", || !is_nobody(&client.request("team.upper", "")));
    assert_eq!(printed(&["call", &address, "add", "a=1", "b=2"]), "3\n");
}

#[test]
fn a_server_that_is_about_to_stop_is_left() {
    let (one, other) = (Broker::start(), Broker::start());
    let hosts = [&one, &other].map(|broker| broker.address("team"));
    let [first, second] = hosts.each_ref().map(|url| url.trim_start_matches("nats://"));
    let (first, _) = first.split_once('/').unwrap();
    let _node = serve(&format!("nats://{first},{second}"));
    let mut client = Foreign::connect(&hosts[0]);
    let reply = client.ask("team.sleep", r#"{"ms":700}"#);
    // It has surely arrived once a later one is answered.
    client.request("team.add", r#"{"a":1,"b":2}"#);
    one.tell_of_its_end();
    let mut there = Foreign::connect(&hosts[1]);
    // The last of its subjects.
    eventually("the node is at the other", || !is_nobody(&there.request("team.upper", "")));
    assert_eq!(printed(&["call", &hosts[1], "add", "a=1", "b=2"]), "3\n");
    // What it had there ends there.
    assert_eq!(&client.answer(&reply).payload[..], br#"{"slept_ms":700}"#);
    assert!(is_nobody(&client.request("$SRV.PING.team", "")));
}

#[test]
fn a_front_waits_for_a_server_that_is_not_there() {
    // An address of our own, so that no other test takes the port meanwhile.
    let [low, middle, high, _] = std::process::id().to_le_bytes();
    let listener = TcpListener::bind(SocketAddr::from(([127, 64 | high, middle, low], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = Config::of(&format!(
        "[back.a]\nconnect = \"builtin:\"\n[front.team]\nserve = \"nats://{address}/team\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n"
    ));
    let server = config.serve(1);
    server.ready();
    let ask = || {
        let get = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        Request::connect(server.url()).say(get).answer()
    };
    let answer = ask();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let why = format!("\nfront.team: is not connected to NATS at {address}\n");
    assert!(answer.contains(&why), "{answer}");
    let broker = Broker::start_at(address);
    assert_eq!(server.hear(), format!("listening on nats://{address}/team"));
    eventually("it is ready", || ask().starts_with("HTTP/1.1 200 "));
    let mut client = Foreign::connect(&broker.address("team"));
    assert_eq!(&client.request("team.a.add", r#"{"a":1,"b":2}"#).payload[..], b"3");
}

#[test]
fn a_front_that_is_set_up_otherwise_is_there_before_the_old_one_has_ended() {
    let broker = Broker::start();
    let text = |prefix: &str| {
        let address = broker.address("team");
        format!(
            "[back.a]\nconnect = \"builtin:\"\n\
             [front.team]\nserve = \"{address}\"\nprefix = \"{prefix}\"\n"
        )
    };
    let config = Config::of(&text("one"));
    let server = config.serve(1);
    let mut client = Foreign::connect(&broker.address("team"));
    client.ask("one.a.sleep", r#"{"ms":600000}"#);
    client.request("one.a.add", r#"{"a":1,"b":2}"#);
    config.reload_listening(&server, &text("two"), 1);
    assert_eq!(&client.request("two.a.add", r#"{"a":1,"b":2}"#).payload[..], b"3");
}

#[test]
fn files_of_keys_lie_beside_the_config_and_are_named() {
    let config = Config::of("");
    let beside = |name: &str| config.path().replace("tools.toml", name);
    std::fs::write(beside("bad.nk"), "nonsense that is secret").unwrap();
    for (settings, why) in [
        ("nkey = \"bad.nk\"", "`bad.nk`: it holds no NKey seed"),
        ("creds = \"bad.nk\"", "`bad.nk`: it is no credentials file"),
        ("creds = \"not-there.creds\"", "cannot read `not-there.creds`: "),
        ("nkey = \"SUNONSENSE\"", "`nkey`: it holds no NKey seed"),
    ] {
        config.write(&format!("[back.x]\nconnect = \"nats://127.0.0.1:1/x\"\n{settings}\n"));
        let page = Page::of(&["tools", "--config", &config.path()]).process().run();
        assert!(page.stderr.contains(why), "{settings}: {page}");
        assert!(!page.stderr.contains("nonsense that"), "{page}");
        assert_eq!(page.status.code(), Some(2), "{settings}: {page}");
    }
    let address = "nats+tls://127.0.0.1:1/x?ca=bad.nk";
    config.write(&format!("[back.x]\nconnect = \"{address}\"\n"));
    let page = Page::of(&["tools", "--config", &config.path()]).process().run();
    assert!(page.stderr.contains(&beside("bad.nk")), "{page}");
    assert_eq!(page.status.code(), Some(2), "{page}");
}

#[test]
fn who_is_told_to_stop_ends_its_calls_first() {
    let broker = Broker::start();
    let address = broker.address("team");
    let node = serve(&address);
    let mut client = Foreign::connect(&address);
    let reply = client.ask("team.sleep", r#"{"ms":700}"#);
    // It has surely arrived once a later one is answered.
    client.request("team.add", r#"{"a":1,"b":2}"#);
    node.signal(Signal::TERM);
    let answer = client.answer(&reply);
    assert_eq!(&answer.payload[..], br#"{"slept_ms":700}"#);
    let ended = node.end();
    assert!(ended.ends_with("exit 0\n"), "{ended}");
}

#[test]
fn a_killed_node_is_not_called_again() {
    let broker = Broker::start();
    let address = broker.address("team");
    let (one, _other) = (serve(&address), serve(&address));
    let mut client = Foreign::connect(&address);
    let reply = client.ask("$SRV.PING.team", "");
    let ids = [client.answer(&reply), client.answer(&reply)].map(|said| said.payload);
    assert_ne!(ids[0], ids[1]);
    one.signal(Signal::KILL);
    one.end();
    for _ in 0..4 {
        assert_eq!(printed(&["call", &address, "add", "a=1", "b=2"]), "3\n");
    }
}

#[test]
fn what_the_server_forbids_is_told() {
    let subscribe = vec!["team.>".to_owned()];
    let broker = Broker::denying(Denied { subscribe, ..Denied::default() });
    let address = broker.address("team");
    let page = Page::of(&["nats", "serve", &address, "builtin:"]).process().run();
    let why = "error: the NATS server does not let us subscribe to \"team.";
    assert!(page.stderr.starts_with(why), "{page}");
    assert_eq!(page.status.code(), Some(1));
}

#[test]
fn who_is_not_there_is_told() {
    let broker = Broker::start();
    let address = broker.address("team");
    let page = Page::of(&["call", &address, "add"]).process().run();
    assert!(page.stderr.starts_with("error: no service `team` answers on 127.0.0.1:"), "{page}");
    assert_eq!(page.status.code(), Some(3));
    let page = Page::of(&["nats", "serve", "nats://127.0.0.1:1/team", "builtin:"]).process().run();
    assert_eq!(page.stderr, "error: no NATS server answers at 127.0.0.1:1\n");
    assert_eq!(page.status.code(), Some(3));
}

#[test]
fn addresses_that_make_no_sense_are_refused() {
    for (address, why) in [
        ("nats://127.0.0.1/toolbus", "`toolbus` is no name of a service"),
        ("nats://127.0.0.1/a/b", "`a/b` is no name of a service"),
        ("nats://127.0.0.1", "names no service"),
        ("nats://10.0.0.1/x", "will not use 10.0.0.1:4222 without TLS and credentials"),
        ("nats://u:p@127.0.0.1/x", "an address holds no credentials"),
        ("nats://127.0.0.1/x?ca=y", "`ca` is only for `nats+tls://`"),
        ("nats://127.0.0.1/x?user=y", "`user` is set without `password`"),
        ("nats://127.0.0.1/x?insecure=yes", "`insecure` is `true` or `false`, not `yes`"),
        ("nats://127.0.0.1/x?nkey=a&creds=b", "`nkey` and `creds` are both set: one is enough"),
        ("mcp+http://127.0.0.1/x", "is no address of NATS"),
    ] {
        let page = Page::of(&["nats", "serve", address, "builtin:"]).process().run();
        assert!(page.stderr.contains(why), "{address}: {page}");
        assert_eq!(page.status.code(), Some(2), "{address}");
    }
}

#[test]
fn what_a_client_wrote() {
    let capture = "CONNECT {\"user\":\"u\",\"pass\":\"p\"}\r\nPUB a.b r 2\r\n{}\r\nPING\r\nPUB a";
    Page::of(&["decode", "nats", "--as", "call"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"connect","connect":{"user":"u","pass":"***"}}
        {"event":"pub","subject":"a.b","reply":"r","payload":{}}
        {"event":"ping"}
        {"event":"error","message":"truncated"}
        exit 3
    "#]]);
}

/// Does the server say that no node is there?
fn is_nobody(message: &Message) -> bool {
    let headers = message.head.as_ref().and_then(Headers::read);
    headers.is_some_and(|headers| headers.status == Some(503))
}

/// A client that knows nothing of toolbus.
struct Foreign {
    stream: TcpStream,
    reader: OpReader,
    input: BytesMut,
    asked: usize,
}

impl Foreign {
    fn connect(address: &str) -> Foreign {
        let (host, _) = address.strip_prefix("nats://").unwrap().split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let connect = "CONNECT {\"headers\":true,\"no_responders\":true}\r\nSUB in.* 1\r\n";
        stream.write_all(connect.as_bytes()).unwrap();
        Foreign { stream, reader: OpReader::default(), input: BytesMut::new(), asked: 0 }
    }

    /// Asks; gives where the answer will come.
    fn ask(&mut self, subject: &str, payload: &str) -> String {
        self.asked += 1;
        let reply = format!("in.{}", self.asked);
        let text = format!("PUB {subject} {reply} {}\r\n{payload}\r\n", payload.len());
        self.stream.write_all(text.as_bytes()).unwrap();
        reply
    }

    fn request(&mut self, subject: &str, payload: &str) -> Message {
        let reply = self.ask(subject, payload);
        self.answer(&reply)
    }

    /// The same of a caller that it names.
    fn request_of(&mut self, caller: &str, subject: &str, payload: &str) -> Message {
        let reply = self.ask_with(&format!("Toolbus-Caller: {caller}\r\n"), subject, payload);
        self.answer(&reply)
    }

    /// Asks with these lines of headers.
    fn ask_with(&mut self, headers: &str, subject: &str, payload: &str) -> String {
        self.asked += 1;
        let reply = format!("in.{}", self.asked);
        let head = format!("NATS/1.0\r\n{headers}\r\n");
        let (len, all) = (head.len(), head.len() + payload.len());
        let text = format!("HPUB {subject} {reply} {len} {all}\r\n{head}{payload}\r\n");
        self.stream.write_all(text.as_bytes()).unwrap();
        reply
    }

    fn answer(&mut self, reply: &str) -> Message {
        loop {
            match self.reader.next(&mut self.input).unwrap() {
                Some(Op::Msg(message)) if message.subject == reply => return message,
                Some(_) => {}
                None => {
                    let mut piece = [0; 4096];
                    let count = self.stream.read(&mut piece).unwrap();
                    assert_ne!(count, 0, "the server closed");
                    self.input.extend_from_slice(&piece[..count]);
                }
            }
        }
    }
}
