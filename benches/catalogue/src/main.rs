//! What a lock and a search cost, beside the same without: see `run`.
//!
//! `catalogue TOOLBUS ROUNDS` measures; `catalogue serve MARK NUMBER COUNT` is one of the servers
//! that it locks, which notes in a file that it was started.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use toolbus_proto::mcp::pin::LAYOUTS;
use toolbus_proto::pin::{Definition, Lock, PinKind, Pinned, SPEC};
use toolbus_proto::search::{Document, Index};

type Failed = Box<dyn std::error::Error>;

/// So many backs with so many tools in all, as a desk of a developer has them.
const BACKS: usize = 31;
const TOOLS: usize = 317;
/// As many as one back may have.
const MANY: usize = 10_000;
/// How many calls a turn has.
const CALLS: usize = 500;

const VERBS: [&str; 20] = [
    "create", "delete", "list", "update", "search", "export", "import", "archive", "merge", "share", "rename", "move",
    "copy", "lock", "publish", "review", "assign", "close", "open", "print",
];
const NOUNS: [&str; 25] = [
    "issue", "file", "repository", "branch", "message", "channel", "invoice", "customer", "deployment", "database",
    "table", "picture", "document", "calendar", "meeting", "report", "project", "team", "user", "permission",
    "release", "pipeline", "secret", "volume", "network",
];

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["serve", mark, number, count] => serve(mark, number.parse()?, count.parse()?),
        [toolbus, rounds] => measure(Path::new(toolbus), rounds.parse()?),
        _ => Err("catalogue TOOLBUS ROUNDS".into()),
    }
}

/// One tool, of as many words as those of published servers have.
fn tool(at: usize) -> String {
    let (verb, noun) = (VERBS[at % VERBS.len()], NOUNS[at / VERBS.len() % NOUNS.len()]);
    let number = at / (VERBS.len() * NOUNS.len());
    format!(
        r#"{{"name":"{verb}_{noun}{number}","description":"{verb} one {noun} of the workspace. The {noun} has to be there and you need the right to {verb} it; what becomes of it is told.","inputSchema":{{"type":"object","properties":{{"{noun}_id":{{"type":"string","description":"Which {noun}"}},"reason":{{"type":"string","description":"Why you {verb} it"}},"dry_run":{{"type":"boolean","default":false}}}},"required":["{noun}_id"]}}}}"#
    )
}

/// An MCP server on standard streams.
fn serve(mark: &str, number: usize, count: usize) -> Result<(), Failed> {
    fs::OpenOptions::new().append(true).create(true).open(mark)?.write_all(b"x")?;
    let tools: Vec<_> = (number * count..(number + 1) * count).map(tool).collect();
    let tools = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let asked: serde_json::Value = serde_json::from_str(&line?)?;
        let Some(id) = asked.get("id") else { continue };
        let said = match asked["method"].as_str() {
            Some("initialize") => {
                r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#.to_owned()
            }
            Some("tools/list") => format!(r#""result":{tools}"#),
            Some("tools/call") => r#""result":{"content":[{"type":"text","text":"done"}]}"#.to_owned(),
            _ => r#""error":{"code":-32601,"message":"no such method"}"#.to_owned(),
        };
        writeln!(out, r#"{{"jsonrpc":"2.0","id":{id},{said}}}"#)?;
        out.flush()?;
    }
    Ok(())
}

fn measure(toolbus: &Path, rounds: usize) -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("toolbus-bench-catalogue-{}", std::process::id()));
    let measured = in_folder(toolbus, rounds, &folder);
    fs::remove_dir_all(&folder)?;
    measured
}

