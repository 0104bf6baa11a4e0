//! `toolbus-V-T.tar.gz`, and how files get into a tar at all.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::contents::Contents;
use super::{Packed, Release};

pub(super) fn package(release: &Release, contents: &Contents) -> Result<Packed, String> {
    let name = format!("toolbus-{}-{}", release.version, release.triple);
    let Contents { program, texts, licences, schema, pages, completions, units, .. } = contents;
    let mut files = vec![
        Packed::program("toolbus", program),
        schema.clone(),
        Packed::file("completions/toolbus.bash", &*completions.bash),
        Packed::file("completions/_toolbus", &*completions.zsh),
        Packed::file("completions/toolbus.fish", &*completions.fish),
    ];
    files.extend([texts.clone(), licences.clone()].concat());
    let below = |folder: &'static str| {
        move |file: &Packed| Packed { path: format!("{folder}/{}", file.path), ..file.clone() }
    };
    files.extend(pages.iter().map(below("man/man1")));
    files.extend(units.iter().map(below("systemd")));
    for file in &mut files {
        file.path = format!("{name}/{}", file.path);
    }
    Ok(Packed::file(format!("{name}.tar.gz"), gzipped(&tar(release, files)?)?))
}

/// A tar of these files, sorted and with the folders that they are in.
pub(super) fn tar(release: &Release, mut files: Vec<Packed>) -> Result<Vec<u8>, String> {
    let mut folders: Vec<String> = files.iter().flat_map(|file| folders_of(&file.path)).collect();
    folders.retain(|folder| !files.iter().any(|file| file.path == *folder));
    folders.sort();
    folders.dedup();
    files.extend(folders.iter().map(|folder| Packed::folder(folder)));
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let mut builder = Builder::new(Vec::new());
    for file in &files {
        let mut header = Header::new_ustar();
        header.set_entry_type(match file.is_folder() {
            true => EntryType::Directory,
            false => EntryType::Regular,
        });
        header.set_mode(file.mode());
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(release.time);
        header.set_size(file.bytes.len() as u64);
        let added = builder.append_data(&mut header, &file.path, &*file.bytes);
        added.map_err(|error| format!("error: cannot pack {}: {error}", file.path))?;
    }
    builder.into_inner().map_err(|error| format!("error: cannot pack: {error}"))
}

/// The folders above a path, the uppermost first.
fn folders_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches('/');
    path.match_indices('/').map(|(at, _)| path[..=at].to_owned()).collect()
}

/// Without name and time of the file, and without the system that it was made on.
pub(super) fn gzipped(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut writer =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
    let done = writer.write_all(bytes).and_then(|()| writer.finish());
    done.map_err(|error| format!("error: cannot compress: {error}"))
}
