//! The soak at its full length: a test of the program that is told how long, and with which seed.

use std::path::Path;
use std::process::Command;

const TEST: &str = "soak::every_call_ends_once_and_nothing_is_left";

pub(crate) fn run(root: &Path, seconds: &str, seed: Option<&str>) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "-p", "toolbus-cli", "--test", "it", "--", "--exact", TEST, "--nocapture"]);
    cargo.current_dir(root).env("TOOLBUS_SOAK", seconds);
    if let Some(seed) = seed {
        cargo.env("TOOLBUS_SOAK_SEED", seed);
    }
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the soak ended with {status}")),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}
