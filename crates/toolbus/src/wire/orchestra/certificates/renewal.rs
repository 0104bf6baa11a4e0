//! What `toolbus certs` shows and does.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use toolbus_proto::orchestra::Timestamp;

use super::files::{self, Lock};
use super::{
    CA, CertificatesError, Folder, Found, LeafState, Pair, check_name, is_due, leaf_state,
    seconds_now,
};

/// One certificate of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Is it the CA?
    pub is_ca: bool,
    /// What can be read of it; nothing if it is damaged.
    pub certificate: Option<ListedCertificate>,
    /// Did this CA sign it?
    pub is_issued_by_ca: bool,
    /// How its key is.
    pub key: KeyCondition,
}

/// What stands in a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCertificate {
    /// Whose it is.
    pub subject: String,
    /// Until when it is valid, as RFC 3339 writes it.
    pub not_after: String,
    /// Less than none if it has expired.
    pub days_left: i64,
}

/// How a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCondition {
    /// As it should be.
    Ok,
    /// Not there.
    Missing,
    /// Of another certificate.
    Mismatch,
    /// Not to be read.
    Damaged,
    /// Others may read it.
    WorldReadable,
}

impl KeyCondition {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyCondition::Ok => "ok",
            KeyCondition::Missing => "missing",
            KeyCondition::Mismatch => "mismatch",
            KeyCondition::Damaged => "damaged",
            KeyCondition::WorldReadable => "world-readable",
        }
    }
}

impl Listed {
    /// Is it neither expired nor foreign, and is its key good?
    pub fn is_good(&self) -> bool {
        let is_valid = self.certificate.as_ref().is_some_and(|read| 0 <= read.days_left);
        is_valid && self.is_issued_by_ca && self.key == KeyCondition::Ok
    }
}

/// Which certificates are to be made anew.
#[derive(Debug, Clone, Default)]
pub struct Renewal {
    /// These, and those that are not there.
    pub names: Vec<String>,
    /// Every leaf.
    pub all: bool,
    /// The CA, and with it every leaf.
    pub ca: bool,
}

/// A certificate that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// Its name.
    pub name: String,
    /// The last day on which it is valid.
    pub expires: String,
}

impl Folder {
    /// The certificates that are there: the CA, then the others by name. Changes nothing.
    pub fn list(&self) -> Result<Vec<Listed>, CertificatesError> {
        let mut names: Vec<_> = self.names()?.into_iter().collect();
        names.sort_by_key(|name| (name != CA, name.clone()));
        let (ca, now) = (self.pair(CA)?, seconds_now());
        names.into_iter().map(|name| Ok(listed(self.pair(&name)?, name, &ca, now))).collect()
    }

    /// Makes anew what is asked for, or what has to be.
    pub fn renew(&self, renewal: &Renewal) -> Result<Vec<Renewed>, CertificatesError> {
        renewal.names.iter().try_for_each(|name| check_name(name))?;
        let Renewal { names: named, all, ca: is_ca_renewed } = renewal;
        let has_folder = self.path.is_dir();
        if named.is_empty() && !is_ca_renewed && !has_folder {
            return Err(CertificatesError::NoFolder { folder: self.path.clone() });
        }
        let _lock = Lock::take(&self.path)?;
        let mut leaves = self.names()?;
        let mut renewed = Vec::new();
        let is_bare = !leaves.contains(CA) && !self.file(CA, "key").exists();
        if *is_ca_renewed {
            for kind in ["key", "crt"] {
                let old = self.path.join(format!("{CA}.{kind}.old"));
                files::rename(&self.file(CA, kind), &old)?;
            }
        }
        if *is_ca_renewed || (is_bare && !named.is_empty()) {
            let (certificate, _) = self.make_ca()?;
            if *is_ca_renewed {
                renewed.push(Renewed { name: CA.to_owned(), expires: day(certificate.not_after) });
            }
        }
        leaves.remove(CA);
        let ca = self.pair(CA)?;
        let now = seconds_now();
        let is_asked = |name: &String| *all || *is_ca_renewed || named.contains(name);
        let mut due: BTreeSet<_> = named.iter().filter(|name| *name != CA).cloned().collect();
        for name in leaves {
            let leaf = self.pair(&name)?;
            let ca_days_left = match &ca.certificate {
                Found::Good(ca) => ca.days_left(now),
                _ => 0,
            };
            let state = leaf_state(&leaf, &ca, now);
            if is_asked(&name) || is_due(state, ca_days_left) {
                due.insert(name);
            } else if state == LeafState::Damaged {
                let hint = format!("run `toolbus certs renew {name}`");
                return Err(self.refused(&name, &format!("`{name}` is damaged"), &hint));
            }
        }
        for name in due {
            renewed.push(self.renew_leaf(name, &ca)?);
        }
        Ok(renewed)
    }

