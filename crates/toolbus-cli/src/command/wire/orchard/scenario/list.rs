//! `toolbus orchard list`: the scenarios of files and folders.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use toolbus_orchard::diagnostic::Code;
use toolbus_orchard::disk::Disk;
use toolbus_orchard::model::{Choice, Content, Scenario, load};
use toolbus_orchard::secrets::Secrets;
use toolbus_proto::json::Json;

use super::Face;
use super::opening::{read, tell};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::{self, table};

/// List the scenarios of files and folders
///
/// In a folder every `*.hcl` is looked at, in those inside it too; hidden ones are left out. Files
/// of components have no scenarios. What cannot be read is told after the others, with exit code 2.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard list
  toolbus orchard list scenarios shop.hcl --json")]
pub(super) struct ListArgs {
    /// Files and folders [default: scenarios, else the working directory]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub(super) fn run(args: &ListArgs, face: Face) -> Result<(), Failed> {
    let mut files = Vec::new();
    match &args.paths[..] {
        [] => {
            let scenarios = Path::new("scenarios");
            let (folder, shown) = match scenarios.is_dir() {
                true => (scenarios, scenarios),
                false => (Path::new("."), Path::new("")),
            };
            find(folder, shown, &mut files)?;
        }
        paths => {
            for path in paths {
                match path.is_dir() {
                    true => find(path, path, &mut files)?,
                    false => files.push(path.clone()),
                }
            }
        }
    }
    let mut rows: Vec<[String; 4]> = Vec::new();
    let mut broken = Vec::new();
    for path in files {
        let opened = match read(&path) {
            Ok(opened) => opened,
            Err(failed) => {
                broken.push(Err(failed));
                continue;
            }
        };
        let path = opened.path.clone();
        let mut loaded = load(&Disk, path, &opened.shown, &opened.bytes, Choice::All);
        // A file without scenarios has nothing to list, which is nothing wrong.
        loaded.problems.retain(|problem| problem.code != Code::ScenarioChoice);
        if let Content::Scenarios(scenarios) = &loaded.content {
            for scenario in scenarios {
                match face.json {
                    true => render::print(&line(&opened.shown, scenario))?,
                    false => rows.push(row(&opened.shown, scenario)),
                }
            }
        }
        if !loaded.problems.is_empty() {
            broken.push(Ok((opened.shown, loaded)));
        }
    }
    render::print(&table::plain(&rows))?;
    let mut worst = Ok(());
    for broken in broken {
        // In `--json` there is no other place for what is wrong.
        let face = Face { json: false, ..face };
        let told = match broken {
            Ok((shown, loaded)) => {
                tell(&loaded.problems, &loaded.sources, &shown, &Secrets::new(), face)
            }
            Err(failed) => {
                let report = failed
                    .report
                    .as_ref()
                    .map(|report| render::report::text(report, face.color.paint(&io::stderr())));
                crate::stderr::write(&report.unwrap_or_default());
                Err(failed)
            }
        };
        worst = worst.and(told.map_err(|_| ()));
    }
    worst.map_err(|()| Failed::quietly(Exit::Usage))
}

/// The files of HCL in a folder and those inside it, by name.
pub(super) fn find(folder: &Path, shown: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failed> {
    let cannot = |error: io::Error| {
        Failed::usage(format!("cannot read `{}`", folder.display())).caused_by(&error)
    };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        entries.push(entry.map_err(cannot)?);
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let shown = shown.join(&name);
        // A link to a folder may lead back to where it stands.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder {
            find(&entry.path(), &shown, found)?;
        } else if shown.extension().is_some_and(|extension| extension == "hcl") {
            found.push(shown);
        }
    }
    Ok(())
}

fn row(file: &str, scenario: &Rc<Scenario>) -> [String; 4] {
    let description = scenario.description.clone().unwrap_or_default();
    let first = description.lines().next().unwrap_or_default().to_owned();
    [scenario.body.name.text.clone(), first, scenario.tags.join(","), file.to_owned()]
}

fn line(file: &str, scenario: &Rc<Scenario>) -> String {
    let text = |text: &str| Json::of(text).to_string();
    let description = scenario.description.as_deref().map_or("null".to_owned(), text);
    let tags: Vec<String> = scenario.tags.iter().map(|tag| text(tag)).collect();
    let variables = scenario.body.variables.values().map(|variable| {
        let (name, ty) = (text(&variable.name.text), text(&variable.ty.to_string()));
        let (required, sensitive) = (variable.default.is_none(), variable.sensitive);
        format!(
            "{{\"name\":{name},\"type\":{ty},\"required\":{required},\"sensitive\":{sensitive}}}"
        )
    });
    let variables: Vec<String> = variables.collect();
    format!(
        "{{\"file\":{},\"scenario\":{},\"description\":{description},\"tags\":[{}],\"variables\":[{}]}}\n",
        text(file),
        text(&scenario.body.name.text),
        tags.join(","),
        variables.join(",")
    )
}
