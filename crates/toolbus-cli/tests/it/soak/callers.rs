//! Callers of every front, who call every back and know each answer.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use toolbus::address::Purpose;
use toolbus::bus::Bus;
use toolbus::peer::Registry;
use toolbus::peer::settings::Settings;
use toolbus_proto::tool::{Failure, FailureKind};
use toolbus_testkit::page::Program;
use toolbus_testkit::patience::PATIENCE;

use super::Chance;
use super::stage::Stage;
use crate::godex;
use crate::matrix::harness::call;
use crate::matrix_killed::marking;

/// Longer than any call takes.
const QUIET: Duration = Duration::from_secs(45);

#[derive(Clone)]
pub(super) struct Callers(Rc<Fronts>);

struct Fronts {
    fronts: Vec<Front>,
    backs: Vec<&'static str>,
    /// The config, for the front that is a run of its own for each call.
    config: String,
}

struct Front {
    name: &'static str,
    bus: Bus,
    /// What stands between a back and its tool.
    dot: char,
}

/// How calls ended.
#[derive(Default)]
pub(super) struct Counts {
    begun: usize,
    ended: BTreeMap<String, usize>,
    pairs: BTreeMap<(&'static str, &'static str), usize>,
    /// What the arguments of calls said that no other call says, and how those calls ended.
    pub(super) said: Vec<(String, String)>,
}

/// The call did what was asked: its answer is there, or its own failure.
pub(super) const ANSWERED: &str = "answered";
pub(super) const FAILED: &str = "failed as it should";

impl Callers {
    pub(super) fn of(stage: &Stage) -> Callers {
        let urls = stage.urls();
        let marks = stage.scratch.file("started");
        let registry = Registry::default();
        let program = |wire: &str| {
            let fixture = toolbus_check::fixture::fixture(wire).expect("a wire");
            let words = format!("--config={}", stage.config());
            // Where an address would stand.
            marking(fixture, &marks, &words)
        };
        let addresses = [
            ("mcp", format!("mcp+{}", urls[0]), '_'),
            ("mediocre", urls[1].clone(), '.'),
            ("mediocre", urls[2].clone(), '.'),
            ("orchestra", format!("{}?certs={}", urls[3], stage.certs()), '.'),
            ("oracle", program("oracle"), '.'),
            ("orchard", program("orchard"), '_'),
        ];
        let fronts = addresses.map(|(name, address, dot)| {
            let address = registry.address(Purpose::Call, &address).unwrap();
            let bus = Bus::of_addresses(&[address], &Settings::default()).unwrap();
            Front { name, bus, dot }
        });
        let backs = stage.backs.iter().map(|(name, _)| *name).collect();
        Callers(Rc::new(Fronts { fronts: fronts.into(), backs, config: stage.config() }))
    }

    pub(super) async fn call_until(self, until: Instant, seed: u64) -> Counts {
        let (mut chance, mut counts) = (Chance::new(seed), Counts::default());
        let Fronts { fronts, backs, config } = &*self.0;
        while Instant::now() < until {
            let back = *chance.one_of(backs);
            let text = format!("n{:x}", chance.next());
            // One more than there are: the loop of tools, which is started for each call.
            let (front, ended) = match fronts.get(chance.below(fronts.len() as u64 + 1) as usize) {
                Some(front) => {
                    counts.begun += 1;
                    (front.name, front.call(&mut chance, back, &text).await)
                }
                // A run takes long to start: not as often as the others.
                None if chance.below(4) != 0 => continue,
                None => {
                    counts.begun += 1;
                    let (config, text) = (config.clone(), text.clone());
                    let run = move || by_model(&config, back, &text);
                    let ended = tokio::task::spawn_blocking(run).await.expect("it does not panic");
                    ("godex", ended)
                }
            };
            *counts.ended.entry(ended.clone()).or_default() += 1;
            counts.said.push((text, ended));
            *counts.pairs.entry((front, back)).or_default() += 1;
        }
        counts
    }

    pub(super) async fn part(self) {
        for front in &self.0.fronts {
            front.bus.shutdown().await;
        }
    }
}

