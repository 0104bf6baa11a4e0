//! `toolbus-V.cdx.json`: what is linked into the program, as CycloneDX 1.6.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::sums::time_of;
use super::{Packed, Release, output};

/// The package that the program is of.
const PROGRAM: &str = "toolbus-cli";

pub(super) fn file(root: &Path, release: &Release) -> Result<Packed, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    cargo.args(["--filter-platform", &release.triple]);
    let metadata: Value = serde_json::from_str(&output(root, &mut cargo)?)
        .map_err(|error| format!("error: cannot read what cargo says: {error}"))?;
    let bom = bom(release, &metadata).ok_or("error: cargo says nothing of the program")?;
    let name = format!("toolbus-{}.cdx.json", release.version);
    Ok(Packed::file(name, format!("{bom:#}\n")))
}

/// A package that cargo knows.
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    licence: Option<&'a str>,
    description: Option<&'a str>,
    /// It runs while others are compiled, and is linked into nothing.
    is_macro: bool,
}

impl Package<'_> {
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    fn component(&self, kind: &str) -> Value {
        let purl = self.purl();
        let mut told = json!({
            "type": kind,
            "bom-ref": purl,
            "name": self.name,
            "version": self.version,
            "purl": purl,
        });
        if let Some(description) = self.description {
            told["description"] = json!(description.trim());
        }
        if let Some(licence) = self.licence {
            // As it was written before there were expressions.
            let licence = licence.replace('/', " OR ");
            told["licenses"] = json!([{"expression": licence}]);
        }
        told
    }
}

fn bom(release: &Release, metadata: &Value) -> Option<Value> {
    let packages = packages(metadata)?;
    let below = below(metadata)?;
    let program = packages.iter().find(|(_, package)| package.name == PROGRAM)?;
    let linked = linked(program.0, &packages, &below);
    let of = |id: &&str| packages.get(*id);
    let mut components: Vec<Value> =
        linked.iter().skip(1).filter_map(|id| Some(of(id)?.component("library"))).collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let mut dependencies: Vec<Value> = Vec::new();
    for id in &linked {
        let used = below.get(id).into_iter().flatten().filter(|id| linked.contains(id));
        let used: BTreeSet<String> = used.filter_map(|id| Some(of(id)?.purl())).collect();
        dependencies.push(json!({"ref": of(id)?.purl(), "dependsOn": used}));
    }
    dependencies.sort_by_key(|dependency| dependency["ref"].to_string());
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time_of(release.time),
            "component": program.1.component("application"),
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn packages(metadata: &Value) -> Option<BTreeMap<&str, Package<'_>>> {
    let mut packages = BTreeMap::new();
    for package in metadata["packages"].as_array()? {
        let targets = package["targets"].as_array()?;
        let is_macro = |target: &Value| {
            target["kind"].as_array().is_some_and(|kinds| kinds.contains(&json!("proc-macro")))
        };
        let known = Package {
            name: package["name"].as_str()?,
            version: package["version"].as_str()?,
            licence: package["license"].as_str(),
            description: package["description"].as_str(),
            is_macro: targets.iter().any(is_macro),
        };
        packages.insert(package["id"].as_str()?, known);
    }
    Some(packages)
}

/// What each package uses when it runs; what tests and builds use is left out.
fn below(metadata: &Value) -> Option<BTreeMap<&str, Vec<&str>>> {
    let mut below = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array()? {
        let mut used = Vec::new();
        for dependency in node["deps"].as_array()? {
            let kinds = dependency["dep_kinds"].as_array()?;
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                used.push(dependency["pkg"].as_str()?);
            }
        }
        below.insert(node["id"].as_str()?, used);
    }
    Some(below)
}

/// The program and all that is linked into it; the program comes first.
fn linked<'a>(
    program: &'a str,
    packages: &BTreeMap<&'a str, Package<'_>>,
    below: &BTreeMap<&'a str, Vec<&'a str>>,
) -> Vec<&'a str> {
    let mut linked = vec![program];
    let mut at = 0;
    while let Some(id) = linked.get(at) {
        let used = below.get(id).into_iter().flatten();
        let new: Vec<&str> = used
            .filter(|id| packages.get(**id).is_some_and(|package| !package.is_macro))
            .filter(|id| !linked.contains(id))
            .copied()
            .collect();
        linked.extend(new);
        at += 1;
    }
    linked
}
