//! Builds `faulty-tool` beside the library, so that whoever depends on the testkit has it.
//!
//! Cargo builds the programs of a package for that package's own tests only, but runs the
//! build script of every dependency. The program is one file that needs nothing but `std`.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let program = PathBuf::from(given("OUT_DIR")).join("faulty-tool");
    let mut rustc = Command::new(given("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-name", "faulty_tool", "-C", "debuginfo=0"]);
    rustc.args(["--target", &given("TARGET"), "-o"]).arg(&program);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    rustc.arg("src/bin/faulty-tool.rs");

    let status = rustc.status().expect("the compiler that builds us can be run");
    assert!(status.success(), "cannot build faulty-tool: {rustc:?} ended with {status}");
    println!("cargo::rustc-env=FAULTY_TOOL={}", program.display());
    println!("cargo::rerun-if-changed=src/bin/faulty-tool.rs");
    println!("cargo::rerun-if-changed=src/transcript/escapes.rs");
    println!("cargo::rerun-if-changed=build.rs");
}

fn given(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo gives `{name}` to a build script"))
}
