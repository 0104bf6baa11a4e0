//! What a wire says of one tool, prompt or template, as the file keeps it.

use std::borrow::Cow;

use super::digest::Digest;
use super::value::JsonTree;
use crate::json::write_string;

/// What is pinned of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PinKind {
    /// A tool.
    Tool,
    /// A prompt of an MCP server.
    Prompt,
    /// A template of resources.
    Template,
}

impl PinKind {
    /// All of them, in the order of the file.
    pub const ALL: [PinKind; 3] = [PinKind::Tool, PinKind::Prompt, PinKind::Template];

    /// Its name, as in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            PinKind::Tool => "tool",
            PinKind::Prompt => "prompt",
            PinKind::Template => "template",
        }
    }
}

/// How the definitions of one wire stand in the file.
#[derive(Debug, Clone, Copy)]
pub struct Layouts {
    /// Of its tools.
    pub tool: Layout,
    /// Of its prompts.
    pub prompt: Layout,
    /// Of its templates.
    pub template: Layout,
}

impl Layouts {
    /// A wire that has only tools.
    pub const fn of_tools(tool: Layout) -> Layouts {
        Layouts { tool, prompt: tool, template: tool }
    }

    /// The one for this kind.
    pub fn of(&self, kind: PinKind) -> &Layout {
        match kind {
            PinKind::Tool => &self.tool,
            PinKind::Prompt => &self.prompt,
            PinKind::Template => &self.template,
        }
    }
}

/// How one kind of definition stands in the file: which member of the object is which key.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The member that names it.
    pub name: &'static str,
    /// Its other members, each with its key and what may stand there. All else is `more`.
    pub members: &'static [(&'static str, &'static str, Shape)],
}

/// What a key of the file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A text; a member that is no string is `more`.
    Text,
    /// Any JSON.
    Json,
}

/// A tool as toolbus itself describes it: what a wire has that has no way of its own.
pub const SPEC: Layouts = Layouts::of_tools(Layout {
    name: "name",
    members: &[
        ("title", "title", Shape::Text),
        ("description", "description", Shape::Text),
        ("input", "input", Shape::Json),
        ("output", "output", Shape::Json),
        ("hints", "hints", Shape::Json),
    ],
});

/// The keys of a definition in the order of the file, behind its digest.
pub(super) const KEYS: &[(&str, Shape)] = &[
    ("name", Shape::Text),
    ("title", Shape::Text),
    ("description", Shape::Text),
    ("signature", Shape::Text),
    ("arguments", Shape::Json),
    ("input", Shape::Json),
    ("output", Shape::Json),
    ("attrs", Shape::Json),
    ("outputs", Shape::Json),
    ("annotations", Shape::Json),
    ("hints", Shape::Json),
    (MORE, Shape::Json),
];

/// The key of all members that have none of their own.
pub(super) const MORE: &str = "more";

/// What stands at a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// A text.
    Text(String),
    /// JSON without blanks, its members in the order they came.
    Json(String),
}

impl Held {
    /// Do both say the same, whatever the order of members?
    pub fn is_same_as(&self, other: &Held) -> bool {
        match (self, other) {
            (Held::Text(one), Held::Text(other)) => one == other,
            (Held::Json(one), Held::Json(other)) => {
                one == other || super::canonical(one) == super::canonical(other)
            }
            _ => false,
        }
    }

    /// Shows each text in it.
    pub fn each_text(&self, see: &mut dyn FnMut(&str)) {
        match self {
            Held::Text(text) => see(text),
            Held::Json(json) => {
                if let Ok(value) = JsonTree::parse(json) {
                    value.each_text(see);
                }
            }
        }
    }
}

/// One tool, prompt or template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// What its peer calls it.
    pub name: String,
    /// Of all that its peer says of it.
    pub digest: Digest,
    /// What stands at its keys, in their order.
    members: Vec<(&'static str, Held)>,
}

