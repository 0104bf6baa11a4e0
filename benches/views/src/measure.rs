//! The tables.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use crate::Plan;
use crate::client::{Piped, Served, address, call};

const VIEW: &str = "[view.v.tool.\"b.tool_0000\"]\nrename = \"history\"\nfixed = { repo = \"/srv/main\" }\n[caller.ann]\nuid = 4711\nview = \"v\"\nrate = \"1000000/1s\"\nin_flight = 1000\n";

/// A config in a folder that goes with it.
struct Config(PathBuf);

impl Config {
    fn new(name: &str, text: &str) -> Config {
        let folder = env::temp_dir().join(format!("toolbus-bench-views-{}-{name}", process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let path = folder.join("toolbus.toml");
        fs::write(&path, text).expect("a file can be written");
        Config(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("paths are text")
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = self.0.parent().map(fs::remove_dir_all);
    }
}

fn back(name: &str, tools: usize) -> String {
    format!("[back.{name}]\nconnect = \"\"\"{}\"\"\"\n", address(tools))
}

fn median<T: Copy + PartialOrd>(all: &mut [T]) -> T {
    all.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    all[all.len() / 2]
}

/// One way to be called.
struct Variant<'a> {
    name: &'static str,
    toolbus: &'a Path,
    words: Vec<&'a str>,
    tool: &'static str,
}

/// What stands behind the front, without views and with them.
struct Setup {
    title: String,
    plain: Config,
    viewed: Config,
    /// What one tool is called in both.
    names: [&'static str; 2],
    /// Whose view changes it.
    caller: &'static str,
}

impl Setup {
    /// The ways that are compared: without a view, with one, and a program of before.
    fn variants<'a>(&'a self, plan: &'a Plan) -> Vec<Variant<'a>> {
        let [own, renamed] = self.names;
        let plain = vec!["--config", self.plain.path()];
        let words = vec!["--config", self.viewed.path(), "--as", self.caller];
        let toolbus = plan.toolbus.as_path();
        let mut all = vec![
            Variant { name: "without", toolbus, words: plain.clone(), tool: own },
            Variant { name: "view, caller, two limits", toolbus, words, tool: renamed },
        ];
        if let Some(before) = &plan.before {
            all.push(Variant { name: "before there were views", toolbus: before, words: plain, tool: own });
        }
        all
    }
}

/// One server, which passes as it is where nothing is shown otherwise; two; and as many tools and
/// callers, each with a view of its own, as lists are measured with.
fn setups(plan: &Plan) -> [Setup; 3] {
    let lone = back("b", 10);
    let two = format!("{lone}{}", back("c", 10));
    let many: String = (0..10).map(|number| back(&format!("b{number}"), plan.tools / 10)).collect();
    let mut views = String::new();
    for number in 0..plan.callers {
        let _ = write!(
            views,
            "[view.v{number}]\nhide = [\"b?.tool_{:04}\"]\n[view.v{number}.tool.\"b0.tool_0000\"]\nrename = \"history\"\nfixed = {{ repo = \"/srv/main\" }}\n\
             [caller.c{number}]\nuid = {}\nview = \"v{number}\"\nrate = \"1000000/1s\"\nin_flight = 1000\n",
            number + 1,
            4711 + number
        );
    }
    let setup = |title: &str, name: &str, backs: &str, views: &str, names, caller| Setup {
        title: title.to_owned(),
        plain: Config::new(name, backs),
        viewed: Config::new(&format!("{name}-view"), &[backs, views].concat()),
        names,
        caller,
    };
    let many_title = format!("{} tools of ten servers, {} callers", plan.tools, plan.callers);
    [
        setup("one server", "lone", &lone, VIEW, ["tool_0000", "history"], "ann"),
        setup("two servers", "two", &two, VIEW, ["b_tool_0000", "b_history"], "ann"),
        setup(&many_title, "many", &many, &views, ["b0_tool_0000", "b0_history"], "c7"),
    ]
}

/// Calls on pipes, one after the other: how long each takes, and how long the program is at it.
pub(crate) fn calls(plan: &Plan) {
    println!("\n| 64 B on pipes | round trip, µs | processor time a call, µs | more than without, µs |");
    println!("|---|---|---|---|");
    for setup in setups(plan) {
        let (title, variants) = (&setup.title, setup.variants(plan));
        let mut running: Vec<_> = variants
            .iter()
            .map(|variant| (variant, Piped::start(&[], variant.toolbus, &variant.words)))
            .collect();
        for (variant, piped) in &mut running {
            (0..plan.calls / 2).for_each(|_| piped.call(variant.tool));
        }
        let mut seen = vec![(Vec::new(), Vec::new()); running.len()];
        for _ in 0..plan.rounds {
            for ((variant, piped), (trips, busy)) in running.iter_mut().zip(&mut seen) {
                let before = piped.processor_time();
                let mut round: Vec<_> = (0..plan.calls)
                    .map(|_| {
                        let begun = Instant::now();
                        piped.call(variant.tool);
                        begun.elapsed()
                    })
                    .collect();
                trips.push(median(&mut round).as_secs_f64() * 1e6);
                busy.push((piped.processor_time() - before) as f64 / plan.calls as f64 / 1e3);
            }
        }
        let mut without = None;
        for ((variant, piped), (mut trips, mut busy)) in running.into_iter().zip(seen) {
            let (trip, busy) = (median(&mut trips), median(&mut busy));
            let (least, at_least) = *without.get_or_insert((trip, busy));
            println!(
                "| {title}, {} | {trip:.2} | {busy:.2} | {:+.2}; processor {:+.2} |",
                variant.name,
                trip - least,
                busy - at_least
            );
            piped.end();
        }
    }
}

/// Instructions a call, by callgrind: what more calls cost more, so that the start does not count.
pub(crate) fn instructions(plan: &Plan) {
    println!("\n| instructions a call, 64 B on pipes | | of that without |");
    println!("|---|---|---|");
    for setup in setups(plan) {
        let mut without = None;
        for variant in setup.variants(plan) {
            let count = |calls: usize| {
                let before = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
                let mut piped = Piped::start(&before, variant.toolbus, &variant.words);
                (0..calls).for_each(|_| piped.call(variant.tool));
                let said = piped.end();
                let count = said.lines().find_map(|line| line.split("Collected : ").nth(1));
                let count = count.and_then(|count| count.trim().parse::<u64>().ok());
                count.unwrap_or_else(|| panic!("valgrind says how many: {said}"))
            };
            let few = plan.counted / 4;
            let each = (count(plan.counted + few) - count(few)) as f64 / plan.counted as f64;
            let of = each / *without.get_or_insert(each);
            println!("| {}, {} | {each:.0} | {of:.3} |", setup.title, variant.name);
        }
    }
}

/// Calls over HTTP, one after the other on one connection.
pub(crate) fn http(plan: &Plan) {
    println!("\n| 64 B over HTTP to one server | calls a second | of that without |");
    println!("|---|---|---|");
    let front = "[front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n";
    let lone = back("b", 10);
    let known = VIEW.replace("uid = 4711", "token = \"token-of-ann\"");
    let plain = Config::new("http", &format!("{lone}{front}"));
    let viewed = Config::new("http-view", &format!("{lone}{front}callers = [\"ann\"]\n{known}"));
    let mut all = vec![
        ("without", &plan.toolbus, &plain, "", "tool_0000"),
        ("view, caller, two limits", &plan.toolbus, &viewed, "token-of-ann", "history"),
    ];
    if let Some(before) = &plan.before {
        all.push(("before there were views", before, &plain, "", "tool_0000"));
    }
    let mut running: Vec<_> = all
        .into_iter()
        .map(|(name, toolbus, config, token, tool)| {
            let served = Served::start(toolbus, config.path());
            let posting = served.connect(token);
            (name, served, posting, tool, Vec::new())
        })
        .collect();
    for round in 0..=plan.rounds {
        for (_, _, posting, tool, rates) in &mut running {
            let begun = Instant::now();
            for id in 0..plan.calls {
                let answer = posting.post("tools/call", tool, &call(id, tool));
                assert!(answer.contains("\"done\""), "{answer}");
            }
            // The first is for warming up.
            if 0 < round {
                rates.push(plan.calls as f64 / begun.elapsed().as_secs_f64());
            }
        }
    }
    let without = running[0].4.clone();
    for (name, _, _, _, mut rates) in running {
        let pairs = rates.iter().zip(&without);
        let mut ratios: Vec<f64> = pairs.map(|(rate, without)| rate / without).collect();
        println!("| {name} | {:.0} | {:.3} |", median(&mut rates), median(&mut ratios));
    }
}

/// Lists of many tools by many callers, each of whom has a view of its own.
pub(crate) fn lists(plan: &Plan) {
    println!(
        "\n| {} tools, {} callers | first list, ms (most) | repeated, ms (most) | tools in it | memory, MiB |",
        plan.tools, plan.callers
    );
    println!("|---|---|---|---|---|");
    let front = "[front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n";
    let backs: String = (0..10).map(|number| back(&format!("b{number}"), plan.tools / 10)).collect();
    let mut known = String::new();
    let (mut few, mut most) = (String::new(), String::new());
    for number in 0..plan.callers {
        let _ = write!(
            known,
            "[caller.c{number}]\ntoken = \"token-of-{number:04}\"\nview = \"v{number}\"\nrate = \"1000/1s\"\n"
        );
        let _ = write!(few, "[view.v{number}]\nshow = [\"b?.tool_*{:02}\"]\n", number % 100);
        let _ = write!(most, "[view.v{number}]\nhide = [\"b?.tool_{number:04}\"]\n");
    }
    let callers = "callers = [\"*\"]\n";
    for (name, text) in [
        ("without", format!("{backs}{front}")),
        ("views that show a hundredth", format!("{backs}{front}{callers}{known}{few}")),
        ("views that hide ten", format!("{backs}{front}{callers}{known}{most}")),
    ] {
        let config = Config::new("lists", &text);
        let served = Served::start(&plan.toolbus, config.path());
        let token = |number: usize| match name {
            "without" => String::new(),
            _ => format!("token-of-{number:04}"),
        };
        // The servers are started and listed for whoever asks first.
        let count = served.connect(&token(0)).list();
        let (mut first, mut again) = (Vec::new(), Vec::new());
        for number in 1..plan.callers {
            let mut posting = served.connect(&token(number));
            let mut listed = || {
                let begun = Instant::now();
                assert_eq!(posting.list(), count);
                begun.elapsed()
            };
            first.push(listed());
            again.push(listed());
        }
        println!(
            "| {name} | {} | {} | {count} | {:.0} |",
            told(&mut first),
            told(&mut again),
            served.memory()
        );
    }
}

fn told(all: &mut [Duration]) -> String {
    let middle = median(all);
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    format!("{:.2} ({:.2})", ms(&middle), all.iter().map(ms).fold(0.0, f64::max))
}
