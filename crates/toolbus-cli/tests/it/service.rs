//! `toolbus serve` as a service: what it tells who started it, and the sockets that it is given.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::page::Page as Ended;
use toolbus_testkit::patience::{PATIENCE, eventually};
use toolbus_testkit::port;
use toolbus_testkit::scratch::Scratch;

use crate::listening::Server;
use crate::page::{Page, command};
use crate::serve::{BUILTIN, Config, MCP};

const TCP: &str = "[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";
const THREE: &str = "stdout\n3\nexit 0\n";

/// Who is told.
struct Manager {
    scratch: Scratch,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Manager {
        let scratch = Scratch::new();
        let socket = UnixDatagram::bind(scratch.path().join("notify")).expect("it is ours");
        socket.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
        Manager { scratch, socket }
    }

    fn path(&self) -> String {
        self.scratch.file("notify")
    }

    /// The next datagram.
    #[track_caller]
    fn hear(&self) -> String {
        heard(&self.socket)
    }

    fn start(&self, config: &Config, more: &[(&str, &str)]) -> Server {
        let path = self.path();
        let env = [&[("NOTIFY_SOCKET", path.as_str())], more].concat();
        Server::start_with(&["serve", "--config", &config.path()], 1, &env)
    }
}

#[track_caller]
fn heard(socket: &UnixDatagram) -> String {
    let mut datagram = [0; 4096];
    let count = socket.recv(&mut datagram).expect("it tells");
    String::from_utf8_lossy(&datagram[..count]).into_owned()
}

