//! `toolbus demo`: what toolbus can do, shown on this machine within seconds.

use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;

/// Take the tour: see tools called, killed and back again
///
/// Nothing needs to be installed: the tools are part of toolbus and are started as programs
/// of their own. One is called; one is killed in the middle of a call, and you see its last
/// words and the next call working.
///
/// The tour ends with 0 only if everything went as promised.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  toolbus demo")]
pub(crate) struct DemoArgs {}

pub(crate) fn run(_args: &DemoArgs, _globals: &Globals) -> Result<(), Failed> {
    Err(Failed::new(Exit::Failed, "`toolbus demo` is not there yet"))
}
