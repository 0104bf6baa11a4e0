//! Our ends: a server in a process of its own, and a client as the bus has it.

use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::{LocalSet, spawn_local};
use toolbus::address::Address;
use toolbus::bus::back::Back;
use toolbus::wire::mediocre::back::{Host, Mediocre, Options};
use toolbus::peer::settings::Settings;
use toolbus::bus::Bus;
use toolbus::wire::mediocre::front::{Mediocre as Front, Settings as FrontSettings};
use toolbus_engine::calls::{Inbox, Pressure, RunningCall};
use toolbus_engine::transport::{Listener, Whereabouts};
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::{Methods, Reading};
use toolbus_proto::tool::{Call, Outcome, Part};

/// Serves the built-in tools on a Unix socket and on TCP, whose port it prints, until standard
/// input ends.
pub(crate) fn serve(path: &str) {
    let (runtime, local) = runtime();
    let path = PathBuf::from(path);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    local.block_on(&runtime, async {
        let builtin = Address::parse("builtin:").expect("an address");
        let bus = Bus::of_addresses(&[builtin], &Settings::default()).expect("a bus");
        bus.open().await.expect("the tools are inside");
        let front = Front::new(Rc::new(bus), FrontSettings::default());
        let unix = Listener::unix(&path).expect("nobody else has this path");
        let tcp = Listener::tcp("127.0.0.1", 0).await.expect("there is a port");
        let Ok(Whereabouts::Tcp(address)) = tcp.whereabouts() else { panic!("it is TCP") };
        println!("{}", address.port());
        let on_unix = front.clone();
        spawn_local(async move { on_unix.listen(unix).await });
        front.listen(tcp).await;
    });
}

/// A server in a process of its own.
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    path: PathBuf,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Server {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("toolbus-bench-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let program = std::env::current_exe().expect("we have a path");
        let mut child = Command::new(program)
            .arg("role-serve")
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the server speaks");
        let port = line.trim().parse().expect("a port");
        Server { stdin: child.stdin.take(), child, path, port }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A client with a server of its own.
pub(crate) struct Client {
    runtime: Runtime,
    local: LocalSet,
    back: Rc<Mediocre>,
    server: Server,
}

impl Client {
    pub(crate) fn over_unix() -> Client {
        Client::of(|server| Host::Unix(server.path.clone()))
    }

    pub(crate) fn over_tcp() -> Client {
        Client::of(|server| Host::Tcp { host: "127.0.0.1".to_owned(), port: server.port })
    }

    fn of(host: impl FnOnce(&Server) -> Host) -> Client {
        let server = Server::start();
        let (runtime, local) = runtime();
        let options = Options {
            name: "server".to_owned(),
            reading: Reading::default(),
            methods: Methods::asked(),
            timeout: Duration::from_secs(60),
        };
        let host = host(&server);
        let back = local.block_on(&runtime, async {
            Rc::new(Mediocre::at(host, options, Duration::from_secs(10)))
        });
        Client { runtime, local, back, server }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Runs as a task among tasks, as whoever calls in a bus does.
    pub(crate) fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        what: impl FnOnce(Rc<Mediocre>) -> F,
    ) -> T {
        let what = what(self.back.clone());
        let done = self.local.block_on(&self.runtime, async { spawn_local(what).await });
        done.expect("the measurement does not panic")
    }
}

/// One call: the ways up and down.
pub(crate) struct Asked {
    inbox: Rc<Inbox>,
    running: RunningCall,
}

impl Asked {
    pub(crate) fn stream(back: &Mediocre, method: &str, args: Option<Json>) -> Asked {
        Asked::start(back, method, args, true)
    }

    pub(crate) fn single(back: &Mediocre, method: &str, args: Option<Json>) -> Asked {
        Asked::start(back, method, args, false)
    }

    fn start(back: &Mediocre, method: &str, args: Option<Json>, sends_parts: bool) -> Asked {
        let mut call = Call::tool(Instant::now(), method, args);
        call.deadline.quiet = Some(Duration::from_secs(60));
        call.options.sends_parts = sends_parts;
        let (inbox, slot) = Inbox::new();
        let running = back.start(call, slot);
        Asked { inbox, running }
    }

    pub(crate) async fn send(&self, part: Part) {
        if self.running.send(Up::Part(part)) == Pressure::Full {
            self.inbox.room().await;
        }
    }

    pub(crate) fn end(&self) {
        let _ = self.running.send(Up::End(None));
    }

    pub(crate) async fn next(&self) -> Down {
        self.inbox.next(&self.running).await
    }

    /// The whole of a single answer.
    pub(crate) async fn answer(self) -> Json {
        match self.inbox.whole(self.running).await {
            Ok(Outcome::Value(value)) => value,
            other => panic!("{other:?}"),
        }
    }
}

fn runtime() -> (Runtime, LocalSet) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    (runtime.expect("a runtime"), LocalSet::new())
}
