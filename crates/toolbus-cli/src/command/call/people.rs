//! An answer as people read it on a terminal: text as text, and bytes by what they are. A pipe and
//! `--json` get the JSON.

use toolbus_proto::json::{Json, Kind, edit};

use super::out::bytes_of;
use crate::render::grouped;

/// What is shown, one under the other.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Lines of text.
    Text(String),
    /// JSON, to be shown over several lines.
    Json(String),
}

/// How an answer is shown.
pub(super) fn shown(answer: &Json) -> Vec<Shown> {
    let compact = answer.compact();
    let raw = compact.as_str();
    if let Some(text) = text(&compact) {
        return vec![Shown::Text(text)];
    }
    let elements = match compact.kind() {
        Kind::Array => Some(raw),
        Kind::Object => edit::member(raw, "elements"),
        _ => None,
    };
    let elements: Vec<_> = elements.into_iter().flat_map(edit::elements).collect();
    let blobs = elements.iter().filter(|element| bytes_of(element).is_some()).count();
    if blobs == 0 {
        return vec![match told_bytes(raw, "FILE") {
            Some(told) => Shown::Text(told),
            None => Shown::Json(raw.to_owned()),
        }];
    }
    let place = if blobs == 1 { "FILE" } else { "DIR" };
    let mut all: Vec<_> = elements.iter().map(|element| shown_element(element, place)).collect();
    if compact.kind() == Kind::Object {
        let rest = edit::without(raw, "elements");
        all.extend(edit::members(&rest).next().is_some().then(|| Shown::Json(rest.clone())));
    }
    all
}

/// The text that an answer is, if it is nothing else. Some servers put it into an object, which has
/// to be one.
fn text(answer: &Json) -> Option<String> {
    let text = match answer.kind() {
        Kind::String => answer.string(),
        Kind::Object => {
            let mut members = edit::members(answer.as_str());
            match (members.next(), members.next()) {
                (Some((name, value)), None) if name == "result" => {
                    Json::from_trusted(value.to_owned()).string()
                }
                _ => None,
            }
        }
        _ => None,
    };
    // Of nothing nothing would be seen.
    text.filter(|text| !text.is_empty())
}

fn shown_element(element: &str, place: &str) -> Shown {
    if let Some(told) = told_bytes(element, place) {
        return Shown::Text(told);
    }
    let block = edit::text(element, "text")
        .filter(|_| edit::text(element, "type").is_some_and(|of| of == "text"));
    let own = || Json::from_trusted(element.to_owned()).string();
    match block.map(std::borrow::Cow::into_owned).or_else(own) {
        Some(text) => Shown::Text(text),
        None => Shown::Json(element.to_owned()),
    }
}

/// `<image/png, 4,033 bytes; --out FILE keeps it>`
fn told_bytes(element: &str, place: &str) -> Option<String> {
    let (bytes, media_type) = bytes_of(element)?;
    let media_type = media_type.map(|of| format!("{of}, ")).unwrap_or_default();
    let count = grouped(bytes.len() as u64);
    Some(format!("<{media_type}{count} bytes; --out {place} keeps it>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_and_bytes_are_named() {
        let text = |text: &str| Shown::Text(text.to_owned());
        let json = |json: &str| Shown::Json(json.to_owned());
        let image = r#"{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}"#;
        let told = "<image/png, 5 bytes; --out FILE keeps it>";
        let blob = r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"application/gzip","blob":"aGk="}}"#;
        for (answer, expected) in [
            (r#""a\nb""#.to_owned(), vec![text("a\nb")]),
            (r#"{"result": "a\nb"}"#.to_owned(), vec![text("a\nb")]),
            (r#"{"result":1}"#.to_owned(), vec![json(r#"{"result":1}"#)]),
            (r#"{"result":"a","more":1}"#.to_owned(), vec![json(r#"{"result":"a","more":1}"#)]),
            (r#""""#.to_owned(), vec![json(r#""""#)]),
            (r#"["a","b"]"#.to_owned(), vec![json(r#"["a","b"]"#)]),
            ("1.50".to_owned(), vec![json("1.50")]),
            (image.to_owned(), vec![text(told)]),
            (r#"{"$bytes":"aGk="}"#.to_owned(), vec![text("<2 bytes; --out FILE keeps it>")]),
            (
                format!(r#"[{{"type":"text","text":"See"}},{image},"said",{{"n":1}}]"#),
                vec![text("See"), text(told), text("said"), json(r#"{"n":1}"#)],
            ),
            (
                format!(r#"{{"elements":[{image},{blob}],"n":1}}"#),
                vec![
                    text("<image/png, 5 bytes; --out DIR keeps it>"),
                    text("<application/gzip, 2 bytes; --out DIR keeps it>"),
                    json(r#"{"n":1}"#),
                ],
            ),
        ] {
            assert_eq!(shown(&Json::parse(answer.clone()).unwrap()), expected, "{answer}");
        }
    }
}
