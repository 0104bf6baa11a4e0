//! `toolbus orchard runs`: the records of a folder.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use toolbus_engine::child::words::quoted;
use toolbus_orchard::record::{Record, Status, file};
use toolbus_orchard::run::teardown::is_left;

use super::super::Face;
use crate::failed::Failed;
use crate::render::{self, table};
use crate::stderr;

/// List the runs that a folder has records of, newest first
///
/// A line has the run's id, the scenario, how the run stands, how many of its actions succeeded,
/// and how its teardown stands. A run whose process has died before its end is `killed`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard runs
  toolbus orchard runs --json records")]
pub(in super::super) struct RunsArgs {
    /// Where the records are [default: .]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The same, as `run` and `teardown` call it
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    record_dir: Option<PathBuf>,
}

impl RunsArgs {
    pub(in super::super) fn run(&self, face: Face) -> Result<(), Failed> {
        let folder = self.folder.as_ref().or(self.record_dir.as_ref());
        let folder = folder.map_or(Path::new("."), PathBuf::as_path);
        let paths = file::list(folder).map_err(|error| {
            let message = format!("cannot read the folder `{}`", folder.display());
            let failed = Failed::usage(message).caused_by(&error);
            match error.kind() {
                ErrorKind::NotFound => failed.hint("records are in the folder of `--record-dir`"),
                _ => failed,
            }
        })?;
        let mut rows = Vec::new();
        let mut lines = String::new();
        let mut killed = None;
        for path in paths {
            let record = match file::load(&path) {
                Ok(record) => record,
                Err(error) => {
                    if !face.quiet {
                        stderr::write(&format!("warning: {error}\n"));
                    }
                    continue;
                }
            };
            if killed.is_none() && is_killed(&record) && record.nodes.iter().any(is_left) {
                killed = Some(path.clone());
            }
            match face.json {
                true => {
                    lines.push_str(&line(&record, &path));
                    lines.push('\n');
                }
                false => rows.push(row(&record)),
            }
        }
        if face.json {
            return render::print(&lines);
        }
        render::print(&table::plain(&rows))?;
        if let Some(path) = killed.filter(|_| !face.quiet) {
            let path = path.strip_prefix(".").unwrap_or(&path).display().to_string();
            let hint = face.color.paint(&io::stderr()).hint("hint:");
            let line = format!("toolbus orchard teardown {}", quoted(&path));
            stderr::write(&format!("{hint} undo what was done before it was killed: {line}\n"));
        }
        Ok(())
    }
}

/// Has its process died before it could write how it ended?
fn is_killed(record: &Record) -> bool {
    record.status == Status::Running && !record.process.is_alive()
}

/// How it stands: as the record says, unless that was overtaken.
fn status(record: &Record) -> &'static str {
    if is_killed(record) { "killed" } else { record.status.as_str() }
}

fn row(record: &Record) -> [String; 5] {
    let teardown = record.teardown.as_ref().map_or("-", |teardown| teardown.status.as_str());
    [
        record.run_id.clone(),
        record.scenario.clone(),
        status(record).to_owned(),
        format!("{}/{}", record.done(), record.nodes.len()),
        teardown.to_owned(),
    ]
}

#[derive(serde::Serialize)]
struct Line<'a> {
    run_id: &'a str,
    scenario: &'a str,
    status: &'a str,
    started_at: &'a str,
    nodes: usize,
    done: usize,
    teardown: Option<Status>,
    path: String,
}

fn line(record: &Record, path: &std::path::Path) -> String {
    let line = Line {
        run_id: &record.run_id,
        scenario: &record.scenario,
        status: status(record),
        started_at: &record.started_at,
        nodes: record.nodes.len(),
        done: record.done(),
        teardown: record.teardown.as_ref().map(|teardown| teardown.status),
        path: path.strip_prefix(".").unwrap_or(path).display().to_string(),
    };
    serde_json::to_string(&line).unwrap_or_default()
}
