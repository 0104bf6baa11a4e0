//! Rooms alike: the folder of each wire in `toolbus` has files of the same names, and what it has
//! besides is listed here.

use std::fs;
use std::io;
use std::path::Path;

use crate::walls::Breach;

const FOLDER: &str = "crates/toolbus/src/wire";

/// What may be in the folder of any wire, as a file or as a folder: its descriptor, its config keys,
/// its two sides, also over HTTP, how its fronts listen, captures of it as people read them, what
/// of it can be pinned, and how an author is served.
const SHARED: [&str; 11] = [
    "author",
    "back",
    "back_http",
    "decode",
    "front",
    "front_http",
    "kind",
    "listening",
    "mod",
    "pins",
    "settings",
];

/// Without these it is no wire.
const NEEDED: [&str; 3] = ["back", "kind", "mod"];

/// What one wire alone has.
const OWN: [(&str, &[&str]); 7] = [
    ("godex", &["child", "exec"]),
    ("mcp", &["eras", "offers", "opening", "own_states", "processes", "sessions", "several"]),
    ("mediocre", &["reach"]),
    ("nats", &["numbers", "reach", "sessions", "trusted"]),
    ("oracle", &["blocking", "shell"]),
    ("orchard", &["probe"]),
    (
        "orchestra",
        &["caller", "certificates", "host_port", "hub", "ids", "link", "links", "stdio", "tls"],
    ),
];

pub(crate) fn breaches(root: &Path) -> io::Result<Vec<Breach>> {
    let mut found = Vec::new();
    for wire in names(&root.join(FOLDER))? {
        let folder = root.join(FOLDER).join(&wire);
        if folder.join("kind.rs").exists() {
            found.extend(room_breaches(&wire, &names(&folder)?));
        }
    }
    Ok(found)
}

/// What is in a folder, without the endings of files.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.push(name.trim_end_matches(".rs").to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn room_breaches(wire: &str, names: &[String]) -> Vec<Breach> {
    let breach = |what: String| Breach { place: format!("{FOLDER}/{wire}"), what };
    let own = OWN.iter().find(|(name, _)| *name == wire).map_or(&[][..], |(_, own)| own);
    let is_known = |name: &&String| SHARED.contains(&name.as_str()) || own.contains(&name.as_str());
    let strange = names.iter().filter(|name| !is_known(name)).map(|name| {
        breach(format!(
            "`{name}` is in no other folder of a wire: name it as the others do, or list it in \
             `xtask/src/rooms.rs`"
        ))
    });
    let missing = NEEDED.iter().filter(|needed| !names.iter().any(|name| name == *needed));
    strange.chain(missing.map(|needed| breach(format!("has no `{needed}`")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wire: &str, names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        room_breaches(wire, &names).into_iter().map(|breach| breach.what).collect()
    }

    #[test]
    fn folders_are_alike() {
        assert!(told("orchard", &["back", "front", "kind", "mod", "probe"]).is_empty());
        assert_eq!(
            told("oracle", &["back", "kind", "mod", "probe"]),
            ["`probe` is in no other folder of a wire: name it as the others do, or list it in \
              `xtask/src/rooms.rs`"]
        );
        assert_eq!(told("oracle", &["kind", "mod"]), ["has no `back`"]);
    }
}
