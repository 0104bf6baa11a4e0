//! What is done with a folder of certificates (`docs/protocols/orchestra.md` 6): decided here,
//! read, made and written by the hands. [`x509`] and [`der`] are what stands in a certificate.

pub use crate::x509;
pub use crate::x509::der;

/// A leaf with less than this left is made anew, and a CA with less is warned of.
pub const RENEWED_DAYS_AHEAD: i64 = 30;

/// How a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// Not there.
    Missing,
    /// There, and what it should be.
    Good,
    /// There, and not what it should be.
    Damaged,
    /// A key that others may read.
    Exposed,
}

/// How our own certificate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafState {
    /// Not there, or not both of its files.
    Missing,
    /// Good for so many days.
    Good {
        /// Less than none if it has expired.
        days_left: i64,
    },
    /// Signed by another CA than the present one.
    Foreign,
    /// Its key is another's.
    Mismatched,
    /// Not to be read.
    Damaged,
    /// Others may read its key.
    Exposed,
}

/// What is in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Folder {
    /// `ca.crt`.
    pub ca_certificate: FileState,
    /// How long it is good for, if it is there.
    pub ca_days_left: i64,
    /// `ca.key`.
    pub ca_key: FileState,
    /// Our own, and its key.
    pub leaf: LeafState,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// There is nothing: make a CA, and a leaf.
    MakeAll,
    /// Make a leaf.
    MakeLeaf {
        /// What people should know.
        warning: Option<&'static str>,
    },
    /// Use the leaf that is there.
    UseLeaf {
        /// What people should know.
        warning: Option<&'static str>,
    },
    /// Touch nothing: exit 2.
    Refuse {
        /// What is wrong.
        why: &'static str,
        /// What to do about it; `D` is the folder, and `N` the name of our own certificate.
        hint: &'static str,
    },
}

const PUT_BACK: &str = "put `ca.key` back, or run `toolbus certs renew --ca`";

/// An existing CA is never replaced, and a damaged file never overwritten.
pub fn decide(folder: &Folder) -> Decision {
    let Folder { ca_certificate, ca_days_left, ca_key, leaf } = *folder;
    let refuse = |why, hint| Decision::Refuse { why, hint };
    let old_ca = (ca_days_left < RENEWED_DAYS_AHEAD).then_some("the CA expires soon");
    match (ca_certificate, ca_key, leaf) {
        (_, _, LeafState::Exposed) => {
            refuse("others may read the key of our own certificate", "run `chmod 600 D/N.key`")
        }
        (FileState::Missing, FileState::Missing, LeafState::Damaged)
        | (FileState::Good, _, LeafState::Damaged) => refuse(
            "our own certificate is damaged",
            "remove `D/N.crt` and `D/N.key`, and they are made anew",
        ),
        (FileState::Missing, FileState::Missing, _) => Decision::MakeAll,
        (_, FileState::Exposed, _) => {
            refuse("others may read `ca.key`", "run `chmod 600 D/ca.key`")
        }
        (_, FileState::Damaged, _) => refuse("`ca.key` is damaged", PUT_BACK),
        (FileState::Missing, ..) => {
            refuse("`ca.crt` is missing", "put `ca.crt` back, or run `toolbus certs renew --ca`")
        }
        (FileState::Damaged | FileState::Exposed, ..) => {
            refuse("`ca.crt` is damaged", "put `ca.crt` back, or run `toolbus certs renew --ca`")
        }
        (FileState::Good, FileState::Good, LeafState::Good { days_left })
            if RENEWED_DAYS_AHEAD <= days_left || ca_days_left <= days_left =>
        {
            Decision::UseLeaf { warning: old_ca }
        }
        (FileState::Good, FileState::Good, _) => Decision::MakeLeaf { warning: old_ca },
        (FileState::Good, FileState::Missing, LeafState::Good { days_left }) if 0 < days_left => {
            let is_old = days_left < RENEWED_DAYS_AHEAD;
            let old_leaf =
                is_old.then_some("our certificate expires soon, and `ca.key` is not there");
            Decision::UseLeaf { warning: old_leaf.or(old_ca) }
        }
        (FileState::Good, FileState::Missing, _) => refuse("`ca.key` is missing", PUT_BACK),
    }
}
