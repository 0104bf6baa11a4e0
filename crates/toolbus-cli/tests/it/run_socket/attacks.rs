//! Who comes to the socket and is no command of ours, and who listens there and is no server.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use toolbus_testkit::skipped::skipped;

use super::Bench;

const CALL: [&str; 4] = ["call", "try.add", "a=1", "b=2"];

/// What is said to whom connects.
pub(super) fn greeting(socket: &Path) -> String {
    let mut line = String::new();
    BufReader::new(UnixStream::connect(socket).unwrap()).read_line(&mut line).unwrap();
    line
}

#[test]
fn what_cannot_be_read_ends_its_own_connection_alone() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let socket = bench.socket();
    let long = format!("{{\"id\":1,\"say\":\"{}\"}}\n", "x".repeat(100_000));
    let wrong: [&[u8]; 9] = [
        b"\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"{\"id\":1}\n",
        b"{\"id\":-1,\"say\":\"call\"}\n",
        b"{\"id\":1,\"say\":\"dance\"}\n",
        b"{\"id\":1,\"say\":\"tools\",\"bytes\":99999999999}\n",
        b"{\"id\":1,\"say\":\"tools\",\"bytes\":3}\ntryX",
        b"{\"id\":1,\"say\":\"answer\",\"bytes\":1}\n{\n",
        long.as_bytes(),
    ];
    for bytes in wrong {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let _ = stream.write_all(bytes);
        let mut said = Vec::new();
        // It is closed, with what was said before at most.
        let _ = stream.read_to_end(&mut said);
        assert_eq!(said.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
    // Requests that are frames, and make no sense.
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"{\"id\":1,\"say\":\"call\",\"bytes\":2}\n{}\n").unwrap();
    stream.write_all(b"{\"id\":2,\"say\":\"tools\",\"bytes\":4}\nnone\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap).skip(1);
    for (id, why) in [(1, "the request cannot be read"), (2, "`none` is not served any more")] {
        assert!(lines.next().unwrap().starts_with(&format!("{{\"id\":{id},\"say\":\"failure\"")));
        assert!(lines.next().unwrap().contains(why));
    }
    // Half a line, half a frame, and nothing: they keep no command out.
    let half: [&[u8]; 3] = [b"{\"id\":1", b"{\"id\":1,\"say\":\"tools\",\"bytes\":9}\ntry", b""];
    let _idle: Vec<_> = half
        .map(|bytes| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        })
        .into();
    assert_eq!(bench.says(&CALL), format!("info: using toolbus serve (pid {})", serve.id()));
}

#[test]
fn one_that_reads_nothing_holds_up_itself_alone() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let mut deaf = UnixStream::connect(bench.socket()).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let call = br#"{"front":"call","back":"try","own":"blob","name":"try.blob","args":{"bytes":10000000}}"#;
    for id in 0..50 {
        let head = format!("{{\"id\":{id},\"say\":\"call\",\"bytes\":{}}}\n", call.len());
        let frame = [head.as_bytes(), call, b"\n"].concat();
        if deaf.write_all(&frame).is_err() {
            break;
        }
    }
    assert_eq!(bench.says(&CALL), format!("info: using toolbus serve (pid {})", serve.id()));
}

#[test]
fn there_are_two_hundred_and_fifty_six_at_most() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let socket = bench.socket();
    let inside: Vec<_> = (0..256)
        .map(|_| {
            let mut stream = BufReader::new(UnixStream::connect(&socket).unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            assert!(line.starts_with("{\"toolbus\":"));
            stream
        })
        .collect();
    let unlike =
        format!("info: toolbus serve (pid {}) is not used: it does not answer", serve.id());
    let page = bench.page(&[&CALL[..], &["-v"]].concat()).run();
    assert_eq!(page.stderr.lines().next(), Some(&*unlike), "{page}");
    assert_eq!(page.stdout, "3\n");
    drop(inside);
    assert_eq!(bench.says(&CALL), format!("info: using toolbus serve (pid {})", serve.id()));
}

