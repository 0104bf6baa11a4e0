//! `toolbus config`: what is wrong with the config, and what may stand in it.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;
use toolbus::bus::Bus;
use toolbus::bus::config::described;
use toolbus::bus::config::looked::{Looked, Remark};
use toolbus::bus::config::{BackConfig, Config};
use toolbus::peer::Registry;
use toolbus_engine::secrets::masked;
use tracing::Level;

use super::serve;
use crate::args::Globals;
use crate::config;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::not_opened;
use crate::{logging, render, runtime, stderr};

/// The schema of the config, as editors are told of it.
pub(crate) const SCHEMA: &str = concat!(
    env!("CARGO_PKG_REPOSITORY"),
    "/raw/v",
    env!("CARGO_PKG_VERSION"),
    "/docs/toolbus.schema.json"
);

/// Check the config, or print what may stand in it
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Tell all that is wrong with the config
    ///
    /// The config is read, its lock, and the files that it names; nothing is started, opened or
    /// connected to. Standard error has all mistakes in the order of their lines, and warnings:
    /// variables that are not set, programs that are not there. With a mistake the exit code is 2.
    ///
    /// With `--json` standard output has a line for each, and one with their numbers.
    #[command(after_long_help = "Examples:
  toolbus config check
  toolbus config check --strict --config tools.toml")]
    Check(CheckArgs),
    /// Print a JSON Schema of the config
    ///
    /// Editors that read it complete and check `toolbus.toml` while it is written. A config that
    /// `toolbus init` or `toolbus add` makes names it in its first line.
    #[command(after_long_help = "Example:
  toolbus config schema > toolbus.schema.json")]
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The exit code is 1 if there are warnings
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(command: &ConfigCommand, globals: &Globals) -> Result<(), Failed> {
    match command {
        ConfigCommand::Check(args) => check(args, globals),
        ConfigCommand::Schema => {
            render::print_own(&described::schema(&Registry::default(), SCHEMA))
        }
    }
}

fn check(args: &CheckArgs, globals: &Globals) -> Result<(), Failed> {
    let (path, looked) = config::look(globals.config.as_deref())?.ok_or_else(|| {
        Failed::usage(format!("there is no `{}` here or above", config::USUAL))
            .hint("name a config by `--config FILE`; `toolbus init` writes one")
    })?;
    let mut findings = findings(&path, &looked)?;
    // What has no line is told last.
    findings.sort_by_key(|finding| finding.remark.line.unwrap_or(usize::MAX));
    let count = |is_error| findings.iter().filter(|finding| finding.is_error == is_error).count();
    let (errors, warnings) = (count(true), count(false));
    if globals.json {
        let numbers = json!({
            "errors": errors,
            "warnings": warnings,
            "backs": looked.backs,
            "fronts": looked.fronts,
        });
        let lines = findings.iter().map(Finding::to_json).collect::<String>();
        render::print_own(&format!("{lines}{numbers}\n"))?;
    } else {
        for finding in &findings {
            finding.tell(&path, globals);
        }
        if errors == 0 {
            render::print(&format!("ok {}: {}\n", path.display(), told(&looked)))?;
        }
    }
    match (errors, warnings) {
        (0, 0) => Ok(()),
        (0, _) if !args.strict => Ok(()),
        (0, _) => Err(Failed::quietly(Exit::Failed)),
        _ => Err(Failed::quietly(Exit::Usage)),
    }
}

/// One mistake or warning.
struct Finding {
    is_error: bool,
    /// Are file and line told with it?
    is_placed: bool,
    remark: Remark,
}

/// All that is wrong, as far as it can be known without starting anything.
fn findings(path: &Path, looked: &Looked) -> Result<Vec<Finding>, Failed> {
    let of = |is_error| {
        move |remark: &Remark| Finding { is_error, is_placed: true, remark: remark.clone() }
    };
    let mistakes = looked.mistakes.iter().map(of(true));
    let mut findings: Vec<_> = mistakes.chain(looked.warnings.iter().map(of(false))).collect();
    // Of a table that is wrong already nothing more can be said.
    let is_sound = |table: &str| !looked.is_mistaken(table);
    let folder = path.parent().unwrap_or(Path::new(""));
    let on_fronts = serve::mistakes(&looked.config, folder);
    let later = on_fronts.into_iter().chain(unopened(&looked.config)?);
    for (table, failed) in later.filter(|(table, _)| is_sound(table)) {
        let message = failed.message();
        let named = message.split('`').nth(1).filter(|key| key.starts_with(&format!("{table}.")));
        let key = named.unwrap_or(&table).to_owned();
        let line = looked.line_of(&key);
        let hint = failed.report.and_then(|report| report.hint);
        let remark = Remark { line, key: Some(key), message, hint, ..Remark::default() };
        findings.push(Finding { is_error: true, is_placed: false, remark });
    }
    if let Some(failed) = config::mistake_of_lock(path, &looked.config) {
        let message = failed.message();
        let hint = failed.report.and_then(|report| report.hint);
        let (line, key) = (looked.line_of("lock"), Some("lock".to_owned()));
        let remark = Remark { line, key, message, hint, ..Remark::default() };
        findings.push(Finding { is_error: true, is_placed: false, remark });
    }
    Ok(findings)
}

/// The backs that cannot be opened, wherever their peer is. Nothing is started or connected to.
fn unopened(config: &Config) -> Result<Vec<(String, Failed)>, Failed> {
    runtime::block_on(async {
        let alone = |back: &BackConfig| {
            let mut alone = Config::default();
            alone.backs.push(back.clone());
            let error = Bus::of_config(&alone).err()?;
            Some((format!("back.{}", back.name), not_opened(&error)))
        };
        Ok(config.backs.iter().filter_map(alone).collect())
    })
}

impl Finding {
    fn tell(&self, path: &Path, globals: &Globals) {
        let Remark { line, message, hint, .. } = &self.remark;
        let message = match (self.is_placed, line) {
            (false, _) => message.clone(),
            (true, Some(line)) => format!("`{}` line {line}: {message}", path.display()),
            (true, None) => format!("`{}`: {message}", path.display()),
        };
        if self.is_error {
            Failed::usage(message).hint_if_any(hint.clone()).told(globals);
        } else if !globals.quiet {
            stderr::write(&logging::line(Level::WARN, &masked(&message)));
        }
    }

    fn to_json(&self) -> String {
        let Remark { line, key, message, hint, .. } = &self.remark;
        let mut told = json!({ "severity": if self.is_error { "error" } else { "warning" } });
        let mut add = |name: &str, value: serde_json::Value| told[name] = value;
        if let Some(line) = line {
            add("line", json!(line));
        }
        if let Some(key) = key {
            add("key", json!(key));
        }
        add("message", json!(masked(message)));
        if let Some(hint) = hint.as_ref().filter(|_| self.is_error) {
            add("hint", json!(masked(hint)));
        }
        format!("{told}\n")
    }
}

/// What a config has, in words.
fn told(looked: &Looked) -> String {
    let counted = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    let Config { views, callers, .. } = &looked.config;
    let mut told =
        format!("{}, {}", counted(looked.backs, "back"), counted(looked.fronts, "front"));
    for (count, one) in [(views.len(), "view"), (callers.len(), "caller")] {
        if 0 < count {
            let _ = write!(told, ", {}", counted(count, one));
        }
    }
    told
}
