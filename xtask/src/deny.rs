//! `cargo xtask deny`: what `deny.toml` asks of our dependencies.

use std::path::Path;
use std::process::Command;

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let there = Command::new("cargo").args(["deny", "--version"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        return Err("error: cargo-deny is not installed, so nothing was checked\n\
                    hint: `cargo install --locked cargo-deny`"
            .to_owned());
    }
    let status = Command::new("cargo")
        .args(["deny", "--workspace", "--all-features", "check"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("error: cannot start cargo-deny: {error}"))?;
    if status.success() { Ok(()) } else { Err("error: cargo-deny found something".to_owned()) }
}
