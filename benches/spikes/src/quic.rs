//! A caller and a peer that speak as Orchestra's specification says (§2, §5): mutual TLS,
//! one bidirectional stream a request, a length-prefixed frame each way.
//!
//! The peer has a thread and a runtime of its own, so that the runtime under test drives
//! the caller alone. How the peer treats what comes after the frame is its [`Manners`].

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::JoinHandle,
};

use quinn::{
    ClientConfig, Connection, Endpoint, ReadExactError, RecvStream, SendStream, ServerConfig,
    TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tokio::sync::{mpsc, oneshot};

use crate::must;

/// How many bidirectional streams the peer grants at once, as existing servers do.
pub const STREAMS_GRANTED: u32 = 100;

/// The application's code on a stream or connection that ends for no fault of anybody's.
pub const NO_FAULT: VarInt = VarInt::from_u32(0);

/// What the peer does with the rest of a request once its frame is whole.
#[derive(Clone, Copy, Debug)]
pub enum Manners {
    /// As quic-go does under a server that reads the frame and no further: an end that is
    /// known by then completes the stream, a later one is never looked at.
    NeverReadsOn,
    /// Answers, then reads on to the end.
    Drains,
    /// Answers, then sends STOP_SENDING.
    Stops,
}

/// A peer that echoes frames, and the caller's endpoint that it trusts.
pub struct Bench {
    caller: Endpoint,
    peer_addr: SocketAddr,
    accepted: mpsc::UnboundedReceiver<Connection>,
    stop: oneshot::Sender<()>,
    peer: JoinHandle<()>,
}

impl Bench {
    /// Starts the peer. The caller's endpoint belongs to the runtime this is called on.
    pub fn start(manners: Manners) -> Self {
        let (server_config, client_config) = mutual_tls();
        let (tell_addr, addr) = std::sync::mpsc::channel();
        let (tell_accepted, accepted) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let peer = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime for the peer");
            runtime.block_on(async move {
                let endpoint = Endpoint::server(server_config, loopback()).expect("a socket");
                tell_addr
                    .send(endpoint.local_addr().expect("bound"))
                    .expect("asked for");
                tokio::select! {
                    () = accept_all(&endpoint, &tell_accepted, manners) => {}
                    _ = stopped => {}
                }
            });
        });
        let mut caller = Endpoint::client(loopback()).expect("a socket");
        caller.set_default_client_config(client_config);
        Self {
            caller,
            peer_addr: addr.recv().expect("the peer's address"),
            accepted,
            stop,
            peer,
        }
    }

    /// A new connection, as the caller has it and as the peer has it.
    pub async fn dial(&mut self) -> (Connection, Connection) {
        let dialling = self
            .caller
            .connect(self.peer_addr, "localhost")
            .expect("a valid config");
        let ours = must("the handshake", dialling).await.expect("a handshake");
        let theirs = must("the peer's handshake", self.accepted.recv())
            .await
            .expect("accepted");
        (ours, theirs)
    }

    /// Closes every connection and ends the peer.
    pub async fn stop(self) {
        self.caller.close(NO_FAULT, b"client closed");
        must("the caller's last packets", self.caller.wait_idle()).await;
        let _ = self.stop.send(());
        self.peer.join().expect("the peer did not panic");
    }
}

/// Header and payload as the one buffer that a writer writes.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame that fits its header");
    [&length.to_be_bytes(), payload].concat()
}

/// Reads one frame, and not a byte further.
pub async fn read_frame(recv: &mut RecvStream) -> Result<Vec<u8>, ReadExactError> {
    let mut header = [0; 4];
    recv.read_exact(&mut header).await?;
    let mut payload = vec![0; u32::from_be_bytes(header) as usize];
    recv.read_exact(&mut payload).await?;
    Ok(payload)
}

/// One call as the design makes it: nothing is awaited between the last byte and the FIN.
pub async fn call(connection: &Connection, request: &[u8]) -> Vec<u8> {
    let (mut send, mut recv) = must("a stream", connection.open_bi())
        .await
        .expect("a stream");
    must("room for the frame", send.write_all(request))
        .await
        .expect("written");
    send.finish().expect("not yet finished");
    must("the answer", read_frame(&mut recv))
        .await
        .expect("an answer")
}

