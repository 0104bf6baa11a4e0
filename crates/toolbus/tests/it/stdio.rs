//! Standard streams of every kind: what goes through them, and what must not leak out of them.

use std::fs::{self, File};
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use bytes::BytesMut;
use rustix::fs::OFlags;
use toolbus_engine::child::{Exit, Process, Program};
use toolbus_engine::transport::pipe::{Input, Output, Watch};
use toolbus_engine::transport::stdio;
use toolbus_testkit::terminal;

use crate::PATIENCE;

/// A stream as a shell would give it to us: our end, which others hold too, and the far end.
struct Stream {
    kind: &'static str,
    ours: OwnedFd,
    theirs: File,
}

/// One of each kind that a conversation can go through, to be read by us.
fn inputs() -> Vec<Stream> {
    let (ours, theirs) = io::pipe().unwrap();
    let pipe = Stream { kind: "pipe", ours: ours.into(), theirs: OwnedFd::from(theirs).into() };
    vec![pipe, socket(), terminal()]
}

/// The same, to be written by us.
fn outputs() -> Vec<Stream> {
    let (theirs, ours) = io::pipe().unwrap();
    let pipe = Stream { kind: "pipe", ours: ours.into(), theirs: OwnedFd::from(theirs).into() };
    vec![pipe, socket(), terminal()]
}

fn socket() -> Stream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    Stream { kind: "socket", ours: ours.into(), theirs: OwnedFd::from(theirs).into() }
}

fn terminal() -> Stream {
    // What is tested reads and writes as a program on a terminal does.
    let (theirs, ours) = terminal::open();
    // Neither echo nor translation, so that what comes out is what went in.
    let mut modes = rustix::termios::tcgetattr(&ours).unwrap();
    modes.make_raw();
    rustix::termios::tcsetattr(&ours, rustix::termios::OptionalActions::Now, &modes).unwrap();
    Stream { kind: "terminal", ours, theirs: theirs.into() }
}

/// Another process that holds the same open file still waits when it reads or writes.
#[track_caller]
fn assert_nothing_leaked(kind: &str, shared: &OwnedFd) {
    let flags = rustix::fs::fcntl_getfl(shared).unwrap();
    assert!(!flags.contains(OFlags::NONBLOCK), "{kind}: O_NONBLOCK has leaked");
}

async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

async fn read_exactly(input: &mut Input, count: usize) -> BytesMut {
    let mut bytes = BytesMut::new();
    while bytes.len() < count {
        assert_ne!(patiently(input.read(&mut bytes)).await.unwrap(), 0, "ended early");
    }
    bytes
}

async fn write_all(output: &Output, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (front, back) = bytes.split_at(bytes.len() / 2);
        let pieces = [IoSlice::new(front), IoSlice::new(b""), IoSlice::new(back)];
        let written = patiently(output.write(&pieces)).await.unwrap();
        bytes = &bytes[written..];
    }
}

/// Bytes of which none is like its neighbour.
fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

#[tokio::test]
async fn every_kind_of_input_can_be_read() {
    for Stream { kind, ours, mut theirs } in inputs() {
        let mut input = stdio::input(ours.as_fd()).unwrap();
        theirs.write_all(b"hello").unwrap();
        assert_eq!(read_exactly(&mut input, 5).await, "hello", "{kind}");

        // Dropped while it waits, a read loses nothing.
        let mut nothing = BytesMut::new();
        tokio::select! {
            biased;
            read = input.read(&mut nothing) => panic!("{kind}: read {read:?}"),
            () = tokio::task::yield_now() => {}
        }
        let sent = pattern(1 << 20);
        let writer = thread::spawn({
            let sent = sent.clone();
            move || theirs.write_all(&sent).map(|()| theirs)
        });
        assert!(read_exactly(&mut input, sent.len()).await == sent, "{kind}: bytes changed");
        let theirs = writer.join().unwrap().unwrap();
        assert_nothing_leaked(kind, &ours);

        drop(theirs);
        let end = patiently(input.read(&mut nothing)).await;
        // A terminal that was hung up says so by an error.
        assert!(kind == "terminal" || end.is_ok_and(|count| count == 0), "{kind}");
    }
}

