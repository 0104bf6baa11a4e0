//! One run, from its command line to its exit code.

use std::future::Future;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use toolbus::bus::lenient::left_out;
use toolbus::bus::{Bus, Listed};
use toolbus::peer::settings::Settings;
use toolbus::wire::godex::exec::Exec;
use toolbus_engine::chance::OsRandom;
use toolbus_proto::did_you_mean::nearest;
use toolbus_proto::godex::{Run, RunError, Signal, flags, functions};
use toolbus_proto::tool::{LastWords, ToolName, ToolSpec};

use super::ExecArgs;
use super::plan::Plan;
use super::screen::Screen;
use crate::args::Globals;
use crate::args::peer::FrontArgs;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::runtime::{self, Signals};
use crate::{render, stderr};

pub(super) fn run(args: &ExecArgs, globals: &Globals) -> Result<(), Failed> {
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let begun = Instant::now();
        let planned = within(args.timeout, begun, Plan::of(args, globals));
        let planned = unless_interrupted(&mut signals, planned).await;
        let mut plan = match planned {
            Ok(plan) => plan,
            Err(error) => return Err(told(args, &error)),
        };
        if !globals.quiet {
            for warning in &plan.warnings {
                stderr::write(&format!("warning: {}\n", render::printable(warning)));
            }
        }
        let mut tools = Tools::of(&plan, &args.front).map_err(|error| told(args, &error))?;
        let listed = within(args.timeout, begun, tools.offer(&mut plan, &args.allow));
        let listed = unless_interrupted(&mut signals, listed).await;
        let worked = match listed {
            Err(error) => {
                let failed = told(args, &error);
                tools.last_words.iter().for_each(show_last_words);
                Err(failed)
            }
            Ok(()) if args.dry_run => dry_run(&mut plan),
            Ok(()) => {
                let spent = begun.elapsed();
                lead(args, globals, plan, tools.bus.clone(), spent, &mut signals).await
            }
        };
        let bus = tools.bus;
        if let Err(Failed { exit: Exit::Interrupted | Exit::Terminated, .. }) = &worked {
            bus.hurry();
        }
        signals.or_kill(bus.shutdown(), || bus.kill()).await;
        worked
    })
}

/// Says why nothing was asked: on both streams, if lines are wanted.
fn told(args: &ExecArgs, error: &RunError) -> Failed {
    stderr::write(&format!("error: {}\n", render::printable(&error.message)));
    if let Some(hint) = &error.hint {
        stderr::write(&format!("hint: {}\n", render::printable(hint)));
    }
    if error.message == flags::NO_PROMPT {
        let hint = "write what to ask as a word, `toolbus exec 'Why is the sky blue?'`, or `-` to \
                    read it from standard input";
        stderr::write(&format!("hint: {hint}\n"));
    }
    if args.is_json()
        && let Err(failed) = render::print_own(&String::from_utf8_lossy(&error.line()))
    {
        return failed;
    }
    Failed::quietly(Exit::of(error.exit))
}

/// How a program ended that cannot be used, what it said, and what can be done about it.
fn show_last_words(words: &LastWords) {
    let exit = words.exit.iter().map(ToString::to_string);
    let stderr = words.stderr.iter().map(|line| format!("  | {line}"));
    let hint = words.hint.iter().map(|hint| format!("hint: {hint}"));
    for line in exit.chain(stderr).chain(hint) {
        stderr::write(&format!("{}\n", render::printable(&line)));
    }
}

/// What comes before the first request takes of the time of the whole run, too.
async fn within<T>(
    timeout: Option<Duration>,
    begun: Instant,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    let Some(timeout) = timeout else { return work.await };
    let left = timeout.saturating_sub(begun.elapsed());
    let done = tokio::time::timeout(left, work).await;
    done.unwrap_or_else(|_| Err(RunError::not_in_time(timeout)))
}

async fn unless_interrupted<T>(
    signals: &mut Signals,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    tokio::select! {
        biased;
        exit = signals.next() => Err(RunError::interrupted(signal(exit))),
        worked = work => worked,
    }
}

fn signal(exit: Exit) -> Signal {
    match exit {
        Exit::Terminated => Signal::Terminate,
        _ => Signal::Interrupt,
    }
}

/// The peers whose tools the model may call, on one bus.
struct Tools {
    bus: Bus,
    /// What there is to say about a peer without which there is nothing to do.
    last_words: Option<LastWords>,
}

impl Tools {
    /// Starts nothing yet.
    fn of(plan: &Plan, front: &FrontArgs) -> Result<Tools, RunError> {
        let none = Bus::of_addresses(&[], &Settings::default());
        let none = none.map_err(|error| RunError::usage(error.to_string()))?;
        let bus = plan.peers.iter().try_fold(none, |before, peers| {
            let opened = peers.open().map_err(|failed| RunError::usage(failed.message()))?;
            // What stands beside the config is in its journal, too.
            Ok(opened.beside(&before))
        })?;
        let bus = front.searched(bus.for_front("exec")).calling_what_it_offers();
        Ok(Tools { bus, last_words: None })
    }

