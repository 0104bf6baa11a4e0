//! What the bus costs between two line wires: processor time a call of the process in the middle,
//! beside that of the server when it is called directly.
//!
//! `pairs --program TOOLBUS [--calls COUNT] [--config FILE]`. All are on one core: the
//! client, which is this program, the bus and the server, which are both TOOLBUS.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const IN_FLIGHT: [u64; 2] = [1, 16];
const ROUNDS: usize = 9;

/// A wire that is spoken in lines, as its clients do.
struct Wire {
    name: &'static str,
    /// Before the command of a server.
    scheme: &'static str,
    /// What makes a server of the tools of an address.
    front: &'static [&'static str],
    /// Is the server the first to speak?
    is_greeted: bool,
    /// What a client says first, and how many lines it is answered with.
    opening: &'static [&'static str],
    answers: usize,
    /// A call, around its id.
    call: (&'static str, &'static str),
}

const WIRES: [Wire; 4] = [
    Wire {
        name: "mcp",
        scheme: "mcp+stdio:",
        front: &["mcp"],
        is_greeted: false,
        opening: &[
            r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pairs","version":"0"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        ],
        answers: 1,
        call: (
            r#"{"jsonrpc":"2.0","id":"#,
            r#","method":"tools/call","params":{"name":"upper","arguments":{"text":"hello"}}}"#,
        ),
    },
    Wire {
        name: "oracle",
        scheme: "stdio:",
        front: &["oracle", "serve"],
        is_greeted: true,
        opening: &[r#"{"jsonrpc":"2.0","id":0,"result":{}}"#],
        answers: 0,
        call: (
            r#"{"jsonrpc":"2.0","id":"#,
            r#","method":"invoke","params":{"selector":"upper","calldata":["0x0","0x68656c6c6f","0x5"]}}"#,
        ),
    },
    Wire {
        name: "orchard",
        scheme: "orchard+stdio:",
        front: &["provider"],
        is_greeted: false,
        opening: &[
            r#"{"id":1,"method":"describe","params":{}}"#,
            r#"{"id":2,"method":"configure","params":{"config":{}}}"#,
        ],
        answers: 2,
        call: (
            r#"{"id":"#,
            r#","method":"execute","params":{"action":"upper","attrs":{"text":"hello"}}}"#,
        ),
    },
    Wire {
        name: "mediocre",
        scheme: "mediocre+stdio:",
        front: &["rpc", "serve", "--listen", "stdio:"],
        is_greeted: false,
        opening: &[],
        answers: 0,
        // Answers come in order and have no ids; what a method is given may hold anything.
        call: (r#"{"method":"upper","debug":{"n":"#, r#"},"args":{"text":"hello"}}"#),
    },
];

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut program, mut calls, mut config) = (None, 20_000, None);
    while let Some(word) = args.next() {
        match word.as_str() {
            "--program" => program = args.next(),
            "--calls" => calls = args.next().and_then(|it| it.parse().ok()).expect("a number"),
            "--config" => config = args.next(),
            _ => panic!("usage: pairs --program TOOLBUS [--calls COUNT] [--config FILE]"),
        }
    }
    let program = program.expect("--program TOOLBUS");
    pin();
    println!("| front | back | in flight | bus, µs a call | server through it | server alone |");
    println!("|---|---|---|---|---|---|");
    for front in &WIRES {
        for back in &WIRES {
            let server: Vec<_> = back.front.iter().copied().chain(["builtin:"]).collect();
            let address = format!("{}{program} {}", back.scheme, server.join(" "));
            let words: Vec<_> = front.front.iter().copied().chain([address.as_str()]).collect();
            for in_flight in IN_FLIGHT {
                let mut through = Client::start(&program, &words, config.as_deref(), front);
                let mut alone = Client::start(&program, &server, None, back);
                let mut rounds = Vec::new();
                for _ in 0..ROUNDS {
                    let through = through.calls(calls / ROUNDS as u64, in_flight);
                    let alone = alone.calls(calls / ROUNDS as u64, in_flight);
                    rounds.push([through.own, through.children, alone.own]);
                }
                let [bus, server, alone] = [0, 1, 2].map(|at| spread(&rounds, at));
                println!(
                    "| {} | {} | {in_flight} | {bus} | {server} | {alone} |",
                    front.name, back.name
                );
            }
        }
    }
}

/// The middle one, with the least and the most.
fn spread(rounds: &[[f64; 3]], at: usize) -> String {
    let mut all: Vec<_> = rounds.iter().map(|round| round[at]).collect();
    all.sort_by(f64::total_cmp);
    format!("{:.1} ({:.1} to {:.1})", all[all.len() / 2], all[0], all[all.len() - 1])
}

/// Processor time a call, in µs.
struct Cost {
    /// Of the process that we talk to.
    own: f64,
    /// Of all that it started.
    children: f64,
}

struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    wire: &'static Wire,
    next: u64,
}

