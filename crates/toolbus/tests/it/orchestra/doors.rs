//! Who may connect to a hub: the conversation of that name, over real QUIC.

use toolbus_engine::transport::quic::{Dialler, Identity, Idle, QuicClient, Target};
use toolbus_proto::tool::FailureKind;
use toolbus_testkit::runtime::run;

use super::played::Hub;
use super::*;

/// What becomes of a client with this certificate that speaks this protocol.
async fn knock(certs: &Certs, hub: &Hub, shown: Option<&Folder>, alpn: &[u8]) -> String {
    let ours = certs.folder.identity("toolbus-client").unwrap();
    let shown = shown.map(|folder| {
        let identity = folder.identity("toolbus-client").unwrap();
        Identity { chain: vec![identity.certificate.clone()], key: identity.key.clone_key() }
    });
    let client = QuicClient::new(alpn, &[ours.ca], shown, Idle::PATIENT).unwrap();
    let target = Target { host: "127.0.0.1".to_owned(), port: hub.port, server_name: None };
    let connection = match Dialler::new().dial(&target, &client, HANDSHAKE).await {
        Ok(connection) => connection,
        Err(error) => return refused(error.code()),
    };
    // Certificates are judged after our own handshake is over.
    let link = toolbus::wire::orchestra::link::Link::new(
        "hub",
        connection.clone(),
        toolbus_proto::orchestra::ClientSettings::default(),
    );
    let (inbox, down) = Inbox::new();
    match inbox.whole(link.start(call("nothing", "{}"), down)).await {
        Err(failure) if failure.kind == FailureKind::UnknownTool => "accepted".to_owned(),
        _ => refused(connection.closed_by_code()),
    }
}

fn refused(code: Option<u64>) -> String {
    // A missing certificate has a code too, which the conversation leaves open.
    match code.filter(|code| *code != 0x174) {
        Some(code) => format!("refused, CRYPTO_ERROR {code:#x}"),
        None => "refused".to_owned(),
    }
}

#[test]
fn who_may_connect() {
    run(async {
        let (certs, other) = (Certs::new(), Certs::new());
        let mut hub = None;
        let mut happened = Vec::new();
        let script = super::plugin::transcript("who_may_connect");
        for line in script.lines().filter_map(|line| line.strip_prefix("-- ")) {
            happened.push(format!("-- {line}"));
            if let Some(flags) = line.strip_prefix("hub") {
                let allow = flags == " --allow-anonymous";
                hub = Some(Hub::start(&certs, &format!("allow_anonymous: {allow}\n")).await);
                continue;
            }
            let hub = hub.as_ref().unwrap();
            let (own, alpn) = (Some(&certs.folder), tls::ALPN);
            let became = match line.strip_prefix("a client with").unwrap() {
                " a certificate of our CA" => knock(&certs, hub, own, alpn).await,
                "out certificate" => knock(&certs, hub, None, alpn).await,
                " a certificate of another CA" => {
                    knock(&certs, hub, Some(&other.folder), alpn).await
                }
                " ALPN h3" => knock(&certs, hub, own, b"h3").await,
                "out ALPN" => knock(&certs, hub, own, b"").await,
                other => panic!("who is a client with{other}?"),
            };
            happened.push(format!("== {became}"));
        }
        assert_eq!(happened, script.lines().collect::<Vec<_>>());
    });
}
