//! `toolbus doctor`: start each back, and say what works, what does not, and what to do.

mod views;

use std::time::Instant;

use tokio::task::{JoinHandle, spawn_local};
use toolbus::bus::lock::Differs;
use toolbus::bus::{Bus, Listed};
use toolbus::peer::settings::Settings;
use toolbus_engine::secrets::masked;
use toolbus_proto::did_you_mean::hinted;
use toolbus_proto::json::Json;
use toolbus_proto::limit;
use toolbus_proto::tool::{Deadline, Failure, FailureKind, LastWords};

use crate::args::Globals;
use crate::args::peer::{HttpArgs, LimitArgs, ProgramArgs};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::spinner::Spinner;
use crate::render::{self, printable};
use crate::runtime::{self, Signals};

/// Start each back of the config, and say what works
///
/// All backs are started or connected to side by side and asked for their tools. Each gets a
/// line: `ok BACK: 12 tools, 0.3 s`, or `FAIL BACK: why` with its last words and what to do
/// about it, a variable that is not set for one. Under a back that works stands how things are with
/// what it reached, where there is more to say, and `warning:` tells what `allow` names and it does
/// not list. The exit code is 1 if one fails.
///
/// Behind the backs of a config, each of its views and callers gets a line: how many tools it shows,
/// by what it is known and which fronts let it in; and `note` what is probably a mistake.
///
/// With `--json` a line is `{"back":…,"outcome":"ok","tools":12,"seconds":0.3}`, with
/// `"remarks":[…]` and `"warnings":[…]` if there are any, or `{"back":…,"outcome":"fail","why":…,"hint":…}`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus doctor
  toolbus doctor --config tools.toml
  toolbus doctor builtin:")]
pub(crate) struct DoctorArgs {
    /// Peers to try, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    #[command(flatten)]
    limit: LimitArgs,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    http: HttpArgs,
}

/// What became of one back.
struct Tried {
    tools: Result<usize, Failure>,
    /// The same, as it was listed.
    listed: Option<Listed>,
    /// What should be looked at although it works.
    warnings: Vec<String>,
    /// How things stand with what it reached.
    remarks: Vec<String>,
    seconds: f64,
}

pub(crate) fn run(args: &DoctorArgs, globals: &Globals) -> Result<(), Failed> {
    let settings = Settings {
        start_timeout: args.limit.start_timeout,
        program: args.program.settings()?,
        credentials: args.http.credentials()?,
        ..Settings::default()
    };
    let all = Peers::of_words(&args.addresses, globals, settings)?;
    let all = all.fresh_if(true).within(args.limit.timeout);
    let peers = all.clone().apart();
    let deadline = args.limit.deadline();
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let mut buses = Vec::new();
        for (name, peers) in &peers {
            buses.push((name, peers.open()?));
        }
        let trying: Vec<_> = buses
            .iter()
            .zip(&peers)
            .map(|((_, bus), (_, peers))| {
                spawn_local(try_out(bus.clone(), peers.clone(), deadline))
            })
            .collect();
        let told = async {
            let mut all_well = true;
            let mut listed = Vec::new();
            for ((name, _), tried) in buses.iter().zip(trying) {
                let (is_well, own) = tell(name, tried, globals).await?;
                all_well &= is_well;
                listed.extend(own);
            }
            // Of some of the backs nothing could be said.
            if let Some(config) = all.config().filter(|_| args.addresses.is_empty()) {
                all_well &= views::tell(&all.open()?, config, &listed, globals)?;
            }
            Ok::<_, Failed>(all_well)
        };
        let done = tokio::select! {
            told = told => match told {
                Ok(true) => Ok(()),
                Ok(false) => Err(Failed::quietly(Exit::Failed)),
                Err(failed) => Err(failed),
            },
            exit = signals.next() => {
                buses.iter().for_each(|(_, bus)| bus.hurry());
                Err(Failed::quietly(exit))
            }
        };
        let leaving: Vec<_> = buses
            .iter()
            .map(|(_, bus)| {
                let bus = bus.clone();
                spawn_local(async move { bus.shutdown().await })
            })
            .collect();
        let goodbye = async {
            for one in leaving {
                let _ = one.await;
            }
        };
        let kill = || buses.iter().for_each(|(_, bus)| bus.kill());
        all.say_goodbye(&mut signals, goodbye, kill).await;
        done
    })
}

