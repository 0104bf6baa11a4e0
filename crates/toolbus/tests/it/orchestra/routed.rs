//! Golden conversations of a hub, spoken over real QUIC: the script is caller and plugin.

use std::collections::HashMap;
use std::io::IoSlice;

use bytes::BytesMut;
use tokio::sync::mpsc;
use toolbus_engine::transport::io::{Sink, Source, Stop, Writer};
use toolbus_engine::transport::quic::{Dialler, Idle, QuicReader, QuicWriter, Target};
use toolbus_testkit::orchestra::conversations;
use toolbus_testkit::runtime::run;
use toolbus_testkit::side_by_side::side_by_side;
use toolbus_testkit::transcript;

use super::played::{Hub, Played};
use super::script::{Said, Stage, parse};
use super::*;

#[test]
fn what_a_hub_routes() {
    let mut scripts = Vec::new();
    for file in conversations(&["hub serving "]) {
        let script = transcript::read(&file);
        // What is told of clocks and ends needs a clock and a process that the test moves.
        let is_about_time = |line: &str| line.starts_with("-- ") && !line.starts_with("-- hub ");
        // The id of a stream that the hub begins by itself is drawn by chance.
        let names_a_stream = |line: &str| 1 < line.matches("hop-").count();
        let is_left_out = |line: &str| is_about_time(line) || names_a_stream(line);
        if !script.lines().any(is_left_out) && !script.contains("[from ") {
            scripts.push(script);
        }
    }
    assert_eq!(scripts.len(), 11);
    side_by_side(scripts, |script| run(replay(&script)));
}

async fn replay(script: &str) {
    let certs = Certs::new();
    let serving = script.lines().find_map(|line| line.strip_prefix("-- hub serving ")).unwrap();
    let (id, provided) = serving.split_once(" (").unwrap();
    let played = Played::start(&certs).await;
    let storage = match provided.starts_with("storage ") {
        true => ", provides_storage: [markdown]",
        false => "",
    };
    let hub = Hub::start(&certs, &played.lines_of(id, storage)).await;
    hub.hear("orchestrator ready: 1 of 1 plugins").await;
    let mut plugin = PluginEnd { id, streams: HashMap::new(), arrivals: played.hand_over() };
    let identity = certs.folder.identity("toolbus-client").unwrap();
    let client = tls::client(&identity, Idle::PATIENT).unwrap();
    let target = Target { host: "127.0.0.1".to_owned(), port: hub.port, server_name: None };
    let caller = Dialler::new().dial(&target, &client, HANDSHAKE).await.unwrap();
    let (_tell, asked) = mpsc::unbounded_channel();
    let mut stage = Stage { caller, asked, running: HashMap::new(), streams: Default::default() };
    for line in script.lines() {
        if line.starts_with("-- hub ") || line.starts_with("== ") || line.starts_with('#') {
            continue;
        }
        if !plugin.line(line).await {
            stage.line(line).await;
        }
    }
    drop(stage);
    hub.stop().await;
}

/// The streams that the hub opened towards its plugin.
struct PluginEnd<'a> {
    id: &'a str,
    /// By the numbers of the script, with the id that the hub gave the request.
    streams: HashMap<u64, (QuicReader, Option<QuicWriter>, Vec<u8>)>,
    arrivals: mpsc::UnboundedReceiver<(QuicReader, QuicWriter)>,
}

impl PluginEnd<'_> {
    /// Was this line about the plugin?
    async fn line(&mut self, line: &str) -> bool {
        let (heard, said) = (format!(">> [{} ", self.id), format!("<< [{} ", self.id));
        if let Some(rest) = line.strip_prefix(&heard) {
            match rest.split_once("] STOP_SENDING") {
                Some((number, _)) => self.stopped(number.parse().unwrap()).await,
                None => {
                    let (number, expected) = parse(rest);
                    self.hear(number, &expected, line).await;
                }
            }
        } else if let Some(rest) = line.strip_prefix(&said) {
            let (number, said) = parse(rest);
            self.say(number, &said).await;
        } else {
            return false;
        }
        true
    }

    async fn stopped(&mut self, number: u64) {
        let (_, writer, _) = &self.streams[&number];
        assert_eq!(writer.as_ref().unwrap().stopped().await, Stop::Asked(Some(0)));
    }

    async fn hear(&mut self, number: u64, expected: &Said, line: &str) {
        let (mut reader, writer) = self.arrivals.recv().await.unwrap();
        let mut heard = BytesMut::new();
        while reader.read(&mut heard).await.unwrap() != 0 {}
        assert!(expected.ends, "{line}");
        // Ids are drawn by chance, and so are longer than those of the script.
        let (id, expected_id) = (usize::from(heard[5]), usize::from(expected.bytes[5]));
        assert_eq!(&heard[6 + id..], &expected.bytes[6 + expected_id..], "{line}");
        let id = heard[6..6 + id].to_vec();
        self.streams.insert(number, (reader, Some(writer), id));
    }

    async fn say(&mut self, number: u64, said: &Said) {
        let (_, writer, id) = self.streams.get_mut(&number).unwrap();
        let (mut frames, mut left) = (Vec::new(), &said.bytes[..]);
        while let Some((header, rest)) = left.split_first_chunk::<4>() {
            let (frame, behind) = rest.split_at(u32::from_be_bytes(*header) as usize);
            let body = &frame[2 + usize::from(frame[1])..];
            let len = u32::try_from(2 + id.len() + body.len()).unwrap();
            frames.extend_from_slice(&len.to_be_bytes());
            frames.extend_from_slice(&[0x0a, u8::try_from(id.len()).unwrap()]);
            frames.extend_from_slice(id);
            frames.extend_from_slice(body);
            left = behind;
        }
        if !frames.is_empty() {
            let open = writer.as_mut().unwrap();
            assert_eq!(open.write(&[IoSlice::new(&frames)]).await.unwrap(), frames.len());
        }
        if said.ends {
            writer.take().unwrap().finish();
        }
    }
}
