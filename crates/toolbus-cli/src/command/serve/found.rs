//! What the programs of a config speak whose addresses do not say it, found out once.

use toolbus::address::Address;
use toolbus::bus::config::{BackConfig, Config};
use toolbus::bus::lenient::SLOW;

use crate::peers::found_out_backs;

/// Backs as they stand in the config, each with the address that was found out.
#[derive(Default)]
pub(super) struct FoundOut(Vec<(BackConfig, Address)>);

impl FoundOut {
    /// Writes the wire of each program into its address, where that is not said. A back that is
    /// set up as before is not asked again, for that would start its program once more; one that
    /// is slow to show it does not keep the others from being served.
    pub(super) async fn out(&mut self, config: &mut Config) {
        let before = config.backs.clone();
        for back in config.backs.iter_mut().filter(|back| back.address.is_bare()) {
            if let Some((_, address)) = self.0.iter().find(|(known, _)| is_same(known, back)) {
                back.address = address.clone();
            }
        }
        if config.backs.iter().any(|back| back.address.is_bare()) {
            found_out_backs(config, SLOW).await;
        }
        let found = before.into_iter().zip(&config.backs);
        let found = found.filter(|(before, after)| before.address != after.address);
        self.0 = found.map(|(before, after)| (before, after.address.clone())).collect();
    }
}

/// Would the same be found out?
fn is_same(one: &BackConfig, other: &BackConfig) -> bool {
    one.address == other.address && one.settings == other.settings
}
