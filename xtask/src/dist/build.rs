//! The program as it is shipped: profile `dist`, static where that links, and without the paths of
//! the machine that builds it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Release;

/// Builds it, and says where it is.
pub(super) fn build(root: &Path, release: &Release) -> Result<PathBuf, String> {
    let root = root.canonicalize().map_err(|error| format!("error: {error}"))?;
    match cargo(&root, release, true) {
        Ok(program) => Ok(program),
        Err(why) => {
            eprintln!("note: not static: {why}");
            cargo(&root, release, false)
        }
    }
}

fn cargo(root: &Path, release: &Release, is_static: bool) -> Result<PathBuf, String> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut flags = remapped(root);
    if is_static {
        flags.extend(["-C".to_owned(), "target-feature=+crt-static".to_owned()]);
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--locked", "--profile", "dist", "-p", "toolbus-cli", "--bin", "toolbus"]);
    // Named, so that what runs while building is not static, too.
    cargo.args(["--target", &release.triple]).arg("--target-dir").arg(&target);
    // The profile says so, too; but to Cargo a package with a level of its own has no `strip`.
    cargo.args(["--", "-C", "strip=symbols"]);
    cargo.current_dir(root).env_remove("RUSTFLAGS");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    cargo.env("CFLAGS", format!("-ffile-prefix-map={}=/build", home().display()));
    cargo.env("SOURCE_DATE_EPOCH", release.time.to_string());
    match cargo.status() {
        Ok(status) if status.success() => {
            Ok(target.join(&release.triple).join("dist").join("toolbus"))
        }
        Ok(status) => Err(format!("cargo ended with {status}")),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

/// Where the sources of others are kept.
fn home() -> PathBuf {
    let usual = || env::home_dir().unwrap_or_default().join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(usual, PathBuf::from)
}

fn remapped(root: &Path) -> Vec<String> {
    let places = [(home(), "/cargo"), (root.to_path_buf(), "/toolbus")];
    let flag = |(from, to): (PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
    places.map(flag).into()
}
