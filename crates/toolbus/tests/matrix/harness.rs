//! Every front before every back, with real processes: what each pair carries.
//!
//! A peer is made of a program and the fixture of its wire, and called through a bus. What a
//! pair does not carry as it is, one of its two wires must have said in its fixture; and what
//! a wire says there must be seen. Used by the tests of a seventh wire, and by those of the
//! `toolbus` program, which write `docs/bridges.md`.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet, spawn_local};
use toolbus::address::{Address, Purpose};
use toolbus::bus::Bus;
use toolbus::peer::Registry;
use toolbus::peer::settings::Settings;
use toolbus_engine::calls::Inbox;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome};
use toolbus_testkit::patience::PATIENCE;

use super::fixture::{Capability, Fixture};

/// How large the arguments of a large call are.
pub(crate) const LARGE: usize = 1 << 20;
/// How long a call may be quiet that is to time out.
pub(crate) const SHORT: Duration = Duration::from_millis(300);
/// How long is waited for what will not come.
pub(crate) const IN_VAIN: Duration = Duration::from_secs(5);
/// So many pairs are tried side by side.
const AT_A_TIME: usize = 6;

/// A value with others in it.
pub(crate) const NESTED: &str = r#"{"a":[1,{"b":null}],"c":{"d":[[true],"é"]}}"#;

/// Calls those pairs of the wires that are wanted, by the names of front and back;
/// `program` is what the words of fixtures follow.
pub(crate) async fn pairs(
    registry: &Registry,
    wires: Vec<(&'static str, &'static Fixture)>,
    program: &str,
    is_wanted: impl Fn(&str, &str) -> bool,
) -> Table {
    let is_limited = |wires: [&Fixture; 2], what: Capability| {
        wires.into_iter().any(|wire| wire.why_not(what).is_some())
    };
    // Some side by side. What then waits for what never comes waits on while the next have their
    // turn.
    let turns = Rc::new(Semaphore::new(AT_A_TIME));
    let mut tried = JoinSet::new();
    for (row, &(front, serving)) in wires.iter().enumerate() {
        for (column, &(back, behind)) in wires.iter().enumerate() {
            if !is_wanted(front, back) {
                continue;
            }
            let address = address(program, serving, &address(program, behind, "builtin:"));
            let parsed = registry.address(Purpose::Call, &address).unwrap();
            let is_limited = is_limited([serving, behind], Capability::Cancelled);
            let is_in_vain = is_in_vain(front, back, is_limited);
            let trials = Trials::of(parsed, is_limited, Pair { back: behind, is_in_vain });
            let cell = Cell { front, back, address, carried: Vec::new() };
            let turns = turns.clone();
            tried.spawn_local(async move {
                let _turn = turns.acquire().await.unwrap();
                ((row, column), cell, [serving, behind], trials.await)
            });
        }
    }
    let mut tried = tried.join_all().await;
    tried.sort_by_key(|(place, ..)| *place);
    let (mut cells, mut unsaid) = (Vec::new(), Vec::new());
    for (_, mut cell, wires, trials) in tried {
        cell.carried = trials.end().await;
        for (what, seen) in &cell.carried {
            if *seen != Carried::Yes && !is_limited(wires, *what) {
                let Cell { front, back, .. } = &cell;
                unsaid.push(format!("{front} over {back}: {}: {seen:?}", what.title()));
            }
        }
        cells.push(cell);
    }
    assert!(unsaid.is_empty(), "neither wire says why:\n{}", unsaid.join("\n"));
    let wires = wires.into_iter().map(|(name, fixture)| (name, fixture.limits)).collect();
    Table { wires, cells }
}

/// The address of a peer that serves the tools at another address.
pub(crate) fn address(program: &str, fixture: &Fixture, served: &str) -> String {
    let words: String = fixture.words.iter().map(|word| format!(" {}", quoted(word))).collect();
    format!("{}{program}{words} {}", fixture.scheme, quoted(served))
}

/// A word that is split off as it is.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// How much of something a pair carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Carried {
    Yes,
    /// A value arrives as the text of its JSON.
    AsText,
    /// An answer that is no object arrives as the only member of one.
    InObject,
    /// Parts arrive together, at the end.
    Collected,
    /// An argument that may be left out is written as an `Option`.
    AsSome,
    No(String),
}

impl Carried {
    /// The first that is worth telling.
    pub(crate) fn or(self, other: Carried) -> Carried {
        if self == Carried::Yes { other } else { self }
    }

