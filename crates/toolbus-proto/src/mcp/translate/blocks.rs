//! A reply of the hub as the result of `tools/call`: content blocks, as they come.

use bytes::Bytes;

use crate::channel::{Down, Outbox};
use crate::collect::{COLLECTED_BYTES_MAX, Collector, base64};
use crate::json::{Json, Kind};
use crate::mcp::wire::{FAILURE_KEY, Revision, SERVER_KEY, put_member, quoted};
use crate::printable::size;
use crate::tool::{Code, Failure, FailureKind, Outcome, Part, Piece};

/// What a result begins with.
const BEGIN: &[u8] = br#"{"content":["#;
const BEGIN_MODERN: &[u8] = br#"{"resultType":"complete","content":["#;
/// How much of a part is told as progress.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Collects one reply.
#[derive(Debug)]
pub(in crate::mcp) struct Blocks {
    revision: Revision,
    /// The blocks so far, as the inside of an array.
    content: Vec<u8>,
    count: usize,
    blob: Option<Blob>,
    collected: Collected,
}

/// The parts once more, for clients of a tool that lists what they are when they are collected.
#[derive(Debug)]
enum Collected {
    /// No part has come yet.
    Undecided,
    /// The tool lists nothing of the kind.
    No,
    Yes(Collector),
    /// What the tool lists is not known yet.
    Perhaps(Collector),
}

/// A run of bytes whose pieces are arriving.
#[derive(Debug, Default)]
struct Blob {
    data: Vec<u8>,
    media_type: Option<String>,
}

impl Blocks {
    pub(in crate::mcp) fn new(revision: Revision) -> Blocks {
        Blocks {
            revision,
            content: Vec::new(),
            count: 0,
            blob: None,
            collected: Collected::Undecided,
        }
    }

    /// What it keeps.
    pub(in crate::mcp) fn weight(&self) -> usize {
        let blob = self.blob.as_ref().map_or(0, |blob| blob.data.len());
        let collected = match &self.collected {
            Collected::Yes(collector) | Collected::Perhaps(collector) => collector.weight(),
            Collected::Undecided | Collected::No => 0,
        };
        self.content.len() + blob + collected
    }

    /// Is it not decided yet whether the parts are shown in their collected form, too?
    pub(in crate::mcp) fn is_undecided(&self) -> bool {
        matches!(self.collected, Collected::Undecided)
    }

    /// They are if the tool lists an output schema.
    pub(in crate::mcp) fn decide(&mut self, lists_output: Option<bool>) {
        self.collected = match lists_output {
            Some(false) => Collected::No,
            Some(true) => Collected::Yes(Collector::new()),
            None => Collected::Perhaps(Collector::new()),
        };
    }

    /// Has it to be found out whether the tool lists an output schema, before this is told?
    pub(in crate::mcp) fn needs_schema(&self, outcome: &Outcome) -> bool {
        matches!((&self.collected, outcome), (Collected::Perhaps(_), Outcome::End(_)))
    }

    /// It has been found out.
    pub(in crate::mcp) fn settle(&mut self, lists_output: bool) {
        if !lists_output {
            self.collected = Collected::No;
        }
    }

    /// The value before the parts.
    pub(in crate::mcp) fn put_head(&mut self, head: Option<&Json>) -> Result<(), Failure> {
        self.collect(|| Down::Begin { head: head.cloned(), parts: None })?;
        self.put_value(head)
    }

    fn collect(&mut self, down: impl FnOnce() -> Down) -> Result<Option<Outcome>, Failure> {
        match &mut self.collected {
            Collected::Yes(collector) | Collected::Perhaps(collector) => {
                collector.take(down()).transpose()
            }
            Collected::Undecided | Collected::No => Ok(None),
        }
    }

