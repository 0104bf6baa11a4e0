//! TLS: who is believed, who is not, and how the reason is told.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use expect_test::{Expect, expect};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use toolbus_engine::transport::tls::{ClientTls, Identity, Inside, ServerTls, TlsError};
use toolbus_engine::transport::{Stream, tcp};

use super::{listen, pattern, read_all, run, run_and_let_time_fly, write_all};
use crate::PATIENCE;

/// Certificates, and both ends that use them.
pub(super) struct Certificates {
    files: toolbus_testkit::certificates::Certificates,
}

impl Certificates {
    pub(super) fn new() -> Certificates {
        Certificates { files: toolbus_testkit::certificates::Certificates::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path(name)
    }

    pub(super) fn server(&self, inside: Inside) -> ServerTls {
        let (cert, key) = (self.path("server.pem"), self.path("server.key"));
        ServerTls::load(Identity { cert: &cert, key: &key }, None, inside).unwrap()
    }

    pub(super) fn client(&self, inside: Inside) -> ClientTls {
        ClientTls::load(Some(&self.path("ca.pem")), None, inside).unwrap()
    }
}

/// The two ends after shaking hands, or why they did not.
async fn shake_hands(
    server: ServerTls,
    client: ClientTls,
    host: &str,
) -> (Result<Stream, TlsError>, Result<Stream, TlsError>) {
    let (listener, address) = listen().await;
    let listener = listener.with_tls(server);
    let serving = async { listener.accept().await.open(PATIENCE).await };
    let calling = async {
        let stream = tcp::connect("127.0.0.1", address.port(), PATIENCE).await.unwrap();
        let stream = client.connect(stream, host, PATIENCE).await?;
        Ok(Stream::Tls(Box::new(stream)))
    };
    tokio::join!(serving, calling)
}

/// The reasons, one below the other, and the hint.
fn told(error: &TlsError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!("\n{error}"));
        cause = error.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text
}

#[test]
fn both_directions_at_once_and_an_end_each() {
    run(async {
        let files = Certificates::new();
        let (server, client) = (files.server(Inside::Bytes), files.client(Inside::Bytes));
        let (ours, theirs) = shake_hands(server, client, "localhost").await;
        let (mut read, mut write, rest) = ours.unwrap().split();
        let (mut their_read, mut their_write, their_rest) = theirs.unwrap().split();
        // More than all buffers on the way hold, so that bytes wait inside of TLS as well.
        let sent = pattern(16 << 20);
        let writing = async {
            write.write_all(&sent).await.unwrap();
            drop(write);
        };
        let echoing = async {
            tokio::io::copy(&mut their_read, &mut their_write).await.unwrap();
            drop((their_read, their_write));
            their_rest.close().await;
        };
        let ((), (), received) = tokio::join!(writing, echoing, read_all(&mut read));
        assert!(received == sent);
        drop(read);
        rest.close().await;
    });
}

#[test]
fn an_end_without_a_goodbye_is_an_end() {
    run(async {
        let files = Certificates::new();
        let (server, client) = (files.server(Inside::Bytes), files.client(Inside::Bytes));
        let (ours, theirs) = shake_hands(server, client, "localhost").await;
        let Ok(Stream::Tls(mut theirs)) = theirs else { panic!("no TLS") };
        write_all(&mut theirs, b"and that").await;
        let tokio_rustls::TlsStream::Client(theirs) = *theirs else { panic!("no client") };
        // The bare connection ends: TLS has no say in it.
        let mut bare = theirs.into_inner().0;
        bare.shutdown().await.unwrap();
        assert_eq!(read_all(&mut ours.unwrap()).await, b"and that");
    });
}