    fn word(&self) -> &'static str {
        match self {
            Carried::Yes => "yes",
            Carried::AsText => "as text",
            Carried::InObject => "in an object",
            Carried::Collected => "collected",
            Carried::AsSome => "as `Some`",
            Carried::No(_) => "no",
        }
    }
}

/// Tries out one pair.
pub(crate) trait Tries {
    async fn try_on(&self, bus: &Bus, what: Capability) -> Result<Carried, Failure>;
}

/// What was seen of a pair; the last thing may still be waited for.
pub(crate) struct Trials {
    seen: Vec<(Capability, Carried)>,
    late: Option<JoinHandle<Vec<(Capability, Carried)>>>,
}

impl Trials {
    /// Tries everything on one connection, one after the other: starting processes is what takes
    /// the time. Where a call cannot be taken back, that is seen on another connection, where
    /// only such a call is waited for.
    pub(crate) async fn of(
        address: Address,
        is_limited: bool,
        tries: impl Tries + 'static,
    ) -> Trials {
        Trials::of_two(address.clone(), is_limited.then_some(address), tries).await
    }

    /// The same where a second connection may lead to the same process: then what cannot be taken
    /// back is seen at `apart`.
    pub(crate) async fn of_two(
        address: Address,
        apart: Option<Address>,
        tries: impl Tries + 'static,
    ) -> Trials {
        let tries = Rc::new(tries);
        let (together, last) =
            Capability::ALL.split_at(Capability::ALL.len() - usize::from(apart.is_some()));
        assert!(last.iter().all(|what| *what == Capability::Cancelled));
        let late = apart.map(|apart| spawn_local(on_one_bus(apart, tries.clone(), last)));
        Trials { seen: on_one_bus(address, tries, together).await, late }
    }

    pub(crate) async fn end(self) -> Vec<(Capability, Carried)> {
        let Trials { mut seen, late } = self;
        if let Some(late) = late {
            seen.extend(late.await.unwrap());
        }
        seen
    }
}

async fn on_one_bus(
    address: Address,
    tries: Rc<impl Tries>,
    whats: &'static [Capability],
) -> Vec<(Capability, Carried)> {
    let bus = Bus::of_addresses(&[address], &settings()).unwrap();
    let mut seen = Vec::new();
    for &what in whats {
        let carried = tries.try_on(&bus, what).await;
        let carried = carried.unwrap_or_else(|failure| Carried::No(failure.to_string()));
        seen.push((what, carried));
    }
    bus.kill();
    bus.shutdown().await;
    seen
}

/// One whose back has the built-in tools.
pub(crate) struct Pair {
    pub(crate) back: &'static Fixture,
    /// As [`is_in_vain`] has it.
    pub(crate) is_in_vain: bool,
}

/// Does `docs/bridges.md` say that a call of this pair cannot be taken back, so that the next is
/// waited for in vain? Of a pair that is not there, whether one of its wires says so.
///
/// What is waited for in vain is so on any machine, and what will come is awaited on the slowest.
pub(crate) fn is_in_vain(front: &str, back: &str, is_limited: bool) -> bool {
    let page = include_str!("../../../../docs/bridges.md");
    let (_, table) = page.split_once("\n## Cancellation\n").unwrap_or_default();
    let mut rows = table.lines().skip_while(|line| !line.starts_with('|'));
    let mut row = |name: &str| -> Option<Vec<&str>> {
        let line = rows.find(|line| line.starts_with(&format!("| {name} |")))?;
        Some(line.split('|').map(str::trim).collect())
    };
    let said = row("front \\ back").zip(row(front)).and_then(|(backs, cells)| {
        cells.get(backs.iter().position(|name| *name == back)?).copied()
    });
    said.map_or(is_limited, |said| said == "no")
}

/// Those of a machine that may be slow to start programs.
pub(crate) fn settings() -> Settings {
    Settings { start_timeout: Some(PATIENCE), ..Settings::default() }
}

/// How long the call behind one that was given up may be quiet.
pub(crate) fn quiet_behind(is_in_vain: bool) -> Duration {
    if is_in_vain { IN_VAIN } else { PATIENCE }
}

