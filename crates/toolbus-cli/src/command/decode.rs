//! `toolbus decode`: what did the two say to each other?

use bytes::{Bytes, BytesMut};
use toolbus::transport::stdio;
use toolbus_proto::frame::lines::{Lines, TooLong};
use toolbus_proto::json::Json;
use toolbus_proto::oracle;

use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::runtime::{self, Signals};

/// Explain a capture of a protocol, one line of JSON for each message
///
/// The bytes that one side wrote come in on standard input. What is no message of the
/// protocol is told as `{"event":"other","line":…}`; ids stand as they were sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus decode oracle --as call < what-the-executor-wrote
  ./my-oracle < calls | toolbus decode oracle --as response")]
pub(crate) struct DecodeArgs {
    /// Protocol that was spoken
    #[arg(value_name = "PROTOCOL")]
    pub(crate) protocol: Protocol,
    /// Who wrote it: the side that calls, or the one that answers
    #[arg(long = "as", value_name = "SIDE")]
    pub(crate) side: Side,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Protocol {
    Oracle,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Side {
    Call,
    Response,
}

pub(crate) fn run(args: &DecodeArgs) -> Result<(), Failed> {
    let Protocol::Oracle = args.protocol;
    let side = match args.side {
        Side::Call => oracle::decode::Side::Call,
        Side::Response => oracle::decode::Side::Response,
    };
    let line_bytes_max = oracle::Settings::default().line_bytes_max;
    let event = |line: Result<Bytes, TooLong>| match line {
        Ok(line) => oracle::decode::event(side, &line),
        Err(too_long) => Some(oracle::decode::other(&too_long.to_string())),
    };
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = each_line(line_bytes_max, event) => done,
            exit = signals.next() => Err(Failed::quietly(exit)),
        }
    })
}

/// Prints what `event` makes of each line of standard input.
async fn each_line(
    line_bytes_max: usize,
    event: impl Fn(Result<Bytes, TooLong>) -> Option<Json>,
) -> Result<(), Failed> {
    let cannot_read = |error: std::io::Error| {
        Failed::new(Exit::Failed, "cannot read standard input").caused_by(&error)
    };
    let mut stdin = stdio::stdin().map_err(cannot_read)?;
    let mut input = BytesMut::new();
    let mut lines = Lines::new(line_bytes_max);
    loop {
        let is_end = stdin.read(&mut input).await.map_err(cannot_read)? == 0;
        let mut events = String::new();
        while let Some(line) = lines.next(&mut input) {
            events.extend(event(line).map(|event| format!("{event}\n")));
        }
        if is_end {
            let last = lines.last(&mut input).and_then(&event);
            events.extend(last.map(|event| format!("{event}\n")));
        }
        render::print(&events)?;
        if is_end {
            return Ok(());
        }
    }
}
