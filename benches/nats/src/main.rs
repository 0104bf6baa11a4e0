//! What NATS costs: calls between two toolbuses against a bare request and service of async-nats,
//! all on one server; and the memory of two nodes between which 1 GiB passes in one call.
//!
//! `benches/nats/run` builds all and prints all; `run quick` is the same with fewer rounds. The
//! other ends are this program, started with a role, and `toolbus` itself.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, future::join_all};
use tokio::task::LocalSet;
use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::peer::settings::Settings;
use toolbus_proto::json::Json;

/// How long a contender has its turn.
const TURN: Duration = Duration::from_millis(300);
const IN_FLIGHT: usize = 64;
const GIB: u64 = 1 << 30;
const ARGS: &str = r#"{"a":19,"b":23}"#;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => runtime.block_on(LocalSet::new().run_until(measure(9))),
        ["quick"] => runtime.block_on(LocalSet::new().run_until(measure(3))),
        ["role-service", url] => runtime.block_on(serve(url)),
        _ => {
            eprintln!("error: say nothing, or `quick`");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// The bare service: what it is asked is what it answers.
async fn serve(url: &str) {
    let client = async_nats::connect(url).await.expect("the server is there");
    let mut asked = client.queue_subscribe("bare.echo", "q".to_owned()).await.expect("subscribed");
    client.flush().await.expect("the server is there");
    println!("ready");
    while let Some(message) = asked.next().await {
        if let Some(reply) = message.reply {
            client.publish(reply, message.payload).await.expect("published");
        }
    }
}

/// Killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.spawn().expect("it can be started"))
    }

    /// The most memory that it had, in MiB.
    fn most_memory(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<f64>().ok()).expect("a number") / 1024.0
    }
}

fn server() -> (Running, String) {
    let program = std::env::var("NATS_SERVER").unwrap_or_else(|_| "nats-server".to_owned());
    let ports: PathBuf = std::env::temp_dir().join(format!("toolbus-bench-{}", std::process::id()));
    fs::create_dir_all(&ports).expect("a folder");
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"]).arg(&ports);
    let running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    loop {
        let file = fs::read_dir(&ports).expect("a folder").flatten().next();
        let said = file.and_then(|file| fs::read_to_string(file.path()).ok()).unwrap_or_default();
        if let Some(at) = said.find("nats://")
            && let Some(end) = said[at..].find('"')
        {
            let url = said[at..at + end].to_owned();
            let _ = fs::remove_dir_all(&ports);
            return (running, url);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

async fn measure(rounds: usize) {
    let (_server, url) = server();
    let toolbus = std::env::var("TOOLBUS").unwrap_or_else(|_| "toolbus".to_owned());
    let address = format!("{url}/bench");
    let mut node = Command::new(&toolbus);
    let node = Running::start(node.args(["nats", "serve", &address, "builtin:"]).stderr(Stdio::null()));
    let own = std::env::current_exe().expect("this program");
    let mut service = Command::new(own);
    let _service = Running::start(service.args(["role-service", &url]).stdout(Stdio::null()));
    let parsed = Address::parse(&address).expect("an address");
    let bus = Bus::of_addresses(&[parsed], &Settings::default()).expect("a bus");
    while bus.tools().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let client = async_nats::connect(&url).await.expect("the server is there");
    let bare = async || {
        client.request("bare.echo", ARGS.into()).await.expect("an answer");
    };
    let ours = async || {
        bus.call("add", Json::from_trusted(ARGS)).await.expect("an answer");
    };
    bare().await;
    let (mut one, mut many) = (Vec::new(), Vec::new());
    println!("| round | bare, µs | toolbus, µs | ratio | bare, {IN_FLIGHT} in flight, calls/s | toolbus | ratio |");
    println!("|---|---|---|---|---|---|---|");
    for round in 1..=rounds {
        let (by_bare, by_us) = (turn(&bare, 1).await, turn(&ours, 1).await);
        let (wide, wide_us) = (turn(&bare, IN_FLIGHT).await, turn(&ours, IN_FLIGHT).await);
        one.push(by_bare / by_us);
        many.push(wide_us / wide);
        println!(
            "| {round} | {:.1} | {:.1} | {:.2} | {wide:.0} | {wide_us:.0} | {:.2} |",
            1e6 / by_bare,
            1e6 / by_us,
            by_bare / by_us,
            wide_us / wide
        );
    }
    println!("\none after another: {:.2} of the bare round trip (aim: at most 1.6)", median(one));
    println!("{IN_FLIGHT} in flight: {:.2} of its calls a second (aim: at least 0.6)", median(many));
    through_one_call(&toolbus, &address, &node);
}

/// Calls a second.
async fn turn(call: &impl AsyncFn(), at_a_time: usize) -> f64 {
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < TURN {
        match at_a_time {
            1 => call().await,
            _ => drop(join_all((0..at_a_time).map(|_| call())).await),
        }
        count += at_a_time;
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

/// 1 GiB from one node to another, and what both keep meanwhile.
fn through_one_call(toolbus: &str, address: &str, node: &Running) {
    let bytes = format!("bytes={GIB}");
    let mut command = Command::new(toolbus);
    let out = std::env::temp_dir().join(format!("toolbus-bench-{}.out", std::process::id()));
    command.args(["call", "--timeout", "600s", "--out"]).arg(&out);
    command.args([address, "blob", &bytes]);
    let begun = Instant::now();
    let mut caller = Running::start(command.stdout(Stdio::null()));
    let mut most: f64 = 0.0;
    loop {
        if let Some(status) = caller.0.try_wait().expect("it can be asked") {
            assert!(status.success(), "1 GiB through one call: {status}");
            break;
        }
        most = most.max(caller.most_memory());
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = begun.elapsed().as_secs_f64();
    let _ = fs::remove_file(&out);
    println!(
        "1 GiB through one call: {took:.1} s, node {:.1} MiB, caller {most:.1} MiB (aim: at most 24 each)",
        node.most_memory()
    );
}

fn median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}
