//! `toolbus_V-1_A.deb`: an `ar` of a few bytes and two tars. Nothing of it runs when it is installed.

use std::fmt::Write as _;

use super::archive::{gzipped, tar};
use super::contents::Contents;
use super::elf::Needs;
use super::{Packed, Release};

pub(super) fn package(release: &Release, contents: &Contents) -> Result<Packed, String> {
    let files = files(contents)?;
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    let control = control(release, contents.needs, bytes.div_ceil(1024));
    let control = tar(release, vec![Packed::file("control", control)])?;
    let data = tar(release, files)?;
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzipped(&control)?),
        ("data.tar.gz", gzipped(&data)?),
    ];
    let mut package = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let (time, size) = (release.time, bytes.len());
        let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, "100644");
        package.extend(header.into_bytes());
        package.extend(bytes);
        // The next one begins at an even place.
        package.extend((size % 2 == 1).then_some(b'\n'));
    }
    Ok(Packed::file(name(release), package))
}

fn name(release: &Release) -> String {
    format!("toolbus_{}-1_{}.deb", release.version, architecture(&release.triple))
}

/// What Debian calls a processor.
fn architecture(triple: &str) -> &str {
    let processor = triple.split('-').next().unwrap_or_default();
    match processor {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "i686" | "i586" => "i386",
        "armv7" => "armhf",
        "powerpc64le" => "ppc64el",
        "riscv64gc" => "riscv64",
        other => other,
    }
}

fn files(contents: &Contents) -> Result<Vec<Packed>, String> {
    let completions = &contents.completions;
    let mut files = vec![
        Packed::program("usr/bin/toolbus", &contents.program),
        Packed::file("usr/share/bash-completion/completions/toolbus", &*completions.bash),
        Packed::file("usr/share/zsh/vendor-completions/_toolbus", &*completions.zsh),
        Packed::file("usr/share/fish/vendor_completions.d/toolbus.fish", &*completions.fish),
        Packed::file("usr/share/doc/toolbus/copyright", copyright(contents)),
    ];
    for page in &contents.pages {
        let path = format!("usr/share/man/man1/{}.gz", page.path);
        files.push(Packed::file(path, gzipped(&page.bytes)?));
    }
    for unit in &contents.units {
        files.push(Packed::file(format!("usr/lib/systemd/{}", unit.path), &*unit.bytes));
    }
    Ok(files)
}

fn control(release: &Release, needs: Needs, kibibytes: usize) -> String {
    let depends = match needs {
        Needs::Glibc(major, minor) => {
            format!("Depends: libc6 (>= {major}.{minor}), libgcc-s1\n")
        }
        Needs::Nothing | Needs::Unknown => String::new(),
    };
    let Release { version, repository, triple, .. } = release;
    let architecture = architecture(triple);
    format!(
        "Package: toolbus\nVersion: {version}-1\nArchitecture: {architecture}\n\
         Maintainer: The authors of toolbus <toolbus@users.noreply.github.com>\n\
         Installed-Size: {kibibytes}\n{depends}Section: utils\nPriority: optional\nHomepage: {repository}\n\
         Description: any tool for any client, in seven protocols\n \
         Calls any tool, serves it to any client and keeps it alive, whichever of\n \
         seven protocols each side speaks: MCP and six others.\n"
    )
}

/// Both licences, whole.
fn copyright(contents: &Contents) -> String {
    let mut text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
                    Upstream-Name: toolbus\n\nFiles: *\nCopyright: The authors of toolbus\n\
                    License: Apache-2.0 or MIT\n"
        .to_owned();
    for (licence, name) in contents.licences.iter().zip(["Apache-2.0", "MIT"]) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nLicense: {name}");
        for line in String::from_utf8_lossy(&licence.bytes).lines() {
            let line = if line.trim().is_empty() { "." } else { line };
            let _ = writeln!(text, " {line}");
        }
    }
    text
}
