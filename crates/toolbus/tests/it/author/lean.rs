//! Who writes a tool that needs no runtime gets none.

use std::env;
use std::process::Command;

#[test]
fn tools_that_are_not_async_are_built_without_a_runtime() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "tree",
        "--offline",
        "--package=toolbus",
        "--no-default-features",
        "--features=author",
        "--edges=normal",
        "--prefix=none",
    ]);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.contains("toolbus-proto v"), "{tree}");
    for below in tree.lines() {
        assert!(!below.starts_with("tokio"), "{tree}");
    }
}
