//! The same frames by quinn alone: a stream a request, and nothing is looked at but lengths.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::task::spawn_local;
use toolbus_testkit::certificates::Authority;

/// What both ends of bare connections need.
pub struct Bare {
    server: ServerConfig,
    client: ClientConfig,
}

type Leaf = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// The name of the hub's certificate.
pub const SERVER: &str = "orchestrator";
/// The name of the transport's.
pub const CLIENT: &str = "transport.stdio-client";

/// The frame of a small call, as it is on the wire.
pub const FRAME: &[u8] = b"\x00\x00\x00\x4b\x0a\x24aaaaaaaa-aaaa-4aaa-aaaa-aaaaaaaaaaaa\xa2\x01\x22\x0a\x04echo\x12\x11\x0a\x0f\x0a\x04text\x12\x07\x1a\x05hello\x1a\x07toolbus";

const ALPN: &[u8] = b"orchestra-plugin";

impl Bare {
    /// With certificates for both ends.
    pub fn new() -> Bare {
        let authority = Authority::new();
        let leaf = |name| {
            let leaf = authority.leaf(name);
            let key = PrivatePkcs8KeyDer::from(leaf.key);
            (leaf.certificate.into(), key.into())
        };
        Bare::with(authority.root().into(), leaf("server"), leaf("client"))
    }

    /// With those that a hub and a transport have made in this folder.
    pub fn at(certs: &Path) -> Bare {
        let certificate = |name: &str| {
            let file = certs.join(format!("{name}.crt"));
            CertificateDer::from_pem_file(file).expect("a certificate")
        };
        let leaf = |name: &str| {
            let key = PrivateKeyDer::from_pem_file(certs.join(format!("{name}.key")));
            (certificate(name), key.expect("a key"))
        };
        Bare::with(certificate("ca"), leaf(SERVER), leaf(CLIENT))
    }

    fn with(root: CertificateDer<'static>, server: Leaf, client: Leaf) -> Bare {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root).expect("a root");
        let roots = Arc::new(roots);
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
            roots.clone(),
            provider.clone(),
        );
        let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_client_cert_verifier(verifier.build().expect("a verifier"))
            .with_single_cert(vec![server.0], server.1)
            .expect("a leaf");
        server.alpn_protocols = vec![ALPN.to_vec()];
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![client.0], client.1)
            .expect("a leaf");
        client.alpn_protocols = vec![ALPN.to_vec()];
        let server = QuicServerConfig::try_from(server).expect("a cipher");
        let client = QuicClientConfig::try_from(client).expect("a cipher");
        Bare {
            server: ServerConfig::with_crypto(Arc::new(server)),
            client: ClientConfig::new(Arc::new(client)),
        }
    }

    /// Echoes frames, or passes them on to `next`; says where.
    pub fn serve(&self, next: Option<Connection>) -> SocketAddr {
        let here = (Ipv4Addr::LOCALHOST, 0).into();
        let endpoint = Endpoint::server(self.server.clone(), here).expect("a free port");
        let address = endpoint.local_addr().expect("it is bound");
        let next = Rc::new(next);
        spawn_local(async move {
            while let Some(incoming) = endpoint.accept().await {
                let next = next.clone();
                spawn_local(async move {
                    let Ok(connection) = incoming.await else { return };
                    while let Ok((send, recv)) = connection.accept_bi().await {
                        spawn_local(answer(next.clone(), send, recv));
                    }
                });
            }
        });
        address
    }

    /// Connects.
    pub async fn dial(&self, at: SocketAddr) -> Connection {
        let here = (Ipv4Addr::LOCALHOST, 0).into();
        let mut endpoint = Endpoint::client(here).expect("a socket");
        endpoint.set_default_client_config(self.client.clone());
        endpoint.connect(at, "localhost").expect("it can be dialled").await.expect("it listens")
    }
}

impl Default for Bare {
    fn default() -> Bare {
        Bare::new()
    }
}

async fn answer(next: Rc<Option<Connection>>, mut send: SendStream, mut recv: RecvStream) {
    let Some(frame) = read(&mut recv).await else { return };
    let answer = match &*next {
        Some(next) => ask(next, &frame).await,
        None => frame,
    };
    if send.write_all(&answer).await.is_ok() {
        let _ = send.finish();
    }
}

/// One request, and its answer.
pub async fn ask(connection: &Connection, frame: &[u8]) -> Vec<u8> {
    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
    send.write_all(frame).await.expect("written");
    send.finish().expect("not yet finished");
    read(&mut recv).await.expect("an answer")
}

/// A frame with its header, and what follows it up to the end.
async fn read(recv: &mut RecvStream) -> Option<Vec<u8>> {
    recv.read_to_end(1 << 24).await.ok()
}
