//! The result of a server's `tools/call` as a reply of the hub, or as a result of ours.

use std::borrow::Cow;

use bytes::Bytes;

use super::failure_of_result;
use crate::json::{self, Json, Kind, edit};
use crate::jsonrpc::{kind, string};
use crate::mcp::wire::{ANSWER_KEY, Revision, SERVER_KEY, in_a_line, put_member};
use crate::tool::{Code, Failure, FailureKind, Outcome};

/// What a result means to a caller who does not speak MCP.
pub(in crate::mcp) fn outcome(line: &Bytes, result: &str) -> Result<Outcome, Failure> {
    if let Some(kind) = unfinished(result) {
        let message = format!("the tool answers only to MCP clients: its result is {kind}");
        let code = Some(Code::Word(kind.into_owned()));
        let failure = Failure::new(FailureKind::Failed, message);
        return Err(Failure { code, from_peer: true, ..failure });
    }
    let [content, is_error, structured, meta] =
        edit::pick(result, ["content", "isError", "structuredContent", "_meta"]);
    let blocks = || content.into_iter().flat_map(edit::elements);
    let texts = || {
        let texts: Vec<_> = blocks().filter_map(|block| edit::text(block, "text")).collect();
        texts.join("\n")
    };
    if is_error == Some("true") {
        return Err(failure_of_result(line, result, texts()));
    }
    let json = |raw: &str| Outcome::Value(Json::from_trusted(in_a_line(line, raw)));
    if let Some(structured) = structured {
        return Ok(json(structured));
    }
    let Some(content) = content else { return Ok(json(result)) };
    let said = meta.and_then(|meta| edit::member(meta, ANSWER_KEY));
    if let Some(answer) = said.and_then(|said| marked(said, content)) {
        return Ok(Outcome::Value(answer));
    }
    match blocks().all(is_text) {
        true => Ok(Outcome::Text(texts())),
        false => Ok(json(content)),
    }
}

