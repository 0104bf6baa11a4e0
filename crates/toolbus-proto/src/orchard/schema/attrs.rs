//! The attributes of one call, or the config of a provider, against what the schema says.

use std::borrow::Cow;

use thiserror::Error;

use super::{Attr, Attrs};
use crate::did_you_mean::nearest;
use crate::json::{Kind, edit::members};
use crate::jsonrpc::kind;
use crate::orchard::types::schema::Members;
use crate::orchard::value::{self, Misfit, Mismatch, kind_shown, path_step};

/// Why attributes cannot be taken. The paths begin with what they are: `attrs` or `config`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AttrError {
    /// An attribute that the schema does not have.
    #[error("{path}: unknown attribute{}", meant.as_ref().map_or(String::new(), |meant| format!(", did you mean `{meant}`?")))]
    Unknown {
        /// Which.
        path: String,
        /// Its name.
        name: String,
        /// What was probably meant.
        meant: Option<String>,
    },
    /// An attribute that must be given and is not.
    #[error("{path}: required")]
    Required {
        /// Which.
        path: String,
    },
    /// A value that does not fit.
    #[error(transparent)]
    Mismatch(Mismatch),
}

/// Writes the attributes as a host sends them: each converted to its type, defaults filled in,
/// sorted by name. What is `null` counts as left out.
pub(in crate::orchard) fn write_converted(
    root: &str,
    attrs: &Attrs,
    given: Option<&str>,
    out: &mut Vec<u8>,
) -> Result<(), AttrError> {
    let given = Given::new(given_attrs(root, attrs, given)?);
    let mut object = Members::begin(out);
    for (name, attr) in attrs {
        let value = given.get(name).filter(|value| kind(value) != Kind::Null);
        match (value, &attr.default) {
            (Some(value), _) => {
                let written = value::write(&attr.ty, value, object.value(name));
                written.map_err(|mismatch| at(root, name, mismatch))?;
            }
            (None, Some(default)) => object.raw(name, default.as_str()),
            (None, None) if attr.required => {
                return Err(AttrError::Required { path: path(root, name) });
            }
            (None, None) => {}
        }
    }
    object.end();
    Ok(())
}

/// Checks attributes as a provider does: each must fit as it is. Gives them by name.
pub(in crate::orchard) fn check<'a>(
    root: &str,
    attrs: &Attrs,
    given: Option<&'a str>,
) -> Result<Given<'a>, AttrError> {
    let given = given_attrs(root, attrs, given)?;
    for (name, value) in &given {
        let attr = &attrs[&**name];
        if attr.required || kind(value) != Kind::Null {
            value::check(&attr.ty, value).map_err(|mismatch| at(root, name, mismatch))?;
        }
    }
    let given = Given::new(given);
    let is_missing = |(name, attr): &(&String, &Attr)| attr.required && given.get(name).is_none();
    match attrs.iter().find(is_missing) {
        Some((name, _)) => Err(AttrError::Required { path: path(root, name) }),
        None => Ok(given),
    }
}

/// Attributes as they were given, by name.
#[derive(Debug)]
pub(in crate::orchard) struct Given<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Given<'a> {
    fn new(mut given: Vec<(Cow<'a, str>, &'a str)>) -> Given<'a> {
        // Of two of one name the last stands behind the other.
        given.sort_by(|(a, _), (b, _)| a.cmp(b));
        Given(given)
    }

    /// The value of `name`; of two the last.
    pub(in crate::orchard) fn get(&self, name: &str) -> Option<&'a str> {
        let behind = self.0.partition_point(|(given, _)| &**given <= name);
        let (found, value) = self.0.get(behind.checked_sub(1)?)?;
        (found == name).then_some(*value)
    }

    /// All of them, by name; of two of one name both.
    pub(in crate::orchard) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

/// What was given, by name, as it stands in the text; all of it is in the schema.
fn given_attrs<'a>(
    root: &str,
    attrs: &Attrs,
    given: Option<&'a str>,
) -> Result<Vec<(Cow<'a, str>, &'a str)>, AttrError> {
    let given = given.unwrap_or("{}");
    let kind = kind(given);
    if kind != Kind::Object && kind != Kind::Null {
        let fault = Misfit::Kind { want: "object", got: kind_shown(kind) };
        return Err(AttrError::Mismatch(Mismatch { path: root.to_owned(), fault }));
    }
    let mut known = Vec::new();
    for (name, value) in members(given) {
        if !attrs.contains_key(&*name) {
            let meant = nearest(&name, attrs.keys().map(String::as_str)).map(str::to_owned);
            let (path, name) = (path(root, &name), name.into_owned());
            return Err(AttrError::Unknown { path, name, meant });
        }
        known.push((name, value));
    }
    Ok(known)
}

fn path(root: &str, name: &str) -> String {
    format!("{root}{}", path_step(name))
}

fn at(root: &str, name: &str, mismatch: Mismatch) -> AttrError {
    AttrError::Mismatch(mismatch.under(&path(root, name)))
}
