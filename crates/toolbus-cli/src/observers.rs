//! Who is told of calls: the journal of the config, and the collector of spans.

use std::path::Path;
use std::rc::Rc;

use toolbus::bus::config::JournalConfig;
use toolbus::bus::journal::Journal;
use toolbus::bus::observe::Observer;

use crate::config;
use crate::failed::Failed;
use crate::{runtime, spans};

/// Those of calls that do not go to the backs of the config: of a hub, of a scenario. `named` is
/// the config that the user named. Must be called inside a runtime.
pub(crate) fn of_config(named: Option<&Path>) -> Result<Vec<Rc<dyn Observer>>, Failed> {
    let found = match config::parsed(named) {
        // One that only lies here is perhaps meant for other commands, and keeps none from working.
        Err(failed) if named.is_none() => {
            tracing::warn!("calls are not written into a journal: {}", failed.message());
            None
        }
        found => found?,
    };
    let journal = found.and_then(|found| found.config.journal);
    Ok(journal.as_ref().map(self::journal).into_iter().chain(spans::observer()).collect())
}

/// What writes the calls into this journal. Must be called inside a runtime.
pub(crate) fn journal(config: &JournalConfig) -> Rc<dyn Observer> {
    runtime::survive_file_limits();
    Rc::new(Journal::new(config))
}
