//! Who may connect, and how those who may not are told.

use toolbus_testkit::runtime::run;

use super::*;

/// What the client learns, at once or when it first asks, and by which code.
async fn told(listener: &Listener, client: &QuicClient) -> (String, Option<u64>) {
    let serving = async {
        let connection = accept(listener).await.ok()?;
        let (mut reader, writer) = connection.accept().await?;
        let mut input = bytes::BytesMut::new();
        toolbus_engine::transport::io::Source::read(&mut reader, &mut input).await.ok()?;
        toolbus_engine::transport::io::Writer::finish(writer);
        connection.closed().await;
        Some(())
    };
    let calling = async {
        let connection = match dial(listener, client).await {
            Ok(connection) => connection,
            Err(error) => return (error.to_string(), error.code()),
        };
        let near = super::calling(&connection);
        let (inbox, slot) = Inbox::new();
        let outcome = inbox.whole(near.start(call("echo", "{}"), slot)).await;
        let code = connection.closed_by_code();
        connection.close();
        (message(outcome), code)
    };
    tokio::join!(serving, calling).1
}

#[track_caller]
fn check(
    clients: Clients,
    make: impl FnOnce(&Authority) -> QuicClient,
    expected: &str,
    code: Option<u64>,
) {
    let told = run(async {
        let authority = Authority::new();
        let listener = listen(&server(&authority, clients)).await;
        told(&listener, &make(&authority)).await
    });
    assert!(told.0.contains(expected), "{told:?}");
    assert_eq!(told.1, code, "{told:?}");
}

/// Alerts of TLS, as QUIC carries them.
const UNKNOWN_CA: Option<u64> = Some(0x130);
const CERTIFICATE_REQUIRED: Option<u64> = Some(0x174);
const NO_APPLICATION_PROTOCOL: Option<u64> = Some(0x178);

const ANSWERED: &str = "the stream ended before an answer";

fn anonymous(alpn: &[u8], authority: &Authority) -> QuicClient {
    QuicClient::new(alpn, &root(authority), None, Idle::PATIENT).unwrap()
}

/// Believes the server, and shows a certificate of another authority.
fn foreign(authority: &Authority) -> QuicClient {
    let identity = identity(&Authority::new(), "toolbus-client");
    QuicClient::new(ALPN, &root(authority), Some(identity), Idle::PATIENT).unwrap()
}

fn speaking(alpn: &[u8], authority: &Authority) -> QuicClient {
    let identity = identity(authority, "toolbus-client");
    QuicClient::new(alpn, &root(authority), Some(identity), Idle::PATIENT).unwrap()
}

#[test]
fn a_certificate_of_the_same_authority_lets_in() {
    check(Clients::Known, client, ANSWERED, None);
}

#[test]
fn no_certificate_does_not_let_in() {
    let told = "refused our certificate";
    check(Clients::Known, |it| anonymous(ALPN, it), told, CERTIFICATE_REQUIRED);
}

#[test]
fn no_certificate_lets_in_where_that_is_allowed() {
    check(Clients::KnownOrAnonymous, |it| anonymous(ALPN, it), ANSWERED, None);
}

#[test]
fn a_certificate_of_another_authority_never_lets_in() {
    for clients in [Clients::Known, Clients::KnownOrAnonymous] {
        check(clients, foreign, "refused our certificate", UNKNOWN_CA);
    }
}

#[test]
fn another_protocol_or_none_is_refused() {
    for alpn in [&b"h3"[..], b""] {
        let told = "speaks another protocol";
        check(Clients::Known, |it| speaking(alpn, it), told, NO_APPLICATION_PROTOCOL);
    }
}

#[test]
fn a_server_of_another_authority_is_not_believed() {
    // It is we who refuse.
    check(Clients::Known, |_| client(&Authority::new()), "invalid peer certificate", None);
}

#[test]
fn a_peer_is_known_by_its_certificate() {
    run(async {
        let (near, far) = connected().await;
        assert_eq!(near.peer_chain().len(), 1);
        let chain = far.peer_chain();
        // The common name stands in it as it is.
        assert!(chain[0].windows(14).any(|bytes| bytes == b"toolbus-client"));
    });
}

#[test]
fn nobody_there_is_no_answer_in_time() {
    run(async {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let target = Target { host: "127.0.0.1".to_owned(), port, server_name: None };
        let patience = Duration::from_millis(100);
        let dialled = Dialler::new().dial(&target, &client(&Authority::new()), patience).await;
        assert_eq!(dialled.err().unwrap().to_string(), "no answer within 100ms");
    });
}

#[test]
fn localhost_is_both_of_its_addresses_on_one_port() {
    run(async {
        let authority = Authority::new();
        let server = server(&authority, Clients::Known);
        let listener = Listener::bind("localhost", 0, &server).await.unwrap();
        let addresses = listener.addresses();
        let port = addresses[0].port();
        assert!(addresses.iter().all(|address| address.port() == port), "{addresses:?}");
        let client = client(&authority);
        for address in addresses {
            let host = address.ip().to_string();
            let target = Target { host, port, server_name: None };
            let dialler = Dialler::new();
            let (near, far) =
                tokio::join!(dialler.dial(&target, &client, HANDSHAKE), accept(&listener));
            assert_eq!(near.unwrap().peer_address(), *address);
            far.unwrap();
        }
        let taken = Listener::bind("localhost", port, &server).await;
        assert!(taken.err().unwrap().to_string().contains("somebody else does already"));
    });
}

#[test]
fn a_server_name_stands_for_the_host() {
    run(async {
        let authority = Authority::new();
        let listener = listen(&server(&authority, Clients::Known)).await;
        let client = client(&authority);
        for (name, is_believed) in [("orchestrator", true), ("tools.other", false)] {
            let target = Target {
                host: "127.0.0.1".to_owned(),
                port: listener.addresses()[0].port(),
                server_name: Some(name.to_owned()),
            };
            let dialler = Dialler::new();
            let dialling = dialler.dial(&target, &client, HANDSHAKE);
            let (near, _far) = tokio::join!(dialling, accept(&listener));
            assert_eq!(near.is_ok(), is_believed, "{name}");
        }
    });
}

#[test]
fn a_client_says_that_it_closes_and_a_server_says_nothing() {
    run(async {
        let (near, far) = connected().await;
        near.say_goodbye().await;
        assert_eq!(far.closed().await.message, "closed by peer (code 0: client closed)");
        let (near, far) = connected().await;
        drop(far);
        assert_eq!(near.closed().await.message, "closed by peer (code 0)");
    });
}
