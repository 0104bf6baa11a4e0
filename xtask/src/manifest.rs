//! Who depends on whom, read from `Cargo.toml` and `Cargo.lock` line by line.
//!
//! Both are written by cargo and ourselves, so no TOML parser is needed for the few lines
//! that matter here.

use std::collections::BTreeMap;

/// The names under `[dependencies]` of a manifest; those of tests do not count.
pub(crate) fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut counts = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            counts = section == "dependencies" || section.ends_with(".dependencies");
            names.extend(section.strip_prefix("dependencies.").map(str::to_owned));
        } else if counts && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            names.extend((!name.is_empty()).then(|| name.trim_matches('"').to_owned()));
        }
    }
    names
}

/// Each package of a lock file with those below it. Two versions of one are taken together.
pub(crate) fn locked(lock: &str) -> BTreeMap<String, Vec<String>> {
    let mut packages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = None;
    for line in lock.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("name = ") {
            current = Some(packages.entry(name.trim_matches('"').to_owned()).or_default());
        } else if let (Some(below), Some(quoted)) = (&mut current, line.strip_prefix('"')) {
            // `"name",` or, where there are several, `"name version",`
            let name = quoted.split(['"', ' ']).next().unwrap_or_default();
            below.push(name.to_owned());
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_dependency() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\n# why\na.workspace = true\n\
                        b = \"1\"\n\n[dependencies.c]\npath = \"c\"\n\n\
                        [target.'cfg(unix)'.dependencies]\nd = { version = \"1\" }\n\n\
                        [dev-dependencies]\ne = \"1\"\n";
        assert_eq!(dependencies(manifest), ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_lock_file_knows_what_is_below() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nsource = \"x\"\ndependencies = [\n \
                    \"b\",\n \"c 1.0.0\",\n]\n\n[[package]]\nname = \"b\"\n";
        let packages = locked(lock);
        assert_eq!(packages["a"], ["b", "c"]);
        assert!(packages["b"].is_empty());
    }
}
