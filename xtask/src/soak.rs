//! The soak at its full length: a test of the program that is told how long, and with which seed.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

const TEST: &str = "soak::every_call_ends_once_and_nothing_is_left";

pub(crate) fn run(root: &Path, seconds: &str, seed: Option<&str>) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "-p", "toolbus-cli", "--test", "it", "--", "--exact", TEST, "--nocapture"]);
    cargo.current_dir(root).env("TOOLBUS_SOAK", seconds);
    // Another in each run: the test prints it.
    let by_chance = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos());
    cargo.env("TOOLBUS_SEED", seed.map_or_else(|| by_chance().to_string(), str::to_owned));
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the soak ended with {status}")),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}
