//! The page itself: its shell, and the files that this names. They are a part of the program, and
//! all that a browser ever loads.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

use super::hex;

/// One file beside the shell.
pub(super) struct Asset {
    name: &'static str,
    pub(super) bytes: &'static [u8],
}

const fn asset(name: &'static str, bytes: &'static [u8]) -> Asset {
    Asset { name, bytes }
}

/// What stands in the shell in place of the hash over all files.
const PLACEHOLDER: &str = "/page/HASH/";
const SHELL: &str = include_str!("assets/index.html");
static ASSETS: &[Asset] = &[
    asset("call.js", include_bytes!("assets/call.js")),
    asset("calls.js", include_bytes!("assets/calls.js")),
    asset("config.js", include_bytes!("assets/config.js")),
    asset("forms.js", include_bytes!("assets/forms.js")),
    asset("icon.svg", include_bytes!("assets/icon.svg")),
    asset("journal.js", include_bytes!("assets/journal.js")),
    asset("json.js", include_bytes!("assets/json.js")),
    asset("keys.js", include_bytes!("assets/keys.js")),
    asset("link.js", include_bytes!("assets/link.js")),
    asset("main.js", include_bytes!("assets/main.js")),
    asset("numbers.js", include_bytes!("assets/numbers.js")),
    asset("overview.js", include_bytes!("assets/overview.js")),
    asset("place.js", include_bytes!("assets/place.js")),
    asset("plots.js", include_bytes!("assets/plots.js")),
    asset("run.js", include_bytes!("assets/run.js")),
    asset("schema.js", include_bytes!("assets/schema.js")),
    asset("store.js", include_bytes!("assets/store.js")),
    asset("style.css", include_bytes!("assets/style.css")),
    asset("text.js", include_bytes!("assets/text.js")),
    asset("timeline.js", include_bytes!("assets/timeline.js")),
    asset("tools.js", include_bytes!("assets/tools.js")),
];

/// Names all files as they are: another file, another name.
pub(super) static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (name, bytes) in
        ASSETS.iter().map(|asset| (asset.name, asset.bytes)).chain([("", SHELL.as_bytes())])
    {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
    hex(&hash.finalize()[..8])
});

static SHELL_NAMED: LazyLock<String> =
    LazyLock::new(|| SHELL.replace(PLACEHOLDER, &format!("/page/{}/", *HASH)));

/// The shell, the same for all.
pub(super) fn shell() -> &'static str {
    &SHELL_NAMED
}

/// The file at a path behind `/page/`.
pub(super) fn asset_at(path: &str) -> Option<&'static Asset> {
    let (hash, name) = path.split_once('/')?;
    ASSETS.iter().find(|asset| hash == *HASH && asset.name == name)
}

impl Asset {
    /// Its media type, by its name.
    pub(super) fn media_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "js" => "text/javascript",
            "css" => "text/css",
            "svg" => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_names_files_that_are_there() {
        let shell = shell();
        assert!(shell.starts_with("<!doctype html>"), "{shell}");
        let named: Vec<_> = shell.split("\"/page/").skip(1).collect();
        for rest in &named {
            let path = rest.split('"').next().unwrap();
            assert!(asset_at(path).is_some(), "{path}");
        }
        assert!(!named.is_empty() && !shell.contains("HASH"));
        assert!(asset_at(&format!("{}/none.js", *HASH)).is_none());
        assert!(asset_at("0000000000000000/main.js").is_none());
        assert!(ASSETS.iter().all(|asset| asset.media_type() != "application/octet-stream"));
    }
}
