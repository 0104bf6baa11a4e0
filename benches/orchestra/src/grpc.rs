//! The same call by tonic, with TLS and certificates at both ends. The service is written by hand,
//! as `tonic-build` would write it: that needs no `protoc`.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};

use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::client;
use tonic::codegen::{Body, BoxFuture, Bytes, Service, StdError, http};
use tonic::server::{self, NamedService, UnaryService};
use tonic::transport::{
    Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig,
};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::bare::{CLIENT, SERVER};

const PATH: &str = "/bench.Chain/Call";

/// What is asked, and what is answered.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Message {
    /// Which call it is.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Which tool is meant.
    #[prost(string, tag = "2")]
    pub tool: String,
    /// Its arguments, or its answer; tonic's chain does not look at them.
    #[prost(string, tag = "3")]
    pub value: String,
    /// Who asks.
    #[prost(string, tag = "4")]
    pub caller: String,
}

impl Message {
    /// The call of the other chains.
    pub fn small() -> Message {
        Message {
            id: "aaaaaaaa-aaaa-4aaa-aaaa-aaaaaaaaaaaa".to_owned(),
            tool: "echo".to_owned(),
            value: r#"{"text":"hello"}"#.to_owned(),
            caller: "toolbus".to_owned(),
        }
    }
}

fn identity(certs: &Path, name: &str) -> (Certificate, Identity) {
    let read = |file: String| std::fs::read(certs.join(file)).expect("has been made");
    let identity = Identity::from_pem(read(format!("{name}.crt")), read(format!("{name}.key")));
    (Certificate::from_pem(read("ca.crt".to_owned())), identity)
}

/// Echoes, or asks `next`; tells `bound` where, and does not end.
pub async fn serve(certs: &Path, next: Option<Channel>, bound: impl FnOnce(SocketAddr)) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    bound(listener.local_addr().expect("it is bound"));
    let arrivals = TcpListenerStream::new(listener).map(|stream| {
        let stream = stream?;
        stream.set_nodelay(true)?;
        Ok::<_, std::io::Error>(stream)
    });
    let (ca, identity) = identity(certs, SERVER);
    let tls = ServerTlsConfig::new().identity(identity).client_ca_root(ca);
    let mut server = Server::builder().tls_config(tls).expect("they fit");
    server.add_service(Hop { next }).serve_with_incoming(arrivals).await.expect("it serves");
}

/// Connects.
pub async fn dial(certs: &Path, at: SocketAddr) -> Channel {
    let (ca, identity) = identity(certs, CLIENT);
    let tls = ClientTlsConfig::new().ca_certificate(ca).identity(identity).domain_name("localhost");
    let endpoint = Endpoint::try_from(format!("https://{at}")).expect("an address");
    let endpoint = endpoint.tls_config(tls).expect("they fit").tcp_nodelay(true);
    endpoint.connect().await.expect("it listens")
}

/// One request, and its answer.
pub async fn ask(channel: Channel, message: Message) -> Result<Message, Status> {
    let mut client = client::Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let (path, codec) = (http::uri::PathAndQuery::from_static(PATH), ProstCodec::default());
    Ok(client.unary(Request::new(message), path, codec).await?.into_inner())
}

#[derive(Clone)]
struct Hop {
    next: Option<Channel>,
}

impl NamedService for Hop {
    const NAME: &'static str = "bench.Chain";
}

impl<B> Service<http::Request<B>> for Hop
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let hop = self.clone();
        Box::pin(async move {
            let codec = ProstCodec::<Message, Message>::default();
            Ok(server::Grpc::new(codec).unary(hop, request).await)
        })
    }
}

impl UnaryService<Message> for Hop {
    type Response = Message;
    type Future = BoxFuture<Response<Message>, Status>;

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let (next, message) = (self.next.clone(), request.into_inner());
        Box::pin(async move {
            Ok(Response::new(match next {
                Some(next) => ask(next, message).await?,
                None => message,
            }))
        })
    }
}
