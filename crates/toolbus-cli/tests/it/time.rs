//! Every wait ends in its time: whatever trickles, hangs or is slow to start.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::side_by_side::side_by_side;

use crate::listening::Server;
use crate::live::{Live, marked};
use crate::mcp::{
    CHANGED, DISCOVERED, INITIALIZE, META, discover, legacy_call, modern_call, request,
};
use crate::page::{Page, mcp_server, our_command};

const TOOLS: &str = r#"{"tools":[{"name":"f","inputSchema":{"type":"object"}}]}"#;
const FINE: &str = r#"{"content":[{"type":"text","text":"fine"}]}"#;

/// The exit code of a call within half a second, and what it said.
fn called(address: &str, flag: &str) -> (Option<i32>, String) {
    let page = Page::of(&["call", "--no-check", "-q", flag, "0.5", address, "t"]).run();
    (page.status.code(), page.stderr)
}

/// A process that says this for ever.
fn saying(what: &str) -> String {
    format!("stdio:sh -c 'while :; do {what}; sleep 0.01; done'")
}

#[test]
fn no_process_puts_off_a_deadline_by_what_it_says() {
    let stray = saying(r#"echo "{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}""#);
    let ping = saying(r#"echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}""#);
    let blanks = saying("echo");
    let floods = [
        "mcp+stdio:yes x".to_owned(),
        format!("mcp+{stray}"),
        format!("mcp+{ping}"),
        format!("mcp+{blanks}"),
        "mcp+stdio:sh -c 'yes >&2'".to_owned(),
        "stdio:sh -c 'yes >&2'".to_owned(),
        format!("mediocre+{blanks}"),
        "mediocre+stdio:sh -c 'yes >&2'".to_owned(),
        "mediocre+stdio:sh -c 'yes \"\"'".to_owned(),
    ];
    side_by_side(floods, |address| {
        let (code, told) = called(&address, "--timeout");
        assert_eq!(code, Some(4), "{address}: {told}");
    });
}

#[test]
fn a_process_that_complains_and_is_never_ready_timed_out() {
    let complaining = ["mcp+stdio:sh -c 'yes >&2'", "stdio:sh -c 'yes >&2'", "mcp+stdio:yes x"];
    side_by_side(complaining, |address| {
        let (code, told) = called(address, "--start-timeout");
        assert_eq!(code, Some(4), "{address}: {told}");
        assert!(told.contains("was not ready within 500ms"), "{told}");
    });
}

#[test]
fn a_check_of_a_process_that_never_stops_talking_ends() {
    let talking = [("mcp", "mcp+stdio:yes x"), ("oracle", "stdio:sh -c 'yes >&2'")];
    side_by_side(talking, |(wire, target)| {
        let page = Page::of(&["check", wire, "--start-timeout", "0.5", target]).run();
        assert_ne!(page.status.code(), Some(0), "{page}");
    });
}

#[test]
fn an_oracle_that_is_never_ready_is_given_up_by_the_time_of_its_call() {
    let words = ["oracle", "invoke", "-q", "--timeout", "0.5", "stdio:sleep 1000", "f"];
    let page = Page::of(&words).run();
    assert_eq!(page.status.code(), Some(4), "{}", page.stderr);
}

#[test]
fn no_server_puts_off_a_deadline_by_what_drips() {
    let head = |kind: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
    let drips = [
        ("", "HTTP/1.1 100 Continue\r\n\r\n".to_owned(), "mcp+http mediocre+http"),
        ("HTTP/1.1 200 OK\r\nX: ", "y".to_owned(), "mcp+http mediocre+http"),
        (&*head("application/json"), " \n".to_owned(), "mcp+http mediocre+http"),
        (&*head("application/x-mediocre-rpc"), " \n".to_owned(), "mediocre+http"),
        (&*head("text/event-stream"), ": still here\n\n".to_owned(), "mcp+http"),
        (
            &*head("text/event-stream"),
            "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n".to_owned(),
            "mcp+http",
        ),
    ];
    side_by_side(drips, |(begins, drop, schemes)| {
        let host = dripping(begins.to_owned(), drop.clone());
        for scheme in schemes.split(' ') {
            let (code, told) = called(&format!("{scheme}://{host}/x"), "--timeout");
            assert_eq!(code, Some(4), "{scheme} {begins} {drop}: {told}");
        }
    });
}

/// A server that answers every request by this, and then goes on like that.
fn dripping(begins: String, drop: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (begins, drop) = (begins.clone(), drop.clone());
            thread::spawn(move || drip(client, &begins, &drop));
        }
    });
    host
}