/// A server that says this to the first that comes, and how the command takes it.
fn said_by(bench: &Bench, socket: &Path, said: &str) -> String {
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    let said = said.to_owned();
    let pretending = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(said.as_bytes());
        // Until the command has had enough.
        let _ = stream.read(&mut [0]);
    });
    let page = bench.page(&[&CALL[..], &["-v"]].concat()).run();
    pretending.join().unwrap();
    assert_eq!((page.stdout.as_str(), page.status.code()), ("3\n", Some(0)), "{page}");
    page.stderr.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn wrong_greetings_are_not_followed() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let (socket, real) = (bench.socket(), greeting(&bench.socket()));
    let served = serve.id();
    drop(serve);
    let ours = std::process::id();
    let unlike =
        |pid: u32, why: &str| format!("info: toolbus serve (pid {pid}) is not used: {why}");
    let other = "it is another version of toolbus";
    let silent = "it does not answer";
    let changed = |from: &str, to: &str| real.replacen(from, to, 1);
    for (said, pid, why) in [
        (changed("\"protocol\":1", "\"protocol\":2"), served, other),
        (changed("\"protocol\":1", "\"protocol\":\"1\""), ours, other),
        (
            changed("\"digest\":\"sha256:", "\"digest\":\"sha256:0"),
            served,
            "it has another version of the config",
        ),
        (changed("\"env\":\"sha256:", "\"env\":\"sha256:0"), served, "its environment differs"),
        ("hello\n".to_owned(), ours, other),
        (real.trim_end().to_owned(), ours, silent),
        (String::new(), ours, silent),
        ("x".repeat(100_000), ours, silent),
    ] {
        assert_eq!(said_by(&bench, &socket, &said), unlike(pid, why), "{said}");
    }
}

#[test]
fn an_answer_that_breaks_the_protocol_fails_the_call() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let (socket, real) = (bench.socket(), greeting(&bench.socket()));
    drop(serve);
    fs::remove_file(&socket).ok();
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(real.as_bytes()).unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"{\"id\":0,\"say\":\"value\",\"bytes\":1}\n{\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let page = bench.page(&["call", "--no-check", "try.add", "{\"a\":1,\"b\":2}"]).run();
    assert_eq!(page.status.code(), Some(3), "{page}");
    assert!(page.stderr.contains("`value` cannot be read"), "{page}");
}

#[test]
fn a_folder_that_is_not_ours_is_not_used() {
    let bench = Bench::of("");
    let folder = bench.scratch.path().join("run/toolbus");
    let warns = |why: &str| {
        let serve = bench.serve();
        serve.signal(Signal::TERM);
        let said = serve.end();
        let warning = format!("warning: no run socket: the folder `{}` {why}\n", folder.display());
        assert!(said.contains(&warning), "{said}");
        assert_eq!(said.matches("run socket").count(), 1, "{said}");
    };
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    warns("has the mode 0755, and must have 0700");
    fs::remove_dir(&folder).unwrap();
    fs::create_dir(bench.scratch.file("elsewhere")).unwrap();
    fs::set_permissions(bench.scratch.file("elsewhere"), fs::Permissions::from_mode(0o700))
        .unwrap();
    symlink(bench.scratch.file("elsewhere"), &folder).unwrap();
    warns("is no folder");
    fs::remove_file(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    warns("is no folder");
    fs::remove_file(&folder).unwrap();
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can give a folder to another user");
    }
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&folder, Some(12345), None).unwrap();
    warns("belongs to another user");
}

#[test]
fn a_process_of_another_user_is_not_heard() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user");
    }
    // Root is let in by everybody, so the server is the other one.
    let bench = Bench::of("");
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    open(bench.scratch.path());
    let state = bench.scratch.path().join("run");
    fs::create_dir(&state).unwrap();
    open(&state);
    let _serve = bench.serve();
    let socket = bench.socket();
    let folder = socket.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    open(&socket);
    let mut heard = Command::new("python3");
    heard.args(["-c", "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nprint(s.recv(100))"]);
    heard.arg(&socket).uid(12345).stdin(Stdio::null()).current_dir("/");
    let heard = heard.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&heard.stdout), "b''\n", "{heard:?}");
    assert!(greeting(&socket).starts_with("{\"toolbus\":"));
}

#[test]
fn of_two_that_race_for_a_dead_socket_one_gets_it() {
    let bench = Bench::of("");
    let first = bench.serve();
    let socket = bench.socket();
    first.signal(Signal::KILL);
    drop(first);
    assert!(socket.exists());
    let racing = || {
        let mut command = bench.command(&["serve", "-v"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    let commands = [racing(), racing(), racing()];
    let mut servers: Vec<_> = thread::scope(|scope| {
        let started =
            commands.map(|command| scope.spawn(move || crate::listening::Server::run(command, 1)));
        started.into_iter().map(|started| started.join().unwrap()).collect()
    });
    let used = bench.says(&CALL);
    let winner = servers
        .iter()
        .position(|server| used == format!("info: using toolbus serve (pid {})", server.id()));
    let winner = servers.swap_remove(winner.expect("one of them has it"));
    for loser in servers {
        loser.signal(Signal::TERM);
        let said = loser.end();
        assert!(said.contains("no run socket: another `toolbus serve`"), "{said}");
    }
    assert_eq!(bench.says(&CALL), format!("info: using toolbus serve (pid {})", winner.id()));
}
