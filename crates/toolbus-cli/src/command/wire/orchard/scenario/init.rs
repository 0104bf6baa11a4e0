//! `toolbus orchard init`: a first scenario to change.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::Face;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;

/// Write a first scenario and a component, to be changed
///
/// Files that are there are kept. What is written can be planned and run as it is.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard init
  toolbus orchard init shop")]
pub(super) struct InitArgs {
    /// Folder to write to, made if it is not there [default: the working directory]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

const SCENARIO: &str = include_str!("hello.hcl");
const COMPONENT: &str = include_str!("merchant.hcl");

pub(super) fn run(args: &InitArgs, _face: Face) -> Result<(), Failed> {
    let folder = args.folder.as_deref().unwrap_or(Path::new(""));
    let scenario = folder.join("scenarios/hello.hcl");
    for (path, text) in
        [(&scenario, SCENARIO), (&folder.join("components/merchant.hcl"), COMPONENT)]
    {
        let what = if written(path, text)? { "created" } else { "kept" };
        render::print(&format!("{what} {}\n", path.display()))?;
    }
    render::print(&format!("next: toolbus orchard plan {}\n", scenario.display()))
}

/// Writes a file that is not there yet; tells whether it did.
fn written(path: &Path, text: &str) -> Result<bool, Failed> {
    let cannot = |error: std::io::Error| {
        Failed::new(Exit::Failed, format!("cannot write `{}`", path.display())).caused_by(&error)
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    match fs::File::create_new(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(cannot).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(cannot(error)),
    }
}
