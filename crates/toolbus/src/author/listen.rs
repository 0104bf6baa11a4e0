//! Serves an author's tools to the callers that connect, on as many addresses as are named, until
//! a signal.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use super::Tools;
use super::console::{self, USAGE, say};
use crate::address::{Address, Purpose};
use crate::bus::{About, Bus};
use crate::peer::settings::{Settings, WireSettings};
use crate::peer::{Circumstances, FrontError, FrontPlan, Listening, Registry, RunningFront};
use crate::task::boxed;

/// Ended by SIGINT and by SIGTERM.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// Listens on each of these, and serves until a signal comes.
pub(super) fn serve(tools: Tools, urls: &[String]) -> ExitCode {
    let plans = match urls.iter().map(|url| plan(url)).collect::<Result<Vec<_>, _>>() {
        Ok(plans) => plans,
        Err(error) => return failed(&error),
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(tokio::runtime::LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(until_signal(tools, plans)),
        Err(error) => {
            let cannot = FrontError::failed("cannot start the event loop");
            failed(&cannot.caused_by(&error))
        }
    }
}

fn plan(url: &str) -> Result<FrontPlan, FrontError> {
    let registry = Registry::default();
    let address = registry.address(Purpose::Serve, url);
    let address: Address = address.map_err(|error| FrontError::usage(error.to_string()))?;
    let kind = address.kind();
    let front = kind.front().filter(|_| kind.can_listen(&address));
    let front = front.ok_or_else(|| FrontError::usage(format!("cannot listen on `{address}`")))?;
    front.plan(&address, &WireSettings::default(), Circumstances::default()).map_err(|error| {
        match error.key {
            // What is missing there has no flag here.
            Some(_) => FrontError { key: None, ..error }.hint(Some(
                "listen on 127.0.0.1, and let `toolbus serve` stand before it".to_owned(),
            )),
            None => error,
        }
    })
}

async fn until_signal(tools: Tools, plans: Vec<FrontPlan>) -> ExitCode {
    let (mut interrupt, mut terminate) =
        match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
            (Err(error), _) | (_, Err(error)) => {
                return failed(&FrontError::failed("cannot listen for signals").caused_by(&error));
            }
        };
    let mut serving = JoinSet::new();
    let fronts = match open(tools, plans, &mut serving).await {
        Ok(fronts) => fronts,
        Err(error) => return failed(&error),
    };
    let code = tokio::select! {
        () = heard(&mut interrupt) => INTERRUPTED,
        () = heard(&mut terminate) => TERMINATED,
        Some(Ok(Err(error))) = serving.join_next() => return failed(&error),
    };
    fronts.iter().for_each(RunningFront::stop);
    tokio::select! {
        // The last calls have a while; who cannot wait for that says so once more.
        () = async { while serving.join_next().await.is_some() {} } => {}
        () = heard(&mut interrupt) => {}
        () = heard(&mut terminate) => {}
    }
    ExitCode::from(code)
}

async fn heard(signal: &mut Signal) {
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

async fn open(
    tools: Tools,
    plans: Vec<FrontPlan>,
    serving: &mut JoinSet<Result<(), FrontError>>,
) -> Result<Vec<RunningFront>, FrontError> {
    let about = About {
        name: tools.name().to_owned(),
        version: tools.version().to_owned(),
        instructions: tools.usage().map(str::to_owned),
    };
    let cannot = |error: &dyn std::error::Error| FrontError::failed(error.to_string());
    let mut bus = Bus::of_addresses(&[], &Settings::default()).map_err(|error| cannot(&error))?;
    bus.join("tools", tools.into_back()).map_err(|error| cannot(&error))?;
    let bus = bus.introduced_as(about);
    let mut fronts = Vec::new();
    for (number, plan) in (1..).zip(plans) {
        let Listening { line, front, serving: served, .. } = plan(bus.clone(), number).await?;
        if let Some(line) = line {
            say(line);
        }
        serving.spawn_local(boxed(served));
        fronts.push(front);
    }
    Ok(fronts)
}

fn failed(error: &FrontError) -> ExitCode {
    let code = if error.is_usage { USAGE } else { 1 };
    console::failed(error, &error.causes, error.hint.as_deref(), code)
}
