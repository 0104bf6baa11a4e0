//! TCP and Unix sockets: whom they let in, what they say if not, how they part.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use expect_test::{Expect, expect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use toolbus_engine::transport::tcp::{self, ConnectError, ListenError};
use toolbus_engine::transport::{Listener, Stream, Whereabouts, unix};
use toolbus_testkit::port;
use toolbus_testkit::scratch::Scratch;

use super::{
    accept, connected, is_alone, listen, open_descriptors, pattern, read_all, run,
    run_and_let_time_fly, write_all,
};
use crate::PATIENCE;

#[test]
fn several_listeners_know_their_ports() {
    run(async {
        let (one, at_one) = listen().await;
        let (two, at_two) = listen().await;
        assert!(at_one.port() != 0 && at_two.port() != 0 && at_one != at_two);
        for (listener, address) in [(two, at_two), (one, at_one)] {
            let host = address.ip().to_string();
            let connecting = tcp::connect(&host, address.port(), PATIENCE);
            let (mut ours, theirs) = tokio::join!(accept(&listener), connecting);
            let mut theirs = theirs.unwrap();
            write_all(&mut theirs, b"ping").await;
            let mut word = [0; 4];
            ours.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"ping");
        }
    });
}

#[test]
fn nothing_is_held_back_and_the_dead_are_found() {
    use rustix::net::sockopt;
    run(async {
        let (listener, address) = listen().await;
        let connecting = tcp::connect("127.0.0.1", address.port(), PATIENCE);
        let (ours, theirs) = tokio::join!(accept(&listener), connecting);
        let Stream::Tcp(ours) = ours else { panic!("no TCP") };
        for stream in [ours, theirs.unwrap()] {
            assert!(stream.nodelay().unwrap());
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(60));
        }
    });
}

fn told(error: &ConnectError) -> String {
    format!("{error}\nhint: {}", error.hint().unwrap_or_default())
}