impl Client {
    fn start(program: &str, words: &[&str], config: Option<&str>, wire: &'static Wire) -> Client {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(config) = config {
            command.env("TOOLBUS_CONFIG", config);
        }
        let mut child = command.spawn().expect("the program can be run");
        let to = child.stdin.take().expect("is piped");
        let from = BufReader::new(child.stdout.take().expect("is piped"));
        let mut client = Client { child, to, from, wire, next: 10 };
        if wire.is_greeted {
            client.hear();
            // Its calls are counted from 0.
            client.next = 0;
        }
        let opening: String = wire.opening.iter().map(|line| format!("{line}\n")).collect();
        client.say(opening.as_bytes());
        (0..wire.answers).for_each(|_| client.hear());
        // The server is started and known before anything is measured.
        client.calls(100, 1);
        client
    }

    fn calls(&mut self, count: u64, in_flight: u64) -> Cost {
        let (own, children) = self.cpu();
        let (mut asked, mut answered) = (0, 0);
        let mut requests = Vec::new();
        while answered < count {
            requests.clear();
            while asked < count && asked - answered < in_flight {
                let (before, behind) = self.wire.call;
                writeln!(requests, "{before}{}{behind}", self.next).expect("memory takes all");
                self.next += 1;
                asked += 1;
            }
            self.say(&requests);
            self.hear();
            answered += 1;
            // What came with it needs no other look at the pipe.
            while self.from.buffer().contains(&b'\n') && answered < count {
                self.hear();
                answered += 1;
            }
        }
        let (own_after, children_after) = self.cpu();
        let a_call = |nanos: u64| nanos as f64 / count as f64 / 1000.0;
        Cost { own: a_call(own_after - own), children: a_call(children_after - children) }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.to.write_all(bytes).expect("it reads");
    }

    fn hear(&mut self) {
        let mut line = String::new();
        let count = self.from.read_line(&mut line).expect("it writes text");
        let is_bad = line.contains(r#""error""#) || line.contains(r#""err""#);
        assert!(0 < count && !is_bad, "{}: {line}", self.wire.name);
    }

    /// Of the process itself, and of its children.
    fn cpu(&self) -> (u64, u64) {
        let own = of_process(self.child.id());
        (own, of_tree(self.child.id()) - own)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn of_process(process: u32) -> u64 {
    threads(process)
        .map(|thread| {
            let stat = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
            stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
        })
        .sum()
}

fn of_tree(process: u32) -> u64 {
    let children: u64 = threads(process)
        .map(|thread| {
            let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
            children.split_whitespace().filter_map(|child| child.parse().ok()).map(of_tree).sum::<u64>()
        })
        .sum();
    of_process(process) + children
}

fn threads(process: u32) -> impl Iterator<Item = std::path::PathBuf> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    threads.into_iter().flatten().flatten().map(|thread| thread.path())
}

/// All of them on one core: what is measured is the work of all, and not where the scheduler
/// happened to wake whom.
fn pin() {
    let mut core = rustix::thread::CpuSet::new();
    core.set(0);
    rustix::thread::sched_setaffinity(None, &core).expect("there is a first core");
}