impl Front {
    /// Calls something, and tells how it ended.
    async fn call(&self, chance: &mut Chance, back: &str, text: &str) -> String {
        let pair = format!("{} before {back}", self.name);
        let name = |tool: &str| format!("{back}{}{tool}", self.dot);
        let is_model = back == "godex";
        let (tool, args, answer) = match chance.below(4) {
            _ if is_model => {
                (name("ask"), format!(r#"{{"prompt":"{text}"}}"#), Some(text.to_owned()))
            }
            0 => (name("sleep"), format!(r#"{{"ms":{}}}"#, chance.below(200)), None),
            1 => (name("fail"), format!(r#"{{"message":"{text}"}}"#), None),
            _ => (name("upper"), format!(r#"{{"text":"{text}"}}"#), Some(text.to_uppercase())),
        };
        let calling = call(&self.bus, &tool, &args, QUIET);
        let patience = match chance.below(5) {
            0 => Duration::from_millis(chance.below(100)),
            _ => PATIENCE * 2,
        };
        match tokio::time::timeout(patience, calling).await {
            Err(_) if patience < PATIENCE => "given up".to_owned(),
            Err(_) => panic!("{pair}: {tool} {args} has not ended"),
            Ok(Ok(found)) => {
                let is_right = answer.is_none_or(|answer| found.as_str().contains(&answer));
                assert!(is_right, "{pair}: {tool} {args} was answered {found}");
                // What sleeps says nothing by which it could be found again.
                if tool.ends_with("sleep") { "slept" } else { ANSWERED }.to_owned()
            }
            Ok(Err(failure)) if tool.ends_with("fail") && failure.message.contains(text) => {
                FAILED.to_owned()
            }
            Ok(Err(failure)) => ended(&pair, &failure),
        }
    }
}

/// A failure that killing and reloading may lead to, in a word.
fn ended(pair: &str, failure: &Failure) -> String {
    assert_ne!(failure.kind, FailureKind::TimedOut, "{pair}: {failure:?}");
    assert_ne!(failure.kind, FailureKind::TooLarge, "{pair}: {failure:?}");
    failure.kind.as_str().to_owned()
}

/// A run of the tool loop, whose model calls one tool: what the model was told.
fn by_model(config: &str, back: &'static str, text: &str) -> String {
    let completed = r#"{"type":"response.completed"}"#;
    let (tool, member) = if back == "godex" { ("ask", "prompt") } else { ("upper", "text") };
    let arguments = Value::from(format!(r#"{{"{member}":"{text}"}}"#));
    let done = format!(
        r#"{{"type":"response.output_item.done","item":{{"type":"function_call","id":"f","call_id":"c","name":"{back}_{tool}","arguments":{arguments}}}}}"#
    );
    let (asked, page) = played(&[&[done.as_str(), completed], &[completed]], |url| {
        let words = ["exec", "-q", "hi", "--bus", "--config", config, "--base-url", url];
        Program::of(godex::command(&words)).run()
    });
    let Some(told) = asked.get(1) else {
        // A back of the config could not be opened, for it was killed.
        assert_eq!(page.status.code(), Some(3), "{}", page.stderr);
        return "unavailable".to_owned();
    };
    let body: Value = serde_json::from_slice(told).expect("a request is JSON");
    let outputs = body["input"].as_array().into_iter().flatten();
    let output = outputs.filter_map(|item| item["output"].as_str()).next().expect("it is told");
    match output.strip_prefix("error: ") {
        Some(error) => error.split(':').next().unwrap_or_default().to_owned(),
        None => {
            let is_right = output.contains(text) || output.contains(&text.to_uppercase());
            assert!(is_right, "godex before {back}: {text} was answered {output}");
            ANSWERED.to_owned()
        }
    }
}

/// Answers each request of a run with the next of these events, until it has ended: the bodies, and
/// what the run gives. Nothing is left of the server then, which would count as growth.
fn played<T: Send>(turns: &[&[&str]], run: impl FnOnce(&str) -> T + Send) -> (Vec<Vec<u8>>, T) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("is bound");
    thread::scope(|scope| {
        let running = scope.spawn(move || {
            let ended = run(&format!("http://{address}"));
            // Who waits for another request waits no more.
            let _ = TcpStream::connect(address);
            ended
        });
        let mut bodies = Vec::new();
        for events in turns {
            let (mut stream, _) = listener.accept().expect("it listens");
            let Some(body) = read_request(&stream) else { break };
            bodies.push(body);
            let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close";
            let length = events.len();
            // The run may have been killed.
            let _ = write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{events}");
        }
        (bodies, running.join().expect("it does not panic"))
    })
}

fn read_request(stream: &TcpStream) -> Option<Vec<u8>> {
    let mut input = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(body)
}

impl Counts {
    pub(super) fn add(&mut self, other: &Counts) {
        self.begun += other.begun;
        for (how, count) in &other.ended {
            *self.ended.entry(how.clone()).or_default() += count;
        }
        self.said.extend(other.said.iter().cloned());
        for (pair, count) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended: usize = self.ended.values().sum();
        assert_eq!(self.begun, ended, "each call ends once");
        write!(f, "{} calls over {} pairs", self.begun, self.pairs.len())?;
        self.ended.iter().try_for_each(|(how, count)| write!(f, ", {count} {how}"))
    }
}
