//! The certificates by which the programs of Orchestra know each other: a folder of PEM files
//! that all of them share (`docs/protocols/orchestra.md` 6).
//!
//! What is done is decided by the rules; here files are looked at, made and put in place.
//! `files.rs` is how a file is read and written, `making.rs` what stands in a certificate of ours,
//! `renewal.rs` what `toolbus certs` does.

mod files;
mod making;
mod renewal;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use toolbus_proto::orchestra::certificates::{
    Decision, FileState, Folder as Seen, LeafState, RENEWED_DAYS_AHEAD, decide,
};

use files::{Access, Lock};
use making::{Certificate, Key};

use crate::transport::tls::FileLook;

pub use making::common_name;
pub use renewal::{KeyCondition, Listed, ListedCertificate, Renewal, Renewed};

/// Where certificates are if nothing is said.
pub const FOLDER_DEFAULT: &str = "~/.orchestra/certs";

/// The name of the CA.
const CA: &str = "ca";
/// How long we wait for the other half of a CA, which another program may be writing.
const SECOND_LOOK: Duration = Duration::from_secs(1);
const RETRY: &str = "try again";

/// A folder of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

/// Who we are to a peer, and whom we trust.
#[derive(Debug)]
pub struct Identity {
    /// The name in our certificate.
    pub name: String,
    /// Our certificate.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// The CA that signs for us and for our peers.
    pub ca: CertificateDer<'static>,
    /// What people should know.
    pub warnings: Vec<String>,
}

impl Clone for Identity {
    fn clone(&self) -> Identity {
        Identity {
            name: self.name.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
            ca: self.ca.clone(),
            warnings: self.warnings.clone(),
        }
    }
}

