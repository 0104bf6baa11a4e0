//! The conversations of a plugin with its hub and its callers, over real QUIC.

use bytes::BytesMut;
use std::collections::HashMap;
use std::io::IoSlice;
use tokio::sync::mpsc;
use toolbus::wire::orchestra::front::PluginError;
use toolbus_engine::transport::io::{Sink, Source, Writer};
use toolbus_engine::transport::quic::{Dialler, Idle, Target};
use toolbus_proto::orchestra::plugin::manifest;
use toolbus_testkit::runtime::run;

use super::script::{Scripted, Stage, parse};
use super::*;

pub(super) fn transcript(name: &str) -> String {
    let path = format!("{}/../../transcripts/orchestra/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// A caller of this plugin, known to its CA.
async fn caller(certs: &Certs, plugin: &Plugin) -> Connection {
    let identity = certs.folder.identity("orchestrator-to-tools.bus").unwrap();
    let client = tls::client(&identity, Idle::PATIENT).unwrap();
    let port = plugin.address().port();
    let target = Target { host: "127.0.0.1".to_owned(), port, server_name: None };
    Dialler::new().dial(&target, &client, HANDSHAKE).await.unwrap()
}

/// Reads a request of the plugin, checks it but for its id, and answers.
async fn registered(hub: &Connection, said: &[u8], answer: &[u8]) {
    let (mut reader, mut writer) = hub.accept().await.unwrap();
    let mut heard = BytesMut::new();
    while reader.read(&mut heard).await.unwrap() != 0 {}
    // Ids are drawn by chance, and so are longer than those of the script.
    let (id, expected) = (usize::from(heard[5]), usize::from(said[5]));
    assert_eq!(&heard[6 + id..], &said[6 + expected..]);
    let pieces = [IoSlice::new(answer)];
    assert_eq!(writer.write(&pieces).await.unwrap(), answer.len());
    writer.finish();
}

#[test]
fn toolbus_is_a_plugin_of_any_hub() {
    run(async {
        let certs = Certs::new();
        let hub = certs.listen().await;
        let (tell, asked) = mpsc::unbounded_channel();
        let plugin = Plugin::bind(certs.options(Some(&hub)), Rc::new(Scripted(tell)));
        let plugin = Rc::new(plugin.await.unwrap());
        let script = transcript("toolbus_is_a_plugin_of_any_hub");
        let mut lines = script.lines().filter(|line| !line.starts_with('#'));
        let mut next = |begins: &str| {
            let line = lines.find(|line| line.starts_with(begins)).unwrap();
            parse(line.strip_prefix(begins).unwrap()).1
        };
        let (said, answer) = (next(">> [hub "), next("<< [hub "));
        let told = manifest("tools.bus", "0.1.0", vec!["echo".to_owned()]);
        let hearing = async {
            let connection = accept(&hub).await;
            registered(&connection, &said.bytes, &answer.bytes).await;
            connection
        };
        let (registration, _hub) = tokio::join!(plugin.register(&told), hearing);
        let registration = registration.unwrap();
        let serving = plugin.clone();
        let served = spawn_local(async move { serving.serve(registration).await });
        let caller = caller(&certs, &plugin).await;
        let mut stage =
            Stage { caller, asked, running: HashMap::new(), streams: Default::default() };
        for line in script.lines().skip_while(|line| !line.starts_with("<< [caller")) {
            match line {
                "== exit 0" => break,
                line => stage.line(line).await,
            }
        }
        assert_eq!(served.await.unwrap(), PluginEnded::ShutDown);
    });
}

#[test]
fn a_plugin_streams_what_it_is_asked_to_stream() {
    run(async {
        let certs = Certs::new();
        let (tell, asked) = mpsc::unbounded_channel();
        let (plugin, _served) = plugin(&certs, Rc::new(Scripted(tell))).await;
        let caller = caller(&certs, &plugin).await;
        let mut stage =
            Stage { caller, asked, running: HashMap::new(), streams: Default::default() };
        for line in transcript("a_plugin_streams_what_it_is_asked_to_stream").lines().skip(1) {
            stage.line(line).await;
        }
    });
}

#[test]
fn a_rejected_plugin_ends() {
    run(async {
        let certs = Certs::new();
        let hub = certs.listen().await;
        let plugin = Plugin::bind(certs.options(Some(&hub)), builtin().await).await.unwrap();
        let script = transcript("a_rejected_plugin_ends");
        let line = |begins: &str| {
            let line = script.lines().find(|line| line.starts_with(begins)).unwrap();
            parse(line.strip_prefix(begins).unwrap()).1
        };
        let (said, answer) = (line(">> [hub "), line("<< [hub "));
        let told = manifest("tools.bus", "0.1.0", vec!["echo".to_owned()]);
        let hearing = async {
            let connection = accept(&hub).await;
            registered(&connection, &said.bytes, &answer.bytes).await;
            connection
        };
        let (rejected, _hub) = tokio::join!(plugin.register(&told), hearing);
        let Err(PluginError::Rejected(why)) = rejected else { panic!("it was taken") };
        assert!(script.contains(&why), "{why}");
    });
}

/// Callers that end their side late, and many at a time.
#[test]
fn three_hundred_late_ends_are_all_answered() {
    run(async {
        let certs = Certs::new();
        let (plugin, _served) = plugin(&certs, builtin().await).await;
        let caller = caller(&certs, &plugin).await;
        let (_tell, asked) = mpsc::unbounded_channel();
        let stage = Stage { caller, asked, running: HashMap::new(), streams: Default::default() };
        let mut stage = stage;
        for number in 0..300 {
            stage.line(&format!(r#"<< [caller {number}] "\x00\x00\x00\x06\x0a\x02x1j\x00""#)).await;
            let ok = r"\x00\x00\x00\x0c\x0a\x02x1j\x06\x08\x01\x12\x02ok";
            stage.line(&format!(r#">> [caller {number}] "{ok}" FIN"#)).await;
            stage.line(&format!(r#"<< [caller {number}] "" FIN"#)).await;
        }
    });
}