    /// A value before or behind the parts.
    fn put_value(&mut self, value: Option<&Json>) -> Result<(), Failure> {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            self.put_text(&value.shown())?;
        }
        Ok(())
    }

    /// The next part; gives what to tell as progress once it is whole.
    pub(in crate::mcp) fn put_part(&mut self, part: &Part) -> Result<Option<String>, Failure> {
        self.collect(|| Down::Part(part.clone()))?;
        match part {
            Part::Text(text) => {
                self.put_text(text)?;
                Ok(Some(beginning(text)))
            }
            Part::Json(json) => {
                let text = json.shown();
                self.put_text(&text)?;
                Ok(Some(beginning(&text)))
            }
            Part::Bytes(piece) => self.put_piece(piece),
        }
    }

    fn put_piece(&mut self, piece: &Piece) -> Result<Option<String>, Failure> {
        let blob = self.blob.get_or_insert_default();
        if let Some(media_type) = &piece.media_type {
            blob.media_type.get_or_insert_with(|| media_type.to_string());
        }
        blob.data.extend_from_slice(&piece.data);
        let weight = blob.data.len();
        self.check(weight)?;
        if !piece.last {
            return Ok(None);
        }
        let blob = self.blob.take().unwrap_or_default();
        let told = format!("{} bytes", blob.data.len());
        self.put_blob(&blob)?;
        Ok(Some(told))
    }

    fn put_blob(&mut self, blob: &Blob) -> Result<(), Failure> {
        let data = quoted(&base64(&blob.data));
        let media_type = blob.media_type.as_deref().unwrap_or("application/octet-stream");
        let kind = match media_type.split_once('/') {
            Some(("image", _)) => "image",
            Some(("audio", _)) if Revision::V2025_03_26 <= self.revision => "audio",
            _ => {
                let mut resource = vec![b'{'];
                let uri = format!("toolbus://reply/{}", self.count + 1);
                put_member(&mut resource, "uri", quoted(&uri));
                put_member(&mut resource, "mimeType", quoted(media_type));
                put_member(&mut resource, "blob", data);
                resource.push(b'}');
                return self.put_block("resource", &[("resource", resource)]);
            }
        };
        self.put_block(kind, &[("data", data), ("mimeType", quoted(media_type))])
    }

    fn put_text(&mut self, text: &str) -> Result<(), Failure> {
        self.put_block("text", &[("text", quoted(text))])
    }

    fn put_block(&mut self, kind: &str, members: &[(&str, Vec<u8>)]) -> Result<(), Failure> {
        self.check(members.iter().map(|(_, value)| value.len()).sum())?;
        if self.count > 0 {
            self.content.push(b',');
        }
        self.count += 1;
        self.content.push(b'{');
        put_member(&mut self.content, "type", quoted(kind));
        for (name, value) in members {
            put_member(&mut self.content, name, value);
        }
        self.content.push(b'}');
        Ok(())
    }

    fn check(&self, more: usize) -> Result<(), Failure> {
        if self.content.len() + more <= COLLECTED_BYTES_MAX {
            return Ok(());
        }
        let message = format!("the reply is over the limit of {}", size(COLLECTED_BYTES_MAX));
        Err(Failure::new(FailureKind::TooLarge, message))
    }

    /// Writes the result of a call that went well. `server` is who we are. What could not be
    /// written is told before the first byte.
    pub(in crate::mcp) fn write_result(
        mut self,
        out: &mut Outbox,
        outcome: &Outcome,
        server: &Json,
    ) -> Result<(), Failure> {
        let mut collected = None;
        match outcome {
            Outcome::End(end) => {
                self.put_value(end.as_ref())?;
                collected = self.collect(|| Down::Done(Ok(outcome.clone())))?;
            }
            Outcome::Text(_) | Outcome::Value(_) => {}
            Outcome::Native(_) | Outcome::Tools(_) => {
                let message = "the reply is of a kind that a tool does not give";
                return Err(Failure::new(FailureKind::BrokeProtocol, message));
            }
        }
        out.put(if self.revision == Revision::MODERN { BEGIN_MODERN } else { BEGIN });
        if self.count > 0 {
            out.put(&self.content);
        }
        if let Outcome::Text(_) | Outcome::Value(_) = outcome {
            let text: &[u8] = match self.count {
                0 => br#"{"type":"text","text":"#,
                _ => br#",{"type":"text","text":"#,
            };
            out.put(text);
            put_shown(out, outcome);
            out.put(b"}");
        }
        out.put(b"]");
        let structured = match collected.as_ref().unwrap_or(outcome) {
            Outcome::Value(value) => Some(value.clone()),
            Outcome::Text(text) if collected.is_some() => Some(Json::of(text)),
            _ => None,
        };
        if let Some(value) = structured.filter(|value| self.shows_structured(value)) {
            out.put(br#","structuredContent":"#);
            out.put_shared(value.compact().as_bytes());
        }
        if self.revision == Revision::MODERN {
            out.put(br#","_meta":{""#);
            out.put(SERVER_KEY.as_bytes());
            out.put(b"\":");
            out.put(server.as_bytes());
            out.put(b"}");
        }
        out.put(b"}");
        Ok(())
    }

    /// The result of a call whose tool said no.
    pub(in crate::mcp) fn failed(mut self, failure: &Failure, server: &Json) -> Bytes {
        self.content.clear();
        self.count = 0;
        // A message over the limit could not be told at all.
        let message = &failure.message[..failure.message.floor_char_boundary(1 << 20)];
        let _ = self.put_text(message);
        let begin = if self.revision == Revision::MODERN { BEGIN_MODERN } else { BEGIN };
        let mut result = begin.to_vec();
        result.extend_from_slice(&self.content);
        result.extend_from_slice(br#"],"isError":true"#);
        let mut told = vec![b'{'];
        put_member(&mut told, "kind", quoted(failure.kind.as_str()));
        match &failure.code {
            Some(Code::Number(number)) => put_member(&mut told, "code", number.to_string()),
            Some(Code::Word(word)) => put_member(&mut told, "code", quoted(word)),
            None => {}
        }
        if let Some(detail) = &failure.detail {
            put_member(&mut told, "detail", detail.compact().as_bytes());
        }
        told.push(b'}');
        let mut meta = vec![b'{'];
        if self.revision == Revision::MODERN {
            put_member(&mut meta, SERVER_KEY, server.as_bytes());
        }
        put_member(&mut meta, FAILURE_KEY, told);
        meta.push(b'}');
        put_member(&mut result, "_meta", meta);
        result.push(b'}');
        result.into()
    }

    /// A client holds a tool to its output schema, so whatever a schema may describe is shown.
    fn shows_structured(&self, value: &Json) -> bool {
        match value.kind() {
            Kind::Object => Revision::V2025_06_18 <= self.revision,
            _ => self.revision == Revision::MODERN,
        }
    }
}

/// A reply of one piece as the text of a block. It is copied once, and not at all where it is
/// a long string of JSON already.
fn put_shown(out: &mut Outbox, outcome: &Outcome) {
    match outcome {
        Outcome::Text(text) => out.put_string(text),
        Outcome::Value(value) if value.kind() == Kind::String => out.put_shared(value.as_bytes()),
        Outcome::Value(value) => out.put_string(value.compact().as_str()),
        Outcome::End(_) | Outcome::Native(_) | Outcome::Tools(_) => {}
    }
}

fn beginning(text: &str) -> String {
    text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(revision: &str, parts: &[Part], outcome: &Outcome, expected: Expect) {
        let mut blocks = Blocks::new(Revision::named(revision).unwrap());
        for part in parts {
            blocks.put_part(part).unwrap();
        }
        let server = Json::from_trusted(r#"{"name":"us"}"#);
        let mut result = Outbox::new();
        blocks.write_result(&mut result, outcome, &server).unwrap();
        expected.assert_eq(str::from_utf8(&result.take()).unwrap());
    }

    fn bytes(data: &'static [u8], media_type: Option<&str>, last: bool) -> Part {
        let media_type = media_type.map(Into::into);
        Part::Bytes(Piece { data: Bytes::from_static(data), media_type, len: None, last })
    }

    #[test]
    fn every_kind_of_part_has_its_block() {
        let parts = [
            bytes(b"h", Some("image/png"), false),
            bytes(b"i", None, true),
            bytes(b"hi", Some("audio/wav"), true),
            bytes(b"hi", None, true),
            Part::Json(Json::parse("[ 1 ]").unwrap()),
        ];
        let end = Outcome::End(Some(Json::from_trusted("7")));
        check(
            "2025-03-26",
            &parts,
            &end,
            expect![[
                r#"{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"audio","data":"aGk=","mimeType":"audio/wav"},{"type":"resource","resource":{"uri":"toolbus://reply/3","mimeType":"application/octet-stream","blob":"aGk="}},{"type":"text","text":"[1]"},{"type":"text","text":"7"}]}"#
            ]],
        );
        check(
            "2024-11-05",
            &parts[2..3],
            &Outcome::End(None),
            expect![[
                r#"{"content":[{"type":"resource","resource":{"uri":"toolbus://reply/1","mimeType":"audio/wav","blob":"aGk="}}]}"#
            ]],
        );
    }

    #[test]
    fn a_reply_over_the_limit_is_refused_by_name() {
        let mut blocks = Blocks::new(Revision::MODERN);
        let part = Part::Text("x".repeat(9 << 20));
        blocks.put_part(&part).unwrap();
        let failure = blocks.put_part(&part).unwrap_err();
        assert_eq!(failure.message, "the reply is over the limit of 16 MiB (16777216 bytes)");
    }
}