#[test]
fn only_who_proves_it_is_believed() {
    run(async {
        let files = Certificates::new();
        let check = |end: Result<Stream, TlsError>, expected: Expect| {
            expected.assert_eq(&told(&end.unwrap_err()));
        };
        // An authority that the client does not trust.
        let strange = ClientTls::load(None, None, Inside::Bytes).unwrap();
        let (_, theirs) = shake_hands(files.server(Inside::Bytes), strange, "localhost").await;
        check(
            theirs,
            expect![[r#"
            the TLS handshake failed
            invalid peer certificate: UnknownIssuer
            hint: if the server's certificate is your own, name it by `ca=FILE`"#]],
        );
        // A certificate for another host.
        let client = files.client(Inside::Bytes);
        let (_, theirs) = shake_hands(files.server(Inside::Bytes), client, "example.com").await;
        check(
            theirs,
            expect![[r#"
                the TLS handshake failed
                invalid peer certificate: certificate not valid for name "example.com"; certificate is only valid for DnsName("localhost") or IpAddress(127.0.0.1)"#]],
        );
        // A host that no certificate could be for.
        let client = files.client(Inside::Bytes);
        let (_, theirs) = shake_hands(files.server(Inside::Bytes), client, "no host").await;
        check(
            theirs,
            expect![
                "no certificate can prove to be `no host`: it is neither a name nor an address"
            ],
        );
    });
}

#[test]
fn a_client_can_be_asked_for_its_certificate() {
    run(async {
        let files = Certificates::new();
        let ca = files.path("ca.pem");
        let (cert, key) = (files.path("server.pem"), files.path("server.key"));
        let server =
            ServerTls::load(Identity { cert: &cert, key: &key }, Some(&ca), Inside::Bytes).unwrap();
        let without_proof = files.client(Inside::Bytes);
        let (ours, _) = shake_hands(server.clone(), without_proof, "localhost").await;
        expect![[r#"
            the TLS handshake failed
            peer sent no certificates
            hint: does the other side speak TLS, and does it want a certificate?"#]]
        .assert_eq(&told(&ours.unwrap_err()));

        let (cert, key) = (files.path("client.pem"), files.path("client.key"));
        let with_proof =
            ClientTls::load(Some(&ca), Some(Identity { cert: &cert, key: &key }), Inside::Bytes);
        let (ours, theirs) = shake_hands(server, with_proof.unwrap(), "127.0.0.1").await;
        let (mut ours, theirs) = (ours.unwrap(), theirs.unwrap());
        let ((), received) = tokio::join!(theirs.close(), async {
            let received = read_all(&mut ours).await;
            drop(ours);
            received
        });
        assert_eq!(received, b"");
    });
}

#[test]
fn who_does_not_speak_tls_is_let_go() {
    run(async {
        let (listener, address) = listen().await;
        let listener = listener.with_tls(Certificates::new().server(Inside::Bytes));
        let mut plain = TcpStream::connect(address).await.unwrap();
        write_all(&mut plain, b"GET / HTTP/1.1\r\n\r\n").await;
        let opened = listener.accept().await.open(PATIENCE).await;
        expect![[r#"
            the TLS handshake failed
            received corrupt message of type InvalidContentType
            hint: does the other side speak TLS, and does it want a certificate?"#]]
        .assert_eq(&told(&opened.unwrap_err()));
    });
    run_and_let_time_fly(async {
        let (listener, address) = listen().await;
        let listener = listener.with_tls(Certificates::new().server(Inside::Bytes));
        let silent = TcpStream::connect(address).await.unwrap();
        let opened = listener.accept().await.open(Duration::from_secs(60)).await;
        expect!["no TLS handshake within 60s"].assert_eq(&told(&opened.unwrap_err()));
        drop(silent);
    });
}

#[test]
fn files_are_judged_before_the_first_connection() {
    let files = Certificates::new();
    let notes = files.path("notes.txt");
    fs::write(&notes, "nothing of the kind").unwrap();
    let check = |cert: &str, key: &str, expected: Expect| {
        let (cert, key) = (files.path(cert), files.path(key));
        let error = ServerTls::load(Identity { cert: &cert, key: &key }, None, Inside::Bytes);
        let folder = files.path("");
        let folder = folder.to_str().unwrap().trim_end_matches('/');
        expected.assert_eq(&told(&error.unwrap_err()).replace(folder, "DIR"));
    };
    check(
        "missing.pem",
        "server.key",
        expect![[r#"
            cannot read the certificate in `DIR/missing.pem`
            No such file or directory (os error 2)"#]],
    );
    check(
        "server.pem",
        "missing.key",
        expect![[r#"
            cannot read the private key in `DIR/missing.key`
            No such file or directory (os error 2)"#]],
    );
    check(
        "notes.txt",
        "server.key",
        expect![[r#"
        there is no certificate in `DIR/notes.txt`
        hint: certificates and keys are PEM files: `-----BEGIN …`"#]],
    );
    check(
        "server.pem",
        "server.pem",
        expect![[r#"
        there is no private key in `DIR/server.pem`
        hint: certificates and keys are PEM files: `-----BEGIN …`"#]],
    );
    check(
        "server.pem",
        "client.key",
        expect![[r#"
            the certificate in `DIR/server.pem` cannot be used
            keys may not be consistent: KeyMismatch"#]],
    );
}