impl Folder {
    /// The folder at `path`; a leading `~` is the user's home.
    pub fn at(path: &Path) -> Folder {
        let home = std::env::home_dir();
        let path = match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home,
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_owned(),
        };
        // Children are told of it, and may be in another folder.
        Folder { path: std::path::absolute(&path).unwrap_or(path) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of this name: as it is there, or made, or made anew if it must be.
    pub fn identity(&self, name: &str) -> Result<Identity, CertificatesError> {
        check_name(name)?;
        let (looked, decision) = self.look_twice(name)?;
        let (looked, decision) = match decision {
            // Whoever was first may have made all of it by the time that we may.
            Decision::MakeAll | Decision::MakeLeaf { .. } => {
                let _lock = Lock::take(&self.path)?;
                let (looked, decision) = self.look_twice(name)?;
                self.obey(name, &decision, &looked)?;
                match decision {
                    Decision::MakeAll | Decision::MakeLeaf { .. } => {
                        let (looked, _) = self.look(name)?;
                        (looked, decision)
                    }
                    _ => (looked, decision),
                }
            }
            decision => (looked, decision),
        };
        self.take(name, looked, decision)
    }

    /// Looks, and once more for a while if what is there is refused: another program may be in
    /// the midst of making it.
    fn look_twice(&self, name: &str) -> Result<(Looked, Decision), CertificatesError> {
        let until = Instant::now() + SECOND_LOOK;
        loop {
            let (looked, decision) = self.look(name)?;
            let is_passing = matches!(decision, Decision::Refuse { .. })
                && looked.ca.key.state() != FileState::Exposed
                && looked.leaf_state() != LeafState::Exposed
                || looked.ca.is_half();
            if !is_passing || until <= Instant::now() {
                return Ok((looked, decision));
            }
            files::look_again();
        }
    }

    fn look(&self, name: &str) -> Result<(Looked, Decision), CertificatesError> {
        let now = seconds_now();
        let ca = self.pair(CA)?;
        let leaf = self.pair(name)?;
        let looked = Looked { ca, leaf, now };
        let decision = decide(&Seen {
            ca_certificate: looked.ca.certificate.state(),
            ca_days_left: looked.ca_days_left(),
            ca_key: looked.ca.key_state(),
            leaf: looked.leaf_state(),
        });
        Ok((looked, decision))
    }

    fn pair(&self, name: &str) -> Result<Pair, CertificatesError> {
        let certificate = match files::read(&self.file(name, "crt"))? {
            None => Found::Missing,
            Some((pem, _)) => Certificate::read(&pem).map_or(Found::Damaged, Found::Good),
        };
        let key = match files::read(&self.file(name, "key"))? {
            None => Found::Missing,
            Some((_, Access::World)) => Found::Exposed,
            Some((pem, access)) => match Key::read(&pem) {
                Some(key) => Found::Good((key, access)),
                None => Found::Damaged,
            },
        };
        Ok(Pair { certificate, key })
    }

    /// Makes what is to be made. The lock is held.
    fn obey(
        &self,
        name: &str,
        decision: &Decision,
        looked: &Looked,
    ) -> Result<(), CertificatesError> {
        match decision {
            Decision::MakeAll => {
                let ca = self.make_ca()?;
                self.make_leaf(name, &ca.0, &ca.1)
            }
            Decision::MakeLeaf { .. } => match (&looked.ca.certificate, &looked.ca.key) {
                (Found::Good(certificate), Found::Good((key, _))) => {
                    self.make_leaf(name, certificate, key)
                }
                _ => Ok(()),
            },
            Decision::UseLeaf { .. } | Decision::Refuse { .. } => Ok(()),
        }
    }

    /// A new CA, unless another is there by then: that one is used.
    fn make_ca(&self) -> Result<(Certificate, Key), CertificatesError> {
        let key = Key::generate();
        let certificate = making::ca(&key, seconds_now())?;
        files::link(&self.file(CA, "key"), &key.to_pem())?;
        files::link(&self.file(CA, "crt"), &certificate.to_pem())?;
        match self.pair(CA)? {
            Pair { certificate: Found::Good(certificate), key: Found::Good((key, _)) }
                if certificate.is_of(&key) =>
            {
                Ok((certificate, key))
            }
            _ => Err(self.refused(CA, "`ca.crt` and `ca.key` are not a pair", RETRY)),
        }
    }

    fn make_leaf(
        &self,
        name: &str,
        ca: &Certificate,
        ca_key: &Key,
    ) -> Result<(), CertificatesError> {
        let key = Key::generate();
        let certificate = making::leaf(name, &key, ca, ca_key, seconds_now())?;
        files::replace(&self.file(name, "key"), &key.to_pem())?;
        files::replace(&self.file(name, "crt"), &certificate.to_pem())
    }

    /// What is there now, as it was decided.
    fn take(
        &self,
        name: &str,
        looked: Looked,
        decision: Decision,
    ) -> Result<Identity, CertificatesError> {
        let warning = match decision {
            Decision::Refuse { why, hint } => return Err(self.refused(name, why, hint)),
            Decision::MakeLeaf { warning } | Decision::UseLeaf { warning } => warning,
            Decision::MakeAll => None,
        };
        let mut warnings: Vec<_> = warning
            .map(|warning| format!("{warning} (certificates in {})", self.path.display()))
            .into_iter()
            .collect();
        let shared = |pair: &Pair| matches!(&pair.key, Found::Good((_, Access::Group)));
        for (name, pair) in [(CA, &looked.ca), (name, &looked.leaf)] {
            if shared(pair) {
                let key = self.file(name, "key");
                warnings.push(format!("the group may read `{}`", key.display()));
            }
        }
        match (looked.ca.certificate, looked.leaf) {
            (
                Found::Good(ca),
                Pair { certificate: Found::Good(certificate), key: Found::Good((key, _)) },
            ) => Ok(Identity {
                name: name.to_owned(),
                certificate: certificate.into_der(),
                key: key.into_der(),
                ca: ca.into_der(),
                warnings,
            }),
            _ => Err(self.refused(
                name,
                "another program changes the certificates at the same time",
                RETRY,
            )),
        }
    }

    fn refused(&self, name: &str, why: &str, hint: &str) -> CertificatesError {
        let folder = self.path.display().to_string();
        let hint = hint.replace("/N.", &format!("/{name}.")).replace("D/", &format!("{folder}/"));
        CertificatesError::Refused { folder: self.path.clone(), why: why.to_owned(), hint }
    }

    /// Where the certificate of this name is.
    pub fn certificate_file(&self, name: &str) -> PathBuf {
        self.file(name, "crt")
    }

    /// What the files that show this name look like: others once one of them was written.
    pub fn looks(&self, name: &str) -> [Option<FileLook>; 3] {
        [(CA, "crt"), (name, "crt"), (name, "key")]
            .map(|(name, kind)| FileLook::at(&self.file(name, kind)))
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.path.join(format!("{name}.{kind}"))
    }
}

/// A name becomes that of a file, and stands in the certificate.
fn check_name(name: &str) -> Result<(), CertificatesError> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+@".contains(&byte);
    match !name.is_empty()
        && !name.starts_with('.')
        && name.len() <= 200
        && name.bytes().all(is_fit)
    {
        true => Ok(()),
        false => Err(CertificatesError::Name { name: name.to_owned() }),
    }
}

/// What is in the folder.
struct Looked {
    ca: Pair,
    leaf: Pair,
    /// Seconds since 1970.
    now: i64,
}

