//! Packing, with a program of a few lines; what packages are worth is tried in `interop/install`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use expect_test::{Expect, expect};
use flate2::read::GzDecoder;
use serde_json::Value;

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn program() -> PathBuf {
    root().join("xtask/src/dist/small.sh")
}

fn release() -> Release {
    Release {
        version: "1.2.3".to_owned(),
        triple: "x86_64-unknown-linux-gnu".to_owned(),
        time: 1_700_000_001,
        repository: "https://code.example/toolbus".to_owned(),
    }
}

/// All packages, by name; packed once for all tests.
fn packed() -> &'static BTreeMap<String, Vec<u8>> {
    static PACKED: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    PACKED.get_or_init(packed_anew)
}

fn packed_anew() -> BTreeMap<String, Vec<u8>> {
    let files = packages(&root(), &release(), &program()).unwrap();
    files.into_iter().map(|file| (file.path, file.bytes)).collect()
}

/// The entries of a tar: mode, owner, time, size and path, and what they hold.
fn entries(tar: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(Cursor::new(tar));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let header = entry.header();
        let path = header.path().unwrap().display().to_string();
        let slash = if header.entry_type().is_dir() { "/" } else { "" };
        let (uid, gid) = (header.uid().unwrap(), header.gid().unwrap());
        assert_eq!((uid, gid, header.mtime().unwrap()), (0, 0, release().time), "{path}");
        let told = format!("{:o} {}{slash}", header.mode().unwrap(), path.trim_end_matches('/'));
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (told, bytes)
    });
    entries.collect()
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    // No time, no name, no system: they would differ from machine to machine.
    assert_eq!((&bytes[3..8], bytes[9]), (&[0; 5][..], 255));
    let mut whole = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut whole).unwrap();
    whole
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(entries: &[(String, Vec<u8>)], expect: Expect) {
    let paths: String = entries.iter().map(|(told, _)| format!("{told}\n")).collect();
    expect.assert_eq(&paths);
}

/// A folder of its own for a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("toolbus-dist-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    let (one, other) = (packed(), packed_anew());
    let names: Vec<_> = one.keys().map(String::as_str).collect();
    expect![[r#"
        SHA256SUMS
        install.sh
        toolbus-1.2.3-py3-none-linux_x86_64.whl
        toolbus-1.2.3-x86_64-unknown-linux-gnu.oci.tar
        toolbus-1.2.3-x86_64-unknown-linux-gnu.tar.gz
        toolbus-1.2.3.cdx.json
        toolbus-1.2.3.npm.tgz
        toolbus_1.2.3-1_amd64.deb
    "#]]
    .assert_eq(&(names.join("\n") + "\n"));
    for (name, bytes) in one {
        assert!(other[name] == *bytes, "{name}");
    }
    // As `sha256sum --check` reads it.
    let sums = String::from_utf8(one["SHA256SUMS"].clone()).unwrap();
    assert_eq!(sums.lines().count(), one.len() - 1);
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        assert_eq!(sum, sums::hex(&one[name]), "{name}");
    }
    assert!(sums.lines().map(|line| &line[66..]).is_sorted());
}