fn in_folder(toolbus: &Path, rounds: usize, folder: &Path) -> Result<(), Failed> {
    let [locked, free] = ["locked", "free"].map(|name| folder.join(name));
    for folder in [&locked, &free] {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("toolbus.toml"), config(&folder.join("starts"))?)?;
    }
    run(toolbus, &locked, &["lock"])?;
    let starts = || fs::read(locked.join("starts")).map(|all| all.len());
    let before = starts()?;
    let mut took: [Vec<Duration>; 3] = Default::default();
    for round in 0..rounds {
        took[0].push(run(toolbus, &locked, &["tools"])?);
        took[1].push(run(toolbus, &locked, &["tools", "builtin:"])?);
        // Thirty processes take their time: a few rounds are enough to tell the ratio.
        if round < 3 {
            took[2].push(run(toolbus, &free, &["tools"])?);
        }
    }
    let processes = starts()? - before;
    let [with, builtin, without] = took.map(median);
    println!("| `toolbus tools`, {BACKS} backs, {TOOLS} tools | ms | of `toolbus tools builtin:` | aim |");
    println!("|---|---|---|---|");
    let row = |name: &str, took: Duration, aim: &str| {
        println!("| {name} | {:.1} | {:.2} | {aim} |", millis(took), ratio(took, builtin));
    };
    row(&format!("with a lock, {processes} processes started"), with, "50 ms, 3, none");
    row("without", without, "");
    row("`builtin:`", builtin, "");
    reading(rounds)?;
    searching(rounds);
    calling(toolbus, rounds, &locked, &free)
}

/// Backs with all tools between them.
fn config(mark: &Path) -> Result<String, Failed> {
    let own = std::env::current_exe()?;
    let (own, mark) = (own.display(), mark.display());
    let each = TOOLS / BACKS;
    let back = |number: usize| {
        let more = if number == 0 { TOOLS % BACKS } else { 0 };
        format!("[back.b{number}]\nconnect = \"mcp+stdio:'{own}' serve '{mark}' {number} {}\"\n", each + more)
    };
    Ok((0..BACKS).map(back).collect())
}

