//! How the hub's answers are told to the client.

use bytes::Bytes;

use super::full::resources_result;
use super::methods::Purpose;
use super::{INTERNAL_ERROR, InFlight, Origin, Refusal, Revision, Transport};
use crate::capture::Side;
use crate::channel::{Down, Outbox, Ticket};
use crate::json::edit;
use crate::json::{Json, write_string};
use crate::orchestra::envelope::Envelope;
use crate::orchestra::protobuf::message::print_list;
use crate::orchestra::structure::Struct;
use crate::orchestra::translate::{ANY_OBJECT, failure_text};
use crate::orchestra::wire::{Response, ToolDefinition, ToolResponse};
use crate::tool::{Failure, FailureKind, Outcome, Part};

impl Transport {
    pub(super) fn handle_down(&mut self, ticket: Ticket, down: Down) {
        let Some(in_flight) = self.in_flight.get(&ticket) else { return };
        match down {
            Down::Progress(told) => {
                if let Some(token) = &in_flight.progress_token {
                    let mut line = progress(token, &told, self.revision);
                    self.out.append(&mut line);
                }
            }
            Down::Part(Part::Bytes(piece)) if in_flight.purpose == Purpose::Events => {
                self.tell_event(&piece.data);
            }
            Down::Done(Ok(Outcome::Native(body))) => {
                let Some(in_flight) = self.take_in_flight(ticket) else { return };
                self.handle_answer(in_flight, &body);
            }
            Down::Done(outcome) => {
                let cause = outcome.err().map(|failure| self.cause(failure));
                self.fail(ticket, &cause.unwrap_or_else(|| "no answer".to_owned()));
            }
            _ => {}
        }
    }

    fn cause(&self, failure: Failure) -> String {
        match failure.kind {
            FailureKind::TimedOut => format!("timed out after {:?}", self.settings.timeout),
            _ => failure.message,
        }
    }

    /// The hub could not be asked, or did not answer.
    pub(super) fn fail(&mut self, ticket: Ticket, cause: &str) {
        let Some(in_flight) = self.take_in_flight(ticket) else { return };
        let InFlight { origin, purpose, .. } = in_flight;
        self.refuse_purpose(&origin, &purpose, cause);
    }

    fn refuse_purpose(&mut self, origin: &Origin, purpose: &Purpose, cause: &str) {
        let message = format!("orchestrator {} failed: {cause}", purpose.name());
        let refusal = Refusal::new(INTERNAL_ERROR, message);
        match purpose {
            // Not asked for by the client: the command line did.
            Purpose::Events => {}
            Purpose::Resources { gather, .. } => self.fail_gather(*gather, &refusal),
            _ => self.refuse(origin, &refusal),
        }
    }

    fn handle_answer(&mut self, in_flight: InFlight, body: &Bytes) {
        let InFlight { origin, purpose, .. } = in_flight;
        let response = Envelope::read(Side::Response, body).and_then(|it| it.response());
        let response = match response {
            Ok(response) => response,
            Err(malformed) => {
                let cause = format!("the answer cannot be read: {malformed}");
                return self.refuse_purpose(&origin, &purpose, &cause);
            }
        };
        match (&purpose, response) {
            (Purpose::Events, _) => {}
            (Purpose::Tool, Some(Response::ToolCall(response))) => {
                let result = tool_result(self.revision, &response);
                self.answer(&origin, result);
            }
            (_, Some(Response::ToolCall(response))) => {
                self.refuse_purpose(&origin, &purpose, &failure_text(&response));
            }
            (Purpose::Tools, Some(Response::ListTools(list))) => {
                self.answer(&origin, tools_result(list.tools));
            }
            (Purpose::Prompts, Some(Response::ListPrompts(list))) => {
                self.answer(&origin, super::full::prompts_result(list.prompts));
            }
            (Purpose::Prompt, Some(Response::PromptGet(prompt))) => {
                match super::full::prompt_result(prompt) {
                    Ok(result) => self.answer(&origin, result),
                    Err(refusal) => self.refuse(&origin, &refusal),
                }
            }
            (Purpose::Resources { gather, kind }, Some(Response::StorageList(list))) => {
                self.gather(*gather, *kind, resources_result(*kind, &list));
            }
            (Purpose::Resource { uri }, Some(Response::StorageRead(read))) => {
                self.answer(&origin, super::full::resource_result(uri, &read));
            }
            (Purpose::Resources { gather, .. }, _) => {
                let gather = *gather;
                self.fail_gather(gather, &unexpected());
            }
            _ => self.refuse(&origin, &unexpected()),
        }
    }
}

