//! MCP on standard streams, a hub and a plugin, each a process: `toolbus transport-stdio`,
//! `toolbus orchestrator` and `toolbus plugin`; against processes that pass the same frames on by
//! quinn alone, and such that do so by tonic. Chains take turns.
//!
//! `chain KIND PART CERTS [ADDRESS]` is one of those processes.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use toolbus_bench_orchestra::bare::{Bare, FRAME};
use toolbus_bench_orchestra::front::front;
use toolbus_bench_orchestra::{bare, grpc, median, run};
use toolbus_testkit::scratch::Scratch;

const ROUNDS: usize = 15;
const TURN: Duration = Duration::from_millis(300);

fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        [kind, part, certs] => be(kind, part, certs, None),
        [kind, part, certs, next] => be(kind, part, certs, Some(next.parse().expect("an address"))),
        _ => panic!("usage: chain"),
    }
}

fn compare() {
    let scratch = Scratch::new();
    // First, because it makes the certificates.
    let ours = Chain::ours(&scratch);
    let certs = scratch.file("certs");
    let mut chains = [ours, Chain::foreign("bare", &certs), Chain::foreign("grpc", &certs)];
    println!(
        "{:>9}  {:>9}  {:>11}  {:>9}  of quinn alone (least to most)  of tonic (least to most)",
        "in flight", "ours", "quinn alone", "tonic"
    );
    for in_flight in [1, 64] {
        let mut rates = [const { Vec::new() }; 3];
        // The first round only warms up.
        for round in 0..=ROUNDS {
            for (chain, rates) in chains.iter_mut().zip(&mut rates) {
                let rate = chain.run(in_flight);
                if 0 < round {
                    rates.push(rate);
                }
            }
        }
        let [bare, tonic] = [1, 2].map(|other| {
            let pairs = rates[0].iter().zip(&rates[other]);
            let mut ratios: Vec<f64> = pairs.map(|(ours, other)| ours / other).collect();
            ratios.sort_by(f64::total_cmp);
            let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
            format!("{:.2} ({least:.2} to {most:.2})", median(ratios))
        });
        let [ours, limit, other] = rates.map(median);
        println!(
            "{in_flight:>9}  {ours:>7.0}/s  {limit:>9.0}/s  {other:>7.0}/s  {bare:>30}  {tonic:>24}"
        );
    }
}

/// The processes of one contender, the first of them in front.
struct Chain {
    stdin: ChildStdin,
    stdout: ChildStdout,
    id: u64,
    // In the order of a call, so that each loses its caller first.
    _processes: Vec<Process>,
}

/// Killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Chain {
    fn ours(scratch: &Scratch) -> Chain {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/dist/toolbus");
        let toolbus = std::env::var_os("TOOLBUS").map_or(built, PathBuf::from);
        assert!(toolbus.exists(), "run `cargo build --profile dist -p toolbus-cli` first");
        let (file, certs) = (scratch.file("plugins.yaml"), scratch.file("certs"));
        let plugin = format!(
            "{{id: tools.one, binary: {}, args: [plugin, --id, tools.one, 'builtin:'], enabled: true}}",
            toolbus.display()
        );
        let text =
            format!("listen_addr: 127.0.0.1:0\ncerts_dir: {certs}\nplugins:\n  - {plugin}\n");
        std::fs::write(&file, text).expect("can be written");
        let mut hub = Command::new(&toolbus);
        hub.args(["orchestrator", "--config", &file]).stderr(Stdio::piped());
        let mut hub = Process(hub.spawn().expect("it starts"));
        let mut lines = BufReader::new(hub.0.stderr.take().expect("is piped")).lines();
        let mut hear = |begin: &str| {
            let said = lines.find_map(|line| Some(line.ok()?.strip_prefix(begin)?.to_owned()));
            said.unwrap_or_else(|| panic!("the hub did not say `{begin}`"))
        };
        let address = hear("orchestrator listening on ");
        assert!(hear("orchestrator ready: ").starts_with("1 of 1"), "the plugin is up");
        // Read on, or the hub has nowhere to write to.
        std::thread::spawn(move || lines.for_each(drop));
        let mut front = Command::new(&toolbus);
        front.args(["transport-stdio", "--orchestrator-addr", &address, "--certs-dir", &certs]);
        Chain::with(front, vec![hub])
    }

    fn foreign(kind: &str, certs: &str) -> Chain {
        let start = |part: &str, next: Option<&str>| {
            let mut command = Command::new(std::env::current_exe().expect("it is known"));
            command.args([kind, part, certs]).args(next);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        };
        let serve = |part, next| {
            let mut process = Process(start(part, next).spawn().expect("it starts"));
            let mut address = String::new();
            let stdout = process.0.stdout.as_mut().expect("is piped");
            BufReader::new(stdout).read_line(&mut address).expect("is text");
            (process, address.trim_end().to_owned())
        };
        let (plugin, at) = serve("plugin", None);
        let (hub, at) = serve("hub", Some(&at));
        Chain::with(start("front", Some(&at)), vec![hub, plugin])
    }

    fn with(mut front: Command, behind: Vec<Process>) -> Chain {
        front.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut front = Process(front.spawn().expect("it starts"));
        let stdin = front.0.stdin.take().expect("is piped");
        let stdout = front.0.stdout.take().expect("is piped");
        let processes = std::iter::once(front).chain(behind).collect();
        let mut chain = Chain { stdin, stdout, id: 100_000_000, _processes: processes };
        chain.ask(1);
        let mut answer = String::new();
        BufReader::new(&mut chain.stdout).read_line(&mut answer).expect("is text");
        assert!(answer.contains("hello") && answer.contains("result"), "{answer}");
        chain
    }

    fn ask(&mut self, calls: usize) {
        let mut lines = String::new();
        for _ in 0..calls {
            let (id, params) = (self.id, r#"{"name":"echo","arguments":{"text":"hello"}}"#);
            self.id += 1;
            let line = format_args!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#
            );
            writeln!(lines, "{line}").expect("there is memory");
        }
        self.stdin.write_all(lines.as_bytes()).expect("it reads");
    }

    /// Asks again as soon as it is answered; calls a second.
    fn run(&mut self, in_flight: usize) -> f64 {
        let begun = Instant::now();
        let (mut asked, mut answered) = (in_flight, 0);
        self.ask(in_flight);
        let mut read = vec![0; 1 << 16];
        while answered < asked {
            let length = self.stdout.read(&mut read).expect("can be read");
            assert!(0 < length, "the front has ended");
            let answers = read[..length].iter().filter(|byte| **byte == b'\n').count();
            answered += answers;
            if 0 < answers && begun.elapsed() < TURN {
                self.ask(answers);
                asked += answers;
            }
        }
        answered as f64 / begun.elapsed().as_secs_f64()
    }
}

/// A process of a contender. On one thread, as ours are.
fn be(kind: &str, part: &str, certs: &str, next: Option<SocketAddr>) {
    if part != "front" {
        // It has no other way to learn that it is not needed any more.
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
    }
    let (certs, is_front) = (PathBuf::from(certs), part == "front");
    match kind {
        "bare" => run(async move { be_bare(&certs, is_front, next).await }),
        "grpc" => run(async move { be_grpc(&certs, is_front, next).await }),
        _ => panic!("usage: chain"),
    }
}

async fn be_bare(certs: &Path, is_front: bool, next: Option<SocketAddr>) {
    let bare = Bare::at(certs);
    let next = match next {
        Some(at) => Some(bare.dial(at).await),
        None => None,
    };
    if !is_front {
        say(bare.serve(next));
        return std::future::pending().await;
    }
    let next = next.expect("a front is in front of something");
    front(|| {
        let next = next.clone();
        async move { drop(bare::ask(&next, FRAME).await) }
    })
    .await;
}

async fn be_grpc(certs: &Path, is_front: bool, next: Option<SocketAddr>) {
    let next = match next {
        Some(at) => Some(grpc::dial(certs, at).await),
        None => None,
    };
    if !is_front {
        return grpc::serve(certs, next, say).await;
    }
    let next = next.expect("a front is in front of something");
    front(|| {
        let next = next.clone();
        async move { drop(grpc::ask(next, grpc::Message::small()).await.expect("an answer")) }
    })
    .await;
}

fn say(at: SocketAddr) {
    println!("{at}");
}
