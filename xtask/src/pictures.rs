//! `cargo xtask pictures`: what docs/page.md shows, taken in a browser.
//!
//! A test of the program does it, for that has all it needs: a bus, its page, and a tab. Without
//! being asked by this it only looks whether the pictures are there.

use std::path::Path;
use std::process::Command;

const TEST: &str = "browser::pictures::pictures_of_a_bus_that_is_called";

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "-p", "toolbus-cli", "--test", "it", "--", "--exact", TEST])
        .env("TOOLBUS_PICTURES", "1")
        // A browser that is not there is an error here.
        .env("CI", "true")
        .current_dir(root)
        .status()
        .map_err(|error| format!("error: cannot start cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("error: the pictures could not be taken".to_owned()) }
}