/// The text blocks of a result, if it has any and is no failure.
pub(in crate::mcp) fn text_of(result: &str) -> Option<String> {
    let content = edit::member(result, "content")?;
    let blocks = edit::elements(content).filter(|block| is_text(block));
    let texts: Vec<_> = blocks.filter_map(|block| edit::text(block, "text")).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn is_text(block: &str) -> bool {
    edit::text(block, "type").as_deref() == Some("text")
}

/// The answer as it was before a toolbus made blocks of it; `None` if they are not what it says.
fn marked(said: &str, content: &str) -> Option<Json> {
    let mut blocks = edit::elements(content);
    if string(said).is_some_and(|said| said == "json") {
        let text = edit::text(blocks.next()?, "text")?;
        return Json::parse(text.into_owned()).ok().filter(|_| blocks.next().is_none());
    }
    let words: Vec<_> = edit::elements(said).filter_map(string).collect();
    let (mut elements, mut ends) = (Vec::new(), Vec::new());
    for word in &words {
        let block = blocks.next()?;
        let text = || edit::text(block, "text").map(Cow::into_owned);
        let value = || Some(Json::parse(text()?).ok()?.compact().to_string());
        match &**word {
            "text" => elements.push(Json::of(&text()?).to_string()),
            "json" => elements.push(value()?),
            "bytes" => elements.push(format!(r#"{{"$bytes":{}}}"#, data_of(block)?)),
            // Before the elements stands what was there before them, behind them the rest.
            "value" if elements.is_empty() && ends.is_empty() => {
                ends.push(format!(r#","res":{}"#, value()?));
            }
            "value" => ends.push(format!(r#","tail":{}"#, value()?)),
            _ => return None,
        }
    }
    let whole = format!(r#"{{"elements":[{}]{}}}"#, elements.join(","), ends.concat());
    (kind(said) == Kind::Array)
        .then(|| Json::from_trusted(whole))
        .filter(|_| blocks.next().is_none())
}

/// The base64 of a block, quotes included.
fn data_of(block: &str) -> Option<&str> {
    let data = edit::member(block, "data");
    data.or_else(|| edit::member(edit::member(block, "resource")?, "blob"))
}

/// Is it what the tool has to say, and no question or promise? Those only the one who talks
/// to the server can make use of.
pub(in crate::mcp) fn is_complete(result: &str) -> bool {
    unfinished(result).is_none()
}

fn unfinished(result: &str) -> Option<Cow<'_, str>> {
    edit::text(result, "resultType").filter(|kind| kind != "complete")
}

/// The complete result of a server for a client that may be of another era (`docs/protocols/mcp.md` 2.4);
/// `server` is who modern clients are told it comes from.
pub(in crate::mcp) fn relayed(revision: Revision, result: Bytes, server: &Json) -> Bytes {
    let raw = str::from_utf8(&result).unwrap_or("{}");
    if revision == Revision::MODERN {
        if edit::member(raw, "resultType").is_some() {
            return result;
        }
        let meta = edit::member(raw, "_meta").unwrap_or("{}");
        let meta = edit::with_first(meta, SERVER_KEY, server.as_str());
        let mut relayed = edit::without(raw, "_meta");
        relayed.pop();
        let mut relayed = relayed.into_bytes();
        put_member(&mut relayed, "_meta", meta);
        relayed.push(b'}');
        let relayed = String::from_utf8(relayed).expect("made of text");
        return edit::with_first(&relayed, "resultType", "\"complete\"").into();
    }
    let structured = edit::member(raw, "structuredContent").map(kind);
    let is_too_new = structured
        .is_some_and(|structured| structured != Kind::Object || revision < Revision::V2025_06_18);
    let mut relayed = Cow::from(raw);
    for name in ["resultType", "ttlMs", "cacheScope"] {
        if edit::member(raw, name).is_some() {
            relayed = edit::without(&relayed, name).into();
        }
    }
    if is_too_new {
        // The text alone would not say that it is one of JSON.
        let [content, structured] = edit::pick(raw, ["content", "structuredContent"]);
        let answer = content.and_then(|content| marked("\"json\"", content));
        let is_told = structured.zip(answer).is_some_and(|(structured, answer)| {
            json::compact(structured) == answer.compact().as_str()
                && kind(structured) != Kind::String
        });
        relayed = edit::without(&relayed, "structuredContent").into();
        if is_told {
            let meta = edit::member(raw, "_meta").unwrap_or("{}");
            let meta = edit::with_first(meta, ANSWER_KEY, "\"json\"");
            let mut marked = edit::without(&relayed, "_meta").into_bytes();
            marked.pop();
            put_member(&mut marked, "_meta", meta);
            marked.push(b'}');
            relayed = String::from_utf8(marked).expect("made of text").into();
        }
    }
    match relayed {
        Cow::Borrowed(_) => result,
        Cow::Owned(relayed) => relayed.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_pass_between_the_eras() {
        let us = Json::from_trusted(r#"{"name":"us"}"#);
        let check = |revision, result: &str, expected: &str| {
            let relayed = relayed(revision, Bytes::copy_from_slice(result.as_bytes()), &us);
            assert_eq!(str::from_utf8(&relayed).unwrap(), expected);
        };
        let legacy = r#"{"z":1.0,"content":[],"structuredContent":{"a":1e2},"_meta":{"q":1}}"#;
        check(Revision::V2025_11_25, legacy, legacy);
        let older = r#"{"z":1.0,"content":[],"_meta":{"q":1}}"#;
        check(Revision::V2025_03_26, legacy, older);
        let modern = r#"{"resultType":"complete","z":1.0,"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"us"},"q":1}}"#;
        check(Revision::MODERN, older, modern);
        check(Revision::MODERN, modern, modern);
        let modern = r#"{"resultType":"complete","content":[],"structuredContent":3}"#;
        check(Revision::V2025_11_25, modern, r#"{"content":[]}"#);
    }
}
