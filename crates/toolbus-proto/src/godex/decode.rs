//! A captured stream of a server, told as the lines that a run would print of it.

use bytes::BytesMut;

use super::EVENT_BYTES_MAX;
use super::notes::Note;
use super::said::{Said, Wanted};
use super::turn::{Turn, TurnEnd};
use crate::frame::sse::Events;
use crate::json::Json;

/// Reads the answer of a server.
#[derive(Debug)]
pub struct Decoder {
    events: Events,
    turn: Turn,
    said: Said,
    exit: Option<u8>,
}

impl Decoder {
    /// Nothing read yet. Tells the events that the document knows, or all.
    pub fn new(all_events: bool) -> Decoder {
        let wanted = Wanted { lines: true, all_events, ..Wanted::default() };
        Decoder {
            events: Events::new(EVENT_BYTES_MAX),
            turn: Turn::new(1),
            said: Said::new(wanted),
            exit: None,
        }
    }

    /// Takes what was read; what is left of it is the beginning of an event.
    pub fn handle_bytes(&mut self, input: &mut BytesMut) {
        while self.exit.is_none() {
            let (turn, said) = (&mut self.turn, &mut self.said);
            let taken = self.events.next_with(input, |name, data| {
                if !data.is_empty() {
                    turn.handle_event(name, data, said);
                }
            });
            match taken {
                None => break,
                Some(Ok(())) => {}
                Some(Err(_)) => self.turn.handle_too_large(),
            }
            self.look_for_end();
        }
        if self.events.is_over_limit() {
            self.turn.handle_too_large();
            self.look_for_end();
        }
        if self.exit.is_some() {
            input.clear();
        }
    }

    /// The capture has ended.
    pub fn handle_eof(&mut self, input: &mut BytesMut) {
        self.handle_bytes(input);
        if self.exit.is_some() {
            return;
        }
        if let Some(Ok(event)) = self.events.last(input)
            && Json::parse(String::from_utf8_lossy(&event.data).into_owned()).is_ok()
        {
            self.turn.handle_event(event.name.as_deref(), &event.data, &mut self.said);
        }
        self.turn.handle_end();
        self.look_for_end();
    }

    fn look_for_end(&mut self) {
        let all_events = self.said.wanted.all_events;
        self.exit = match self.turn.end() {
            None => return,
            Some(TurnEnd::Completed(completed)) => {
                completed.write_line(&mut self.said.lines, all_events, None);
                Some(0)
            }
            Some(TurnEnd::Failed(error)) => {
                error.write_line(&mut self.said.lines);
                self.said.notes.push_back(Note::Error(error.message.clone()));
                Some(error.exit)
            }
        };
    }

    /// The lines that wait, each with its newline. The writer clears them when they are written.
    pub fn lines(&mut self) -> &mut Vec<u8> {
        self.said.lines()
    }

    /// The next note.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.said.poll_note()
    }

    /// The exit code, once the answer has ended.
    pub fn exit(&self) -> Option<u8> {
        self.exit
    }
}
