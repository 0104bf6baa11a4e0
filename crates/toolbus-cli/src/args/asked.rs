//! Flags about what peers may ask of their caller, and how they are spoken to.

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use toolbus::peer::settings::{Askable, Clients, Generation};

use super::Globals;
use crate::command::call::answering::Answering;
use crate::command::call::question;
use crate::failed::Failed;

/// Which generation of its protocol a peer is spoken to in.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct EraArgs {
    /// Speak to MCP servers as of this era alone: `legacy` (to 2025-11-25), `modern` (2026-07-28)
    /// or `auto`
    #[arg(long, value_name = "ERA", value_enum, hide_possible_values = true)]
    era: Option<Era>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Era {
    /// What it turns out to know
    Auto,
    /// That of `initialize`
    Legacy,
    /// That of `server/discover`
    Modern,
}

impl EraArgs {
    /// Was it said?
    pub(crate) fn is_given(self) -> bool {
        self.era.is_some()
    }

    pub(crate) fn generation(self) -> Option<Generation> {
        match self.era {
            Some(Era::Legacy) => Some(Generation::Legacy),
            Some(Era::Modern) => Some(Generation::Modern),
            Some(Era::Auto) | None => None,
        }
    }
}

/// What a peer may ask for.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AskedArgs {
    /// Let the server work in this folder: it is told of it when it asks for roots; may repeat
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Let the server ask a model: the tool `ask` of this peer, e.g. `godex+stdio:godex exec`
    #[arg(long, value_name = "ADDRESS")]
    sample_with: Option<String>,
}

/// What a peer is told that it may ask where tools are only listed: some list other tools then, and
/// the user who reads the list will call them on this terminal.
pub(crate) fn listing_clients() -> Clients {
    let forms = question::can_be_answered();
    Clients::User(Askable { forms, ..Askable::default() })
}

impl AskedArgs {
    /// Was one of them said?
    pub(crate) fn is_given(&self) -> bool {
        !self.roots.is_empty() || self.sample_with.is_some()
    }

    /// What the peer is told that it may ask, and who answers. `forms` says whether there is a user
    /// who can fill them in.
    pub(crate) fn answering(
        &self,
        globals: &Globals,
        forms: bool,
    ) -> Result<(Clients, Answering), Failed> {
        let root = |path: &PathBuf| {
            let found = fs::canonicalize(path).map_err(|error| {
                Failed::usage(format!("cannot use the folder `{}`", path.display()))
                    .caused_by(&error)
            })?;
            match found.is_dir() {
                true => Ok(found),
                false => Err(Failed::usage(format!("`{}` is no folder", path.display()))),
            }
        };
        let roots = self.roots.iter().map(root).collect::<Result<_, _>>()?;
        let answering = Answering::of(self.sample_with.as_deref(), globals)?;
        let model = self.sample_with.is_some();
        Ok((Clients::User(Askable { forms, model, roots }), answering))
    }
}
