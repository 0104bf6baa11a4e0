//! Values that may come from the environment, `${NAME}`, or from files, `${file:PATH}`, and are
//! never shown.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use toml::de::DeValue;
use toolbus_proto::json::{Json, write_string};

use super::error::Problem;
use super::keys::{Entry, Fault};
use crate::peer::settings::Secret;
use crate::secrets;

/// The largest file that a secret is read from.
const SECRET_BYTES_MAX: u64 = 1 << 20;

/// Shorter than this is no secret.
const SECRET_CHARS_MIN: usize = 6;

/// Variables that tell where we are and who the user is: their values are no secrets.
const PLAIN: [&str; 10] =
    ["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER"];

impl Entry<'_> {
    /// A text that must not be empty, without the blanks and line ends around it.
    pub(super) fn secret(&self) -> Result<Secret<String>, Fault> {
        let secret = self.secret_or_file()?;
        secrets::hide(secret.reveal());
        Ok(secret)
    }

    /// The same that may be the path of a file, so that it is not hidden wherever it stands.
    pub(super) fn secret_or_file(&self) -> Result<Secret<String>, Fault> {
        let text = self.string()?;
        let Some(expanded) = self.expanded(&text)? else {
            return Ok(Secret::new(String::new()));
        };
        match expanded.trim() {
            "" => {
                let empty = Problem::Empty { key: self.path.clone() };
                match text.trim() {
                    "" => Err(self.fault(empty)),
                    _ => self.without(empty).map(|()| Secret::new(String::new())),
                }
            }
            secret => Ok(Secret::new(secret.to_owned())),
        }
    }

    /// A table of strings, as in `env = { KEY = "${KEY}" }`, in the order of the file.
    pub(super) fn secrets(&self) -> Result<Vec<(String, Secret<String>)>, Fault> {
        let secret = |entry: &Entry<'_>| {
            let expanded = entry.string().and_then(|text| entry.expanded(&text));
            let value = self.source.faults.noted(expanded)?;
            Some((entry.name.to_owned(), Secret::new(value.unwrap_or_default())))
        };
        Ok(self.entries()?.iter().filter_map(secret).collect())
    }

    /// Any value as JSON, its strings expanded.
    pub(super) fn secret_json(&self) -> Result<Json, Fault> {
        let mut text = Vec::new();
        self.try_write_json(&mut text)?;
        Ok(Json::from_trusted(text))
    }

    /// A table as a JSON object, its strings expanded.
    pub(super) fn secret_object(&self) -> Result<Secret<Json>, Fault> {
        if !self.value.is_table() {
            return Err(self.wrong_type("a table"));
        }
        let mut text = Vec::new();
        self.write_json(&mut text);
        Ok(Secret::new(Json::from_trusted(text)))
    }

    /// What cannot be written is a mistake, which is noted.
    fn write_json(&self, out: &mut Vec<u8>) {
        if self.source.faults.noted(self.try_write_json(out)).is_none() {
            // It is JSON all the same.
            out.extend_from_slice(b"null");
        }
    }

    fn try_write_json(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        match self.value {
            DeValue::String(text) => {
                write_string(out, &self.expanded(text)?.unwrap_or_default());
            }
            DeValue::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
            DeValue::Datetime(time) => write_string(out, &time.to_string()),
            DeValue::Integer(_) => {
                let integer =
                    self.integer().ok_or_else(|| self.wrong_type("an integer of 64 bits"))?;
                out.extend_from_slice(integer.to_string().as_bytes());
            }
            DeValue::Float(float) => {
                let finite = float.as_str().parse::<f64>().ok().filter(|float| float.is_finite());
                let float = finite.ok_or_else(|| self.wrong_type("a finite number"))?;
                out.extend_from_slice(Json::of(&float).as_bytes());
            }
            DeValue::Array(_) => {
                out.push(b'[');
                for (index, element) in self.elements().iter().flatten().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    element.write_json(out);
                }
                out.push(b']');
            }
            DeValue::Table(_) => {
                out.push(b'{');
                for (index, entry) in self.entries()?.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_string(out, entry.name);
                    out.push(b':');
                    entry.write_json(out);
                }
                out.push(b'}');
            }
        }
        Ok(())
    }

    /// `${NAME}` becomes what the environment has for it and `${file:PATH}` what the file holds;
    /// everything else stays. `None` if one of them is not there and is noted as missing.
    fn expanded(&self, text: &str) -> Result<Option<String>, Fault> {
        let mut expanded = Some(String::new());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("${") {
            let Some((variable, behind)) = behind.split_once('}') else {
                return Err(self.fault(Problem::Unclosed { key: self.path.clone() }));
            };
            match self.looked_up(variable) {
                Ok(value) => {
                    if self.can_be_secret(&value) {
                        secrets::hide(&value);
                    }
                    if let Some(expanded) = &mut expanded {
                        expanded.push_str(before);
                        expanded.push_str(&value);
                    }
                }
                Err(problem) => {
                    self.without(problem)?;
                    expanded = None;
                }
            }
            rest = behind;
        }
        if let Some(expanded) = &mut expanded {
            expanded.push_str(rest);
        }
        Ok(expanded)
    }

    /// Goes on without what is not there, if only this table needs it.
    fn without(&self, problem: Problem) -> Result<(), Fault> {
        match self.source.missing {
            Some(missing) => {
                missing.note(self.fault(problem));
                Ok(())
            }
            None => Err(self.fault(problem)),
        }
    }

    /// Masking what is short, or stands in half of all paths, would hide more than it protects.
    fn can_be_secret(&self, value: &str) -> bool {
        let is_plain = |name: &&str| (self.source.env)(name).as_deref() == Some(value);
        SECRET_CHARS_MIN <= value.chars().count() && !PLAIN.iter().any(is_plain)
    }

    /// What stands for a `${NAME}`, or for a `${file:PATH}`: what the file holds, without the ends
    /// of lines behind it, since editors and `echo` write one.
    fn looked_up(&self, name: &str) -> Result<String, Problem> {
        let key = self.path.clone();
        let Some(path) = name.strip_prefix("file:") else {
            let variable = name.to_owned();
            return (self.source.env)(name).ok_or(Problem::Unset { key, variable });
        };
        match held(&self.source.folder.join(path)) {
            Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(why) => Err(Problem::Unreadable { key, path: path.to_owned(), why }),
        }
    }
}

/// What a file holds that is no larger than a secret may be; or why that cannot be told.
fn held(path: &Path) -> Result<String, String> {
    let mut held = Vec::new();
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    // One byte more, so that it is seen.
    let read = file.by_ref().take(SECRET_BYTES_MAX + 1).read_to_end(&mut held);
    read.map_err(|error| error.to_string())?;
    if SECRET_BYTES_MAX < held.len() as u64 {
        return Err(format!("it is larger than {} KiB", SECRET_BYTES_MAX >> 10));
    }
    String::from_utf8(held).map_err(|_| "it is not UTF-8".to_owned())
}