impl Tries for Pair {
    async fn try_on(&self, bus: &Bus, what: Capability) -> Result<Carried, Failure> {
        let hello = self.back.hello;
        match what {
            Capability::Lists => {
                let tools = bus.tools().await?;
                let is_there = tools.iter().any(|tool| tool.name.as_str() == hello.tool);
                is_there.then_some(Carried::Yes).ok_or_else(|| odd("not listed"))
            }
            Capability::Succeeds => {
                let answer = call(bus, hello.tool, hello.args, PATIENCE).await?;
                same(answer.as_str(), hello.answer)
            }
            Capability::Fails => {
                let failed = call(bus, "fail", r#"{"message":"out of luck"}"#, PATIENCE).await;
                match failed {
                    Err(failure) if failure.message.contains("out of luck") => Ok(Carried::Yes),
                    other => Err(odd(&format!("{other:?}"))),
                }
            }
            Capability::Nested => {
                let args = format!(r#"{{"arguments":{NESTED}}}"#);
                let (answer, carried) = match call(bus, "echo", &args, PATIENCE).await {
                    Err(failure) if failure.message.contains(r#"{"Some":"#) => {
                        let args = format!(r#"{{"arguments":{{"Some":{NESTED}}}}}"#);
                        (call(bus, "echo", &args, PATIENCE).await?, Carried::AsSome)
                    }
                    answer => (answer?, Carried::Yes),
                };
                // Some have one argument, some as many as there are members.
                let is_it = |answer: &str| answer == NESTED || answer == args;
                if is_it(answer.as_str()) { Ok(carried) } else { same(answer.as_str(), NESTED) }
            }
            Capability::Large => {
                let text = "x".repeat(LARGE);
                let answer =
                    call(bus, "upper", &format!(r#"{{"text":"{text}"}}"#), PATIENCE).await?;
                same(answer.as_str(), &format!("\"{}\"", text.to_uppercase()))
            }
            Capability::Streams => streams(bus).await,
            Capability::TimesOut => match call(bus, "sleep", r#"{"ms":600000}"#, SHORT).await {
                Err(failure) if failure.kind == FailureKind::TimedOut => Ok(Carried::Yes),
                other => Err(odd(&format!("{other:?}"))),
            },
            Capability::Cancelled => {
                call(bus, hello.tool, hello.args, PATIENCE).await?;
                let sleeping = call(bus, "sleep", r#"{"ms":600000}"#, PATIENCE);
                // It is given up once it has surely begun; should it not have, it is no less so.
                let _ = tokio::time::timeout(SHORT, sleeping).await;
                let quiet = quiet_behind(self.is_in_vain);
                let answer = call(bus, hello.tool, hello.args, quiet).await?;
                // That it comes is all that counts here.
                same(answer.as_str(), hello.answer).map(|_| Carried::Yes)
            }
        }
    }
}

async fn streams(bus: &Bus) -> Result<Carried, Failure> {
    let (inbox, reply_to) = Inbox::new();
    let args = Json::from_trusted(r#"{"n":3}"#);
    let running = bus.start(Call::tool(Instant::now(), "count", Some(args)), reply_to);
    let mut parts = 0;
    loop {
        match inbox.next(&running).await {
            Down::Part(_) => parts += 1,
            Down::Done(Ok(_)) if parts == 3 => return Ok(Carried::Yes),
            Down::Done(Ok(_)) if parts == 0 => return Ok(Carried::Collected),
            Down::Done(Ok(_)) => return Err(odd(&format!("{parts} parts of 3"))),
            Down::Done(Err(failure)) => return Err(failure),
            _ => {}
        }
    }
}

/// Calls a tool that may be quiet for so long.
pub(crate) async fn call(
    bus: &Bus,
    tool: &str,
    args: &str,
    quiet: Duration,
) -> Result<Json, Failure> {
    let (inbox, reply_to) = Inbox::new();
    let mut call = Call::tool(Instant::now(), tool, Some(Json::from_trusted(args.to_owned())));
    call.deadline.quiet = Some(quiet);
    let running = bus.start(call, reply_to);
    Ok(match inbox.whole(running).await? {
        Outcome::Value(json) => json,
        Outcome::Text(text) => Json::of(&text),
        other => return Err(odd(&format!("{other:?}"))),
    })
}

/// Is this the answer, or is it wrapped as some wire has to?
pub(crate) fn same(answer: &str, expected: &str) -> Result<Carried, Failure> {
    if answer == expected {
        return Ok(Carried::Yes);
    }
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    let (expected, mut carried) = (read(expected), Carried::Yes);
    let mut left = read(answer);
    while let Some(value) = left {
        left = match &value {
            value if expected.as_ref() == Some(value) => return Ok(carried),
            serde_json::Value::Object(members) if members.len() == 1 => {
                carried = carried.or(Carried::InObject);
                members.get("text").or_else(|| members.get("result")).cloned()
            }
            serde_json::Value::String(text) => {
                carried = Carried::AsText;
                read(text)
            }
            _ => None,
        };
    }
    Err(odd(answer))
}

pub(crate) fn odd(what: &str) -> Failure {
    Failure::new(FailureKind::BrokeProtocol, what.chars().take(200).collect::<String>())
}

/// What became of all pairs.
pub(crate) struct Table {
    /// Each with what its calls cannot do, and why.
    wires: Vec<(&'static str, Limits)>,
    cells: Vec<Cell>,
}

type Limits = &'static [(Capability, &'static str)];

pub(crate) struct Cell {
    pub(crate) front: &'static str,
    pub(crate) back: &'static str,
    /// Where the front was.
    #[allow(dead_code, reason = "not all who use this file look so close")]
    pub(crate) address: String,
    pub(crate) carried: Vec<(Capability, Carried)>,
}

impl Cell {
    #[allow(dead_code, reason = "not all who use this file look so close")]
    pub(crate) fn is_of(&self, wire: &str) -> bool {
        self.front == wire || self.back == wire
    }

    #[allow(dead_code, reason = "not all who use this file look so close")]
    pub(crate) fn is_all_carried(&self) -> bool {
        self.carried.iter().all(|(_, carried)| *carried == Carried::Yes)
    }

    /// How much it carries of one thing.
    #[allow(dead_code, reason = "not all who use this file look so close")]
    pub(crate) fn carries(&self, what: Capability) -> &Carried {
        let found = self.carried.iter().find(|(tried, _)| *tried == what);
        &found.expect("everything was tried").1
    }
}

impl Table {
    pub(crate) fn fronts(&self) -> Vec<&'static str> {
        self.wires.iter().map(|(name, _)| *name).collect()
    }

    #[allow(dead_code, reason = "not all who use this file look so close")]
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Joins a wire that is no peer like the others: its caller is not a program that calls what
    /// it likes, or its tools are its own. `cells` are its row and its column.
    #[allow(dead_code, reason = "not all who use this file look so close")]
    pub(crate) fn join(&mut self, name: &'static str, limits: Limits, cells: Vec<Cell>) {
        self.wires.push((name, limits));
        self.cells.extend(cells);
        for cell in &self.cells {
            for (what, seen) in &cell.carried {
                let is_said = self.wires.iter().any(|(name, limits)| {
                    (*name == cell.front || *name == cell.back)
                        && limits.iter().any(|(limit, _)| limit == what)
                });
                let Cell { front, back, .. } = cell;
                assert!(
                    *seen == Carried::Yes || is_said,
                    "{front} over {back}: {what:?}: {seen:?}"
                );
            }
        }
        self.check_limits();
    }

    pub(crate) fn cell(&self, front: &str, back: &str) -> &Cell {
        let is_it = |cell: &&Cell| cell.front == front && cell.back == back;
        self.cells.iter().find(is_it).expect("all pairs are there")
    }

    /// What a wire says that it cannot do must be seen somewhere, if all pairs were tried.
    pub(crate) fn check_limits(&self) {
        for (name, limits) in &self.wires {
            for (what, _) in *limits {
                let is_seen = self.cells.iter().any(|cell| {
                    (cell.front == *name || cell.back == *name)
                        && cell
                            .carried
                            .iter()
                            .any(|(tried, carried)| tried == what && *carried != Carried::Yes)
                });
                assert!(is_seen, "{name} carries everything that `{}`", what.title());
            }
        }
    }

    /// The tables of `docs/bridges.md`.
    #[allow(dead_code, reason = "not all who use this file look so close")]
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::new();
        for what in Capability::ALL {
            let header: String = self.fronts().iter().map(|name| format!(" {name} |")).collect();
            let _ = writeln!(text, "\n## {}\n\n{}\n", what.title(), what.meaning());
            let _ = writeln!(text, "| front \\ back |{header}");
            let _ = writeln!(text, "|---|{}", "---|".repeat(self.wires.len()));
            for front in self.fronts() {
                let row: String = self
                    .fronts()
                    .iter()
                    .map(|back| {
                        let cell = self.cell(front, back);
                        let found = cell.carried.iter().find(|(tried, _)| *tried == what);
                        format!(" {} |", found.map_or("?", |(_, carried)| carried.word()))
                    })
                    .collect();
                let _ = writeln!(text, "| {front} |{row}");
            }
            let whys: Vec<String> = self
                .wires
                .iter()
                .flat_map(|(name, limits)| limits.iter().map(move |limit| (name, limit)))
                .filter(|(_, (limit, _))| *limit == what)
                .map(|(name, (_, why))| format!("- {name}: {why}"))
                .collect();
            if !whys.is_empty() {
                let _ = writeln!(text, "\n{}", whys.join("\n"));
            }
        }
        text
    }
}
