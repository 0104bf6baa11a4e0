//! Conversations with a server that is tested, over whatever carries them.

use std::time::Duration;

use toolbus_proto::json::edit;
use toolbus_proto::jsonrpc::string;
use toolbus_proto::mcp::wire::{Era, Revision};
use toolbus_proto::tool::Failure;
use toolbus_proto::tool::FailureKind;

use super::message::{Question, Reply, notification};
use super::pipes::Pipes;
use super::{ANSWER_PATIENCE, Place, Subject};
use super::{pair::Pair, web::Web};

impl Subject {
    /// A conversation in the first era that the server speaks.
    pub(super) async fn meet(&self) -> Result<Result<Met, String>, Failure> {
        let legacy = match self.greet(Era::Legacy).await? {
            Ok(met) => return Ok(Ok(met)),
            Err(why) => why,
        };
        let modern = self.greet(Era::Modern).await?;
        Ok(modern.map_err(|why| format!("`initialize`: {legacy}; `server/discover`: {why}")))
    }

    pub(super) async fn greet(&self, era: Era) -> Result<Result<Met, String>, Failure> {
        let mut line = self.open().await?;
        Ok(self.greet_on(&mut line, era).await.map(|has_tools| Met { line, era, has_tools }))
    }

    /// Greets, and tells whether the server says that it has tools.
    async fn greet_on(&self, line: &mut Line, era: Era) -> Result<bool, String> {
        let question = Question::new(era, "1", "", "");
        let greeting = Question::greeting(era, question.version);
        let reply = line.ask_within(&greeting, self.start).await?;
        let result = reply.outcome.map_err(|refusal| refusal.shown())?;
        let result = result.as_str();
        match era {
            Era::Legacy => {
                let version = edit::text(result, "protocolVersion");
                let version = version.ok_or("its `protocolVersion` is no string")?;
                Revision::legacy(&version).ok_or(format!("`{version}` is no known version"))?;
                line.agree(&version);
                line.tell(era, "notifications/initialized").await?;
            }
            Era::Modern if supports(result, Revision::MODERN) => {}
            Era::Modern => {
                return Err(format!("`supportedVersions` does not name {}", Revision::MODERN));
            }
        }
        let capabilities = edit::member(result, "capabilities");
        let capabilities = capabilities.ok_or("its `capabilities` are missing")?;
        Ok(edit::member(capabilities, "tools").is_some())
    }

    async fn open(&self) -> Result<Line, Failure> {
        if let Place::Url(options) = &self.place {
            options.sign().await?;
        }
        match &self.place {
            Place::Program(program) => {
                let pipes = Pipes::start(program).map_err(|error| error.to_failure())?;
                Ok(Line::Pipes(Box::new(pipes)))
            }
            Place::Url(options) if options.is_pair() => {
                let pair = Pair::open(options.clone(), self.start).await;
                let unavailable =
                    |error| Failure::new(FailureKind::Unavailable, format!("{error}"));
                Ok(Line::Pair(Box::new(pair.map_err(unavailable)?)))
            }
            Place::Url(options) => {
                let web = Web::new(options.clone());
                web.is_there()
                    .await
                    .map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
                Ok(Line::Web(web))
            }
        }
    }

    /// A further conversation, after the first went well.
    pub(super) async fn fresh(&self) -> Result<Line, String> {
        self.open().await.map_err(|failure| failure.message)
    }
}

/// A server that was greeted.
pub(super) struct Met {
    pub(super) line: Line,
    pub(super) era: Era,
    pub(super) has_tools: bool,
}

impl Met {
    pub(super) async fn ask(
        &mut self,
        id: &str,
        method: &str,
        members: &str,
    ) -> Result<Reply, String> {
        self.line.ask(&Question::new(self.era, id, method, members)).await
    }

    /// Asks what every server answers, well or badly.
    pub(super) async fn ask_simply(&mut self, id: &str) -> Result<Reply, String> {
        let method = match self.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        self.ask(id, method, "").await
    }
}

/// What carries a conversation.
pub(super) enum Line {
    Pipes(Box<Pipes>),
    Web(Web),
    Pair(Box<Pair>),
}

impl Line {
    pub(super) async fn ask(&mut self, question: &Question<'_>) -> Result<Reply, String> {
        self.ask_within(question, ANSWER_PATIENCE).await
    }

    async fn ask_within(
        &mut self,
        question: &Question<'_>,
        patience: Duration,
    ) -> Result<Reply, String> {
        match self {
            Line::Pipes(pipes) => pipes.ask(question, patience).await,
            Line::Web(web) => web.ask(question, patience).await,
            Line::Pair(pair) => pair.ask(question, patience).await,
        }
    }

    /// Tells something that is not answered. That it does is seen at once over HTTP, and by the
    /// next answer over pipes.
    pub(super) async fn tell(&mut self, era: Era, method: &str) -> Result<(), String> {
        match self {
            Line::Pipes(pipes) => {
                pipes.say(&notification(method)).await;
                Ok(())
            }
            Line::Web(web) => web.tell(era, method).await,
            Line::Pair(pair) => pair.tell(&notification(method)).await,
        }
    }

    /// From now on this version is spoken.
    fn agree(&mut self, version: &str) {
        match self {
            Line::Pipes(_) => {}
            Line::Web(web) => web.version = Some(version.to_owned()),
            Line::Pair(_) => {}
        }
    }
}

fn supports(discovered: &str, version: Revision) -> bool {
    let versions = edit::member(discovered, "supportedVersions").unwrap_or("[]");
    edit::elements(versions).any(|raw| string(raw).as_deref() == Some(version.as_str()))
}
