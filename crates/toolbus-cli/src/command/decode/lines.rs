//! `toolbus decode` for the wires whose messages are lines: one line of JSON each.

use bytes::{Bytes, BytesMut};
use toolbus::transport::stdio;
use toolbus_proto::capture::{Event, Side};
use toolbus_proto::frame::lines::{Lines, TooLong};
use toolbus_proto::json::Json;
use toolbus_proto::{mcp, oracle};

use super::{McpArgs, OracleArgs};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::runtime::{self, Signals};

pub(crate) fn oracle(args: &OracleArgs) -> Result<(), Failed> {
    let side = Side::from(args.side);
    let line_bytes_max = oracle::Settings::default().line_bytes_max;
    print(line_bytes_max, |line| oracle::decode::event(side, line))
}

pub(crate) fn mcp(_: &McpArgs) -> Result<(), Failed> {
    print(mcp::wire::REPLY_BYTES_MAX, mcp::decode::event)
}

fn print(line_bytes_max: usize, event: impl Fn(&Bytes) -> Option<Json>) -> Result<(), Failed> {
    let event = |line: Result<Bytes, TooLong>| match line {
        Ok(line) => event(&line),
        Err(too_long) => Some(Event::other(&too_long.to_string())),
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
