//! What the programs beside this file share: certificates, a listener, a tool, a look at memory.

pub mod bare;
pub mod front;
pub mod grpc;

use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{LocalSet, spawn_local};
use toolbus::bus::Route;
use toolbus_engine::calls::{ReplyTo, RunningCall};
use toolbus_engine::front::Front;
use toolbus_engine::transport::quic::{
    Clients, Connection, Dialler, HANDSHAKE, Idle, Listener, QuicClient, QuicServer, Target,
};
use toolbus::wire::orchestra::certificates::Folder;
use toolbus::wire::orchestra::link::Link;
use toolbus::wire::orchestra::tls;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::orchestra::{ClientSettings, Role, Server, ServerSettings};
use toolbus_proto::tool::{Call, CallerId, Outcome, What};

/// Runs on one thread, as a bus does.
pub fn run(what: impl Future<Output = ()> + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be had");
    let outcome = LocalSet::new().block_on(&runtime, async { spawn_local(what).await });
    outcome.expect("the measurement does not panic");
}

/// Certificates of one CA, in a folder that is removed in the end.
pub struct Certs {
    folder: Folder,
    /// Removed by who made it.
    made: Option<PathBuf>,
}

impl Certs {
    /// Makes a folder of its own.
    pub fn make() -> Certs {
        let path = std::env::temp_dir().join(format!("toolbus-bench-{}", std::process::id()));
        Certs { folder: Folder::at(&path), made: Some(path) }
    }

    /// The folder that somebody else has made.
    pub fn at(path: &str) -> Certs {
        Certs { folder: Folder::at(path.as_ref()), made: None }
    }

    /// Where it is.
    pub fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// What a serving end needs.
    pub fn server(&self) -> QuicServer {
        let identity = self.folder.identity("orchestrator").expect("certificates can be made");
        tls::server(&identity, Clients::Known).expect("they fit")
    }

    /// What a calling end needs.
    pub fn client(&self) -> QuicClient {
        let identity = self.folder.identity("toolbus-client").expect("certificates can be made");
        tls::client(&identity, Idle::PATIENT).expect("they fit")
    }
}

impl Drop for Certs {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Answers all who connect, in this role; says at which port.
pub async fn serve(certs: &Certs, role: Role, route: Rc<dyn Route>) -> u16 {
    let listener = Listener::bind("127.0.0.1", 0, &certs.server()).await.expect("a free port");
    let port = listener.addresses()[0].port();
    spawn_local(async move {
        while let Some(arrival) = listener.accept().await {
            let route = route.clone();
            spawn_local(async move {
                let Ok(connection) = arrival.open(HANDSHAKE).await else { return };
                answer(connection, role, route).await;
            });
        }
    });
    port
}

async fn answer(connection: Connection, role: Role, route: Rc<dyn Route>) {
    let settings = ServerSettings::new(role, CallerId(1));
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

/// Connects to a port of this machine.
pub async fn dial(certs: &Certs, dialler: &Dialler, port: u16) -> Connection {
    let target = Target { host: "127.0.0.1".to_owned(), port, server_name: None };
    dialler.dial(&target, &certs.client(), Duration::from_secs(5)).await.expect("it listens")
}

/// Our calling end of a connection.
pub async fn link(certs: &Certs, dialler: &Dialler, port: u16) -> Link {
    Link::new("peer", dial(certs, dialler, port).await, ClientSettings::default())
}

/// Whoever answers at the other end of a connection.
pub struct Over(pub Link);

impl Route for Over {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.0.start(call, down)
    }
}

/// Gives arguments back as the answer.
pub struct Echo;

impl Route for Echo {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let outcome = match call.what {
            What::Tool { args, .. } => {
                Outcome::Value(args.unwrap_or_else(|| Json::from_trusted("null")))
            }
            _ => Outcome::Tools(Vec::new().into()),
        };
        let _ = down.send(Down::Done(Ok(outcome)));
        RunningCall::ended()
    }
}

/// The one in the middle.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A line of `/proc/self/status`, in KiB: `VmRSS` for what is used now.
pub fn memory(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    let kib = found.and_then(|found| found.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN)
}
