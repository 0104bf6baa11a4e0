//! The elements of a stream call: in the order of the options, each as it comes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

use bytes::BytesMut;
use clap::{Arg, ArgAction, ArgMatches};
use serde_json::value::RawValue;
use toolbus_engine::calls::{Inbox, Pressure, RunningCall};
use toolbus_engine::transport::pipe::Input;
use toolbus_proto::channel::Up;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Part, Piece};

use super::json_text;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::stdio;

/// The largest value that is taken from standard input.
const VALUE_BYTES_MAX: usize = 16 << 20;

/// What `--el` and `--blob` say, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elements(Vec<Given>);

/// One option: what it is called, and what was given.
#[derive(Debug, Clone)]
enum Given {
    Value(String),
    Blob(String),
}

/// Where elements come from, ready to be sent.
pub(super) enum Source {
    Value(Json),
    File { path: String, file: File, len: Option<u64> },
    Values,
    Blob,
}

impl Elements {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Opens what can be opened, so that nothing is begun that could not be finished.
    pub(super) fn open(&self) -> Result<Vec<Source>, Failed> {
        let sources: Vec<_> = self.0.iter().map(Source::open).collect::<Result<_, _>>()?;
        if 1 < sources.iter().filter(|source| source.is_stdin()).count() {
            return Err(Failed::usage("standard input can be only one of the elements"));
        }
        Ok(sources)
    }
}

impl Source {
    fn open(option: &Given) -> Result<Source, Failed> {
        match option {
            Given::Value(text) if text == "-" => Ok(Source::Values),
            Given::Blob(path) if path == "-" => Ok(Source::Blob),
            Given::Value(text) => Ok(Source::Value(Json::from_trusted(text.clone()))),
            Given::Blob(path) => {
                let cannot = |error: io::Error| {
                    Failed::usage(format!("cannot read `{path}`")).caused_by(&error)
                };
                let file = File::open(path).map_err(cannot)?;
                let meta = file.metadata().map_err(cannot)?;
                if meta.is_dir() {
                    return Err(cannot(io::ErrorKind::IsADirectory.into()));
                }
                let len = meta.is_file().then_some(meta.len());
                Ok(Source::File { path: path.clone(), file, len })
            }
        }
    }

    pub(super) fn is_stdin(&self) -> bool {
        matches!(self, Source::Values | Source::Blob)
    }
}

/// Sends all elements and the end behind them, as fast as they are taken.
pub(super) async fn send(
    sources: Vec<Source>,
    tail: Option<Json>,
    way: &Way<'_>,
) -> Result<(), Failed> {
    for source in sources {
        match source {
            Source::Value(value) => way.part(Part::Json(value)).await,
            Source::Values => values(way).await?,
            Source::Blob => {
                let input = stdio::stdin().map_err(|error| unreadable("standard input", &error))?;
                blob("standard input", input, None, way).await?;
            }
            Source::File { path, file, len } => {
                let input =
                    stdio::input(file.as_fd()).map_err(|error| unreadable(&path, &error))?;
                blob(&path, input, len, way).await?;
            }
        }
    }
    way.send(Up::End(tail)).await;
    Ok(())
}

/// The way up of the call.
pub(super) struct Way<'a> {
    pub(super) inbox: &'a Inbox,
    pub(super) running: &'a RunningCall,
}

impl Way<'_> {
    async fn send(&self, up: Up) {
        if self.running.send(up) == Pressure::Full {
            self.inbox.room().await;
        }
    }

    async fn part(&self, part: Part) {
        self.send(Up::Part(part)).await;
    }
}

/// One blob, read to its end. One of known length is as long as it was when it was opened.
async fn blob(name: &str, mut input: Input, len: Option<u64>, way: &Way<'_>) -> Result<(), Failed> {
    let mut announced = len;
    let mut missing = len.unwrap_or(u64::MAX);
    loop {
        let mut bytes = BytesMut::new();
        let is_end = missing == 0
            || input.read(&mut bytes).await.map_err(|error| unreadable(name, &error))? == 0;
        let taken = usize::try_from(missing).map_or(bytes.len(), |most| bytes.len().min(most));
        bytes.truncate(taken);
        missing -= taken as u64;
        let data = bytes.freeze();
        let piece = Piece { data, media_type: None, len: announced.take(), last: is_end };
        way.part(Part::Bytes(piece)).await;
        if is_end {
            return Ok(());
        }
    }
}

