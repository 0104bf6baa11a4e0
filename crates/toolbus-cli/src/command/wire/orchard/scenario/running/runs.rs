//! `toolbus orchard runs`: the records of a folder.

use std::io::ErrorKind;
use std::path::PathBuf;

use toolbus_orchard::record::{Record, Status, file};

use super::super::Face;
use crate::failed::Failed;
use crate::render::{self, table};
use crate::stderr;

/// List the runs that a folder has records of, newest first
///
/// A line has the run's id, the scenario, how the run stands, how many of its actions succeeded,
/// and how its teardown stands. A run that was killed still stands as `running`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard runs
  toolbus orchard runs --json records")]
pub(in super::super) struct RunsArgs {
    /// Where the records are
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

impl RunsArgs {
    pub(in super::super) fn run(&self, face: Face) -> Result<(), Failed> {
        let paths = file::list(&self.folder).map_err(|error| {
            let message = format!("cannot read the folder `{}`", self.folder.display());
            let failed = Failed::usage(message).caused_by(&error);
            match error.kind() {
                ErrorKind::NotFound => failed.hint("records are in the folder of `--record-dir`"),
                _ => failed,
            }
        })?;
        let mut rows = Vec::new();
        let mut lines = String::new();
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
            match face.json {
                true => {
                    lines.push_str(&line(&record, &path));
                    lines.push('\n');
                }
                false => rows.push(row(&record)),
            }
        }
        match face.json {
            true => render::print(&lines),
            false => render::print(&table::plain(&rows)),
        }
    }
}

fn row(record: &Record) -> [String; 5] {
    let teardown = record.teardown.as_ref().map_or("-", |teardown| teardown.status.as_str());
    [
        record.run_id.clone(),
        record.scenario.clone(),
        record.status.as_str().to_owned(),
        format!("{}/{}", record.done(), record.nodes.len()),
        teardown.to_owned(),
    ]
}

#[derive(serde::Serialize)]
struct Line<'a> {
    run_id: &'a str,
    scenario: &'a str,
    status: Status,
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
        status: record.status,
        started_at: &record.started_at,
        nodes: record.nodes.len(),
        done: record.done(),
        teardown: record.teardown.as_ref().map(|teardown| teardown.status),
        path: path.strip_prefix(".").unwrap_or(path).display().to_string(),
    };
    serde_json::to_string(&line).unwrap_or_default()
}
