//! `toolbus certs`: the certificates by which a hub, its plugins and its callers know each other.

use std::path::PathBuf;

use clap::{ArgMatches, FromArgMatches as _};
use toolbus::wire::orchestra::certificates::{
    CertificatesError, FOLDER_DEFAULT, Folder, Listed, Renewal,
};

use super::GROUP;
use crate::args::Globals;
use crate::args::groups::Group;
use crate::command::wire::{Run, Verb, with_subcommands};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::render::table;

pub(crate) static VERB: CertsVerb = CertsVerb;

pub(crate) struct CertsVerb;

impl Verb for CertsVerb {
    fn name(&self) -> &'static str {
        "certs"
    }

    fn group(&self) -> &'static Group {
        &GROUP
    }

    fn command(&self) -> clap::Command {
        with_subcommands::<CertsCommand>(self.name())
            .about("Show or renew the certificates of Orchestra")
            .long_about(STORY)
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(CertsCommand::from_arg_matches(matches)?))
    }
}

const STORY: &str = "Show or renew the certificates of Orchestra

A hub, its plugins and its callers know each other by certificates of one CA, all in one
folder. They are made when they are first needed and made anew before they expire. A CA that
is there is never replaced, unless you say so.";

#[derive(Debug, clap::Subcommand)]
enum CertsCommand {
    Show(ShowArgs),
    Renew(RenewArgs),
}

/// List the certificates of a folder, and whether they are good
///
/// One row each: name, kind, until when it is valid, whether the CA of the folder signed it, and
/// how its key is. Changes nothing. Ends with 1 if one has expired, is signed by another CA, or
/// has no good key; with 2 if there is no folder.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus certs show
  toolbus certs show --certs-dir ./certs --json")]
struct ShowArgs {
    #[command(flatten)]
    folder: FolderArgs,
}

/// Make certificates anew: those that need it, or those you name
///
/// Without a NAME every certificate is renewed that expires within 30 days, is signed by another
/// CA or does not match its key. Says what it did, a line each; nothing to do is no output.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus certs renew
  toolbus certs renew transport.stdio-client
  toolbus certs renew --ca")]
struct RenewArgs {
    /// Renew this one, or make it if it is not there, e.g. `orchestrator`
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Renew every certificate but the CA
    #[arg(long)]
    all: bool,
    /// Replace the CA and renew all others; the old CA is kept as `ca.crt.old`, `ca.key.old`
    #[arg(long)]
    ca: bool,
    #[command(flatten)]
    folder: FolderArgs,
}

/// The folder of certificates.
#[derive(Debug, clap::Args)]
pub(super) struct FolderArgs {
    /// Folder of the certificates
    #[arg(long, value_name = "DIR", default_value = FOLDER_DEFAULT)]
    pub(super) certs_dir: PathBuf,
}

impl FolderArgs {
    pub(super) fn folder(&self) -> Folder {
        Folder::at(&self.certs_dir)
    }
}

impl Run for CertsCommand {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        match self {
            CertsCommand::Show(args) => show(&args.folder.folder(), globals),
            CertsCommand::Renew(args) => renew(args),
        }
    }
}

fn show(folder: &Folder, globals: &Globals) -> Result<(), Failed> {
    let listed = folder.list().map_err(|error| refused(&error))?;
    let text = match globals.json {
        true => listed.iter().map(json).collect(),
        false => table::plain(&listed.iter().map(row).collect::<Vec<_>>()),
    };
    render::print_own(&text)?;
    match listed.iter().all(Listed::is_good) {
        true => Ok(()),
        false => Err(Failed::quietly(Exit::Failed)),
    }
}

fn renew(args: &RenewArgs) -> Result<(), Failed> {
    let renewal = Renewal { names: args.names.clone(), all: args.all, ca: args.ca };
    let renewed = args.folder.folder().renew(&renewal).map_err(|error| refused(&error))?;
    let line = |(name, expires): (&str, &str)| format!("renewed {name}, expires {expires}\n");
    let lines = renewed.iter().map(|renewed| line((&renewed.name, &renewed.expires)));
    render::print_own(&lines.collect::<String>())
}

/// What is said of certificates that cannot be used: nothing was started.
pub(super) fn refused(error: &CertificatesError) -> Failed {
    let failed = Failed::usage(error.to_string());
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    failed.causes(causes.map(ToString::to_string)).hint(error.hint())
}

fn kind(listed: &Listed) -> &'static str {
    if listed.is_ca { "ca" } else { "leaf" }
}

fn row(listed: &Listed) -> [String; 6] {
    let (expires, days) = match &listed.certificate {
        None => ("damaged".to_owned(), String::new()),
        Some(read) => {
            let day = read.not_after.split('T').next().unwrap_or_default();
            match read.days_left {
                i64::MIN..=-1 => (format!("expired {day}"), String::new()),
                1 => (format!("expires {day}"), "1 day left".to_owned()),
                days => (format!("expires {day}"), format!("{days} days left")),
            }
        }
    };
    let signed = match listed.is_issued_by_ca {
        true => "signed by this CA",
        false => "not signed by this CA",
    };
    let key = format!("key {}", listed.key.as_str());
    [listed.name.clone(), kind(listed).to_owned(), expires, days, signed.to_owned(), key]
}

fn json(listed: &Listed) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let (subject, not_after, days_left) = match &listed.certificate {
        Some(read) => (text(&read.subject), text(&read.not_after), read.days_left.to_string()),
        None => ("null".to_owned(), "null".to_owned(), "null".to_owned()),
    };
    format!(
        "{{\"name\":{},\"kind\":\"{}\",\"subject\":{subject},\"not_after\":{not_after},\"days_left\":{days_left},\"issued_by_ca\":{},\"key\":\"{}\"}}\n",
        text(&listed.name),
        kind(listed),
        listed.is_issued_by_ca,
        listed.key.as_str(),
    )
}
