//! What a capture of a wire says, event by event, as `toolbus decode` prints it.

use crate::json::{Json, write_string};
use crate::jsonrpc::Id;

/// Whose words were captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The caller's.
    Call,
    /// The one's who answers.
    Response,
}

/// One event: an object in the making, its name first, its members in the order of the calls.
pub struct Event(Vec<u8>);

impl Event {
    /// An event of this name, without further members.
    pub fn new(name: &str) -> Event {
        let mut event = br#"{"event":"#.to_vec();
        write_string(&mut event, name);
        Event(event)
    }

    /// A line of which there is nothing to tell but itself.
    pub fn other(line: &str) -> Json {
        Event::new("other").text("line", line).end()
    }

    /// With the id of a JSON-RPC message as its member `id`.
    #[must_use]
    pub fn id(self, id: &Id) -> Event {
        self.json("id", &id.to_json())
    }

    /// With one more member, whose value is valid JSON.
    #[must_use]
    pub fn raw(mut self, name: &str, json: &str) -> Event {
        self.0.push(b',');
        write_string(&mut self.0, name);
        self.0.push(b':');
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    /// With one more member.
    #[must_use]
    pub fn json(self, name: &str, json: &Json) -> Event {
        self.raw(name, json.as_str())
    }

    /// With one more member, if there is something to tell.
    #[must_use]
    pub fn maybe(self, name: &str, json: Option<&Json>) -> Event {
        match json {
            Some(json) => self.json(name, &json.compact()),
            None => self,
        }
    }

    /// With one more member, a string of these characters.
    #[must_use]
    pub fn text(self, name: &str, text: &str) -> Event {
        self.json(name, &Json::of(text))
    }

    /// The object.
    pub fn end(mut self) -> Json {
        self.0.push(b'}');
        Json::from_trusted(self.0)
    }
}
