//! One HTTP/1.1 connection of which one end is hyper's and the other end is raw bytes.
//!
//! Raw, because the tests are about ends that behave as no good HTTP library would.

use std::{convert::Infallible, error::Error, io, net::Ipv4Addr};

use bytes::Bytes;
use http_body_util::{BodyExt, channel::Channel};
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    client::conn::http1::SendRequest,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::must;

/// The head of a request without a body.
pub const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// What hyper's end of a connection came to.
pub type Ended = JoinHandle<hyper::Result<()>>;

/// What hyper's server does when the client closes its sending half inside an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfClose {
    /// The client is taken to be gone (hyper's default).
    Refused,
    /// The client still gets its answer.
    Allowed,
}

/// hyper serves one connection; the client's end of it is raw.
pub async fn serve<F, A, B>(half_close: HalfClose, handler: F) -> (Raw, Ended)
where
    F: Fn(Request<Incoming>) -> A + Send + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Error + Send + Sync> + Send + 'static,
{
    let (client, server) = connection().await;
    let service = hyper::service::service_fn(move |request| {
        let answering = handler(request);
        async { Ok::<_, Infallible>(answering.await) }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .half_close(half_close == HalfClose::Allowed)
        .serve_connection(TokioIo::new(server), service);
    (Raw(client), tokio::spawn(serving))
}

/// hyper is the client of one connection; the server's end of it is raw.
pub async fn dial() -> (SendRequest<Channel<Bytes, io::Error>>, Ended, Raw) {
    let (client, server) = connection().await;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client))
        .await
        .expect("a handshake");
    (sender, tokio::spawn(connection), Raw(server))
}

/// How hyper's end of a connection came out, within patience.
pub async fn outcome(ended: Ended) -> Result<(), String> {
    must("hyper to be done", ended)
        .await
        .expect("no panic")
        .map_err(|error| chain(&error))
}

/// Reads a body to where it ends: what came, and whether it ended well.
pub async fn collect(mut body: Incoming) -> (String, Result<(), String>) {
    let mut got = Vec::new();
    loop {
        match must("more of the body", body.frame()).await {
            None => return (text(got), Ok(())),
            Some(Err(error)) => return (text(got), Err(chain(&error))),
            Some(Ok(frame)) => got.extend_from_slice(frame.data_ref().expect("no trailers")),
        }
    }
}

/// A POST whose body comes from a channel.
pub fn post(body: Channel<Bytes, io::Error>) -> Request<Channel<Bytes, io::Error>> {
    Request::post("/")
        .header("host", "localhost")
        .body(body)
        .expect("a request")
}

/// An end of a connection that says and reads bytes.
pub struct Raw(TcpStream);

impl Raw {
    /// Writes all of it.
    pub async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_say(bytes).await.expect("written");
    }

    /// Writes all of it, if the other side lets us.
    pub async fn try_say(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), io::ErrorKind> {
        let written = must("room to write", self.0.write_all(bytes.as_ref())).await;
        written.map_err(|error| error.kind())
    }

    /// Reads until what came ends with `end`.
    pub async fn hear_to(&mut self, end: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(end.as_bytes()) {
            let more = must(end, self.0.read_u8()).await;
            heard.push(more.unwrap_or_else(|error| panic!("{error} after {heard:?}")));
        }
        text(heard)
    }

    /// Reads to the end of the connection: what came, and how it ended.
    pub async fn hear_out(&mut self) -> (String, Result<(), io::ErrorKind>) {
        let mut heard = Vec::new();
        let ended = must("the end", self.0.read_to_end(&mut heard)).await;
        (text(heard), ended.map(drop).map_err(|error| error.kind()))
    }

    /// Closes the sending half alone.
    pub async fn half_close(&mut self) {
        self.0.shutdown().await.expect("still open");
    }

    /// Goes away without a goodbye: the other side gets a reset.
    pub fn reset(self) {
        self.0.set_zero_linger().expect("an open socket");
    }
}

/// An error with its causes, as toolbus prints one.
fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a socket");
    let dialling = TcpStream::connect(listener.local_addr().expect("bound"));
    let (client, accepted) = tokio::join!(dialling, listener.accept());
    (client.expect("connected"), accepted.expect("accepted").0)
}