/// A certificate and its key, each with who may read it.
struct Pair {
    certificate: Found<Certificate>,
    key: Found<(Key, Access)>,
}

enum Found<T> {
    Missing,
    Damaged,
    Exposed,
    Good(T),
}

impl<T> Found<T> {
    fn state(&self) -> FileState {
        match self {
            Found::Missing => FileState::Missing,
            Found::Damaged => FileState::Damaged,
            Found::Exposed => FileState::Exposed,
            Found::Good(_) => FileState::Good,
        }
    }
}

impl Pair {
    fn is_half(&self) -> bool {
        matches!(self.certificate, Found::Missing) != matches!(self.key, Found::Missing)
    }

    fn matches(&self) -> bool {
        match (&self.certificate, &self.key) {
            (Found::Good(certificate), Found::Good((key, _))) => certificate.is_of(key),
            _ => false,
        }
    }

    /// A key of another certificate is as good as none.
    fn key_state(&self) -> FileState {
        match (&self.certificate, self.key.state()) {
            (Found::Good(_), FileState::Good) if !self.matches() => FileState::Damaged,
            (_, state) => state,
        }
    }
}

impl Looked {
    fn ca_days_left(&self) -> i64 {
        match &self.ca.certificate {
            Found::Good(certificate) => certificate.days_left(self.now),
            _ => 0,
        }
    }

    fn leaf_state(&self) -> LeafState {
        leaf_state(&self.leaf, &self.ca, self.now)
    }
}

fn leaf_state(leaf: &Pair, ca: &Pair, now: i64) -> LeafState {
    match (&leaf.certificate, &leaf.key) {
        (_, Found::Exposed) => LeafState::Exposed,
        (Found::Missing, _) | (_, Found::Missing) => LeafState::Missing,
        (Found::Good(certificate), Found::Good(_)) => match &ca.certificate {
            _ if !leaf.matches() => LeafState::Mismatched,
            Found::Good(ca) if !certificate.is_signed_by(ca) => LeafState::Foreign,
            _ => LeafState::Good { days_left: certificate.days_left(now) },
        },
        _ => LeafState::Damaged,
    }
}

/// Does a leaf have to be made anew?
fn is_due(state: LeafState, ca_days_left: i64) -> bool {
    match state {
        LeafState::Good { days_left } => days_left < RENEWED_DAYS_AHEAD.min(ca_days_left),
        LeafState::Missing | LeafState::Foreign | LeafState::Mismatched => true,
        LeafState::Damaged | LeafState::Exposed => false,
    }
}

fn seconds_now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as i64)
}

/// Why there is no identity to show.
#[derive(Debug, Error)]
pub enum CertificatesError {
    /// What is there cannot be used, and is not ours to replace.
    #[error("cannot use the certificates in `{}`: {why}", .folder.display())]
    Refused {
        /// Where.
        folder: PathBuf,
        /// What is wrong.
        why: String,
        /// What to do about it.
        hint: String,
    },
    /// There is no such folder.
    #[error("there is no folder `{}`", .folder.display())]
    NoFolder {
        /// Which.
        folder: PathBuf,
    },
    /// No certificate can have this name.
    #[error("`{name}` cannot be the name of a certificate")]
    Name {
        /// Which.
        name: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} `{}`", .path.display())]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another program holds the lock for too long.
    #[error("another program is at work in `{}`", .folder.display())]
    Locked {
        /// Where.
        folder: PathBuf,
    },
    /// A certificate cannot be made.
    #[error("cannot make the certificate `{name}`")]
    Make {
        /// Which.
        name: String,
        /// Why.
        source: rustls::Error,
    },
}

impl CertificatesError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            CertificatesError::Refused { hint, .. } => hint.clone(),
            CertificatesError::NoFolder { .. } => {
                "name another by `--certs-dir`, or run `toolbus certs renew NAME` to make it".into()
            }
            CertificatesError::Name { .. } => {
                "take letters, digits, `-`, `_` and `.`, and no dot at the beginning".into()
            }
            CertificatesError::File { source, .. }
                if source.kind() == std::io::ErrorKind::NotADirectory =>
            {
                "the folder of the certificates is a file; name another by `--certs-dir`".into()
            }
            CertificatesError::File { path, .. } => {
                format!(
                    "look who owns `{}`, or name another folder by `--certs-dir`",
                    path.display()
                )
            }
            CertificatesError::Locked { folder } => {
                let lock = folder.join(files::LOCK);
                format!("`fuser {}` says which", lock.display())
            }
            CertificatesError::Make { .. } => "run `toolbus certs renew --ca`".into(),
        }
    }
}
