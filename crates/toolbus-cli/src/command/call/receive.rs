//! One reply as it comes: progress is shown, bytes are put away, the rest is collected.

use toolbus_engine::calls::{Inbox, RunningCall};
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::collect::Collector;
use toolbus_proto::json::{Json, Kind, edit};
use toolbus_proto::tool::{Failure, Outcome, Part};

use super::answering::Answering;
use super::out::Out;
use crate::failed::Failed;
use crate::render::spinner::Spinner;

/// What is done with a reply besides collecting it.
pub(super) struct Receiving<'a> {
    pub(super) spinner: Option<&'a Spinner>,
    pub(super) answering: &'a Answering,
    pub(super) out: Option<&'a mut Out>,
    pub(super) bytes_max: usize,
}

impl Receiving<'_> {
    /// The whole reply, collected into one outcome.
    pub(super) async fn whole(
        &mut self,
        inbox: &Inbox,
        running: RunningCall,
    ) -> Result<Result<Outcome, Failure>, Failed> {
        let mut collector = Collector::with_limit(self.bytes_max);
        loop {
            let down = inbox.next(&running).await;
            let is_done = matches!(down, Down::Done(_));
            let down = match down {
                Down::Ask(ask, question) => {
                    let _ = self.spinner.is_some_and(Spinner::rest);
                    let answer = self.answering.answer(&question).await;
                    let _ = running.send(Up::Answer(ask, answer));
                    self.spinner.into_iter().for_each(Spinner::wait);
                    continue;
                }
                down => down,
            };
            let Some(down) = self.look(down)? else { continue };
            if let Some(outcome) = collector.take(down) {
                if is_done {
                    running.forget();
                }
                return Ok(outcome);
            }
        }
    }

    /// What is left to collect.
    fn look(&mut self, down: Down) -> Result<Option<Down>, Failed> {
        Ok(match (down, &mut self.out) {
            (Down::Progress(progress), _) => {
                self.spinner.into_iter().for_each(|spinner| spinner.progress(&progress));
                None
            }
            (Down::Log(message), _) => {
                log(&message);
                None
            }
            (Down::Part(Part::Bytes(piece)), Some(out)) => {
                out.take(&piece)?.map(|told| Down::Part(Part::Json(told)))
            }
            (down, _) => Some(down),
        })
    }
}

/// A message of the server for the caller's log: its level, and its text.
pub(super) fn log(message: &Json) {
    let level = edit::text(message.as_str(), "level");
    let data = edit::member(message.as_str(), "data");
    let text = data.map(|data| Json::from_trusted(data.to_owned()).shown());
    match (message.kind(), level, text) {
        (Kind::Object, Some(level), Some(text)) => tracing::info!("[{level}] {text}"),
        _ => tracing::info!("{}", message.shown()),
    }
}