impl Definition {
    /// Of the object that its wire has for it; `None` if that names nothing. `mask` gives the
    /// text in place of one that must not be shown.
    pub fn read(
        layout: &Layout,
        object: &str,
        mask: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Definition> {
        let value = JsonTree::parse(object).ok()?.with_texts(mask);
        let digest = Digest::of(&value);
        let JsonTree::Object(mut members) = value else { return None };
        // Of two names the last counts, as most readers have it.
        let named = members.iter().rposition(|(key, _)| key == layout.name)?;
        let (_, JsonTree::String(name)) = members.remove(named) else { return None };
        let mut held = Vec::new();
        for (key, member, shape) in layout.members {
            let mut all = members.iter().enumerate().filter(|(_, (name, _))| name == member);
            // Which of two the other side reads is not known, so both are `more`.
            let (Some((at, (_, value))), None) = (all.next(), all.next()) else { continue };
            let value = match (value, shape) {
                (JsonTree::String(text), Shape::Text) => Held::Text(text.clone().into_owned()),
                (_, Shape::Text) => continue,
                (value, Shape::Json) => Held::Json(compact(value)),
            };
            held.push((*key, value));
            members.remove(at);
        }
        if !members.is_empty() {
            held.push((MORE, Held::Json(compact(&JsonTree::Object(members)))));
        }
        held.sort_by_key(|(key, _)| place(key));
        Some(Definition { name: name.into_owned(), digest, members: held })
    }

    /// Of what stands in the file. Whether the digest is right is for the caller to see.
    pub(super) fn held(
        layout: &Layout,
        name: String,
        members: Vec<(&'static str, Held)>,
    ) -> Definition {
        let mut definition = Definition { name, digest: Digest::of_bytes(b""), members };
        definition.members.sort_by_key(|(key, _)| place(key));
        let object = definition.object(layout);
        if let Ok(digest) = super::digest(&object) {
            definition.digest = digest;
        }
        definition
    }

    /// What stands at its keys, in their order.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, &Held)> {
        self.members.iter().map(|(key, held)| (*key, held))
    }

    /// What stands at this key.
    pub fn member(&self, key: &str) -> Option<&Held> {
        self.members.iter().find(|(name, _)| *name == key).map(|(_, held)| held)
    }

    /// The text at this key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.member(key)? {
            Held::Text(text) => Some(text),
            Held::Json(_) => None,
        }
    }

    /// The object that its wire has for it, with another order of its members perhaps.
    pub fn object(&self, layout: &Layout) -> String {
        let mut out = vec![b'{'];
        let mut put = |name: &str, write: &mut dyn FnMut(&mut Vec<u8>)| {
            if 1 < out.len() {
                out.push(b',');
            }
            write_string(&mut out, name);
            out.push(b':');
            write(&mut out);
        };
        let more = match self.member(MORE) {
            Some(Held::Json(more)) => JsonTree::parse(more).ok(),
            _ => None,
        };
        let more = match more {
            Some(JsonTree::Object(more)) => more,
            _ => Vec::new(),
        };
        // A second name stands before the one that counts.
        let is_named = |(name, _): &&(Cow<'_, str>, JsonTree<'_>)| name == layout.name;
        for (name, value) in more.iter().filter(is_named) {
            put(name, &mut |out| value.write(out));
        }
        put(layout.name, &mut |out| write_string(out, &self.name));
        for (key, member, _) in layout.members {
            match self.member(key) {
                Some(Held::Text(text)) => put(member, &mut |out| write_string(out, text)),
                Some(Held::Json(json)) => {
                    put(member, &mut |out| out.extend_from_slice(json.as_bytes()));
                }
                None => {}
            }
        }
        for (name, value) in more.iter().filter(|member| !is_named(member)) {
            put(name, &mut |out| value.write(out));
        }
        out.push(b'}');
        String::from_utf8(out).expect("made of text")
    }

    /// The keys at which the two differ, in the order of the file.
    pub fn differing(&self, other: &Definition) -> Vec<&'static str> {
        let differs = |key: &&str| match (self.member(key), other.member(key)) {
            (Some(one), Some(other)) => !one.is_same_as(other),
            (one, other) => one.is_some() != other.is_some(),
        };
        KEYS.iter().map(|(key, _)| *key).filter(differs).collect()
    }

    /// Would they be the same if they had one name?
    pub(super) fn is_renamed(&self, other: &Definition) -> bool {
        self.differing(other).is_empty()
    }
}

/// Where a key stands in the order of the file.
fn place(key: &str) -> usize {
    KEYS.iter().position(|(name, _)| *name == key).unwrap_or(KEYS.len())
}

pub(super) fn compact(value: &JsonTree<'_>) -> String {
    let mut out = Vec::new();
    value.write(&mut out);
    String::from_utf8(out).expect("made of text")
}
