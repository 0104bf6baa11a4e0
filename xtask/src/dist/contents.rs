//! What goes into the packages: the program, what it says of itself, and the texts beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Packed, elf, output, read};

/// The licences, by the names of their files.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// Texts that the archive has beside the program.
const TEXTS: [&str; 2] = ["README.md", "CHANGELOG.md"];

/// All that some package holds.
pub(super) struct Contents {
    pub(super) program: Vec<u8>,
    /// What the program needs of the system.
    pub(super) needs: elf::Needs,
    /// `README.md` and `CHANGELOG.md`.
    pub(super) texts: Vec<Packed>,
    pub(super) licences: Vec<Packed>,
    pub(super) schema: Packed,
    /// Manual pages: `toolbus.1`, `toolbus-call.1`, …
    pub(super) pages: Vec<Packed>,
    /// Completions, by the names that shells look for.
    pub(super) completions: Completions,
    /// Units of systemd: `system/toolbus.service`, …
    pub(super) units: Vec<Packed>,
}

/// What shells read.
pub(super) struct Completions {
    pub(super) bash: Vec<u8>,
    pub(super) zsh: Vec<u8>,
    pub(super) fish: Vec<u8>,
}

impl Contents {
    pub(super) fn read(root: &Path, program: &Path) -> Result<Contents, String> {
        let program = program.canonicalize();
        let program =
            program.map_err(|error| format!("error: cannot find the program: {error}"))?;
        let says = |words: &[&str]| {
            let mut command = Command::new(&program);
            // What it says is the same wherever it is asked.
            command.args(words).env_clear().env("HOME", "/nonexistent");
            command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
            output(Path::new("/"), &mut command)
        };
        let named = |names: &[&str]| -> Result<Vec<Packed>, String> {
            names.iter().map(|name| Ok(Packed::file(*name, read(&root.join(name))?))).collect()
        };
        let bytes = read(&program)?;
        let mut pages = Vec::new();
        add_pages(&says, &[], &mut pages)?;
        pages.sort_by(|one: &Packed, other| one.path.cmp(&other.path));
        Ok(Contents {
            needs: elf::needs(&bytes),
            program: bytes,
            texts: named(&TEXTS)?,
            licences: named(&LICENCES)?,
            schema: Packed::file(
                "toolbus.schema.json",
                read(&root.join("docs/toolbus.schema.json"))?,
            ),
            pages,
            completions: Completions {
                bash: says(&["completions", "bash"])?.into_bytes(),
                zsh: says(&["completions", "zsh"])?.into_bytes(),
                fish: says(&["completions", "fish"])?.into_bytes(),
            },
            units: units(&root.join("contrib/systemd"))?,
        })
    }
}

/// The page of a command, and those that it names as its own.
fn add_pages(
    says: &dyn Fn(&[&str]) -> Result<String, String>,
    command: &[&str],
    pages: &mut Vec<Packed>,
) -> Result<(), String> {
    let page = says(&[&["man"], command].concat())?;
    let name = [&["toolbus"], command].concat().join("-");
    let below = format!("{name}-");
    for line in page.lines() {
        let plain = line.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
        let own = plain.strip_suffix("(1)").and_then(|named| named.strip_prefix(&below));
        if let Some(word) = own {
            add_pages(says, &[command, &[word]].concat(), pages)?;
        }
    }
    pages.push(Packed::file(format!("{name}.1"), page));
    Ok(())
}

/// The units that there are, by folder and name.
fn units(folder: &Path) -> Result<Vec<Packed>, String> {
    let mut units = Vec::new();
    for kind in ["system", "user"] {
        let Ok(found) = fs::read_dir(folder.join(kind)) else { continue };
        for entry in found {
            let entry = entry.map_err(|error| format!("error: cannot list units: {error}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            units.push(Packed::file(format!("{kind}/{name}"), read(&entry.path())?));
        }
    }
    units.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(units)
}