#[test]
fn the_archive_has_one_folder() {
    let all = packed();
    let mut entries = entries(&unzipped(&all["toolbus-1.2.3-x86_64-unknown-linux-gnu.tar.gz"]));
    entries.retain(|(told, _)| !told.contains("/systemd"));
    check(
        &entries,
        expect![[r#"
        755 toolbus-1.2.3-x86_64-unknown-linux-gnu/
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/CHANGELOG.md
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/LICENSE-APACHE
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/LICENSE-MIT
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/README.md
        755 toolbus-1.2.3-x86_64-unknown-linux-gnu/completions/
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/completions/_toolbus
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/completions/toolbus.bash
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/completions/toolbus.fish
        755 toolbus-1.2.3-x86_64-unknown-linux-gnu/man/
        755 toolbus-1.2.3-x86_64-unknown-linux-gnu/man/man1/
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/man/man1/toolbus-call.1
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/man/man1/toolbus.1
        755 toolbus-1.2.3-x86_64-unknown-linux-gnu/toolbus
        644 toolbus-1.2.3-x86_64-unknown-linux-gnu/toolbus.schema.json
    "#]],
    );
}

#[test]
fn the_package_for_debian_holds_files_and_runs_nothing() {
    let all = packed();
    let deb = &all["toolbus_1.2.3-1_amd64.deb"];
    let mut rest = deb.strip_prefix(b"!<arch>\n").unwrap();
    let mut members = Vec::new();
    while !rest.is_empty() {
        let (header, behind) = rest.split_at(60);
        let header = std::str::from_utf8(header).unwrap();
        assert!(header.ends_with("`\n"), "{header}");
        let size: usize = header[48..58].trim().parse().unwrap();
        members.push((header[..16].trim().to_owned(), &behind[..size]));
        rest = &behind[size + size % 2..];
    }
    let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
    let control = entries(&unzipped(members[1].1));
    // What the licences and units of today take is no promise.
    let told = std::str::from_utf8(&control[0].1).unwrap().lines();
    let told = told.filter(|line| !line.starts_with("Installed-Size: "));
    let told: String = told.map(|line| format!("{line}\n")).collect();
    check(
        &control,
        expect![[r#"
        644 control
    "#]],
    );
    expect![[r#"
        Package: toolbus
        Version: 1.2.3-1
        Architecture: amd64
        Maintainer: The authors of toolbus <toolbus@users.noreply.github.com>
        Section: utils
        Priority: optional
        Homepage: https://code.example/toolbus
        Description: any tool for any client, in seven protocols
         Calls any tool, serves it to any client and keeps it alive, whichever of
         seven protocols each side speaks: MCP and six others.
    "#]]
    .assert_eq(&told);
    let mut data = entries(&unzipped(members[2].1));
    data.retain(|(told, _)| !told.contains("/lib/"));
    check(
        &data,
        expect![[r#"
        755 usr/
        755 usr/bin/
        755 usr/bin/toolbus
        755 usr/share/
        755 usr/share/bash-completion/
        755 usr/share/bash-completion/completions/
        644 usr/share/bash-completion/completions/toolbus
        755 usr/share/doc/
        755 usr/share/doc/toolbus/
        644 usr/share/doc/toolbus/copyright
        755 usr/share/fish/
        755 usr/share/fish/vendor_completions.d/
        644 usr/share/fish/vendor_completions.d/toolbus.fish
        755 usr/share/man/
        755 usr/share/man/man1/
        644 usr/share/man/man1/toolbus-call.1.gz
        644 usr/share/man/man1/toolbus.1.gz
        755 usr/share/zsh/
        755 usr/share/zsh/vendor-completions/
        644 usr/share/zsh/vendor-completions/_toolbus
    "#]],
    );
}

#[test]
fn the_image_is_a_layout_whose_digests_are_right() {
    let all = packed();
    let files = entries(&all["toolbus-1.2.3-x86_64-unknown-linux-gnu.oci.tar"]);
    let file = |path: &str| {
        let found = files.iter().find(|(told, _)| told.ends_with(path));
        &found.unwrap_or_else(|| panic!("no {path}")).1
    };
    let blob = |told: &Value| {
        let sum = told["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = file(&format!("blobs/sha256/{sum}"));
        assert_eq!(sums::hex(bytes), sum);
        assert_eq!(told["size"], bytes.len());
        bytes.clone()
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    assert_eq!(json(file("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let manifest = json(&blob(&json(file("index.json"))["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    expect![[r#"
        {
          "User": "65532:65532",
          "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
          ],
          "Entrypoint": [
            "/usr/bin/toolbus"
          ],
          "Cmd": [
            "serve",
            "--config",
            "/etc/toolbus/toolbus.toml"
          ],
          "Labels": {
            "org.opencontainers.image.source": "https://code.example/toolbus",
            "org.opencontainers.image.version": "1.2.3",
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0"
          }
        }
    "#]]
    .assert_eq(&format!("{:#}\n", config["config"]));
    let layer = unzipped(&blob(&manifest["layers"][0]));
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sums::hex(&layer)));
    check(
        &entries(&layer),
        expect![[r#"
        755 etc/
        755 etc/toolbus/
        755 usr/
        755 usr/bin/
        755 usr/bin/toolbus
    "#]],
    );
}

#[test]
fn the_npm_package_runs_nothing_when_it_is_installed() {
    let files = entries(&unzipped(&packed()["toolbus-1.2.3.npm.tgz"]));
    check(
        &files,
        expect![[r#"
        755 package/
        644 package/package.json
        755 package/toolbus
    "#]],
    );
    let manifest = files.iter().find(|(told, _)| told.ends_with("package.json")).unwrap();
    expect![[r#"
        {
          "name": "toolbus",
          "version": "1.2.3",
          "description": "Any tool for any client, in seven protocols",
          "license": "MIT OR Apache-2.0",
          "repository": {
            "type": "git",
            "url": "git+https://code.example/toolbus.git"
          },
          "bin": {
            "toolbus": "toolbus"
          },
          "files": [
            "toolbus"
          ],
          "os": [
            "linux"
          ],
          "cpu": [
            "x64"
          ]
        }
    "#]]
    .assert_eq(std::str::from_utf8(&manifest.1).unwrap());
}

#[test]
fn the_wheel_is_a_zip_whose_record_is_right() {
    let scratch = Scratch::new("wheel");
    let path = scratch.0.join("toolbus.whl");
    fs::write(&path, &packed()["toolbus-1.2.3-py3-none-linux_x86_64.whl"]).unwrap();
    let script = "import base64, hashlib, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
record = 'toolbus-1.2.3.dist-info/RECORD'
lines = z.read(record).decode().splitlines()
assert [l.split(',')[0] for l in lines] == z.namelist(), lines
for line in lines[:-1]:
    name, told, size = line.split(',')
    data = z.read(name)
    own = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
    assert told == 'sha256=' + own and int(size) == len(data), line
for i in z.infolist():
    print(oct(i.external_attr >> 16), '%d-%02d-%02d %02d:%02d:%02d' % i.date_time, i.filename)
print(z.read('toolbus-1.2.3.dist-info/WHEEL').decode(), end='')
";
    let done = Command::new("python3").args(["-c", script]).arg(&path).output();
    let Ok(done) = done else {
        assert!(std::env::var_os("CI").is_none(), "python3 is needed");
        eprintln!("skipped: there is no python3");
        return;
    };
    let told = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    expect![[r#"
        0o100755 2023-11-14 22:13:20 toolbus-1.2.3.data/scripts/toolbus
        0o100644 2023-11-14 22:13:20 toolbus-1.2.3.dist-info/METADATA
        0o100644 2023-11-14 22:13:20 toolbus-1.2.3.dist-info/WHEEL
        0o100644 2023-11-14 22:13:20 toolbus-1.2.3.dist-info/licenses/LICENSE-APACHE
        0o100644 2023-11-14 22:13:20 toolbus-1.2.3.dist-info/licenses/LICENSE-MIT
        0o100644 2023-11-14 22:13:20 toolbus-1.2.3.dist-info/RECORD
        Wheel-Version: 1.0
        Generator: toolbus xtask
        Root-Is-Purelib: false
        Tag: py3-none-linux_x86_64
    "#]]
    .assert_eq(&told);
}

#[test]
fn the_bill_of_materials_names_what_is_linked_in_and_no_more() {
    let bom: Value = serde_json::from_slice(&packed()["toolbus-1.2.3.cdx.json"]).unwrap();
    assert_eq!(bom["specVersion"], "1.6");
    assert_eq!(bom["metadata"]["timestamp"], "2023-11-14T22:13:21Z");
    let components = bom["components"].as_array().unwrap();
    let has = |name: &str| components.iter().any(|component| component["name"] == name);
    assert!(["toolbus-proto", "tokio", "rustls", "ring"].into_iter().all(has));
    // Of tests, of builds, and what runs while others are compiled.
    assert!(!["expect-test", "toolbus-testkit", "tar", "cc", "serde_derive"].into_iter().any(has));
    for component in components {
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        assert!(component["purl"].as_str().unwrap().starts_with("pkg:cargo/"), "{component}");
    }
    let known = |purl: &Value| components.iter().any(|component| component["purl"] == *purl);
    for dependency in bom["dependencies"].as_array().unwrap() {
        assert!(dependency["dependsOn"].as_array().unwrap().iter().all(known), "{dependency}");
    }
    assert_eq!(bom["dependencies"].as_array().unwrap().len(), components.len() + 1);
}

#[test]
fn what_is_installed_can_be_taken_away_again() {
    let scratch = Scratch::new("install");
    let from = scratch.0.join("from");
    fs::create_dir(&from).unwrap();
    for (name, bytes) in packed() {
        let is_program = name == "install.sh";
        write(&from, &Packed { path: name.clone(), bytes: bytes.clone(), is_program }).unwrap();
    }
    let home = scratch.0.join("home");
    fs::create_dir_all(home.join(".local/share/man")).unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new("sh");
        command.arg(from.join("install.sh")).args(words).current_dir(&scratch.0);
        command.env("HOME", &home).env_remove("TMPDIR");
        let done = command.output().unwrap();
        let told = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        let told = told.replace(scratch.0.to_str().unwrap(), "/s");
        format!("{told}exit {}\n", done.status.code().unwrap())
    };
    let files = || {
        let mut found = Vec::new();
        let mut folders = vec![home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(&home).unwrap().display().to_string());
                folders.extend(path.is_dir().then_some(path));
            }
        }
        found.sort();
        found.join("\n") + "\n"
    };
    let before = files();
    let dry = run(&["--from", "from", "--dry-run"]);
    assert_eq!(files(), before);
    let wet = run(&["--from", "from"]);
    assert_eq!(wet, dry);
    // Those of the machine that this is tried on.
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        eprintln!("skipped: the packed archive is for another machine");
        return;
    }
    expect![[r#"
        installs /s/home/.local/bin/toolbus
        installs /s/home/.local/share/man/man1/toolbus-call.1
        installs /s/home/.local/share/man/man1/toolbus.1
        installs /s/home/.local/share/bash-completion/completions/toolbus
        installs /s/home/.local/share/zsh/site-functions/_toolbus
        installs /s/home/.local/share/fish/vendor_completions.d/toolbus.fish
        installs /s/home/.local/share/toolbus/installed
        note: /s/home/.local/bin is not in PATH
        exit 0
    "#]]
    .assert_eq(&wet);
    let done = Command::new(home.join(".local/bin/toolbus")).output().unwrap();
    assert_eq!(done.stdout, b"42\n");
    assert_eq!(run(&["--from=from", "--version=1.2.3"]), wet);
    expect![[r#"
        removes /s/home/.local/bin/toolbus
        removes /s/home/.local/share/man/man1/toolbus-call.1
        removes /s/home/.local/share/man/man1/toolbus.1
        removes /s/home/.local/share/bash-completion/completions/toolbus
        removes /s/home/.local/share/zsh/site-functions/_toolbus
        removes /s/home/.local/share/fish/vendor_completions.d/toolbus.fish
        removes /s/home/.local/share/toolbus/installed
        exit 0
    "#]]
    .assert_eq(&run(&["--uninstall"]));
    assert_eq!(files(), before);
    expect![[r#"
        error: nothing was installed below /s/home/.local
        exit 1
        error: there is no archive of toolbus 9 for x86_64 in from
        exit 1
        error: cannot read nowhere/SHA256SUMS
        exit 1
        error: there is no option `--form`
        hint: install.sh --help
        exit 2
        error: `--from` needs a value
        hint: install.sh --help
        exit 2
    "#]]
    .assert_eq(
        &[
            run(&["--uninstall"]),
            run(&["--from", "from", "--version", "9"]),
            run(&["--from", "nowhere"]),
            run(&["--form", "from"]),
            run(&["--from"]),
        ]
        .concat(),
    );
    let archive = from.join("toolbus-1.2.3-x86_64-unknown-linux-gnu.tar.gz");
    let mut bytes = fs::read(&archive).unwrap();
    bytes[100] ^= 1;
    fs::write(&archive, bytes).unwrap();
    expect![[r#"
        error: the sum of toolbus-1.2.3-x86_64-unknown-linux-gnu.tar.gz is not the one in SHA256SUMS
        exit 1
    "#]]
    .assert_eq(&run(&["--from", "from"]));
    assert_eq!(files(), before);
}

#[test]
fn words_that_make_no_sense_are_told() {
    let wanted = wish(&["--out", "o", "--program", "p", "--allow-dirty"]).unwrap();
    let (out, program) = (Some("o".into()), Some("p".into()));
    assert_eq!(wanted, Wish { out, program, allows_dirty: true });
    assert_eq!(wish(&["--out"]), Err("error: `--out` needs a path".to_owned()));
    assert!(wish(&["--fast"]).unwrap_err().starts_with("error: `dist` knows no `--fast`\nhint: "));
}

#[test]
fn a_program_says_what_it_needs() {
    let mut program = b"\x7fELF\x02\x01".to_vec();
    program.resize(0x40 + 0x38, 0);
    program[0x20] = 0x40;
    program[0x36] = 0x38;
    program[0x38] = 1;
    program[0x40] = 1;
    assert_eq!(elf::needs(&program), elf::Needs::Nothing);
    program[0x40] = 3;
    program.extend(b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0");
    assert_eq!(elf::needs(&program), elf::Needs::Glibc(2, 34));
    assert_eq!(elf::needs(&program[..0x41]), elf::Needs::Unknown);
    assert_eq!(elf::needs(b"#!/bin/sh\n"), elf::Needs::Unknown);
}