/// One call whose request is still open when its answer is there. By then the peer has
/// taken the frame and looked past it, so a FIN that follows is certainly late.
pub async fn call_without_fin(connection: &Connection, request: &[u8]) -> SendStream {
    let (mut send, mut recv) = must("a stream", connection.open_bi())
        .await
        .expect("a stream");
    must("room for the frame", send.write_all(request))
        .await
        .expect("written");
    must("the answer", read_frame(&mut recv))
        .await
        .expect("an answer");
    send
}

/// Goes to the peer and back on unidirectional streams, beside those that are counted:
/// what was sent before has arrived, unless its packet was lost.
pub async fn round_trip(connection: &Connection) {
    let mut there = must("a stream there", connection.open_uni())
        .await
        .expect("a stream");
    there.finish().expect("not yet finished");
    let mut back = must("a stream back", connection.accept_uni())
        .await
        .expect("a stream");
    must("its end", back.read_to_end(0))
        .await
        .expect("an empty stream");
}

async fn accept_all(
    endpoint: &Endpoint,
    tell_accepted: &mpsc::UnboundedSender<Connection>,
    manners: Manners,
) {
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.await.expect("a handshake");
        tokio::spawn(return_round_trips(connection.clone()));
        tokio::spawn(serve(connection.clone(), manners));
        // A test that no longer listens is over.
        let _ = tell_accepted.send(connection);
    }
}

async fn return_round_trips(connection: Connection) {
    while let Ok(mut there) = connection.accept_uni().await {
        let Ok(_) = there.read_to_end(0).await else {
            return;
        };
        let Ok(mut back) = connection.open_uni().await else {
            return;
        };
        let _ = back.finish();
    }
}

async fn serve(connection: Connection, manners: Manners) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        tokio::spawn(answer(connection.clone(), send, recv, manners));
    }
}

async fn answer(
    connection: Connection,
    mut send: SendStream,
    mut recv: RecvStream,
    manners: Manners,
) {
    let Ok(payload) = read_frame(&mut recv).await else {
        return;
    };
    if let Manners::NeverReadsOn = manners {
        // quinn tells the end by a read of its own where quic-go tells it with the last
        // byte; one look that does not wait makes the two alike.
        tokio::select! {
            biased;
            _ = recv.read_chunk(1, true) => {}
            () = std::future::ready(()) => {}
        }
    }
    let Ok(()) = send.write_all(&frame(&payload)).await else {
        return;
    };
    let _ = send.finish();
    match manners {
        // Dropping the stream would send STOP_SENDING, which these servers never do.
        Manners::NeverReadsOn => drop((connection.closed().await, recv)),
        Manners::Drains => drop(recv.read_to_end(usize::MAX).await),
        Manners::Stops => drop(recv.stop(NO_FAULT)),
    }
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Both ends' configuration: TLS 1.3 with ring, one CA, a certificate for each end.
fn mutual_tls() -> (ServerConfig, ClientConfig) {
    let mut ca_params = CertificateParams::default();
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca =
        CertifiedIssuer::self_signed(ca_params, KeyPair::generate().expect("a key")).expect("a CA");
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).expect("a root");
    let roots = Arc::new(roots);
    let provider = Arc::new(rustls::crypto::ring::default_provider());

    let (chain, key) = leaf(&ca);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .expect("a verifier");
    let mut server_tls = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .expect("a leaf");
    server_tls.alpn_protocols = vec![ALPN.to_vec()];

    let (chain, key) = leaf(&ca);
    let mut client_tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .expect("a leaf");
    client_tls.alpn_protocols = vec![ALPN.to_vec()];

    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(STREAMS_GRANTED.into());
    let mut server_config = ServerConfig::with_crypto(Arc::new(
        QuicServerConfig::try_from(server_tls).expect("a cipher suite for QUIC"),
    ));
    server_config.transport_config(Arc::new(transport));
    let client_config = ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(client_tls).expect("a cipher suite for QUIC"),
    ));
    (server_config, client_config)
}

const ALPN: &[u8] = b"orchestra-plugin";

fn leaf(
    ca: &CertifiedIssuer<'_, KeyPair>,
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, ca).expect("a leaf");
    (vec![certificate.der().clone()], key.into())
}
