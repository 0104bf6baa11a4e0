//! `toolbus remove`: backs taken out of the config.

use std::path::Path;

use serde_json::json;
use toml::de::DeTable;
use toolbus_proto::did_you_mean::nearest;
use toolbus_proto::edit::toml::Tables;

use super::add::{FAMILY, config_file, tables};
use crate::args::Globals;
use crate::config;
use crate::edited::{self, Mode};
use crate::failed::Failed;
use crate::peers::say_how_to_reload;
use crate::render;

/// Take backs out of the config
///
/// With the table of a back go the comments directly above it; every other byte of the file stays.
/// Of several names all are taken out, or none.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  toolbus remove weather")]
pub(crate) struct RemoveArgs {
    /// Backs of the config
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Show the change as a diff, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &RemoveArgs, globals: &Globals) -> Result<(), Failed> {
    let file = config_file(globals)?;
    let Some(old) = &file.text else {
        return Err(Failed::usage(format!("there is no `{}` here or above", config::USUAL))
            .hint("name a config by `--config FILE`"));
    };
    let known = tables(&file)?;
    let mut names: Vec<&String> = Vec::new();
    for name in &args.names {
        if !known.has(FAMILY, name) && known.is_inline(FAMILY) {
            let message =
                format!("`{FAMILY}` is an inline table, and nothing can be taken out of it");
            return Err(Failed::usage(message));
        }
        if !known.has(FAMILY, name) {
            let others = names_in(old);
            let meant = nearest(name, others.iter().map(String::as_str));
            let meant = meant.map(|meant| format!("did you mean `{meant}`?"));
            return Err(
                Failed::usage(format!("`{}` has no back `{name}`", file.shown)).hint_if_any(meant)
            );
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut text = old.clone();
    for name in &names {
        let without = Tables::read(&text).map(|tables| tables.without(FAMILY, name));
        text = without.map_err(|_| Failed::usage(format!("`{}` is not TOML", file.shown)))?;
    }
    if args.dry_run {
        return render::print(&file.diff(&text));
    }
    file.write(&text, Mode::Usual)?;
    let names: Vec<_> = names.into_iter().cloned().collect();
    render::print(&match globals.json {
        true => {
            let path = edited::absolute(Path::new(&file.shown)).display().to_string();
            format!("{}\n", json!({"removed": names, "config": path}))
        }
        false => format!("removed {} from {}\n", names.join(", "), file.shown),
    })?;
    say_how_to_reload(Path::new(&file.shown), globals);
    Ok(())
}

/// The names of all backs in the text of a config.
fn names_in(text: &str) -> Vec<String> {
    let Ok(table) = DeTable::parse(text.trim_start_matches('\u{feff}')) else { return Vec::new() };
    let backs = table.get_ref().get(FAMILY).and_then(|backs| backs.get_ref().as_table());
    backs.into_iter().flatten().map(|(name, _)| name.get_ref().to_string()).collect()
}