fn unexpected() -> Refusal {
    Refusal::new(INTERNAL_ERROR, "unexpected response type from orchestrator")
}

fn progress(token: &Bytes, told: &Json, revision: Revision) -> Outbox {
    let mut line = Outbox::new();
    line.put(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#);
    line.put(token);
    let told = match revision {
        Revision::V2024_11_05 => edit::without(told.as_str(), "message"),
        _ => told.as_str().to_owned(),
    };
    // An object that is not empty: what stands behind its brace goes on here.
    line.put(b",");
    line.put(&told.as_bytes()[1..]);
    line.put(b"}\n");
    line
}

/// `{"tools":[…]}`, sorted.
fn tools_result(mut tools: Vec<ToolDefinition>) -> Vec<u8> {
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = b"{\"tools\":".to_vec();
    print_list(&mut out, b'[', b']', &tools, |out, tool| {
        out.extend_from_slice(b"{\"name\":");
        write_string(out, &tool.name);
        if !tool.description.is_empty() {
            out.extend_from_slice(b",\"description\":");
            write_string(out, &tool.description);
        }
        out.extend_from_slice(b",\"inputSchema\":");
        let schema = tool.input_schema.as_ref().filter(|schema| !schema.is_empty());
        match schema.map(Struct::to_json) {
            Some(schema) => out.extend_from_slice(schema.as_bytes()),
            None => out.extend_from_slice(ANY_OBJECT.as_bytes()),
        }
        out.push(b'}');
    });
    out.push(b'}');
    out
}

/// Of a result that is nothing but a text, and longer than this, the text is sent once, as content:
/// a copy says nothing new, and costs writer and reader as much again.
const COPIED_BYTES_MAX: usize = 64 * 1024;

/// One block of text; and what newer revisions have besides.
fn tool_result(revision: Revision, response: &ToolResponse) -> Vec<u8> {
    let own_text = match (&response.result, response.success) {
        (Some(result), true) => result.text("text"),
        _ => None,
    };
    let is_structured = Revision::V2025_06_18 <= revision;
    let is_large = own_text.as_ref().is_some_and(|text| COPIED_BYTES_MAX < text.len());
    let structured = match &response.result {
        // Neither the text nor the whole is asked for.
        Some(_) if !is_structured && (own_text.is_some() || !response.success) => None,
        Some(result) if is_large && result.len() == 1 => None,
        result => result.as_ref().map(Struct::to_json),
    };
    let text = match (own_text, response.success) {
        (_, false) => failure_text(response),
        (Some(text), true) => text,
        (None, true) => structured.as_ref().map(Json::to_string).unwrap_or_default(),
    };
    let mut out = Vec::with_capacity(text.len() + 64);
    out.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    write_string(&mut out, &text);
    out.extend_from_slice(b"}]");
    if let Some(structured) = structured.filter(|_| is_structured) {
        out.extend_from_slice(b",\"structuredContent\":");
        out.extend_from_slice(structured.as_bytes());
    }
    if !response.success {
        out.extend_from_slice(b",\"isError\":true");
        if is_structured && !response.error_code.is_empty() {
            out.extend_from_slice(br#","_meta":{"toolbus/error_code":"#);
            write_string(&mut out, &response.error_code);
            out.push(b'}');
        }
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(result: &str) -> String {
        let result = Struct::of_json(result).ok();
        let response = ToolResponse { success: true, result, ..ToolResponse::default() };
        String::from_utf8(tool_result(Revision::V2025_06_18, &response)).unwrap()
    }

    #[test]
    fn a_large_text_is_sent_once() {
        let large = "x".repeat(COPIED_BYTES_MAX + 1);
        let alone = answered(&format!(r#"{{"text":"{large}"}}"#));
        assert_eq!(alone, format!(r#"{{"content":[{{"type":"text","text":"{large}"}}]}}"#));
        let small = answered(r#"{"text":"hi"}"#);
        assert!(small.ends_with(r#"}],"structuredContent":{"text":"hi"}}"#), "{small}");
        // What else there is would be lost.
        let among = answered(&format!(r#"{{"n":1,"text":"{large}"}}"#));
        assert!(among.contains(r#"}],"structuredContent":{"n":1,"text":"x"#));
    }
}
