//! The same frames by quinn alone: a stream a request, and nothing is looked at but lengths.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig};
use tokio::task::spawn_local;
use toolbus_testkit::certificates::Authority;

/// What both ends of bare connections need.
pub struct Bare {
    server: ServerConfig,
    client: ClientConfig,
}

const ALPN: &[u8] = b"orchestra-plugin";

impl Bare {
    /// With certificates for both ends.
    pub fn new() -> Bare {
        let authority = Authority::new();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.root().into()).expect("a root");
        let roots = Arc::new(roots);
        let leaf = |name| {
            let leaf = authority.leaf(name);
            let key = rustls::pki_types::PrivatePkcs8KeyDer::from(leaf.key);
            (vec![leaf.certificate.into()], key.into())
        };
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
            roots.clone(),
            provider.clone(),
        );
        let (chain, key) = leaf("server");
        let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_client_cert_verifier(verifier.build().expect("a verifier"))
            .with_single_cert(chain, key)
            .expect("a leaf");
        server.alpn_protocols = vec![ALPN.to_vec()];
        let (chain, key) = leaf("client");
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
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
