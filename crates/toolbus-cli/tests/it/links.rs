//! The links in the documents: each leads to a file that is there, and to a heading in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut pages = BTreeMap::new();
    read_all(&root, &mut pages);
    assert!(pages.len() > 20, "{:?}", pages.keys());
    let mut dead = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            let target = target.canonicalize();
            let leads = target.as_ref().is_ok_and(|target| {
                heading.is_empty() || pages.get(target).is_some_and(|text| has(text, heading))
            });
            if !leads {
                let page = page.strip_prefix(&root).unwrap().display();
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// The pages of the project: not those of its dependencies, nor those it has built.
fn read_all(root: &Path, pages: &mut BTreeMap<PathBuf, String>) {
    let folders = ["", "docs", "docs/protocols", "examples"];
    for folder in folders.map(|folder| root.join(folder)) {
        let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "md")) {
            let text = fs::read_to_string(&file).unwrap();
            pages.insert(file, text);
        }
    }
}

/// Those that lead to other pages of the project, outside of examples.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
    })
}

/// Has it the heading that this is the name of? Names are made as GitHub makes them.
fn has(text: &str, name: &str) -> bool {
    prose(text).filter_map(|line| line.strip_prefix('#')).any(|heading| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).eq(name.chars())
    })
}

/// The lines that are not in a block of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}
