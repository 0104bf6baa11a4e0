//! What differs, with the members of each change: for people, and as JSON.

use std::fmt::Write as _;

use toolbus_proto::json::Json;
use toolbus_proto::pin::{
    Change, Definition, Differing, Flag, Held, How, JsonTree, LineOf, Lock, Pinned, differing,
    escaped, hidden_in, lines_of, one_line_unescaped,
};

use super::lines::{LineMembers, json as plain, sentence};

/// For people.
pub(super) fn text(old: &Lock, new: &Lock, changes: &[Change], flags: &[Flag]) -> String {
    let mut text = String::new();
    for change in changes {
        let _ = writeln!(text, "{}", sentence(change));
        for (key, was, is) in members(old, new, change) {
            put_member(&mut text, key, was.as_ref(), is.as_ref());
        }
        let is_of = |flag: &&Flag| match change {
            Change::Entry { name, how, kind, .. } => {
                let name = match how {
                    How::Renamed(to) => to,
                    _ => name,
                };
                flag.kind == Some(*kind) && flag.name.as_ref() == Some(name)
            }
            Change::Added { .. } => true,
            Change::Changed { what: "instructions", .. } => flag.kind.is_none(),
            _ => false,
        };
        let own = flags.iter().filter(|flag| flag.back == change.back()).filter(is_of);
        // Hidden characters are told where they stand, but for those of names and new backs.
        let is_told = |flag: &&Flag| {
            flag.flag != "hidden"
                || matches!(change, Change::Added { .. })
                || flag.message.contains(" in name: ")
        };
        for flag in own.filter(is_told) {
            let _ = writeln!(text, "  ! {}", flag.message);
        }
    }
    text
}

/// The same as JSON.
pub(super) fn json(old: &Lock, new: &Lock, changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        let members = members(old, new, change);
        if members.is_empty() {
            text.push_str(&plain(change));
            continue;
        }
        for (key, was, is) in members {
            let line = |pointer: &str, old: Option<Json>, new: Option<Json>| {
                let mut members = LineMembers::of(change);
                members.put("member", key);
                members.put("pointer", pointer);
                members.0.extend(old.map(|old| ("old", old)));
                members.0.extend(new.map(|new| ("new", new)));
                members.line()
            };
            if is_text(was.as_ref(), is.as_ref()) {
                let json = |held: Option<Held>| match held {
                    Some(Held::Text(text)) => Some(Json::of(&text)),
                    _ => None,
                };
                text.push_str(&line("", json(was), json(is)));
                continue;
            }
            for Differing { pointer, old, new } in differing(was.as_ref(), is.as_ref()) {
                let json = |value: &JsonTree<'_>| {
                    let mut out = Vec::new();
                    value.write(&mut out);
                    Json::from_trusted(out)
                };
                text.push_str(&line(&pointer, old.as_ref().map(json), new.as_ref().map(json)));
            }
        }
    }
    text
}

type Member = (&'static str, Option<Held>, Option<Held>);

/// The members of a change that differ, as they were and as they are.
fn members(old: &Lock, new: &Lock, change: &Change) -> Vec<Member> {
    let (was, is) = (old.backs.get(change.back()), new.backs.get(change.back()));
    let held = |text: &str| Held::Text(text.to_owned());
    match change {
        Change::Added { .. } | Change::Removed { .. } | Change::Noted { .. } => Vec::new(),
        Change::Changed { what, .. } => {
            let shown =
                |back: Option<&Pinned>| back.and_then(|back| back.shown.instructions.clone());
            // It may be only what legacy callers are shown that differs.
            let is_legacy = shown(was) == shown(is);
            let of = |back: Option<&Pinned>| {
                let back = back?;
                match *what {
                    "connect" => Some(held(&back.connect)),
                    "wire" => Some(held(&back.wire)),
                    _ if is_legacy => back.legacy_instructions().map(held),
                    _ => back.shown.instructions.as_deref().map(held),
                }
            };
            vec![(what, of(was), of(is))]
        }
        Change::Entry { kind, name, how, .. } => {
            let was = was.and_then(|back| back.shown.of(*kind).get(name));
            let is = is.and_then(|back| back.shown.of(*kind).get(name));
            let all = |definition: Option<&Definition>| -> Vec<(&'static str, Held)> {
                let members = definition.into_iter().flat_map(Definition::members);
                members.map(|(key, held)| (key, held.clone())).collect()
            };
            match how {
                How::Added => {
                    all(is).into_iter().map(|(key, held)| (key, None, Some(held))).collect()
                }
                How::Removed => {
                    all(was).into_iter().map(|(key, held)| (key, Some(held), None)).collect()
                }
                How::Renamed(_) => Vec::new(),
                How::Changed(keys) => {
                    let (back_was, back_is) =
                        (old.backs.get(change.back()), new.backs.get(change.back()));
                    let member = |key: &&'static str| {
                        let of = |definition: Option<&Definition>| {
                            definition.and_then(|one| one.member(key)).cloned()
                        };
                        let (first, second) = (of(was), of(is));
                        // It may be only what legacy callers are shown that differs.
                        if first == second {
                            let [was, is] = [back_was, back_is].map(|back| {
                                of(back.and_then(|back| back.legacy_definition(*kind, name)))
                            });
                            return (*key, was, is);
                        }
                        (*key, first, second)
                    };
                    keys.iter().map(member).collect()
                }
            }
        }
    }
}

fn is_text(was: Option<&Held>, is: Option<&Held>) -> bool {
    let is_json = |held: Option<&Held>| matches!(held, Some(Held::Json(_)));
    !is_json(was) && !is_json(is)
}

fn put_member(out: &mut String, key: &str, was: Option<&Held>, is: Option<&Held>) {
    if is_text(was, is) {
        let _ = writeln!(out, "  {key}");
        let text = |held: Option<&Held>| match held {
            Some(Held::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let (was, is) = (text(was), text(is));
        let lines = match (&was, &is) {
            (Some(was), Some(is)) => lines_of(was, is),
            (Some(was), None) => was.split('\n').map(LineOf::Old).collect(),
            (None, Some(is)) => is.split('\n').map(LineOf::New).collect(),
            (None, None) => Vec::new(),
        };
        for line in lines {
            let (sign, line) = match line {
                LineOf::Both(line) => (' ', line),
                LineOf::Old(line) => ('-', line),
                LineOf::New(line) => ('+', line),
            };
            let _ = writeln!(out, "    {sign} {}", escaped(line));
        }
        put_hidden(out, is.as_deref().unwrap_or_default());
        return;
    }
    for Differing { pointer, old, new } in differing(was, is) {
        let gap = if pointer.is_empty() { "" } else { " " };
        let _ = writeln!(out, "  {key}{gap}{}", escaped(&pointer));
        for (sign, value) in [('-', &old), ('+', &new)] {
            if let Some(value) = value {
                let _ = writeln!(out, "    {sign} {}", escaped(&one_line_unescaped(value)));
            }
        }
        let mut texts = String::new();
        if let Some(new) = &new {
            new.each_text(&mut |text| texts.push_str(text));
        }
        put_hidden(out, &texts);
    }
}

fn put_hidden(out: &mut String, text: &str) {
    let mut found: Vec<char> = Vec::new();
    for c in hidden_in(text) {
        if !found.contains(&c) {
            found.push(c);
        }
    }
    if !found.is_empty() {
        let shown: Vec<_> = found.iter().map(|c| format!("U+{:04X}", u32::from(*c))).collect();
        let _ = writeln!(out, "    ! hidden: {}", shown.join(", "));
    }
}
