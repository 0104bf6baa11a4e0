//! All that a lock file holds.

use std::collections::BTreeMap;

use super::definition::{Definition, PinKind};
use super::digest::Digest;
use crate::json::write_string;

/// What each back showed when it was last approved, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    /// The backs.
    pub backs: BTreeMap<String, Pinned>,
}

impl Lock {
    /// How many tools there are.
    pub fn tools(&self) -> usize {
        self.backs.values().map(|back| back.shown.tools.len()).sum()
    }
}

/// What one back showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Its address, as the config writes it, but for its query.
    pub connect: String,
    /// What it speaks.
    pub wire: String,
    /// What is told of it and compared with nobody's harm.
    pub noted: Noted,
    /// `none` if it had no resources, `some` if it had; absent if it cannot have any.
    pub resources: Option<String>,
    /// What an MCP server can do, JSON without blanks.
    pub capabilities: Option<String>,
    /// What its models can see.
    pub shown: Visible,
    /// What legacy callers are shown, where that is something else; `Some` if there is any.
    pub legacy: Option<Visible>,
}

/// What differs between machines and releases without harm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noted {
    /// The revision it was asked in.
    pub era: Option<String>,
    /// As it calls itself.
    pub server_name: Option<String>,
    /// As it calls itself.
    pub server_version: Option<String>,
    /// The file that is run.
    pub program: Option<String>,
    /// The SHA-256 of its bytes.
    pub program_sha256: Option<String>,
    /// The package that is run.
    pub package: Option<String>,
    /// Its version, if one is named.
    pub package_version: Option<String>,
}

impl Noted {
    /// All of them with their keys, in the order of the file.
    pub fn entries(&self) -> [(&'static str, Option<&str>); 7] {
        [
            ("era", self.era.as_deref()),
            ("server_name", self.server_name.as_deref()),
            ("server_version", self.server_version.as_deref()),
            ("program", self.program.as_deref()),
            ("program_sha256", self.program_sha256.as_deref()),
            ("package", self.package.as_deref()),
            ("package_version", self.package_version.as_deref()),
        ]
    }

    pub(super) fn set(&mut self, key: &str, value: String) {
        let place = match key {
            "era" => &mut self.era,
            "server_name" => &mut self.server_name,
            "server_version" => &mut self.server_version,
            "program" => &mut self.program,
            "program_sha256" => &mut self.program_sha256,
            "package" => &mut self.package,
            "package_version" => &mut self.package_version,
            _ => return,
        };
        *place = Some(value);
    }
}

/// What a model can see of a back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visible {
    /// How its tools are to be used.
    pub instructions: Option<String>,
    /// Its tools.
    pub tools: BTreeMap<String, Definition>,
    /// Its prompts.
    pub prompts: BTreeMap<String, Definition>,
    /// Its templates of resources.
    pub templates: BTreeMap<String, Definition>,
}

impl Visible {
    /// Those of a kind.
    pub fn of(&self, kind: PinKind) -> &BTreeMap<String, Definition> {
        match kind {
            PinKind::Tool => &self.tools,
            PinKind::Prompt => &self.prompts,
            PinKind::Template => &self.templates,
        }
    }

    /// Those of a kind.
    pub fn of_mut(&mut self, kind: PinKind) -> &mut BTreeMap<String, Definition> {
        match kind {
            PinKind::Tool => &mut self.tools,
            PinKind::Prompt => &mut self.prompts,
            PinKind::Template => &mut self.templates,
        }
    }

    /// Is there nothing?
    pub fn is_empty(&self) -> bool {
        self.instructions.is_none() && PinKind::ALL.into_iter().all(|kind| self.of(kind).is_empty())
    }

    /// What legacy callers are shown that differs from what `self` shows all others.
    pub fn legacy_of(&self, legacy: Visible) -> Option<Visible> {
        let mut own = Visible::default();
        if legacy.instructions != self.instructions {
            // An empty text stands for none, where others have one.
            own.instructions = Some(legacy.instructions.unwrap_or_default());
        }
        for (kind, mut all) in [
            (PinKind::Tool, legacy.tools),
            (PinKind::Prompt, legacy.prompts),
            (PinKind::Template, legacy.templates),
        ] {
            let same = self.of(kind);
            all.retain(|name, legacy| same.get(name).is_none_or(|one| one.digest != legacy.digest));
            *own.of_mut(kind) = all;
        }
        (!own.is_empty()).then_some(own)
    }

    /// `{"instructions"?:TEXT,"legacy"?:{…},"prompts":{NAME:DIGEST…},"templates":{…},"tools":{…}}`:
    /// sorted, and so canonical already.
    fn write_digests(&self, legacy: Option<&Visible>, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(instructions) = &self.instructions {
            out.extend_from_slice(b"\"instructions\":");
            write_string(out, instructions);
            out.push(b',');
        }
        if let Some(legacy) = legacy {
            out.extend_from_slice(b"\"legacy\":");
            legacy.write_digests(None, out);
            out.push(b',');
        }
        for (index, (name, all)) in
            [("prompts", &self.prompts), ("templates", &self.templates), ("tools", &self.tools)]
                .into_iter()
                .enumerate()
        {
            if 0 < index {
                out.push(b',');
            }
            write_string(out, name);
            out.extend_from_slice(b":{");
            for (index, (name, definition)) in all.iter().enumerate() {
                if 0 < index {
                    out.push(b',');
                }
                write_string(out, name);
                out.push(b':');
                write_string(out, &definition.digest.to_string());
            }
            out.push(b'}');
        }
        out.push(b'}');
    }
}

impl Pinned {
    /// The digest of the back: of what a model can see of it, and of nothing else.
    pub fn digest(&self) -> Digest {
        let mut out = Vec::new();
        self.shown.write_digests(self.legacy.as_ref(), &mut out);
        Digest::of_bytes(&out)
    }

    /// A definition as legacy callers are shown it, or else as all are.
    pub fn legacy_definition(&self, kind: PinKind, name: &str) -> Option<&Definition> {
        let own = self.legacy.as_ref().and_then(|legacy| legacy.of(kind).get(name));
        own.or_else(|| self.shown.of(kind).get(name))
    }

    /// The instructions that legacy callers are shown.
    pub fn legacy_instructions(&self) -> Option<&str> {
        match self.legacy.as_ref().and_then(|legacy| legacy.instructions.as_deref()) {
            Some("") => None,
            Some(own) => Some(own),
            None => self.shown.instructions.as_deref(),
        }
    }

    /// The same as it is now, but written as `before` wrote it where nothing has changed: a
    /// server that shuffles the members of its list does not change the file.
    #[must_use]
    pub fn worded_as(mut self, before: &Pinned) -> Pinned {
        let reword = |now: &mut Visible, before: &Visible| {
            for kind in PinKind::ALL {
                for (name, definition) in now.of_mut(kind) {
                    let known = before.of(kind).get(name);
                    if let Some(known) = known.filter(|known| known.digest == definition.digest) {
                        *definition = known.clone();
                    }
                }
            }
        };
        reword(&mut self.shown, &before.shown);
        if let (Some(now), Some(before)) = (&mut self.legacy, &before.legacy) {
            reword(now, before);
        }
        if let (Some(now), Some(known)) = (&self.capabilities, &before.capabilities)
            && super::canonical(now) == super::canonical(known)
        {
            self.capabilities = Some(known.clone());
        }
        self
    }
}
