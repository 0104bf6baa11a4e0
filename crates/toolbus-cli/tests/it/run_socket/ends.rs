//! Who ends first: the command, or the `toolbus serve` that does its work.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::thread;

use rustix::process::Signal;
use toolbus_testkit::patience::awaited;

use super::Bench;
use super::attacks::greeting;
use crate::live::Live;

/// Awaits that the server has been asked to wait.
fn waits(bench: &Bench) {
    awaited("it waits", || bench.told().contains("waits\n").then_some(()));
}

#[test]
fn a_signal_cancels_the_call_where_it_runs() {
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let bench = Bench::of("");
        let _serve = bench.serve();
        let live = Live::run(bench.command(&["call", "s.wait"]));
        waits(&bench);
        live.signal(signal);
        let mut live = live;
        live.listen();
        assert_eq!(live.end(), format!("exit {exit}\n"));
        awaited("it is cancelled", || {
            bench.told().contains("notifications/cancelled\n").then_some(())
        });
        awaited("it is in the journal", || (bench.journal().len() == 1).then_some(()));
        assert_eq!(bench.journal()[0]["outcome"], "cancelled");
    }
}

#[test]
fn a_server_that_is_killed_leaves_its_calls_gone() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let mut live = Live::run(bench.command(&["call", "--json", "s.wait"]));
    live.listen();
    waits(&bench);
    let pid = serve.id();
    serve.signal(Signal::KILL);
    let message = format!("toolbus serve (pid {pid}) ended before it answered");
    let json = format!("{{\"error\":{{\"kind\":\"gone\",\"message\":\"{message}\"}}}}");
    assert_eq!(live.end(), format!("{json}\nerror: {message}\nexit 3\n"));
    // It was never asked again.
    assert_eq!(bench.told().matches("waits").count(), 1);
}

#[test]
fn a_call_under_way_has_five_seconds_when_the_server_is_told_to_end() {
    let bench = Bench::of("");
    let mut serve = bench.serve();
    let mut live = Live::run(bench.command(&["call", "try.count", "n=30", "ms=50", "--stream"]));
    live.listen();
    assert_eq!(live.hear(), "{\"part\":0}");
    serve.signal(Signal::TERM);
    awaited("it lets no command in", || bench.has_no_socket().then_some(()));
    let ended = live.end();
    assert!(ended.ends_with("{\"part\":29}\n{\"end\":null}\nexit 0\n"), "{ended}");
    assert_eq!(serve.wait().code(), Some(0));
}

/// A server that says what the real one has said, hears one request, and is gone.
#[test]
fn one_that_ends_during_a_list_is_not_missed() {
    let bench = Bench::of("");
    let serve = bench.serve();
    let (socket, alone) = (bench.socket(), bench.page(&["tools", "--no-daemon"]).run());
    let said = greeting(&socket);
    drop(serve);
    for words in [&["tools"][..], &["call", "try.add", "a=1", "b=2"], &["prompt", "list", "s"]] {
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let said = said.clone();
        let leaving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(said.as_bytes()).unwrap();
            let mut heard = String::new();
            BufReader::new(&stream).read_line(&mut heard).unwrap();
            heard
        });
        let page = bench.page(words).run();
        assert_eq!(page.status.code(), Some(0), "{words:?}: {page}");
        let heard = leaving.join().unwrap();
        assert!(heard.starts_with("{\"id\":0,\"say\":"), "{heard}");
        if words == ["tools"] {
            assert_eq!((page.stdout, page.stderr), (alone.stdout.clone(), alone.stderr.clone()));
        }
    }
    // Its own calls are in the journal by its own hand.
    assert_eq!(bench.journal().last().unwrap()["tool"], "add");
}