#[test]
fn who_started_it_is_told_how_it_is() {
    let manager = Manager::new();
    let config = Config::of(&format!("{BUILTIN}{MCP}{TCP}"));
    let server = manager.start(&config, &[]);
    assert_eq!(manager.hear(), "READY=1\nSTATUS=2 fronts, 1 back");
    config.reload(&server, &format!("{BUILTIN}{MCP}[back.more]\nconnect = \"builtin:\"\n"));
    let reloading = manager.hear();
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    assert!(since.is_some_and(|since| since.parse::<u64>().is_ok()), "{reloading}");
    assert_eq!(manager.hear(), "READY=1\nSTATUS=1 front, 2 backs");
    config.reload(&server, &format!("{BUILTIN}{MCP}[back.more]\nconect = \"builtin:\"\n"));
    assert!(manager.hear().starts_with("RELOADING=1\n"));
    let status = manager.hear().replace(&config.path(), "tools.toml");
    expect![[r#"
        READY=1
        STATUS=the config was not taken: `tools.toml` line 6: there is no key `back.more.conect`"#]]
    .assert_eq(&status);
    server.signal(Signal::TERM);
    assert_eq!(manager.hear(), "STOPPING=1");
    assert!(server.end().ends_with("exit 0\n"));
}

#[test]
fn an_interrupt_is_an_end_too() {
    let manager = Manager::new();
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let server = manager.start(&config, &[]);
    assert_eq!(manager.hear(), "READY=1\nSTATUS=1 front, 1 back");
    server.signal(Signal::INT);
    assert_eq!(manager.hear(), "STOPPING=1");
    assert_eq!(server.end(), "exit 130\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_socket_may_have_a_name_and_no_file() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::SocketAddr;
    let name = format!("toolbus-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a short one");
    let socket = UnixDatagram::bind_addr(&address).expect("it is ours");
    socket.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let at = format!("@{name}");
    let words = ["serve", "--config", &config.path()];
    let _server = Server::start_with(&words, 1, &[("NOTIFY_SOCKET", &at)]);
    assert_eq!(heard(&socket), "READY=1\nSTATUS=1 front, 1 back");
}

#[test]
fn a_watchdog_hears_that_it_is_alive() {
    let manager = Manager::new();
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let _server = manager.start(&config, &[("WATCHDOG_USEC", "200000")]);
    let told: Vec<_> = (0..4).map(|_| manager.hear()).collect();
    assert_eq!(told.iter().filter(|told| *told == "WATCHDOG=1").count(), 3, "{told:?}");
    // One that is meant for another is nothing to it: its own datagrams are all there are.
    let manager = Manager::new();
    let server = manager.start(&config, &[("WATCHDOG_USEC", "2"), ("WATCHDOG_PID", "1")]);
    assert_eq!(manager.hear(), "READY=1\nSTATUS=1 front, 1 back");
    server.signal(Signal::TERM);
    assert_eq!(manager.hear(), "STOPPING=1");
}

#[test]
fn a_socket_that_takes_nothing_is_told_of_once() {
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let words = ["serve", "-v", "--config", &config.path()];
    let env = [("NOTIFY_SOCKET", "/nonexistent/notify"), ("WATCHDOG_USEC", "2000")];
    let server = Server::start_with(&words, 1, &env);
    server.signal(Signal::TERM);
    let said = server.end();
    assert_eq!(said.matches("the service manager at `/nonexistent/notify`").count(), 1, "{said}");
    assert!(said.ends_with("exit 0\n"), "{said}");
}

#[test]
fn no_program_that_is_started_gets_what_is_meant_for_us() {
    let scratch = Scratch::new();
    let (clean, whole) = (scratch.file("clean"), scratch.file("whole"));
    let env = |file: &str| format!("sh -c 'env > {file}.part; mv {file}.part {file}; exec cat'");
    let config = Config::of(&format!(
        "{BUILTIN}{MCP}\
         [back.clean]\nconnect = \"mcp+stdio:{}\"\nenv_pass = [\"NOTIFY_SOCKET\", \"LISTEN_FDS\", \"MINE\"]\n\
         [back.whole]\nconnect = \"stdio:{}\"\n",
        env(&clean),
        env(&whole)
    ));
    let manager = Manager::new();
    let more = [
        ("WATCHDOG_USEC", "60000000"),
        ("WATCHDOG_PID", "1"),
        ("LISTEN_FDS", "1"),
        ("LISTEN_PID", "1"),
        ("LISTEN_FDNAMES", "x"),
        ("MINE", "yes"),
    ];
    let _server = manager.start(&config, &more);
    for file in [clean, whole] {
        eventually("it was started", || Path::new(&file).exists());
        let env = fs::read_to_string(&file).expect("it is there");
        assert!(env.contains("MINE=yes\n"), "{env}");
        for name in ["NOTIFY_", "WATCHDOG_", "LISTEN_"] {
            assert!(!env.contains(name), "{env}");
        }
    }
}

/// `toolbus serve` with this socket as its fourth descriptor.
fn given(config: &Config, socket: impl Into<OwnedFd>, names: Option<&str>) -> Command {
    let ours = command(&["serve", "--config", &config.path()]);
    // The number is that of the shell, which becomes the program.
    let script = "export LISTEN_PID=$$; exec \"$0\" \"$@\" 3<&0 0</dev/null";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(ours.get_program()).args(ours.get_args());
    shell.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("LISTEN_FDS", "1").stdin(Stdio::from(socket.into())).stdout(Stdio::null());
    if let Some(names) = names {
        shell.env("LISTEN_FDNAMES", names);
    }
    shell
}

/// What came of it.
fn ended(mut command: Command) -> String {
    let ran = command.output().expect("there is a shell");
    let code = ran.status.code().and_then(|code| u8::try_from(code).ok());
    Ended::of_call(&ran.stdout, &ran.stderr, code.expect("it ends by itself")).to_string()
}

fn call(url: &str) -> String {
    Page::of(&["call", "-q", url, "add", "a=1", "b=2"]).run().to_string()
}

fn call_rpc(url: &str) -> String {
    Page::of(&["rpc", "call", url, "try.add", r#"{"a":1,"b":2}"#]).run().to_string()
}

#[test]
fn a_front_listens_on_the_socket_of_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let at = listener.local_addr().expect("it has one");
    // A client that comes before anybody serves is not refused.
    let early = std::net::TcpStream::connect(at).expect("it listens");
    let front = format!("[front.web]\nserve = \"mcp+http://{at}/mcp\"\n");
    let config = Config::of(&format!("{BUILTIN}{TCP}{front}"));
    let kept = listener.try_clone().expect("there are descriptors");
    let server = Server::run(given(&config, listener, Some("toolbus.socket")), 2);
    assert_eq!(server.urls[1], format!("http://{at}/mcp"));
    assert_eq!(call(&server.urls[1]), THREE);
    drop(early);
    // A front that is set up as before keeps it, and one that is not takes it anew.
    for text in [
        format!("{BUILTIN}{front}"),
        format!("{BUILTIN}{front}sessions_max = 7\n"),
        format!("{BUILTIN}{}", front.replace("web", "other")),
    ] {
        config.reload(&server, &text);
        eventually("it is served", || call(&server.urls[1]) == THREE);
    }
    server.signal(Signal::TERM);
    assert!(server.end().ends_with("exit 0\n"));
    // Whoever passed it has it still.
    assert_eq!(kept.local_addr().expect("it is open"), at);
}

#[test]
fn a_front_listens_on_the_socket_of_its_name() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let at = listener.local_addr().expect("it has one");
    let elsewhere = "[front.web]\nserve = \"mcp+http://127.0.0.1:1/mcp\"\n";
    let config = Config::of(&format!("{BUILTIN}{elsewhere}"));
    let server = Server::run(given(&config, listener, Some("web")), 1);
    assert_eq!(server.url(), format!("http://{at}/mcp"));
    assert_eq!(call(server.url()), THREE);
    // The pages, and a front of another wire.
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let at = listener.local_addr().expect("it has one");
    let config = Config::of(&format!("{BUILTIN}{TCP}[admin]\nlisten = \"127.0.0.1:1\"\n"));
    let server = Server::run(given(&config, listener, Some("admin")), 2);
    assert_eq!(server.urls[1], format!("http://{at}"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let at = listener.local_addr().expect("it has one");
    let config = Config::of(&format!("{BUILTIN}{}", TCP.replace("127.0.0.1:0", "localhost:1")));
    let server = Server::run(given(&config, listener, Some("scripts")), 1);
    assert_eq!(server.url(), format!("mediocre+tcp://{at}"));
    assert_eq!(call_rpc(server.url()), THREE);
}

#[test]
fn a_socket_file_that_was_passed_stays_as_it_is() {
    let scratch = Scratch::new();
    let path = scratch.file("socket");
    let listener = UnixListener::bind(&path).expect("it is ours");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).expect("it is ours");
    // A caller of another user would have it opened for all.
    let front = format!(
        "[front.local]\nserve = \"mediocre+unix:{path}\"\ncallers = [\"me\", \"other\"]\n\
         [caller.me]\nuid = {}\n[caller.other]\nuid = 4711\n",
        rustix::process::geteuid().as_raw()
    );
    let config = Config::of(&format!("{BUILTIN}{front}"));
    let server = Server::run(given(&config, listener, None), 1);
    assert_eq!(server.url(), format!("mediocre+unix:{path}"));
    assert_eq!(call_rpc(server.url()), THREE);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
    let mode = fs::metadata(&path).expect("it is there still").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

#[test]
fn a_socket_that_belongs_to_none_is_a_mistake() {
    let said = |config: &str, names: Option<&str>| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let at = listener.local_addr().expect("it has one").to_string();
        let config = Config::of(config);
        let page = ended(given(&config, listener, names));
        page.replace(&at, "127.0.0.1:8932").replace(&config.path(), "tools.toml")
    };
    let expected = "stderr\nerror: the socket 127.0.0.1:8932 (fd 3) belongs to no front\nexit 2\n";
    let certs = Scratch::new();
    let quic = format!(
        "[front.hub]\nserve = \"orchestra+quic://127.0.0.1:0?certs={}\"\n",
        certs.file("certs")
    );
    assert_eq!(said(&format!("{BUILTIN}{MCP}"), None), expected);
    assert_eq!(said(&format!("{BUILTIN}{MCP}"), Some("web")), expected);
    assert_eq!(said(&format!("{BUILTIN}{quic}"), Some("hub")), expected);
    // What is no socket at all.
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let file = fs::File::open("/dev/null").expect("it is there");
    let page = ended(given(&config, file, None));
    assert!(page.contains("\nerror: fd 3, which we were given, is no socket"), "{page}");
    assert!(page.ends_with("exit 2\n"), "{page}");
}

#[test]
fn sockets_of_another_process_are_none_of_ours() {
    let port = port::free();
    let front = format!("[front.web]\nserve = \"mcp+http://127.0.0.1:{port}/mcp\"\n");
    let config = Config::of(&format!("{BUILTIN}{front}"));
    let env = [("LISTEN_FDS", "1"), ("LISTEN_PID", "1")];
    let server = Server::start_with(&["serve", "--config", &config.path()], 1, &env);
    assert_eq!(call(server.url()), THREE);
}

#[test]
fn no_program_that_is_started_gets_the_socket() {
    let scratch = Scratch::new();
    let file = scratch.file("fds");
    let back = format!(
        "[back.sees]\nconnect = \"stdio:sh -c 'ls -l /proc/self/fd > {file}.part; mv {file}.part {file}; exec cat'\"\n"
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let at = listener.local_addr().expect("it has one");
    let front = format!("[front.web]\nserve = \"mcp+http://{at}/mcp\"\n");
    let config = Config::of(&format!("{BUILTIN}{front}{back}"));
    let _server = Server::run(given(&config, listener, None), 1);
    eventually("it was started", || Path::new(&file).exists());
    let fds = fs::read_to_string(&file).expect("it is there");
    assert!(!fds.contains("socket:"), "{fds}");
}
