//! What the commands of scenarios share: files and values from the command line, problems told.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use toolbus_orchard::diagnostic::{Problem, Severity};
use toolbus_orchard::disk::Disk;
use toolbus_orchard::model::{Choice, Content, load};
use toolbus_orchard::plan::variables::{Given, VarFile};
use toolbus_orchard::project::Opened;
use toolbus_orchard::secrets::Secrets;
use toolbus_orchard::show::problems::{self, Look};
use toolbus_orchard::source::{FILE_BYTES_MAX, Sources, tidy};

use super::{Face, list};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::stderr;
use crate::stdio::Terminal as _;

/// How the environment names values of variables.
const VAR_PREFIX: &str = "TOOLBUS_VAR_";

/// Which scenario of a file, and with which values.
#[derive(Debug, clap::Args)]
pub(in super::super) struct ValueArgs {
    /// Value of a variable; may repeat, the last counts
    #[arg(long = "var", value_name = "NAME=VALUE")]
    vars: Vec<String>,
    /// File with values of variables, HCL or `.json`; may repeat, later ones count
    #[arg(long = "var-file", value_name = "FILE")]
    var_files: Vec<PathBuf>,
    /// Scenario to take, where a file has several
    #[arg(long, value_name = "NAME")]
    pub(in super::super) scenario: Option<String>,
}

impl ValueArgs {
    pub(in super::super) fn choice(&self) -> Choice<'_> {
        self.scenario.as_deref().map_or(Choice::Only, Choice::Named)
    }

    /// The values that the user gives, from all places.
    pub(in super::super) fn given(&self) -> Result<Given, Failed> {
        let mut flags = Vec::new();
        for var in &self.vars {
            let Some((name, value)) = var.split_once('=') else {
                let failed = Failed::usage(format!("`--var {var}` has no `=`"));
                return Err(failed.hint("write `--var NAME=VALUE`"));
            };
            flags.push((name.to_owned(), value.to_owned()));
        }
        let mut files = Vec::new();
        for path in &self.var_files {
            let Opened { path, shown, bytes } = read(path)?;
            files.push(VarFile { path, shown, bytes });
        }
        let mut environment = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            let name = name.to_str().and_then(|name| name.strip_prefix(VAR_PREFIX));
            if let (Some(name), Some(value)) = (name, value.to_str()) {
                environment.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(Given { flags, files, environment })
    }
}

/// Reads a file that the user names.
pub(in super::super) fn read(path: &Path) -> Result<Opened, Failed> {
    let shown = path.display().to_string();
    let cannot = |error: &io::Error| {
        let failed = Failed::usage(format!("cannot read `{shown}`")).caused_by(error);
        match error.kind() {
            io::ErrorKind::IsADirectory => failed.hint_if_any(scenarios_hint(path)),
            _ => failed,
        }
    };
    // One more byte than is allowed tells who reads it that there are too many.
    let bytes = Disk.read_start(path, FILE_BYTES_MAX + 1).map_err(|error| cannot(&error))?;
    let absolute = std::path::absolute(path).map_err(|error| cannot(&error))?;
    Ok(Opened { path: tidy(&absolute), shown, bytes })
}

/// The scenarios of a folder that was named in place of a file.
fn scenarios_hint(folder: &Path) -> Option<String> {
    /// How many are named: a folder may hold any number.
    const SHOWN_MAX: usize = 8;
    let mut files = Vec::new();
    list::find(folder, folder, &mut files).ok()?;
    let mut found = Vec::new();
    for file in &files {
        let Ok(bytes) = Disk.read_start(file, FILE_BYTES_MAX + 1) else { continue };
        let shown = file.display().to_string();
        let loaded = load(&Disk, file.clone(), &shown, &bytes, Choice::All);
        let Content::Scenarios(scenarios) = loaded.content else { continue };
        let names = scenarios.iter().map(|scenario| &scenario.body.name.text);
        found.extend(names.map(|name| format!("`{name}` in `{shown}`")));
    }
    let more = match found.len().checked_sub(SHOWN_MAX) {
        None | Some(0) => String::new(),
        Some(more) => format!(", and {more} more"),
    };
    found.truncate(SHOWN_MAX);
    (!found.is_empty()).then(|| format!("name one of its files: {}{more}", found.join(", ")))
}

/// Tells people what is wrong, and fails if something is.
pub(in super::super) fn tell(
    found: &[Problem],
    sources: &Sources,
    shown: &str,
    secrets: &Secrets,
    face: Face,
) -> Result<(), Failed> {
    let is_error = |problem: &Problem| problem.severity == Severity::Error;
    let is_wrong = found.iter().any(is_error);
    if face.json {
        return if is_wrong { Err(Failed::quietly(Exit::Usage)) } else { Ok(()) };
    }
    let wanted = |problem: &&Problem| !face.quiet || is_error(problem);
    let wanted: Vec<Problem> = found.iter().filter(wanted).cloned().collect();
    let paint = face.color.paint(&io::stderr());
    let look = Look { color: paint.on, terminal: io::stderr().is_terminal(), width: 100 };
    stderr::write(&secrets.masked(&problems::text(&wanted, sources, look)));
    match problems::summary(found, shown) {
        Some(summary) => {
            stderr::write(&format!("{} {summary}\n", paint.error("error:")));
            Err(Failed::quietly(Exit::Usage))
        }
        None => Ok(()),
    }
}