fn run(toolbus: &Path, folder: &Path, words: &[&str]) -> Result<Duration, Failed> {
    let begun = Instant::now();
    let output = Command::new(toolbus).args(words).current_dir(folder).output()?;
    let took = begun.elapsed();
    match output.status.success() {
        true => Ok(took),
        false => Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// A lock of many tools is read and checked; beside it, its bytes are hashed once.
fn reading(rounds: usize) -> Result<(), Failed> {
    let mut back = Pinned { connect: "mcp+stdio:x".to_owned(), wire: "mcp".to_owned(), ..Pinned::default() };
    for at in 0..MANY {
        let read = Definition::read(LAYOUTS.of(PinKind::Tool), &tool(at), &|_| None).ok_or("a tool")?;
        back.shown.tools.insert(read.name.clone(), read);
    }
    let text = Lock { backs: BTreeMap::from([("b".to_owned(), back)]) }.write();
    let layouts = |wire: &str| if wire == "mcp" { LAYOUTS } else { SPEC };
    let [mut read, mut hashed] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let begun = Instant::now();
        let lock = Lock::read(&text, &layouts).map_err(|wrong| wrong.to_string())?;
        read.push(begun.elapsed());
        assert_eq!(lock.tools(), MANY);
        let begun = Instant::now();
        black_box(Sha256::digest(text.as_bytes()));
        hashed.push(begun.elapsed());
    }
    let (read, hashed) = (median(read), median(hashed));
    println!("\n| a lock of {MANY} tools, {:.1} MB | ms | of hashing its bytes once |", text.len() as f64 / 1e6);
    println!("|---|---|---|");
    println!("| read and checked | {:.1} | {:.1} |", millis(read), ratio(read, hashed));
    println!("| hashed | {:.1} | 1 |", millis(hashed));
    Ok(())
}

/// The index of many tools and queries to it; beside them, a look through all texts.
fn searching(rounds: usize) {
    let document = |at: usize| {
        let read: serde_json::Value = serde_json::from_str(&tool(at)).unwrap_or_default();
        let text = |name: &str| read[name].as_str().unwrap_or_default().to_owned();
        let own = text("name");
        let arguments = read["inputSchema"]["properties"].as_object();
        Document {
            full: format!("b.{own}"),
            shown: None,
            own,
            title: String::new(),
            back: "b".to_owned(),
            arguments: arguments.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
            description: text("description"),
        }
    };
    let documents: Vec<_> = (0..MANY).map(document).collect();
    let mut built = Vec::new();
    for _ in 0..rounds.min(11) {
        let begun = Instant::now();
        black_box(Index::new(&documents));
        built.push(begun.elapsed());
    }
    let index = Index::new(&documents);
    let texts: Vec<_> =
        documents.iter().map(|one| format!("{} {}", one.own, one.description).to_lowercase()).collect();
    let known = ["create an issue", "which customer", "rename the branch", "order a pizza", "export invoice report"];
    let mended = ["creat an isue", "custmoer", "renmae brnach", "databsae", "exprot invocie"];
    let timed = |queries: &[&str], ask: &dyn Fn(&str)| {
        let mut took = Vec::new();
        for _ in 0..rounds {
            for query in queries {
                let begun = Instant::now();
                ask(query);
                took.push(begun.elapsed());
            }
        }
        median(took)
    };
    let search = |query: &str| drop(black_box(index.search(query)));
    let scan = |query: &str| {
        let words: Vec<&str> = query.split(' ').collect();
        let found = texts.iter().filter(|text| words.iter().all(|word| text.contains(word)));
        black_box(found.count());
    };
    let (found, slipped, scanned) = (timed(&known, &search), timed(&mended, &search), timed(&known, &scan));
    println!("\n| search among {MANY} tools | | of a substring scan | aim |");
    println!("|---|---|---|---|");
    println!("| the index, made once | {:.1} ms | | 100 ms |", millis(median(built)));
    let row = |name: &str, took: Duration, aim: &str| {
        println!("| {name} | {:.0} µs | {:.2} | {aim} |", micros(took), ratio(took, scanned));
    };
    row("a query", found, "200 µs");
    row("one with words to be mended", slipped, "1 ms");
    row("a substring scan", scanned, "");
}

/// Calls through two buses, one of which has a lock. They take turns.
fn calling(toolbus: &Path, rounds: usize, locked: &Path, free: &Path) -> Result<(), Failed> {
    let mut buses = [Bus::start(toolbus, locked)?, Bus::start(toolbus, free)?];
    let mut took: [Vec<Duration>; 2] = Default::default();
    for round in 0..=rounds {
        for (bus, took) in buses.iter_mut().zip(&mut took) {
            let begun = Instant::now();
            for _ in 0..CALLS {
                bus.ask("tools/call", r#"{"name":"b3_rename_file0","arguments":{"file_id":"1"}}"#)?;
            }
            // The first turn starts the back.
            if round != 0 {
                took.push(begun.elapsed());
            }
        }
    }
    let [with, without] = took.map(median);
    let rate = |took: Duration| CALLS as f64 / took.as_secs_f64();
    println!("\n| calls one after the other, through pipes | a second | of those without a lock | aim |");
    println!("|---|---|---|---|");
    println!("| with a lock | {:.0} | {:.3} | 0.99 |", rate(with), ratio(without, with));
    println!("| without | {:.0} | 1 | |", rate(without));
    Ok(())
}

/// A `toolbus mcp` that is talked to.
struct Bus {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Bus {
    fn start(toolbus: &Path, folder: &Path) -> Result<Bus, Failed> {
        let mut command = Command::new(toolbus);
        command.arg("mcp").current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take().ok_or("a pipe")?;
        let output = BufReader::new(child.stdout.take().ok_or("a pipe")?);
        let mut bus = Bus { child, input, output, next: 0 };
        bus.ask("initialize", r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#)?;
        writeln!(bus.input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#)?;
        bus.ask("tools/list", "{}")?;
        Ok(bus)
    }

    fn ask(&mut self, method: &str, params: &str) -> Result<(), Failed> {
        self.next += 1;
        let id = self.next;
        writeln!(self.input, r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)?;
        self.input.flush()?;
        let mine = format!(r#""id":{id},"result""#);
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                return Err("the bus has ended".into());
            }
            if line.contains(&mine) {
                return Ok(());
            }
            if line.contains(r#""error""#) {
                return Err(line.into());
            }
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