/// The values of standard input, each as soon as it is there.
async fn values(way: &Way<'_>) -> Result<(), Failed> {
    let mut input = stdio::stdin().map_err(|error| unreadable("standard input", &error))?;
    let mut bytes = BytesMut::new();
    loop {
        let read = input.read(&mut bytes).await;
        let is_end = read.map_err(|error| unreadable("standard input", &error))? == 0;
        while let Some(value) = next_value(&mut bytes, is_end)? {
            way.part(Part::Json(value)).await;
        }
        if is_end {
            return Ok(());
        }
        if VALUE_BYTES_MAX < bytes.len() {
            let message = format!("a value on standard input is over {VALUE_BYTES_MAX} bytes");
            return Err(Failed::usage(message));
        }
    }
}

/// Cuts the next whole value off the front of `bytes`.
fn next_value(bytes: &mut BytesMut, is_end: bool) -> Result<Option<Json>, Failed> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>();
    let value = match values.next() {
        None => return Ok(None),
        Some(Ok(value)) => value.get(),
        Some(Err(error)) if error.is_eof() && !is_end => return Ok(None),
        Some(Err(error)) => {
            return Err(Failed::usage("standard input is not JSON").caused_by(&error));
        }
    };
    let end = values.byte_offset();
    // A number, or a word, may go on in what is not there yet.
    let is_closed = value.ends_with(['}', ']', '"']);
    if end == bytes.len() && !is_closed && !is_end {
        return Ok(None);
    }
    let value = Json::from_trusted(value.to_owned());
    let _ = bytes.split_to(end);
    Ok(Some(value))
}

fn unreadable(name: &str, error: &io::Error) -> Failed {
    Failed::new(Exit::Failed, format!("cannot read {name}")).caused_by(error)
}

impl clap::Args for Elements {
    fn augment_args(command: clap::Command) -> clap::Command {
        let value = |text: &str| match text {
            "-" => Ok(text.to_owned()),
            text => json_text(text),
        };
        command
            .arg(
                Arg::new("el")
                    .long("el")
                    .value_name("JSON")
                    .help("Send this value; `-` sends the values on standard input; may repeat")
                    .action(ArgAction::Append)
                    .allow_hyphen_values(true)
                    .value_parser(value),
            )
            .arg(
                Arg::new("blob")
                    .long("blob")
                    .value_name("FILE")
                    .help("Send this file as a blob; `-` sends standard input; may repeat")
                    .action(ArgAction::Append),
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Elements::augment_args(command)
    }
}

impl clap::FromArgMatches for Elements {
    /// The place of each option on the command line is its place in the stream.
    fn from_arg_matches(matches: &ArgMatches) -> Result<Elements, clap::Error> {
        let given = |name: &str, make: fn(String) -> Given| {
            let places = matches.indices_of(name).into_iter().flatten();
            let texts = matches.get_many::<String>(name).into_iter().flatten();
            let found: Vec<_> = places.zip(texts.cloned().map(make)).collect();
            found
        };
        let mut all = given("el", Given::Value);
        all.extend(given("blob", Given::Blob));
        all.sort_by_key(|(place, _)| *place);
        Ok(Elements(all.into_iter().map(|(_, option)| option).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Elements::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_as_they_become_whole() {
        let mut bytes = BytesMut::new();
        let mut seen = Vec::new();
        for piece in ["1", "2 {\"a\"", ":1}[", "]tr", "ue", "\n \"x\"7"] {
            bytes.extend_from_slice(piece.as_bytes());
            while let Some(value) = next_value(&mut bytes, false).unwrap() {
                seen.push(value.to_string());
            }
        }
        while let Some(value) = next_value(&mut bytes, true).unwrap() {
            seen.push(value.to_string());
        }
        assert_eq!(seen, ["12", "{\"a\":1}", "[]", "true", "\"x\"", "7"]);
        assert!(next_value(&mut BytesMut::from("{"), true).is_err());
        assert!(next_value(&mut BytesMut::from("nope"), false).is_err());
    }
}