/// Asks the one back of a bus for its tools.
async fn try_out(bus: Bus, peers: Peers, deadline: Deadline) -> Tried {
    let began = Instant::now();
    let listed = bus.list_by(deadline).await.pop();
    let seconds = began.elapsed().as_secs_f64();
    let tools = match listed.as_ref().map(|listed| &listed.tools) {
        Some(Ok(tools)) => Ok(tools.len()),
        Some(Err(failure)) => Err(peers.with_meant_if_one(failure.clone())),
        None => Ok(0),
    };
    let tools = tools.and_then(|count| match bus.differences().pop() {
        Some((back, differs)) => Err(differing(&back, &differs)),
        None => Ok(count),
    });
    let warnings = bus.allowed_in_vain().iter().map(ToString::to_string).collect();
    let remarks = bus.remarks();
    Tried { tools, listed, warnings, remarks, seconds }
}

/// A back that is not as the lock has it.
fn differing(back: &str, differs: &Differs) -> Failure {
    let (message, hint) = match differs {
        Differs::NotLocked => {
            ("it is not in toolbus.lock".to_owned(), format!("toolbus lock approve {back}"))
        }
        Differs::Tools(1) => {
            ("1 tool is not as toolbus.lock has it".to_owned(), format!("toolbus lock diff {back}"))
        }
        Differs::Tools(count) => (
            format!("{count} tools are not as toolbus.lock has them"),
            format!("toolbus lock diff {back}"),
        ),
        Differs::Otherwise(sentence) => (sentence.clone(), format!("toolbus lock diff {back}")),
    };
    hinted(Failure::new(FailureKind::Unavailable, message), Some(hint))
}

/// Says what became of a back: whether that is good, and what it has listed.
async fn tell(
    name: &str,
    tried: JoinHandle<Tried>,
    globals: &Globals,
) -> Result<(bool, Option<Listed>), Failed> {
    let spinner = Spinner::for_people(globals);
    let tried = tried.await;
    drop(spinner);
    let Ok(Tried { tools, listed, warnings, remarks, seconds }) = tried else {
        return Err(Failed::new(Exit::Failed, format!("`{name}` could not be tried")));
    };
    let line = match (&tools, globals.json) {
        (Ok(count), false) => {
            let tools = if *count == 1 { "tool" } else { "tools" };
            let warning = |text: &String| format!("  warning: {}\n", printable(text));
            let warnings: String = warnings.iter().map(warning).collect();
            let remark = |text: &String| format!("  {}\n", printable(text));
            let remarks: String = remarks.iter().map(remark).collect();
            format!("ok {name}: {count} {tools}, {seconds:.1} s\n{remarks}{warnings}")
        }
        (Err(failure), false) => failed(name, failure),
        (Ok(count), true) => {
            let told = |name: &str, lines: &[String]| match lines.is_empty() {
                true => String::new(),
                false => format!(",\"{name}\":{}", Json::of(lines)),
            };
            let warnings = told("remarks", &remarks) + &told("warnings", &warnings);
            format!(
                "{{\"back\":{},\"outcome\":\"ok\",\"tools\":{count},\"seconds\":{seconds:.3}{warnings}}}\n",
                Json::of(&name)
            )
        }
        (Err(failure), true) => failed_json(name, failure),
    };
    render::print(&masked(&line))?;
    Ok((tools.is_ok(), listed))
}

/// One that lacks nothing but a sign-in is told in few words.
fn in_few_words(failure: &Failure) -> Failure {
    match limit::login_of(failure) {
        Some(login) => {
            let told = Failure { message: "needs a sign-in".to_owned(), ..failure.clone() };
            hinted(told, Some(format!("run `{login}`")))
        }
        None => failure.clone(),
    }
}

fn failed(name: &str, failure: &Failure) -> String {
    let failure = &in_few_words(failure);
    let mut text = format!("FAIL {name}: {}\n", printable(&failure.to_string()));
    if let Some(LastWords { stderr, hint, .. }) = failure.last_words.as_deref() {
        let lines = stderr.iter().map(|line| format!("  | {}\n", printable(line)));
        text.extend(lines);
        let hint = hint.as_ref().map(|hint| format!("  hint: {}\n", printable(hint)));
        text.extend(hint);
    }
    text
}

fn failed_json(name: &str, failure: &Failure) -> String {
    let failure = &in_few_words(failure);
    let mut line = format!(
        "{{\"back\":{},\"outcome\":\"fail\",\"why\":{}",
        Json::of(&name),
        Json::of(&failure.to_string())
    );
    if let Some(LastWords { stderr, hint, .. }) = failure.last_words.as_deref() {
        if !stderr.is_empty() {
            line.push_str(&format!(",\"stderr\":{}", Json::of(stderr)));
        }
        if let Some(hint) = hint {
            line.push_str(&format!(",\"hint\":{}", Json::of(hint)));
        }
    }
    if let Some(reason) = limit::reason_of(failure).filter(|reason| limit::is_of_sign_in(reason)) {
        line.push_str(&format!(",\"reason\":\"{reason}\""));
    }
    line.push_str("}\n");
    line
}
