//! Golden conversations of a plugin, spoken over real QUIC: the script is hub and caller, and
//! whoever answers the calls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::IoSlice;

use bytes::BytesMut;
use tokio::sync::mpsc;
use toolbus_engine::calls::{ReplyTo, RunningCall};
use toolbus_engine::transport::io::{Opener, Sink, Source, Writer};
use toolbus_engine::transport::quic::{QuicReader, QuicWriter};
use toolbus_proto::channel::Down;
use toolbus_proto::orchestra::Client;
use toolbus_proto::tool::{Code, FailureKind, Part, What};

use super::*;

/// What calls come to, until the script says what becomes of them.
pub(super) struct Scripted(pub(super) mpsc::UnboundedSender<(String, ReplyTo)>);

impl Route for Scripted {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        match &call.what {
            What::Tools => {
                let schema = Json::parse("{}".to_owned()).unwrap();
                let echo = toolbus_proto::tool::ToolSpec::new("echo", schema);
                let _ = down.send(Down::Done(Ok(Outcome::Tools(vec![echo].into()))));
            }
            What::Tool { name, .. } if name.as_str() != "echo" => {
                let failure = Failure::new(FailureKind::UnknownTool, "no such tool");
                let _ = down.send(Down::Done(Err(failure)));
            }
            What::Tool { name, args } => {
                let mut told = name.to_string();
                if let Some(args) = args {
                    told.push_str(&format!(" {args}"));
                }
                if call.options.progress {
                    told.push_str(", wants progress");
                }
                self.0.send((told, down)).unwrap();
            }
            What::Native { .. } => panic!("a plugin is asked for tools"),
        }
        RunningCall::ended()
    }
}

/// One conversation: what the script says is said, what it expects is compared.
pub(super) struct Stage {
    pub(super) caller: Connection,
    pub(super) asked: mpsc::UnboundedReceiver<(String, ReplyTo)>,
    pub(super) running: HashMap<String, ReplyTo>,
    pub(super) streams: RefCell<HashMap<u64, (QuicReader, Option<QuicWriter>)>>,
}

impl Stage {
    pub(super) async fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("<< [caller ") {
            let (stream, said) = parse(rest);
            self.say(stream, &said).await;
        } else if let Some(rest) = line.strip_prefix(">> [caller ") {
            let (stream, said) = parse(rest);
            self.hear(stream, &said, line).await;
        } else if let Some(rest) = line.strip_prefix("== call ") {
            let (ticket, told) = rest.split_once(' ').unwrap();
            let (asked, down) = self.asked.recv().await.unwrap();
            assert_eq!(asked, told);
            self.running.insert(ticket.to_owned(), down);
        } else if let Some(rest) = line.strip_prefix("-- reply ") {
            let (ticket, what) = rest.split_once(' ').unwrap();
            let _ = self.running[ticket].send(reply(what));
        } else {
            panic!("what is `{line}`?");
        }
    }

    async fn say(&self, number: u64, said: &Said) {
        if !self.streams.borrow().contains_key(&number) {
            let opener = self.caller.opener();
            let (reader, writer) = Opener::<Client>::open(&opener, ()).await.ok().unwrap();
            self.streams.borrow_mut().insert(number, (reader, Some(writer)));
        }
        let (reader, mut writer) = self.streams.borrow_mut().remove(&number).unwrap();
        if let Some(open) = &mut writer {
            let written = open.write(&[IoSlice::new(&said.bytes)]).await.unwrap();
            assert_eq!(written, said.bytes.len());
        }
        if said.ends {
            writer.take().unwrap().finish();
        }
        self.streams.borrow_mut().insert(number, (reader, writer));
    }

    async fn hear(&self, number: u64, said: &Said, line: &str) {
        let (mut reader, writer) = self.streams.borrow_mut().remove(&number).unwrap();
        let mut heard = BytesMut::new();
        while heard.len() < said.bytes.len() {
            assert_ne!(reader.read(&mut heard).await.unwrap(), 0, "{line}");
        }
        assert_eq!(&heard[..], said.bytes, "{line}");
        if said.ends {
            assert_eq!(reader.read(&mut heard).await.unwrap(), 0, "{line}");
        }
        self.streams.borrow_mut().insert(number, (reader, writer));
    }
}

fn reply(what: &str) -> Down {
    match what.split_once(' ').unwrap_or((what, "")) {
        ("text", text) => Down::Done(Ok(Outcome::Text(text.to_owned()))),
        ("part", text) => Down::Part(Part::Text(text.strip_prefix("text ").unwrap().to_owned())),
        ("ends", _) => Down::Done(Ok(Outcome::End(None))),
        ("failed,", rest) => {
            let (code, message) = rest.strip_prefix("code ").unwrap().split_once(": ").unwrap();
            let failure = Failure::new(FailureKind::Failed, message);
            Down::Done(Err(Failure { code: Some(Code::Word(code.into())), ..failure }))
        }
        _ => panic!("what is `{what}`?"),
    }
}

pub(super) struct Said {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: bool,
}

/// `4] "…" FIN`
pub(super) fn parse(rest: &str) -> (u64, Said) {
    let (number, quoted) = rest.split_once("] \"").unwrap();
    let (text, behind) = quoted.rsplit_once('"').unwrap();
    let mut bytes = Vec::new();
    let mut left = text;
    while let Some(c) = left.chars().next() {
        if let Some(hex) = left.strip_prefix("\\x") {
            bytes.push(u8::from_str_radix(&hex[..2], 16).unwrap());
            left = &hex[2..];
        } else {
            bytes.push(u8::try_from(c).unwrap());
            left = &left[1..];
        }
    }
    (number.parse().unwrap(), Said { bytes, ends: behind == " FIN" })
}
