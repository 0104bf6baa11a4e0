//! A server that is started, and talked to over its standard streams.

use std::time::{Duration, Instant};

use toolbus_proto::mcp::wire::REPLY_BYTES_MAX;
use toolbus_proto::printable::printable;

use super::message::{Heard, Question, Reply};
use crate::talk::{self, Talk};
use toolbus_engine::child::{Program, SpawnError};

/// How much of a line is shown.
const LINE_SHOWN_MAX: usize = 200;

pub(super) struct Pipes {
    talk: Talk,
    /// The first line that was no message.
    noise: Option<String>,
}

impl Pipes {
    pub(super) fn start(program: &Program) -> Result<Pipes, SpawnError> {
        Ok(Pipes { talk: Talk::start(program, REPLY_BYTES_MAX)?, noise: None })
    }

    pub(super) async fn ask(
        &mut self,
        question: &Question<'_>,
        patience: Duration,
    ) -> Result<Reply, String> {
        self.say(&question.to_text()).await;
        self.reply(patience).await
    }

    pub(super) async fn say(&mut self, line: &str) {
        self.talk.say(line).await;
    }

    /// Its next answer, whatever else it says before.
    pub(super) async fn reply(&mut self, patience: Duration) -> Result<Reply, String> {
        let until = Instant::now() + patience;
        loop {
            let line = match self.talk.line(until).await {
                talk::Heard::Line(line) => line,
                talk::Heard::Ended => return Err(self.talk.how_it_ended().await),
                talk::Heard::Silence => return Err(format!("it said nothing within {patience:?}")),
            };
            match Heard::read(&line) {
                Heard::Reply(reply) => return Ok(reply),
                Heard::Another => {}
                Heard::Noise if line.iter().all(u8::is_ascii_whitespace) => {}
                Heard::Noise => {
                    self.noise.get_or_insert_with(|| printable(&line, LINE_SHOWN_MAX));
                }
            }
        }
    }

    /// Did it say nothing but messages?
    pub(super) fn was_clean(&self) -> Result<(), String> {
        match &self.noise {
            Some(line) => Err(format!("it said: {line}")),
            None => Ok(()),
        }
    }

    pub(super) async fn ends_at_eof(&mut self, patience: Duration) -> Result<(), String> {
        self.talk.hang_up();
        self.talk.ends_within(patience).await
    }
}