    fn renew_leaf(&self, name: String, ca: &Pair) -> Result<Renewed, CertificatesError> {
        let refuse = |why: &str, hint: &str| Err(self.refused(&name, why, hint));
        match (&ca.certificate, &ca.key) {
            (_, Found::Exposed) => refuse("others may read `ca.key`", "run `chmod 600 D/ca.key`"),
            (Found::Good(certificate), Found::Good((key, _))) if certificate.is_of(key) => {
                self.make_leaf(&name, certificate, key)?;
                let made = self.pair(&name)?;
                let Found::Good(made) = made.certificate else {
                    return refuse("it changes under our hands", super::RETRY);
                };
                Ok(Renewed { expires: day(made.not_after), name })
            }
            (Found::Missing, _) => refuse(
                "`ca.crt` is missing",
                "put `ca.crt` back, or run `toolbus certs renew --ca`",
            ),
            (_, Found::Missing) => refuse(
                "`ca.key` is missing",
                "put `ca.key` back, or run `toolbus certs renew --ca`",
            ),
            _ => refuse(
                "the CA is damaged",
                "put `ca.crt` and `ca.key` back, or run `toolbus certs renew --ca`",
            ),
        }
    }

    /// The names of all certificates that are there.
    fn names(&self) -> Result<BTreeSet<String>, CertificatesError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(CertificatesError::NoFolder { folder: self.path.clone() });
            }
            Err(source) => {
                let path = self.path.clone();
                return Err(CertificatesError::File { what: "read", path, source });
            }
        };
        let names = entries.filter_map(Result::ok).filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_suffix(".crt")?.to_owned())
        });
        Ok(names.filter(|name| check_name(name).is_ok()).collect())
    }
}

fn listed(pair: Pair, name: String, ca: &Pair, now: i64) -> Listed {
    let key = match (&pair.certificate, &pair.key) {
        (_, Found::Exposed) => KeyCondition::WorldReadable,
        (_, Found::Missing) => KeyCondition::Missing,
        (_, Found::Damaged) => KeyCondition::Damaged,
        (Found::Good(_), Found::Good(_)) if !pair.matches() => KeyCondition::Mismatch,
        (_, Found::Good(_)) => KeyCondition::Ok,
    };
    let is_issued_by_ca = match (&pair.certificate, &ca.certificate) {
        (Found::Good(certificate), Found::Good(ca)) => certificate.is_signed_by(ca),
        _ => false,
    };
    let certificate = match pair.certificate {
        Found::Good(read) => Some(ListedCertificate {
            days_left: read.days_left(now),
            not_after: date(read.not_after),
            subject: read.subject,
        }),
        _ => None,
    };
    Listed { is_ca: name == CA, name, certificate, is_issued_by_ca, key }
}

fn date(seconds: i64) -> String {
    Timestamp { seconds, nanos: 0 }.to_rfc3339().unwrap_or_default()
}

fn day(seconds: i64) -> String {
    date(seconds).split('T').next().unwrap_or_default().to_owned()
}