    /// Lists all tools, and offers those that are allowed. A peer that cannot be asked is left out,
    /// unless there is no other.
    async fn offer(&mut self, plan: &mut Plan, allow: &[String]) -> Result<(), RunError> {
        let bus = self.bus.clone();
        let mut listed = bus.list().await;
        self.leave_out(&listed)?;
        let mut names = Vec::new();
        for (index, Listed { tools, .. }) in listed.iter_mut().enumerate() {
            let Ok(tools) = tools else { continue };
            let name_of = |tool: &ToolSpec| bus.name_at(index, &tool.name);
            names.extend(tools.iter().map(name_of));
            let is_allowed = |tool: &&ToolSpec| functions::is_allowed(allow, &name_of(tool));
            *tools = tools.iter().filter(is_allowed).cloned().collect();
        }
        bus.offer(&listed).map_err(|taken| {
            let hint = taken.hint();
            self.last_words = Some(LastWords { hint, ..LastWords::default() });
            RunError::usage(taken.to_string())
        })?;
        let request = &mut plan.settings.request;
        functions::with_tools(&mut request.functions, &bus.offered()).map_err(RunError::usage)?;
        warn_of_unmatched(allow, &names);
        if let Some(choice) = &plan.choice {
            let choice = flags::choice(choice).map_err(RunError::usage)?;
            flags::check_choice(&choice, request).map_err(RunError::usage)?;
            request.choice = choice;
        }
        Ok(())
    }

    /// Says who is left out; an error if no peer is there at all.
    fn leave_out(&mut self, listed: &[Listed]) -> Result<(), RunError> {
        let is_any_there = listed.iter().any(|listed| listed.tools.is_ok());
        for Listed { back, address, tools } in listed {
            let Err(failure) = tools else { continue };
            if !is_any_there {
                self.last_words = failure.last_words.as_deref().cloned();
                let message = format!("cannot use `{address}`: {failure}");
                return Err(RunError::unavailable(message));
            }
            left_out(back, failure);
        }
        Ok(())
    }
}

/// A pattern that stands for no tool is probably misspelt.
fn warn_of_unmatched(allow: &[String], names: &[ToolName]) {
    for pattern in allow {
        let pattern = std::slice::from_ref(pattern);
        if names.iter().any(|name| functions::is_allowed(pattern, name)) {
            continue;
        }
        let meant = nearest(&pattern[0], names.iter().map(ToolName::as_str));
        let meant = meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
        tracing::warn!("`--allow {}` matches no tool{meant}", pattern[0]);
    }
}

fn dry_run(plan: &mut Plan) -> Result<(), Failed> {
    use std::io::Write as _;
    let body = plan.settings.request.body();
    let line = format!("{}\n", String::from_utf8_lossy(&body));
    if let Some(log) = &mut plan.log_requests {
        log.write_all(line.as_bytes()).map_err(|error| {
            Failed::new(Exit::Failed, "cannot write the log of requests").caused_by(&error)
        })?;
    }
    render::print(&line)
}

async fn lead(
    args: &ExecArgs,
    globals: &Globals,
    mut plan: Plan,
    bus: Bus,
    spent: Duration,
    signals: &mut Signals,
) -> Result<(), Failed> {
    let logs = (plan.log_requests.take(), plan.log_responses.take());
    let screen = Screen::open(args.is_json(), globals.quiet, logs, plan.auth_file.take());
    let mut screen = screen.map_err(|error| cannot_write(&error))?;
    let settings = plan.settings;
    let (base_url, refresh_url) = (settings.base_url.clone(), settings.refresh_url.clone());
    let mut run = Run::new(settings, OsRandom::new());
    run.has_taken(spent);
    let exec = Exec { base_url, refresh_url, bus };
    let interrupted = async { signal(signals.next().await) };
    let led = exec.lead(run, &mut screen, interrupted).await;
    screen.close();
    let Some(ended) = led.map_err(|error| cannot_write(&error))? else { return Ok(()) };
    if ended.exit != 0 {
        return Err(Failed::quietly(Exit::of(ended.exit)));
    }
    if let Some(file) = plan.last_message.take() {
        if ended.last_message.is_none() && !globals.quiet {
            stderr::write(
                "warning: the answer has no message; the file of the last one is empty\n",
            );
        }
        file.write(ended.last_message.as_deref().unwrap_or_default()).map_err(|error| {
            Failed::new(Exit::Failed, "cannot write the last message").caused_by(&error)
        })?;
    }
    Ok(())
}

/// A reader that has gone has what it wanted.
fn cannot_write(error: &std::io::Error) -> Failed {
    match error.kind() {
        ErrorKind::BrokenPipe => Failed::quietly(Exit::Failed),
        _ => Failed::new(Exit::Failed, "cannot write to standard output").caused_by(error),
    }
}
