//! `toolbus-V.npm.tgz`: the program, and who may install it. Nothing of it runs when it is installed.

use serde_json::json;

use super::archive::{gzipped, tar};
use super::contents::Contents;
use super::elf::Needs;
use super::{Packed, Release};

pub(super) fn package(release: &Release, contents: &Contents) -> Result<Packed, String> {
    let mut manifest = json!({
        "name": "toolbus",
        "version": release.version,
        "description": "Any tool for any client, in seven protocols",
        "license": "MIT OR Apache-2.0",
        "repository": {"type": "git", "url": format!("git+{}.git", release.repository)},
        "bin": {"toolbus": "toolbus"},
        "files": ["toolbus"],
        "os": [system(&release.triple)],
        "cpu": [processor(&release.triple)],
    });
    if let Needs::Glibc(..) = contents.needs {
        manifest["libc"] = json!(["glibc"]);
    }
    let manifest = format!("{manifest:#}\n");
    let files = vec![
        Packed::file("package/package.json", manifest),
        Packed::program("package/toolbus", &contents.program),
    ];
    let name = format!("toolbus-{}.npm.tgz", release.version);
    Ok(Packed::file(name, gzipped(&tar(release, files)?)?))
}

/// What node calls a system.
fn system(triple: &str) -> &str {
    if triple.contains("-apple-") { "darwin" } else { "linux" }
}

/// What node calls a processor.
fn processor(triple: &str) -> &str {
    match triple.split('-').next().unwrap_or_default() {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        "i686" | "i586" => "ia32",
        "armv7" => "arm",
        "powerpc64le" => "ppc64",
        "riscv64gc" => "riscv64",
        other => other,
    }
}
