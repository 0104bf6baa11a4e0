//! `toolbus exec --json` from end to end, over loopback: how fast a stream comes out beside the
//! Python package `openai` over the same bytes, how soon a token comes out behind its arrival, and
//! how much memory a long stream takes.
//!
//! cargo build --profile dist -p toolbus-cli
//! bash interop/run godex    # installs the package
//! cargo run --release --manifest-path benches/godex/Cargo.toml --bin exec

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const EVENTS: usize = 100_000;
const LONG_EVENTS: usize = 2_000_000;
const TOKENS: usize = 1000;
const ROUNDS: usize = 3;
const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
const COMPLETED: &str = "data: {\"type\":\"response.completed\",\"sequence_number\":1,\"response\":{\"id\":\"r\",\"object\":\"response\",\"created_at\":0,\"status\":\"completed\",\"model\":\"m\",\"output\":[],\"parallel_tool_calls\":true,\"tool_choice\":\"auto\",\"tools\":[]}}\n\n";

/// Reads the stream and says each text, which is the least that can be done with it.
const SDK: &str = "
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key='k', max_retries=0)
out = sys.stdout
for event in client.responses.create(model='m', input='hi', stream=True):
    if event.type == 'response.output_text.delta':
        out.write(event.delta)
";

fn event(number: usize) -> String {
    format!(
        "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"item_id\":\"msg_68a1c0de0a5c81958c0f\",\"output_index\":0,\"content_index\":0,\"delta\":\" token{}\",\"logprobs\":[],\"obfuscation\":\"x9Qm\",\"sequence_number\":{number}}}\n\n",
        number % 100
    )
}

/// A server whose one answer is what `say` writes.
fn serve(say: impl FnOnce(&mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client comes");
        stream.set_nodelay(true).expect("it is a socket");
        let mut reader = BufReader::new(stream.try_clone().expect("it can be shared"));
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).is_ok() && line != "\r\n" {
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length is a number");
            }
            line.clear();
        }
        reader.read_exact(&mut vec![0; length]).expect("the body follows");
        stream.write_all(HEAD.as_bytes()).expect("the client reads");
        say(&mut stream);
    });
    url
}

/// Many events, made as they are written, so that the server takes no memory either.
fn say_many(count: usize) -> impl FnOnce(&mut TcpStream) + Send + 'static {
    let hundred: String = (0..100).map(event).collect();
    move |stream| {
        for _ in 0..count / 100 {
            stream.write_all(hundred.as_bytes()).expect("the client reads");
        }
        stream.write_all(COMPLETED.as_bytes()).expect("the client reads");
    }
}

fn toolbus(url: &str) -> Command {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/dist/toolbus");
    let path = std::env::var("TOOLBUS").unwrap_or_else(|_| default.to_owned());
    let mut command = Command::new(path);
    command.args(["exec", "hi", "--json", "--base-url", url]);
    command
}

fn sdk(url: &str) -> Command {
    let default =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../interop/.installed/godex/venv/bin/python");
    let path = std::env::var("PYTHON").unwrap_or_else(|_| default.to_owned());
    let mut command = Command::new(path);
    command.args(["-c", SDK, url]);
    command
}

fn start(mut command: Command) -> Child {
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    command.env_remove("OPENAI_API_KEY").stdout(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
}

/// How long a whole run takes, its output read and thrown away.
fn time(of: fn(&str) -> Command, events: usize) -> Duration {
    let url = serve(say_many(events));
    let began = Instant::now();
    let mut child = start(of(&url));
    std::io::copy(&mut child.stdout.take().expect("is piped"), &mut std::io::sink())
        .expect("it writes");
    assert!(child.wait().expect("it ends").success());
    began.elapsed()
}

fn speed() {
    let mut best = [[Duration::MAX; 2]; 2];
    // One after the other in each round, so that both meet the same machine.
    for _ in 0..ROUNDS {
        for (best, of) in best.iter_mut().zip([toolbus as fn(&str) -> Command, sdk]) {
            best[0] = time(of, 0).min(best[0]);
            best[1] = time(of, EVENTS).min(best[1]);
        }
    }
    println!("{EVENTS} events from loopback, the best of {ROUNDS} rounds");
    let net = best.map(|[start, whole]| whole.saturating_sub(start));
    for (name, ([start, whole], net)) in ["toolbus", "openai"].iter().zip(best.iter().zip(net)) {
        let each = net.as_secs_f64() * 1e6 / EVENTS as f64;
        println!(
            "{name:10} {whole:>10.1?} in all, {start:.1?} of it to start; {each:.2} µs an event"
        );
    }
    let times = |a: Duration, b: Duration| b.as_secs_f64() / a.as_secs_f64();
    println!(
        "{:.0} times as fast in all, {:.0} times without the start",
        times(best[0][1], best[1][1]),
        times(net[0], net[1])
    );
}

/// Each token is sent when the one before has come out.
fn latency() {
    let (go, may_go) = mpsc::channel::<()>();
    let (sent, when) = mpsc::channel::<Instant>();
    let url = serve(move |stream| {
        for number in 0..TOKENS {
            may_go.recv().expect("the bench goes on");
            // The reader is surely asleep.
            thread::park_timeout(Duration::from_millis(2));
            sent.send(Instant::now()).expect("the bench goes on");
            stream.write_all(event(number).as_bytes()).expect("the client reads");
        }
        stream.write_all(COMPLETED.as_bytes()).expect("the client reads");
    });
    let mut child = start(toolbus(&url));
    let mut lines = BufReader::new(child.stdout.take().expect("is piped"));
    let mut took = Vec::new();
    for _ in 0..TOKENS {
        go.send(()).expect("the server lives");
        lines.read_line(&mut String::new()).expect("it writes");
        took.push(when.recv().expect("it was sent").elapsed());
    }
    drop(go);
    std::io::copy(&mut lines, &mut std::io::sink()).expect("it writes");
    child.wait().expect("it ends");
    let first = took[0];
    took.sort_unstable();
    let at = |part: usize| took[(TOKENS - 1) * part / 100];
    println!(
        "a token is out after {:.0?} (median of {TOKENS}), {:.0?} (99 of 100); the first of a run \
         after {first:.0?}",
        at(50),
        at(99)
    );
}

/// The memory of a process in KiB: what it has now, and the most it had.
fn memory(child: &Child) -> Option<[u64; 2]> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some([value("VmRSS:")?, value("VmHWM:")?])
}

fn flat() {
    let url = serve(say_many(LONG_EVENTS));
    let mut child = start(toolbus(&url));
    let mut lines = BufReader::new(child.stdout.take().expect("is piped"));
    let (mut line, mut seen) = (Vec::new(), Vec::new());
    for number in 1..=LONG_EVENTS {
        line.clear();
        lines.read_until(b'\n', &mut line).expect("it writes");
        if number % (LONG_EVENTS / 4) == 0 || number == LONG_EVENTS / 100 {
            seen.extend(memory(&child).map(|now| (number, now)));
        }
    }
    std::io::copy(&mut lines, &mut std::io::sink()).expect("it writes");
    assert!(child.wait().expect("it ends").success());
    for (number, [now, most]) in seen {
        println!("{number:>8} events: {now} KiB, at most {most} KiB");
    }
}

fn main() {
    speed();
    latency();
    flat();
}
