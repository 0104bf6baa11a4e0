//! `toolbus orchard schema`: what a provider has.

use std::path::Path;

use toolbus_orchard::provider::{ProviderSource, probe};
use toolbus_orchard::show::{json_schema, schema_text};

use super::Face;
use super::plan::AskingArgs;
use crate::failed::Failed;
use crate::render::{self, failure};
use crate::runtime::{self, Signals};

/// Show the actions of a provider, and what they take and give
///
/// SOURCE is what stands behind `source` in a scenario: `builtin/exec`, `exec:PATH` (relative to
/// the working directory), or any address, whose tools are actions.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard schema builtin/exec
  toolbus orchard schema exec:./orchard-echo --json
  toolbus orchard schema builtin: --json-schema")]
pub(super) struct SchemaArgs {
    /// Where the provider comes from
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Print one line with JSON Schemas
    #[arg(long)]
    json_schema: bool,
    #[command(flatten)]
    asking: AskingArgs,
}

pub(super) fn run(args: &SchemaArgs, face: Face) -> Result<(), Failed> {
    let folder = std::env::current_dir()
        .map_err(|error| Failed::usage("cannot tell the working directory").caused_by(&error))?;
    let source = ProviderSource::parse(&args.source, &folder)
        .map_err(|error| Failed::usage(error.to_string()).hint_if_any(error.hint()))?;
    let name = name_of(&args.source);
    let schema = runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let patience = args.asking.patience();
        let asked = probe(&name, &source, &folder, &patience, args.asking.environment());
        tokio::select! {
            asked = asked => asked.map_err(|failure| failure::failed(&failure)),
            exit = signals.next() => Err(Failed::quietly(exit)),
        }
    })?;
    render::print(&match (args.json_schema, face.json) {
        (true, _) => json_schema(&schema),
        (false, true) => format!("{}\n", schema.write()),
        (false, false) => schema_text(&schema),
    })
}

/// What a provider without a name is called: the last part of where it comes from.
fn name_of(source: &str) -> String {
    let word = source.rsplit(':').find(|part| !part.is_empty()).unwrap_or(source);
    let first = word.split_whitespace().next().unwrap_or(word);
    let name = Path::new(first).file_name().and_then(|name| name.to_str());
    name.unwrap_or(first).to_owned()
}