#[test]
fn who_cannot_be_reached_is_named() {
    run(async {
        let check = |error: ConnectError, expected: Expect| expected.assert_eq(&told(&error));
        let port = port::free();
        let refused = tcp::connect("127.0.0.1", port, PATIENCE).await.unwrap_err();
        assert!(refused.to_string().contains(&format!("127.0.0.1:{port}")));
        assert!(matches!(refused, ConnectError::Refused { .. }), "{refused:?}");
        check(
            ConnectError::Refused { at: "127.0.0.1:7420".into() },
            expect![[r#"
                nothing listens on 127.0.0.1:7420
                hint: is the server running, and is this its address?"#]],
        );
        check(
            tcp::connect("no such host", 1, PATIENCE).await.unwrap_err(),
            expect![[r#"
                cannot find the host `no such host`
                hint: check the spelling of the host"#]],
        );
        let scratch = Scratch::new();
        let nowhere = scratch.path().join("nowhere");
        let missing = unix::connect(&nowhere, PATIENCE).await.unwrap_err();
        assert!(matches!(missing, ConnectError::Failed { .. }), "{missing:?}");
    });
}

/// The queue of a listener that accepts no client fills up, and then connecting just hangs.
#[test]
fn a_connection_that_hangs_times_out() {
    run(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let port = listener.local_addr().unwrap().port();
        let patience = Duration::from_millis(200);
        let mut queue = Vec::new();
        let error = loop {
            match tcp::connect("127.0.0.1", port, patience).await {
                Ok(stream) => queue.push(stream),
                Err(error) => break error,
            }
        };
        let expected = format!(
            "no connection to 127.0.0.1:{port} within 200ms\n\
             hint: check the address, the network and firewalls on the way"
        );
        assert_eq!(told(&error), expected);
    });
}

#[test]
fn who_cannot_listen_is_told_why() {
    run(async {
        let check = |error: ListenError, at: &str, expected: Expect| {
            let hint = error.hint().map_or(String::new(), |hint| format!("\nhint: {hint}"));
            expected.assert_eq(&format!("{error}{hint}").replace(at, "HERE"));
        };
        let (_listener, address) = listen().await;
        check(
            Listener::tcp("127.0.0.1", address.port()).await.unwrap_err(),
            &address.to_string(),
            expect![[r#"
                cannot listen on HERE: somebody else does already
                hint: end the other program, or take another address; port 0 takes a free one"#]],
        );
        check(
            Listener::tcp("192.0.2.1", 7420).await.unwrap_err(),
            "192.0.2.1:7420",
            expect!["cannot listen on HERE: this machine has no such address"],
        );

        let scratch = Scratch::new();
        let path = scratch.path().join("socket");
        let _live = Listener::unix(&path).unwrap();
        check(
            Listener::unix(&path).unwrap_err(),
            path.to_str().unwrap(),
            expect![[r#"
                cannot listen on HERE: somebody else does already
                hint: end the other program, or take another address; port 0 takes a free one"#]],
        );
        let file = scratch.path().join("notes.txt");
        fs::write(&file, "precious").unwrap();
        check(
            Listener::unix(&file).unwrap_err(),
            file.to_str().unwrap(),
            expect![[r#"
                cannot listen on HERE: there is a file that is no socket
                hint: remove the file, or take another path"#]],
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        let long = Path::new("/tmp").join("x".repeat(200));
        let error = Listener::unix(&long).unwrap_err();
        assert!(matches!(error, ListenError::TooLong { bytes: 205, .. }), "{error:?}");
    });
}

#[test]
fn a_socket_file_is_its_owners_and_goes_with_it() {
    run(async {
        let scratch = Scratch::new();
        let path = scratch.path().join("socket");
        let listener = Listener::unix(&path).unwrap();
        assert_eq!(listener.whereabouts().unwrap(), Whereabouts::Unix(path.clone()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

        let (mut ours, theirs) = tokio::join!(accept(&listener), unix::connect(&path, PATIENCE));
        write_all(&mut ours, b"hello").await;
        drop(ours);
        assert_eq!(read_all(&mut theirs.unwrap()).await, b"hello");

        drop(listener);
        assert!(!path.exists());
    });
}

#[test]
fn a_stale_socket_file_is_replaced_and_a_successors_left_alone() {
    run(async {
        let scratch = Scratch::new();
        let path = scratch.path().join("socket");
        // As a process that was killed leaves it.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = Listener::unix(&path).unwrap();

        // Another program has removed ours and made its own.
        fs::remove_file(&path).unwrap();
        let second = Listener::unix(&path).unwrap();
        drop(first);
        let (_ours, theirs) = tokio::join!(accept(&second), unix::connect(&path, PATIENCE));
        theirs.unwrap();
    });
}

/// A socket that is closed with unread input resets the connection, and the reset overtakes
/// what was written last.
#[test]
fn the_last_word_survives_unread_input() {
    run(async {
        let (mut ours, mut theirs) = connected().await;
        let answer = pattern(100_000);
        // Some of it is in our socket by the time we close.
        write_all(&mut theirs, &pattern(200_000)).await;
        let mut first = [0; 1];
        ours.read_exact(&mut first).await.unwrap();
        write_all(&mut ours, &answer).await;
        let reading = async {
            let answer = read_all(&mut theirs).await;
            drop(theirs);
            answer
        };
        let (received, ()) = tokio::join!(reading, ours.close());
        assert!(received == answer, "{} bytes", received.len());
    });
}

#[test]
fn parting_is_bounded_in_bytes_and_in_time() {
    run(async {
        let (ours, mut theirs) = connected().await;
        let flooding = async {
            let chunk = vec![0; 64 * 1024];
            // Ends when we reset what we do not want to read.
            while theirs.write_all(&chunk).await.is_ok() {}
        };
        tokio::join!(ours.close(), flooding);
    });
    run_and_let_time_fly(async {
        let (ours, theirs) = connected().await;
        let before = tokio::time::Instant::now();
        ours.close().await;
        assert_eq!(before.elapsed().as_secs(), 1);
        drop(theirs);
    });
}

#[test]
fn halves_carry_both_directions_at_once() {
    run(async {
        let (ours, theirs) = connected().await;
        let (mut read, mut write, rest) = ours.split();
        let sent = pattern(4 << 20);
        let writing = async {
            write.write_all(&sent).await.unwrap();
            // Says that this was all.
            drop(write);
        };
        let (mut their_read, mut their_write) = theirs.into_split();
        let echoing = async {
            tokio::io::copy(&mut their_read, &mut their_write).await.unwrap();
            drop(their_write);
        };
        let ((), (), received) = tokio::join!(writing, echoing, read_all(&mut read));
        assert!(received == sent);
        drop(read);
        rest.close().await;
    });
}

/// No client is turned away for good because there were no descriptors for a while.
#[test]
fn a_listener_survives_running_out_of_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if !is_alone("net::sockets::a_listener_survives_running_out_of_descriptors") {
        return;
    }
    run_and_let_time_fly(async {
        let (listener, address) = listen().await;
        let mut caller = TcpStream::connect(address).await.unwrap();
        // The caller waits in the queue, and there is no descriptor left to accept it with.
        let limit = getrlimit(Resource::Nofile);
        let now = open_descriptors() as u64;
        setrlimit(Resource::Nofile, Rlimit { current: Some(now), maximum: limit.maximum }).unwrap();
        let mut hoard = Vec::new();
        while let Ok(file) = fs::File::open("/dev/null") {
            hoard.push(file);
        }
        let mut accepting = std::pin::pin!(accept(&listener));
        // Tries for as long as we like; on this clock that takes no time.
        let tried = tokio::time::timeout(Duration::from_secs(10), &mut accepting).await;
        assert!(tried.is_err(), "accepted without a descriptor");
        setrlimit(Resource::Nofile, limit).unwrap();
        let mut ours = accepting.await;
        write_all(&mut ours, b"welcome").await;
        drop(ours);
        assert_eq!(read_all(&mut caller).await, b"welcome");
    });
}

#[test]
fn a_thousand_connections_leave_nothing_behind() {
    if !is_alone("net::sockets::a_thousand_connections_leave_nothing_behind") {
        return;
    }
    run(async {
        let (listener, address) = listen().await;
        let before = open_descriptors();
        for round in 0..1000 {
            let (ours, theirs) = tokio::join!(accept(&listener), TcpStream::connect(address));
            let theirs = theirs.unwrap();
            match round % 3 {
                0 => drop((ours, theirs)),
                1 => {
                    drop(theirs);
                    ours.close().await;
                }
                _ => {
                    let (read, write, rest) = ours.split();
                    drop((read, write, theirs));
                    rest.close().await;
                }
            }
        }
        assert_eq!(open_descriptors(), before);
    });
}