fn drip(mut client: TcpStream, begins: &str, drop: &str) {
    let mut some = [0; 16];
    let _ = client.read(&mut some);
    let mut written = client.write_all(begins.as_bytes());
    while written.is_ok() {
        // How fast it drips, and nothing else.
        thread::park_timeout(std::time::Duration::from_millis(50));
        written = client.write_all(drop.as_bytes());
    }
}

/// A server that is ready only once it is told to be.
struct Slow {
    scratch: Scratch,
    address: String,
}

impl Slow {
    fn new() -> Slow {
        let scratch = Scratch::new();
        let (fifo, script) = (scratch.file("fifo"), scratch.file("slow.sh"));
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &*fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let serves = our_command(&["mcp", "builtin:"]);
        fs::write(&script, format!("read go < {fifo}\nexec {serves}\n")).unwrap();
        Slow { address: format!("mcp+stdio:sh {script}"), scratch }
    }

    fn be_ready(&self) {
        let mut fifo = OpenOptions::new().write(true).open(self.scratch.file("fifo")).unwrap();
        fifo.write_all(b"go\n").unwrap();
    }
}

#[test]
fn a_back_that_is_slow_to_start_delays_only_its_own_tools() {
    let slow = Slow::new();
    let mut live = Live::start(&["mcp", "--list-timeout", "100ms", &slow.address, "builtin:"]);
    assert!(live.ask(INITIALIZE).contains("result"));
    let listed = live.ask(&request(1, "tools/list", "{}"));
    assert!(listed.contains("builtin_add") && !listed.contains("slow_add"), "{listed}");
    // A call waits for its own back, and not the client for the call.
    live.say(&legacy_call(2, "slow_add", r#"{"a":2,"b":2}"#));
    assert!(live.ask(&legacy_call(3, "builtin_add", r#"{"a":1,"b":2}"#)).contains(r#""id":3"#));
    slow.be_ready();
    let mut heard = [live.hear(), live.hear()];
    heard.sort();
    assert!(heard[0].contains(r#""id":2"#) && heard[0].contains(r#""text":"4""#), "{heard:?}");
    assert_eq!(heard[1], CHANGED);
    assert!(live.ask(&request(4, "tools/list", "{}")).contains("slow_add"));
    drop(slow);
}

#[test]
fn serve_listens_though_a_back_is_slow_to_start() {
    let slow = Slow::new();
    let config = slow.scratch.file("tools.toml");
    let backs = format!(
        "[back.slow]\nconnect = \"{}\"\n[back.try]\nconnect = \"builtin:\"\n",
        slow.address
    );
    let front = "[front.a]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n";
    let fronts = format!("{front}list_timeout = \"100ms\"\n");
    fs::write(&config, backs + &fronts).unwrap();
    let server = Server::start(&["serve", "--config", &config], 1);
    let address = format!("mcp+{}", server.url());
    let page = Page::of(&["call", "--text", &address, "try_add", "a=1", "b=2"]).run();
    assert_eq!(page.to_string(), "stdout\n3\nexit 0\n");
    drop(slow);
}

/// A server that leaves its mark and answers every call.
fn marking(mark: &str) -> String {
    let answers = ["forever", "{", "read", "answer", FINE, "}"];
    mcp_server(&[&["mark", mark, "read", "answer", DISCOVERED], &answers[..]].concat())
}

#[test]
fn a_process_that_was_stopped_is_replaced_after_two_calls() {
    let scratch = Scratch::new();
    let mark = scratch.file("mark");
    let mut live = Live::start(&["mcp", "--timeout", "2", &marking(&mark)]);
    assert!(live.ask(&discover(0)).contains("result"));
    assert!(live.ask(&modern_call(1, "f", "{}")).contains("fine"));
    let first = marked(&mark, 1)[0];
    let pid = i32::try_from(first.living()[0]).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    for id in [2, 3] {
        let late = live.ask(&modern_call(id, "f", "{}"));
        assert!(late.contains(r#""kind":"timed_out""#), "{late}");
    }
    let fine = live.ask(&modern_call(4, "f", "{}"));
    assert!(fine.contains("fine"), "{fine}");
    first.assert_gone();
    assert_eq!(marked(&mark, 2).len(), 2);
    live.hang_up();
    let said = live.end();
    assert!(said.contains("warning: faulty-tool: hangs: "), "{said}");
}

#[test]
fn a_server_that_hangs_is_connected_to_anew_after_two_calls() {
    let host = hanging();
    let mut live = Live::start(&["mcp", "--timeout", "2", &format!("mcp+http://{host}/mcp")]);
    assert!(live.ask(&discover(0)).contains("result"));
    for id in [1, 2] {
        let late = live.ask(&modern_call(id, "f", "{}"));
        assert!(late.contains(r#""kind":"timed_out""#), "{late}");
    }
    let fine = live.ask(&modern_call(3, "f", "{}"));
    assert!(fine.contains("fine"), "{fine}");
}

/// A server that answers no call before it was asked a second time who it is.
fn hanging() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let greeted = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let greeted = greeted.clone();
            thread::spawn(move || hang(client, &greeted));
        }
    });
    host
}

fn hang(mut client: TcpStream, greeted: &std::sync::atomic::AtomicUsize) {
    use std::sync::atomic::Ordering::SeqCst;
    let mut reader = BufReader::new(client.try_clone().unwrap());
    loop {
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).is_ok_and(|count| 2 < count) {
            if let Some(found) = line.to_lowercase().strip_prefix("content-length:") {
                length = found.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if length == 0 || reader.read_exact(&mut body).is_err() {
            return;
        }
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let result = match body["method"].as_str() {
            Some("server/discover") => {
                greeted.fetch_add(1, SeqCst);
                DISCOVERED
            }
            _ if greeted.load(SeqCst) < 2 => continue,
            _ => FINE,
        };
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, body["id"]);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
        let _ = write!(client, "{head}: {}\r\n\r\n{answer}", answer.len());
    }
}

#[test]
fn the_tools_of_a_back_that_is_down_are_unavailable_and_not_unknown() {
    let scratch = Scratch::new();
    let lives = scratch.file("lives");
    let steps = ["read", "answer", DISCOVERED, "read", "answer", TOOLS, "read", "exit", "7", "}"];
    let server = mcp_server(&[&["once", &lives, "{"], &steps[..], &["exit", "9"]].concat());
    let mut live = Live::start(&["mcp", "-q", &server, "builtin:"]);
    let listed = request(1, "tools/list", &format!("{{{META}}}"));
    assert!(live.ask(&listed).contains("faulty-tool_f"));
    assert!(live.ask(&modern_call(2, "faulty-tool_f", "{}")).contains(r#""kind":"gone""#));
    assert!(!live.ask(&listed).contains("faulty-tool_f"));
    let down = live.ask(&modern_call(3, "faulty-tool_f", "{}"));
    assert!(down.contains(r#""kind":"unavailable""#) && down.contains("`faulty-tool`"), "{down}");
    assert!(live.ask(&modern_call(4, "nobody_f", "{}")).contains("unknown tool: nobody_f"));

    // One that was never there is down, too.
    let mut live = Live::start(&["mcp", "-q", &mcp_server(&["exit", "9"]), "builtin:"]);
    let down = live.ask(&modern_call(3, "faulty-tool_f", "{}"));
    assert!(down.contains(r#""kind":"unavailable""#) && down.contains("`faulty-tool`"), "{down}");
}
