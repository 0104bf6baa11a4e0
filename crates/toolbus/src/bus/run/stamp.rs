//! By what two processes see that they would make the same bus.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest, Sha256};
use toml::de::{DeTable, DeValue};

/// How many digits of a digest name a config.
const ID_DIGITS: usize = 16;

/// A config, and all that has a say in what is made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Its real path.
    pub(super) path: PathBuf,
    /// The digest of its bytes and of those of its lock.
    pub(super) digest: String,
    /// The digest of the variables that it names.
    pub(super) env: String,
}

/// What a config was read from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// What stands there.
    pub text: &'a str,
    /// The same as TOML, if it is something else.
    pub toml: Option<&'a str>,
    /// Its lock, if it has one.
    pub lock: Option<&'a [u8]>,
}

impl Stamp {
    /// Of a config; `env` gives the value of a variable.
    pub fn of(sources: Sources<'_>, env: impl Fn(&str) -> Option<OsString>) -> io::Result<Stamp> {
        let Sources { path, text, toml, lock } = sources;
        let mut of_files = Sha256::new();
        of_files.update((text.len() as u64).to_le_bytes());
        of_files.update(text);
        if let Some(lock) = lock {
            of_files.update([1]);
            of_files.update(lock);
        }
        let mut of_env = Sha256::new();
        for name in named(toml.unwrap_or(text)) {
            of_env.update(&name);
            match env(&name) {
                Some(value) => {
                    of_env.update(b"=");
                    of_env.update(value.as_bytes());
                }
                None => of_env.update(b"-"),
            }
            of_env.update([0]);
        }
        Ok(Stamp {
            path: fs::canonicalize(path)?,
            digest: format!("sha256:{}", hex(&of_files.finalize())),
            env: format!("sha256:{}", hex(&of_env.finalize())),
        })
    }

    /// The name of what belongs to this config, whatever stands in it: 16 hexadecimal digits.
    pub fn id(&self) -> String {
        let mut id = hex(&Sha256::digest(self.path.as_os_str().as_bytes()));
        id.truncate(ID_DIGITS);
        id
    }

    /// The socket of its `toolbus serve`, in this folder.
    pub(super) fn socket_in(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.sock", self.id()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The names of all variables that a config asks for.
fn named(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Ok(table) = DeTable::parse(text) {
        look_into_table(table.get_ref(), &mut names);
    }
    names
}

fn look_into_table(table: &DeTable<'_>, names: &mut BTreeSet<String>) {
    for (key, value) in table {
        look_into(key.get_ref(), value.get_ref(), names);
    }
}

fn look_into(key: &str, value: &DeValue<'_>, names: &mut BTreeSet<String>) {
    match value {
        DeValue::String(text) if key.ends_with("_env") || key == "env_pass" => {
            names.insert(text.clone().into_owned());
        }
        DeValue::String(text) => {
            let behind = text.split("${").skip(1);
            let inside = behind.filter_map(|text| text.split_once('}'));
            // A file is asked for by its path.
            let of_env = inside.map(|(name, _)| name).filter(|name| !name.contains(':'));
            names.extend(of_env.map(str::to_owned));
        }
        DeValue::Array(values) => {
            values.iter().for_each(|value| look_into(key, value.get_ref(), names));
        }
        DeValue::Table(table) => look_into_table(table, names),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[back.a]\nconnect = \"stdio:./a ${PLACE} ${file:key}\"\n\
         env = { KEY = \"x${KEY}y${MORE}\", token_env = \"PLAIN\" }\nenv_pass = [\"HOME\", \"LANG\"]\n\
         # ${NOT}\n[front.b]\ntoken_env = \"TOKEN\"\n";

    fn stamp(text: &str, lock: Option<&[u8]>, of: &str) -> Stamp {
        let path = Path::new("/");
        let env = |name: &str| (name == "KEY").then(|| of.into());
        Stamp::of(Sources { path, text, toml: None, lock }, env).unwrap()
    }

    #[test]
    fn the_variables_that_are_named_are_found() {
        let found = named(CONFIG).into_iter().collect::<Vec<_>>();
        assert_eq!(found, ["HOME", "KEY", "LANG", "MORE", "PLACE", "PLAIN", "TOKEN"]);
    }

    #[test]
    fn every_byte_counts() {
        let usual = stamp(CONFIG, None, "1");
        assert_eq!(stamp(CONFIG, None, "1"), usual);
        assert_ne!(stamp(CONFIG, None, "2").env, usual.env);
        assert_eq!(stamp(CONFIG, None, "2").digest, usual.digest);
        assert_ne!(stamp(&format!("{CONFIG}\n"), None, "1").digest, usual.digest);
        assert_ne!(stamp(CONFIG, Some(b""), "1").digest, usual.digest);
        assert_eq!(usual.id(), "8a5edab282632443");
    }
}
