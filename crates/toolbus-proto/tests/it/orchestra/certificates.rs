//! What is done with a folder of certificates, as far as that is decided without files.

use toolbus_proto::orchestra::certificates::{Decision, FileState, Folder, LeafState, decide};
use toolbus_testkit::transcript::{self, Player};

pub(super) const BEGIN: &[&str] = &["empty folder"];

#[test]
fn conversations_come_out_as_they_are_written() {
    for file in super::conversations(BEGIN) {
        transcript::check_file(file, || Table);
    }
}

#[test]
fn a_leaf_is_not_made_anew_where_that_would_not_help() {
    let old_ca = Folder { ca_days_left: 20, ..GOOD };
    let decided = |days_left| decide(&Folder { leaf: LeafState::Good { days_left }, ..old_ca });
    assert!(
        matches!(decided(20), Decision::UseLeaf { warning: Some(_) }),
        "no leaf outlives its CA"
    );
    assert!(matches!(decided(3), Decision::MakeLeaf { warning: Some(_) }));
}

const GOOD: Folder = Folder {
    ca_certificate: FileState::Good,
    ca_days_left: 364,
    ca_key: FileState::Good,
    leaf: LeafState::Good { days_left: 364 },
};

struct Table;

impl Player for Table {
    fn happen(&mut self, words: &str) -> Vec<String> {
        let mut folder = GOOD;
        for words in words.split(", ") {
            match words {
                "empty folder" => {
                    folder.ca_certificate = FileState::Missing;
                    folder.ca_key = FileState::Missing;
                    folder.leaf = LeafState::Missing;
                }
                "CA good" | "leaf good" => {}
                "CA expires in 20 days" => folder.ca_days_left = 20,
                "ca.crt missing" => folder.ca_certificate = FileState::Missing,
                "ca.key missing" => folder.ca_key = FileState::Missing,
                "ca.key damaged" => folder.ca_key = FileState::Damaged,
                "ca.key has mode 0644" => folder.ca_key = FileState::Exposed,
                "no leaf" => folder.leaf = LeafState::Missing,
                "leaf expires in 29 days" => folder.leaf = LeafState::Good { days_left: 29 },
                "leaf of another CA" => folder.leaf = LeafState::Foreign,
                "leaf does not match its key" => folder.leaf = LeafState::Mismatched,
                _ => panic!("what is `{words}`?"),
            }
        }
        let warn = |warning: Option<&str>| if warning.is_some() { ", warn" } else { "" };
        vec![match decide(&folder) {
            Decision::MakeAll => "== make CA, make leaf".to_owned(),
            Decision::MakeLeaf { warning } => format!("== make leaf{}", warn(warning)),
            Decision::UseLeaf { warning } => format!("== use leaf{}", warn(warning)),
            // Only one of the hints is shown.
            Decision::Refuse { hint, .. } if hint.contains("chmod") => {
                format!("== refuse, exit 2, hint: {hint}")
            }
            Decision::Refuse { .. } => "== refuse, exit 2".to_owned(),
        }]
    }

    fn bytes(&mut self, _wire: &str, _bytes: &[u8]) -> Vec<String> {
        panic!("nothing arrives in a folder")
    }
}
