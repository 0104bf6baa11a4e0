//! `toolbus log`: what the journal says of calls, as lines, as they come, or summed up.

mod filter;
mod follow;
mod rows;
mod stats;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolbus::bus::journal::read::{self, Entry, Lines};

use toolbus_proto::page::Since;

use self::filter::taken;
use self::rows::Rows;
use self::stats::Stats;
use crate::args::{Globals, value};
use crate::config::{self, Found};
use crate::failed::Failed;
use crate::render;
use crate::stdio::{self, Terminal as _};

/// Read the journal: filter it, follow it, sum it up
///
/// A journal has one line for each call that went through toolbus, if `[journal]` in the config
/// names a file. PATH is that file; without one it is the journal of the config. Files that were
/// rotated, `PATH.3` to `PATH.1`, are read before it, the oldest first.
///
/// On a terminal calls are a table; with `--json` they are the lines of the journal as they are.
/// `--stats` sums them up for each tool: how many there were, how many failed, how long the median
/// call took (p50), and within how long 99 of 100 calls ended (p99).
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  toolbus log --since 10m
  toolbus log --outcome failure --back weather
  toolbus log --caller ann
  toolbus log --slower 500ms --json calls.jsonl
  toolbus log --follow
  toolbus log --stats --since 2026-11-16T00:00:00Z")]
pub(crate) struct LogArgs {
    /// Journal to read, `-` for standard input [default: that of the config]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Only calls to this back; may repeat
    #[arg(long, value_name = "NAME")]
    back: Vec<String>,
    /// Only calls of this tool, as its back names it or with the back before it; may repeat
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
    /// Only calls that ended so: ok, failure (any), or a kind like timed_out; may repeat
    #[arg(long, value_name = "OUTCOME", value_parser = filter::outcome)]
    outcome: Vec<String>,
    /// Only calls of this caller, `-` for those of none; may repeat
    #[arg(long, value_name = "NAME")]
    caller: Vec<String>,
    /// Only calls that came by this front; may repeat
    #[arg(long, value_name = "NAME")]
    front: Vec<String>,
    /// Only calls that are a part of this trace, by its id
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// Only calls that ended since then: a time ago (`10m`, `2h`), or a time of RFC 3339
    #[arg(long, value_name = "TIME", value_parser = Since::parse)]
    since: Option<Since>,
    /// Only calls that took longer, e.g. `250ms`
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    slower: Option<Duration>,
    /// Go on with new calls as they end, until a signal
    #[arg(short, long, conflicts_with = "stats")]
    follow: bool,
    /// Sum up by tool: calls, failures, the median and the 99th percentile of the durations
    #[arg(long)]
    stats: bool,
}

pub(crate) fn run(args: &LogArgs, globals: &Globals) -> Result<(), Failed> {
    let filter = filter::of(args);
    let path = match &args.path {
        Some(path) => path.clone(),
        None => configured(globals)?,
    };
    if args.follow {
        return follow::follow(&path, &filter, globals);
    }
    let files = if path.as_os_str() == "-" {
        vec![Source::Stdin(stdio::reader())]
    } else {
        let files = read::open_all(&path).map_err(|error| cannot_read(&path, &error))?;
        files.into_iter().map(Source::File).collect()
    };
    let mut bad = Bad::default();
    if args.stats {
        let mut stats = Stats::default();
        each(&path, files, &mut bad, |entry, _| {
            if taken(&filter, entry) {
                stats.add(entry);
            }
            Ok(())
        })?;
        render::print_own(&stats.shown(globals))?;
    } else {
        let mut rows = Rows::new(globals);
        each(&path, files, &mut bad, |entry, line| {
            if taken(&filter, entry) { rows.add(entry, line) } else { Ok(()) }
        })?;
        rows.finish()?;
    }
    bad.tell(&path);
    Ok(())
}

/// The journal that the config names.
fn configured(globals: &Globals) -> Result<PathBuf, Failed> {
    let hint = "name a journal: `toolbus log PATH`";
    let Found { path, config, .. } = config::read(globals.config.as_deref())?.ok_or_else(|| {
        let usual = config::USUAL;
        Failed::usage(format!("no PATH is given, and there is no `{usual}` here or above"))
            .hint(hint)
    })?;
    let journal = config.journal.ok_or_else(|| {
        Failed::usage(format!("no PATH is given, and `{}` has no `[journal]`", path.display()))
            .hint(format!("{hint}, or have one written: `[journal]` with `path = \"calls.jsonl\"`"))
    })?;
    Ok(journal.path)
}

fn cannot_read(path: &Path, error: &io::Error) -> Failed {
    let shown = path.display();
    if error.kind() == io::ErrorKind::NotFound {
        return Failed::usage(format!("there is no journal `{shown}`"))
            .hint("it is made by the first call that goes through a config with `[journal]`");
    }
    Failed::usage(format!("cannot read the journal `{shown}`")).caused_by(error)
}

enum Source {
    File(File),
    Stdin(Box<dyn Read + Send>),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::File(file) => file.read(buffer),
            Source::Stdin(stdin) => stdin.read(buffer),
        }
    }
}

/// Hands on each entry with its line.
fn each(
    path: &Path,
    files: Vec<Source>,
    bad: &mut Bad,
    mut take: impl FnMut(&Entry<'_>, &str) -> Result<(), Failed>,
) -> Result<(), Failed> {
    for file in files {
        let mut lines = Lines::new(file);
        loop {
            let line = lines.next_line().map_err(|error| cannot_read(path, &error))?;
            let Some(line) = line else { break };
            bad.or_entry(line, &mut take)?;
        }
        // It may lack nothing but its end.
        bad.or_entry(lines.unfinished(), &mut take)?;
    }
    Ok(())
}

/// Lines that are none of a journal.
#[derive(Default)]
struct Bad(u64);

impl Bad {
    fn or_entry(
        &mut self,
        line: &[u8],
        take: impl FnOnce(&Entry<'_>, &str) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        match (Entry::parse(line), str::from_utf8(line)) {
            (Some(entry), Ok(line)) => take(&entry, line),
            _ if line.is_empty() => Ok(()),
            _ => {
                self.0 += 1;
                Ok(())
            }
        }
    }

    fn tell(&self, path: &Path) {
        let path = path.display();
        match self.0 {
            0 => {}
            1 => tracing::warn!("one line of `{path}` is none of a journal, or was cut off"),
            bad => {
                let bad = render::grouped(bad);
                tracing::warn!("{bad} lines of `{path}` are none of a journal, or were cut off");
            }
        }
    }
}

/// Is standard output for people?
fn is_for_people() -> bool {
    io::stdout().is_terminal()
}
