//! The commands that do something: `run` and `teardown`, and `runs`, which lists what was done.

mod live;
pub(crate) mod run;
pub(crate) mod runs;
mod screen;
pub(crate) mod teardown;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;
use toolbus::bus::observe::Observers;
use toolbus_engine::chance;
use toolbus_orchard::diagnostic::Problem;
use toolbus_orchard::provider::Patience;
use toolbus_orchard::record::ErrorRecord;
use toolbus_orchard::run::{Event, NotStarted, Stop, Stopper, Summary, Surface as _};
use toolbus_orchard::secrets::{MASK, Secrets};
use toolbus_orchard::show::problems;
use toolbus_orchard::source::Sources;
use toolbus_orchard::value::Value;

use self::screen::Screen;
use super::Face;
use super::opening::tell;
use crate::args::value;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::{self, printable};
use crate::runtime::Signals;
use crate::{observers, stderr};

/// How patient we are with providers.
#[derive(Debug, clap::Args)]
pub(crate) struct ProviderArgs {
    /// Give up on a provider that has not described itself after this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    describe_timeout: Duration,
    /// Give up on a provider that has not taken its config after this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "30s",
          allow_negative_numbers = true)]
    configure_timeout: Duration,
    /// Give up on an action without a `timeout` of its own after this long [default: never]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    action_timeout: Option<Duration>,
    /// Let a provider have this long to answer `shutdown`
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    stop_timeout: Duration,
    /// Refuse messages of a provider that are longer than this
    #[arg(long, value_name = "BYTES", value_parser = value::held_size, default_value = "16MiB")]
    frame_bytes_max: usize,
    /// Allow the address `shell:` as a source, whose one tool runs any command
    #[arg(long)]
    allow_shell: bool,
}

impl ProviderArgs {
    fn patience(&self, is_strict: bool) -> Patience {
        Patience {
            describe: self.describe_timeout,
            configure: self.configure_timeout,
            stop: self.stop_timeout,
            frame_bytes_max: self.frame_bytes_max,
            is_strict,
            allow_shell: self.allow_shell,
        }
    }
}

/// Who is told of what the providers are asked to do.
fn observers(config: Option<&Path>) -> Result<Observers, Failed> {
    Ok(Observers::new("orchard", observers::of_config(config)?))
}

/// From now on the sensitive ones of these values are secrets.
fn hide(secrets: &Secrets, values: &BTreeMap<String, Value>) {
    toolbus_engine::secrets::mask_as(MASK);
    for value in values.values().filter(|value| value.contains_sensitive()) {
        secrets.hide_sensitive(value);
        hide_in_logs(value);
    }
}

/// The log of toolbus itself, whatever of it is shown.
fn hide_in_logs(value: &Value) {
    if let Some(text) = value.as_str() {
        toolbus_engine::secrets::hide(text);
    }
    value.elements().into_iter().flatten().for_each(hide_in_logs);
    value.members().into_iter().flatten().for_each(|(_, member)| hide_in_logs(member));
}

/// The exit code of the first signal, once it came.
type FirstSignal = Rc<Cell<Option<Exit>>>;

/// Listens for signals: the first asks to stop, and people are told what that means; the second
/// asks to do so at once. Gives how often, and which was the first.
fn listen(screen: &Rc<Screen>) -> Result<(Stop, FirstSignal), Failed> {
    let screen = screen.clone();
    let mut signals = Signals::listen()?;
    let (stopper, stop): (Stopper, Stop) = Stop::new();
    let first = FirstSignal::default();
    let told = first.clone();
    spawn_local(async move {
        loop {
            let exit = signals.next().await;
            if told.get().is_none() {
                told.set(Some(exit));
                screen.tell_of_signal();
            }
            stopper.stop();
        }
    });
    Ok((stop, first))
}

/// Shows what is wrong with a scenario.
fn show_problems(
    screen: &Screen,
    face: Face,
    all: &[Problem],
    sources: &Sources,
    shown: &str,
    secrets: &Secrets,
) {
    if face.json {
        for problem in all {
            let mut line = b"{\"event\":\"diagnostic\",\"at\":".to_vec();
            let now = toolbus_orchard::record::time::rfc3339(std::time::SystemTime::now());
            line.extend_from_slice(format!("\"{now}\",").as_bytes());
            problems::json_members(&mut line, problem, sources);
            line.push(b'}');
            screen.event_line(&secrets.masked(&String::from_utf8_lossy(&line)));
        }
        return;
    }
    screen.wipe();
    // That it is an error is in the exit code.
    let _ = tell(all, sources, shown, secrets, face);
}

/// Why nothing was begun, as a report.
fn not_started(why: &NotStarted, first: Option<Exit>) -> (Exit, Option<ErrorRecord>) {
    match why {
        NotStarted::Provider { error, exit_code } => (Exit::of(*exit_code), Some(error.clone())),
        NotStarted::Stopped => (first.unwrap_or(Exit::Interrupted), None),
    }
}

/// It cannot be begun, or not go on, by no fault of a provider: the last event tells why.
fn refused(screen: &Screen, face: Face, failed: Failed, mut summary: Summary) -> Failed {
    screen.close();
    (summary.status, summary.exit_code) = (None, failed.exit.code());
    let (code, message) = ("invalid_request".to_owned(), failed.message());
    let detail = failed.report.as_ref().and_then(|report| report.hint.clone());
    summary.error = Some(ErrorRecord { code, message, provider: None, detail });
    screen.tell(&Event::Ended(&summary));
    // What stands in the events is not said twice.
    if face.json { Failed::quietly(failed.exit) } else { failed }
}

/// Tells people of an error.
fn report(face: Face, what: Option<&str>, error: &ErrorRecord, place: Option<String>) {
    let ErrorRecord { code, message, provider, detail } = error;
    let message = match what {
        Some(what) => format!("{}: {code}: {}", printable(what), printable(message)),
        None => printable(message).into_owned(),
    };
    let provider = provider.as_ref().map(|provider| format!("provider `{provider}`"));
    let lines = place.into_iter().chain(provider.filter(|provider| !message.contains(&**provider)));
    let detail = detail.iter().flat_map(|detail| detail.lines().map(str::to_owned));
    let failed = Failed::new(Exit::Failed, message).lines(lines.chain(detail));
    if let Some(report) = &failed.report {
        let paint = face.color.paint(&std::io::stderr());
        stderr::write(&render::report::text(report, paint));
    }
}

/// What the random functions are fed with, if the user does not say.
fn random_seed() -> u64 {
    u64::from_le_bytes(chance::bytes())
}
