//! What differs, a line each: for people, and as JSON.

use toolbus_proto::json::Json;
use toolbus_proto::pin::{Change, Counts, Flag, How, PinKind, escaped};

/// The line of a change.
pub(super) fn line(change: &Change) -> String {
    format!("{}\n", sentence(change))
}

/// The same without its end.
pub(super) fn sentence(change: &Change) -> String {
    match change {
        Change::Added { back, counts } => format!("added {back}{}", counted(counts)),
        Change::Removed { back } => format!("removed {back}"),
        Change::Changed { back, what } => format!("changed {back} {what}"),
        Change::Noted { back, key, old, new } => {
            let shown = |value: &Option<String>| match value {
                Some(value) => escaped(value),
                None => "none".to_owned(),
            };
            format!("noted {back} {key}: {} -> {}", shown(old), shown(new))
        }
        Change::Entry { back, kind, name, how } => {
            let named = |name: &str| match kind {
                PinKind::Tool => format!("{back}.{}", escaped(name)),
                PinKind::Prompt | PinKind::Template => {
                    format!("{back} {} {}", kind.as_str(), escaped(name))
                }
            };
            match how {
                How::Added => format!("added {}", named(name)),
                How::Removed => format!("removed {}", named(name)),
                How::Changed(members) => format!("changed {}: {}", named(name), members.join(", ")),
                How::Renamed(to) => {
                    let to = match kind {
                        PinKind::Tool => named(to),
                        PinKind::Prompt | PinKind::Template => escaped(to),
                    };
                    format!("renamed {} -> {to}", named(name))
                }
            }
        }
    }
}

/// `: 3 tools, 1 prompt`, what there is of it.
fn counted(counts: &Counts) -> String {
    let some = PinKind::ALL.into_iter().zip(counts.0).filter(|(_, count)| *count != 0);
    let shown: Vec<_> = some
        .map(|(kind, count)| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {}{plural}", kind.as_str())
        })
        .collect();
    if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) }
}

/// The same as JSON.
pub(super) fn json(change: &Change) -> String {
    let mut members = LineMembers::of(change);
    match change {
        Change::Added { .. } | Change::Removed { .. } | Change::Changed { .. } => {}
        Change::Noted { old, new, .. } => {
            members.put_if("old", old.as_deref());
            members.put_if("new", new.as_deref());
        }
        Change::Entry { how: How::Changed(keys), .. } => {
            members.0.push(("members", Json::of(keys)));
        }
        Change::Entry { .. } => {}
    }
    members.line()
}

/// A flag as JSON.
pub(super) fn flag_json(flag: &Flag) -> String {
    let Flag { back, kind, name, flag, message } = flag;
    let mut members = LineMembers(Vec::new());
    members.put("change", "flagged");
    members.put("back", back);
    members.put("kind", kind.map_or("back", PinKind::as_str));
    members.put_if("name", name.as_deref());
    members.put("flag", flag);
    members.put("message", message);
    members.line()
}

/// The members of a line of JSON.
pub(super) struct LineMembers(pub(super) Vec<(&'static str, Json)>);

impl LineMembers {
    /// Those that each line about a change begins with.
    pub(super) fn of(change: &Change) -> LineMembers {
        let (word, kind) = match change {
            Change::Added { .. } => ("added", "back"),
            Change::Removed { .. } => ("removed", "back"),
            Change::Changed { what, .. } => ("changed", *what),
            Change::Noted { key, .. } => ("noted", *key),
            Change::Entry { kind, how, .. } => {
                let word = match how {
                    How::Added => "added",
                    How::Removed => "removed",
                    How::Changed(_) => "changed",
                    How::Renamed(_) => "renamed",
                };
                (word, kind.as_str())
            }
        };
        let mut members = LineMembers(Vec::new());
        members.put("change", word);
        members.put("back", change.back());
        members.put("kind", kind);
        if let Change::Entry { name, how, .. } = change {
            members.put("name", name);
            if let How::Renamed(to) = how {
                members.put("to", to);
            }
        }
        members
    }

    pub(super) fn put(&mut self, name: &'static str, text: &str) {
        self.0.push((name, Json::of(text)));
    }

    pub(super) fn put_if(&mut self, name: &'static str, text: Option<&str>) {
        if let Some(text) = text {
            self.put(name, text);
        }
    }

    pub(super) fn line(&self) -> String {
        let members: Vec<_> =
            self.0.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}\n", members.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: PinKind, name: &str, how: How) -> Change {
        Change::Entry { back: "weather".to_owned(), kind, name: name.to_owned(), how }
    }

    #[test]
    fn each_change_has_its_line() {
        let back = || "weather".to_owned();
        for (change, expected) in [
            (
                Change::Added { back: back(), counts: Counts([3, 1, 0]) },
                "added weather: 3 tools, 1 prompt",
            ),
            (Change::Added { back: back(), counts: Counts([0; 3]) }, "added weather"),
            (Change::Removed { back: back() }, "removed weather"),
            (Change::Changed { back: back(), what: "connect" }, "changed weather connect"),
            (
                Change::Noted {
                    back: back(),
                    key: "server_version",
                    old: Some("1.4.2".to_owned()),
                    new: None,
                },
                "noted weather server_version: 1.4.2 -> none",
            ),
            (entry(PinKind::Tool, "radar\u{200b}", How::Added), r"added weather.radar\u{200b}"),
            (
                entry(PinKind::Tool, "forecast", How::Changed(vec!["description", "input"])),
                "changed weather.forecast: description, input",
            ),
            (
                entry(PinKind::Tool, "alerts", How::Renamed("get_alerts".to_owned())),
                "renamed weather.alerts -> weather.get_alerts",
            ),
            (entry(PinKind::Tool, "old", How::Removed), "removed weather.old"),
            (
                entry(PinKind::Prompt, "plan", How::Changed(vec!["description"])),
                "changed weather prompt plan: description",
            ),
        ] {
            assert_eq!(line(&change), format!("{expected}\n"));
        }
    }

    #[test]
    fn scripts_read_the_same() {
        let changed = entry(PinKind::Tool, "forecast", How::Changed(vec!["input"]));
        assert_eq!(
            json(&changed),
            "{\"change\":\"changed\",\"back\":\"weather\",\"kind\":\"tool\",\"name\":\"forecast\",\"members\":[\"input\"]}\n"
        );
        let renamed = entry(PinKind::Prompt, "a", How::Renamed("b".to_owned()));
        assert_eq!(
            json(&renamed),
            "{\"change\":\"renamed\",\"back\":\"weather\",\"kind\":\"prompt\",\"name\":\"a\",\"to\":\"b\"}\n"
        );
    }
}
