//! The engine over QUIC, between the machines of Orchestra.
//!
//! ```text
//! Inbox ─ Client ═ a connection ═ Front ─ Tools
//! ```

mod breaking;
mod frames;
mod handshakes;
mod stream_frames;

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, spawn_local};
use toolbus_engine::calls::{Inbox, RunningCall};
use toolbus_engine::client::Client as Joined;
use toolbus_engine::front::Front;
use toolbus_engine::transport::quic::{
    CertificateDer, Clients, Connection, DialError, Dialler, HANDSHAKE, Identity, Idle, Listener,
    PrivatePkcs8KeyDer, QuicClient, QuicServer, Target,
};
use toolbus_proto::orchestra::{Client, ClientSettings, Ids, Role, Server, ServerSettings};
use toolbus_proto::tool::{Call, CallerId, Failure, Outcome};
use toolbus_testkit::certificates::Authority;

use super::tools::{Served, Tools};
use super::{call, value};

const ALPN: &[u8] = b"orchestra-plugin";

fn root(authority: &Authority) -> [CertificateDer<'static>; 1] {
    [authority.root().into()]
}

fn identity(authority: &Authority, name: &str) -> Identity {
    let leaf = authority.leaf(name);
    Identity {
        chain: vec![leaf.certificate.into()],
        key: PrivatePkcs8KeyDer::from(leaf.key).into(),
    }
}

fn server(authority: &Authority, clients: Clients) -> QuicServer {
    let identity = identity(authority, "orchestrator");
    QuicServer::new(ALPN, &root(authority), identity, clients, Idle::PATIENT).unwrap()
}

fn client(authority: &Authority) -> QuicClient {
    let identity = identity(authority, "toolbus-client");
    let idle = Idle::after(Duration::from_secs(15));
    QuicClient::new(ALPN, &root(authority), Some(identity), idle).unwrap()
}

async fn listen(server: &QuicServer) -> Listener {
    Listener::bind("127.0.0.1", 0, server).await.unwrap()
}

async fn dial(listener: &Listener, client: &QuicClient) -> Result<Connection, DialError> {
    let address = listener.addresses()[0];
    let target = Target { host: address.ip().to_string(), port: address.port(), server_name: None };
    Dialler::new().dial(&target, client, HANDSHAKE).await
}

async fn accept(listener: &Listener) -> Result<Connection, DialError> {
    listener.accept().await.unwrap().open(HANDSHAKE).await
}

/// Both ends of one connection: the client's and the server's.
async fn connected() -> (Connection, Connection) {
    let authority = Authority::new();
    let listener = listen(&server(&authority, Clients::Known)).await;
    let client = client(&authority);
    let (near, far) = tokio::join!(dial(&listener, &client), accept(&listener));
    (near.unwrap(), far.unwrap())
}

/// A caller with tools at the other end of a connection.
struct Chain {
    near: Joined<Client>,
    near_connection: Connection,
    far_connection: Connection,
    tools: Rc<Tools>,
    serving: AbortHandle,
}

impl Chain {
    async fn new() -> Chain {
        let (near_connection, far_connection) = connected().await;
        let tools = Tools::new();
        let route = Rc::new(Served(tools.clone()));
        let serving = spawn_local(serve(far_connection.clone(), route)).abort_handle();
        let near = calling(&near_connection);
        Chain { near, near_connection, far_connection, tools, serving }
    }

    fn call(&self, call: Call) -> (Rc<Inbox>, RunningCall) {
        let (inbox, slot) = Inbox::new();
        let running = self.near.start(call, slot);
        (inbox, running)
    }

    async fn outcome(&self, call: Call) -> Result<Outcome, Failure> {
        let (inbox, running) = self.call(call);
        inbox.whole(running).await
    }
}

/// Our asking end of a connection.
fn calling(connection: &Connection) -> Joined<Client> {
    let mut count = 0;
    let ids = Ids::new(move || {
        count += 1;
        format!("id-{count}")
    });
    let machine = Client::new(ClientSettings::default(), ids);
    Joined::over("peer", machine, connection.opener())
}

/// Answers on a connection until it is over.
async fn serve(connection: Connection, route: Rc<Served>) {
    let settings = ServerSettings::new(Role::Plugin, CallerId(1));
    let front = Front::over_many(Server::new(settings), route, None);
    let accepting = async {
        while let Some((reader, writer)) = connection.accept().await {
            front.welcome((), reader, writer);
        }
    };
    tokio::select! {
        () = accepting => {}
        () = front.run() => {}
    }
}

/// A call that may take so long.
fn within(time: Duration, tool: &str, args: &str) -> Call {
    let mut call = call(tool, args);
    call.deadline.asked = Instant::now();
    call.deadline.total = Some(time);
    call
}

fn message(outcome: Result<Outcome, Failure>) -> String {
    outcome.unwrap_err().message
}