#[tokio::test]
async fn every_kind_of_output_can_be_written() {
    for Stream { kind, ours, mut theirs } in outputs() {
        let output = stdio::output(ours.as_fd()).unwrap();
        let sent = pattern(1 << 20);
        // More than fits: it has to wait for the reader in between.
        let reader = thread::spawn({
            let count = sent.len();
            move || {
                let mut received = vec![0; count];
                theirs.read_exact(&mut received).map(|()| (received, theirs))
            }
        });
        write_all(&output, &sent).await;
        let (received, _theirs) = reader.join().unwrap().unwrap();
        assert!(received == sent, "{kind}: bytes changed");
        assert_nothing_leaked(kind, &ours);
    }
}

#[tokio::test]
async fn a_reader_that_goes_is_noticed_and_is_no_signal() {
    for Stream { kind, ours, theirs } in outputs() {
        let output = stdio::output(ours.as_fd()).unwrap();
        write_all(&output, b"hello").await;
        tokio::select! {
            biased;
            () = output.closed() => panic!("{kind}: it is still there"),
            () = tokio::task::yield_now() => {}
        }
        let closed = patiently(output.closed());
        let (closed, ()) = tokio::join!(closed, async { drop(theirs) });
        assert_eq!(closed, (), "{kind}");
        let error = patiently(output.write(&[IoSlice::new(b"more")])).await.unwrap_err();
        // A terminal has no reader to lose; it is gone itself.
        let terminal = rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::IO);
        assert!(error.kind() == ErrorKind::BrokenPipe || kind == "terminal" && terminal, "{kind}");
        assert_nothing_leaked(kind, &ours);
    }
}

#[tokio::test]
async fn a_reader_that_had_gone_before_us_is_noticed_too() {
    let (theirs, ours) = io::pipe().unwrap();
    drop(theirs);
    let output = stdio::output(ours.as_fd()).unwrap();
    patiently(output.closed()).await;
    let error = patiently(output.write(&[IoSlice::new(b"more")])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert_nothing_leaked("pipe", &ours.into());
}

#[tokio::test]
async fn one_socket_may_be_both_streams() {
    let Stream { ours, mut theirs, .. } = socket();
    let mut input = stdio::input(ours.as_fd()).unwrap();
    let output = stdio::output(ours.as_fd()).unwrap();
    theirs.write_all(b"ping").unwrap();
    assert_eq!(read_exactly(&mut input, 4).await, "ping");
    write_all(&output, b"pong").await;
    let mut answer = [0; 4];
    theirs.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"pong");

    // They have said all they had to say, and still listen.
    let theirs = UnixStream::from(OwnedFd::from(theirs));
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(patiently(input.read(&mut BytesMut::new())).await.unwrap(), 0);
    tokio::select! {
        biased;
        () = output.closed() => panic!("they listen"),
        () = tokio::task::yield_now() => {}
    }
    drop(theirs);
    patiently(output.closed()).await;
}

#[tokio::test]
async fn files_and_devices_never_wait() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("files_and_devices");
    let output = stdio::output(File::create(&path).unwrap().as_fd()).unwrap();
    write_all(&output, &pattern(1 << 20)).await;
    tokio::select! {
        biased;
        () = output.closed() => panic!("a file has no reader that could close it"),
        () = tokio::task::yield_now() => {}
    }
    assert!(fs::read(&path).unwrap() == pattern(1 << 20));

    let mut input = stdio::input(File::open(&path).unwrap().as_fd()).unwrap();
    assert!(read_exactly(&mut input, 1 << 20).await == pattern(1 << 20));
    assert_eq!(input.read(&mut BytesMut::new()).await.unwrap(), 0);

    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let mut input = stdio::input(null.as_fd()).unwrap();
    assert_eq!(input.read(&mut BytesMut::new()).await.unwrap(), 0);
    write_all(&stdio::output(null.as_fd()).unwrap(), b"nothing").await;
}

#[tokio::test]
async fn the_pipes_of_a_child_are_ends_too() {
    let mut cat = Process::spawn(&Program::new(vec!["cat".into()])).unwrap();
    let output = Output::from_pipe(cat.stdin.take().unwrap()).unwrap();
    let mut input = Input::from_pipe(cat.stdout.take().unwrap()).unwrap();
    let sent = pattern(8 << 20);
    // Both at once, or both pipes would be full and both sides waiting.
    let ((), received) =
        tokio::join!(write_all(&output, &sent), read_exactly(&mut input, sent.len()));
    assert!(received == sent);

    let exit = Watch::new(cat.exit_fd()).unwrap();
    drop(output);
    patiently(exit.ready()).await;
    assert_eq!(cat.finish(), Some(Exit::Code(0)));
    patiently(exit.ready()).await;
    assert_eq!(patiently(input.read(&mut BytesMut::new())).await.unwrap(), 0);
}
