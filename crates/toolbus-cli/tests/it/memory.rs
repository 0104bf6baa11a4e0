//! A peer, whatever it sends, reads or does not read, costs only its own calls: with real
//! processes and sockets, and the memory of the toolbus process at its worst.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use expect_test::expect;
use toolbus_testkit::page::Program;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::process::{Vitals, stands_still};
use toolbus_testkit::scratch::Scratch;

use crate::http::{Request, session};
use crate::listening::Server;
use crate::live::Live;
use crate::mcp::{DISCOVERED, INITIALIZE, INITIALIZED, PROBED, legacy_call, modern_call};
use crate::page::{Page, mcp_server};

const MIB: usize = 1 << 20;

#[track_caller]
fn assert_memory_below(limit: usize, pid: u32) {
    let peak = Vitals::of(pid).memory_peak;
    assert!(peak < limit, "{} MiB, where {} are allowed", peak / MIB, limit / MIB);
}

/// A legacy server that has one tool, `f`, and does this for each call.
fn server_doing(steps: &[&str]) -> String {
    let tools = r#"{"tools":[{"name":"f","inputSchema":{"type":"object"}}]}"#;
    let opening = ["read", "answer", INITIALIZED, "read", "read", "answer", tools];
    mcp_server(&[&opening[..], steps].concat())
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":0,"method":"tools/list"}"#;

/// A call whose arguments take so many bytes.
fn heavy_call(id: u32, tool: &str, bytes: usize) -> String {
    legacy_call(id, tool, &format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes)))
}

fn cancelled(id: u32) -> String {
    let params = format!(r#"{{"requestId":{id}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#)
}

#[test]
fn a_session_that_does_not_read_costs_only_its_own_calls() {
    // Twice as much as may wait for one peer.
    const COUNT: u32 = 8;
    let text = format!(r#"{{"content":[{{"type":"text","text":"\{{78*{}}}"}}]}}"#, 16 * MIB);
    let opening = ["read", "answer", INITIALIZED, "read"];
    let answers = ["forever", "{", "read", "answer", &text, "}"];
    let address = mcp_server(&[&opening[..], &answers].concat());
    let server = Server::start(&["mcp", "--http", "0", &address], 1);
    let (deaf, other) = (session(server.url()), session(server.url()));
    let call =
        |name: &str, id| Request::send(server.url(), "POST", name, &legacy_call(id, "f", "{}"));
    let unread: Vec<_> = (1..=COUNT).map(|id| call(&deaf, id)).collect();
    // Behind all of theirs, from the same server.
    let answer = call(&other, 1).answer();
    assert!(16 * MIB < answer.len(), "{}", &answer[..200.min(answer.len())]);
    let answers: Vec<_> = unread.into_iter().map(Request::answer).collect();
    let whole = answers.iter().filter(|answer| 16 * MIB < answer.len()).count();
    let refusal = r#"the client of a session does not read: "#;
    let limit = r#"and 64 MiB may for one peer"#;
    let is_refusal = |answer: &&String| answer.contains(refusal) && answer.contains(limit);
    let refused = answers.iter().filter(is_refusal).count();
    assert_eq!(whole + refused, COUNT as usize, "{whole} whole, {refused} refused");
    assert!(4 <= whole && 1 <= refused, "{whole} whole, {refused} refused");
    assert_memory_below(256 * MIB, server.id());
    // Once it reads, it is served again.
    assert!(16 * MIB < call(&deaf, COUNT + 1).answer().len());
}

/// One that is cut off is let go at once, though its socket stays open.
#[test]
fn clients_over_http_that_do_not_read_are_cut_off_and_cost_nothing_more() {
    const BYTES: usize = 15 * MIB;
    let text = format!(
        r#"{{"resultType":"complete","content":[{{"type":"text","text":"\{{78*{BYTES}}}"}}]}}"#
    );
    let answers = ["read", "answer", DISCOVERED, "forever", "{", "read", "answer", &text, "}"];
    let server = Server::start(&["mcp", "--http", "0", &mcp_server(&answers)], 1);
    let call = || Request::modern(server.url(), "tools/call", "f", &modern_call(1, "f", "{}"));
    assert_let_go(&server, 28, call, || BYTES < call().answer().len());
    assert_memory_below(512 * MIB, server.id());
    let listen = ["rpc", "serve", "--listen", "http://127.0.0.1:0/rpc", "builtin:"];
    let server = Server::start(&listen, 1);
    let url = server.url().trim_start_matches("mediocre+").to_owned();
    let echo = |bytes: usize| {
        let body = format!(r#"{{"method":"echo","args":"{}"}}"#, "x".repeat(bytes));
        let head = format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Request::connect(&url).say(&head).say(&body)
    };
    assert_let_go(&server, 28, || echo(BYTES), || echo(9).answer().contains("xxxxxxxxx"));
    assert_memory_below(384 * MIB, server.id());
}

/// Makes so many calls whose answers are not read: all of them weigh more than all may.
#[track_caller]
fn assert_let_go(
    server: &Server,
    count: usize,
    call: impl Fn() -> Request,
    is_served: impl Fn() -> bool,
) {
    let unread: Vec<_> = (0..count).map(|_| call()).collect();
    // Each has been answered, or was cut off.
    unread.iter().for_each(|one| drop(one.stream.peek(&mut [0])));
    assert!(server.hear().contains("was cut off: "), "it is logged");
    assert!(is_served(), "others are served");
}

#[test]
fn a_process_that_does_not_read_costs_only_its_own_calls() {
    const COUNT: u32 = 40;
    let mut live = Live::start(&["mcp", &server_doing(&["stay"]), "builtin:"]);
    live.ask(INITIALIZE);
    // It is there before it is called.
    assert!(live.ask(LIST).contains("faulty-tool_f"));
    for id in 1..=COUNT {
        live.say(&heavy_call(id, "faulty-tool_f", 4 * MIB));
    }
    // Others are answered at once, though all of that waits.
    let add = |id| legacy_call(id, "builtin_add", r#"{"a":1,"b":2}"#);
    live.say(&add(100));
    let mut refused = 0;
    let mut is_answered = false;
    // 16 of them are 64 MiB, and a pipe takes some, too.
    while !is_answered || refused < COUNT - 18 {
        let answer = live.hear();
        if answer.contains(r#""id":100,"#) {
            is_answered = true;
        } else {
            assert_refused(&answer);
            refused += 1;
        }
    }
    // What is given up before its first byte was written makes room: the next is not refused.
    (1..=COUNT).for_each(|id| live.say(&cancelled(id)));
    live.say(&heavy_call(101, "faulty-tool_f", 4 * MIB));
    let mut answer = live.ask(&add(102));
    while !answer.contains(r#""id":102,"#) {
        assert!(!answer.contains(r#""id":101,"#), "{answer}");
        assert_refused(&answer);
        refused += 1;
        answer = live.hear();
    }
    assert!(refused <= COUNT - 16, "{refused} refused");
    assert_memory_below(256 * MIB, live.id());
}

#[track_caller]
fn assert_refused(answer: &str) {
    let is_refusal = answer.contains("does not read: ") && answer.contains("64 MiB may");
    assert!(is_refusal && answer.contains(r#""kind":"unavailable""#), "{answer}");
}

/// A program that does nothing before a line is written to the pipe `go` of the folder, and is this
/// server from then on.
fn slow_to_start(folder: &Scratch, server: &str) -> String {
    let (script, go) = (folder.path().join("slow.sh"), folder.path().join("go"));
    let server = server.strip_prefix("mcp+stdio:").expect("it is a program");
    let go = go.display();
    let text = format!("mkfifo '{go}'; read -r line < '{go}'; exec {server}\n");
    std::fs::write(&script, text).expect("the folder is ours");
    format!("mcp+stdio:sh {}", script.display())
}

/// Calls a server that is slow to start more often than may wait for it: the rest is refused, and
/// what waits is called once it is there.
#[track_caller]
fn flood_before_the_start(
    live: &mut Live,
    folder: &Scratch,
    call: impl Fn(u32) -> String,
    other: Option<&str>,
) {
    const COUNT: u32 = 40;
    // 16 of them are 64 MiB.
    const TAKEN: u32 = 16;
    (1..=COUNT).for_each(|id| live.say(&call(id)));
    other.into_iter().for_each(|other| live.say(other));
    let (mut refused, mut others) = (0, usize::from(other.is_some()));
    while refused < COUNT - TAKEN || 0 < others {
        let answer = live.hear();
        if answer.contains(r#""id":100,"result""#) {
            others -= 1;
            continue;
        }
        let is_refusal = answer.contains("is not ready for more calls: 64 MiB of them wait for it");
        assert!(is_refusal && answer.contains("and 64 MiB may for one peer"), "{answer}");
        assert!(answer.contains(r#""kind":"unavailable""#), "{answer}");
        refused += 1;
    }
    let go = folder.path().join("go");
    eventually("the program is started", || go.exists());
    assert_memory_below(160 * MIB, live.id());
    std::fs::write(&go, "go\n").expect("it reads");
    for _ in 0..TAKEN {
        let answer = live.hear();
        assert!(answer.contains(r#""content":[]"#), "{answer}");
    }
}

const TAKES_ITS_TIME: [&str; 4] = ["--timeout", "600", "--start-timeout", "600"];

#[test]
fn a_server_that_is_slow_to_start_costs_only_its_own_calls() {
    let folder = Scratch::new();
    let answers = ["forever", "{", "read", "answer", r#"{"content":[]}"#, "}"];
    let slow = slow_to_start(&folder, &server_doing(&answers));
    let config = folder.file("toolbus.toml");
    let backs =
        format!("[back.slow]\nconnect = \"{slow}\"\n[back.builtin]\nconnect = \"builtin:\"\n");
    std::fs::write(&config, backs).expect("the folder is ours");
    let words = ["--config", &config, "mcp", "--list-timeout", "600"];
    let mut live = Live::start(&[&words[..], &TAKES_ITS_TIME].concat());
    live.ask(INITIALIZE);
    // What is in no list yet waits for the lists; what is known does not.
    let other = legacy_call(100, "builtin_add", r#"{"a":1,"b":2}"#);
    let call = |id| heavy_call(id, "slow_f", 4 * MIB);
    flood_before_the_start(&mut live, &folder, call, Some(&other));
}

#[test]
fn a_lone_server_that_is_slow_to_start_is_flooded_in_vain() {
    let folder = Scratch::new();
    let result = r#"{"resultType":"complete","content":[]}"#;
    let steps = ["read", "answer", DISCOVERED, "forever", "{", "read", "answer", result, "}"];
    let slow = slow_to_start(&folder, &mcp_server(&steps));
    let mut live = Live::start(&[&["mcp"], &TAKES_ITS_TIME[..], &[&slow]].concat());
    // Of which era the server is has to be found out first.
    let arguments = format!(r#"{{"text":"{}"}}"#, "x".repeat(4 * MIB));
    flood_before_the_start(&mut live, &folder, |id| modern_call(id, "f", &arguments), None);
}

#[test]
fn over_the_whole_the_peer_that_holds_most_is_cut_off() {
    let folder = Scratch::new();
    let (config, stay) = (folder.file("toolbus.toml"), server_doing(&["stay"]));
    let back = |number| format!("[back.b{number}]\nconnect = \"\"\"{stay}\"\"\"\n");
    let own = "[back.builtin]\nconnect = \"builtin:\"\n".to_owned();
    let backs: String = (1..=5).map(back).chain([own]).collect();
    std::fs::write(&config, backs).expect("the folder is ours");
    let mut live = Live::start(&["--config", &config, "mcp"]);
    live.ask(INITIALIZE);
    // They are there before they are called.
    assert!(live.ask(LIST).contains("b5_f"));
    // Not one of them has used up its share.
    for back in 1..=5 {
        for number in 0..12 + back {
            live.say(&heavy_call(back * 100 + number, &format!("b{back}_f"), 4 * MIB));
        }
    }
    live.say(&legacy_call(1, "builtin_add", r#"{"a":1,"b":2}"#));
    let mut cut = Vec::new();
    loop {
        let answer = live.hear();
        if answer.contains(r#""id":1,"#) {
            break;
        }
        let why = r#"of them for this one, and 256 MiB may in all","data":{"kind":"unavailable""#;
        let id = answer.strip_prefix(r#"{"jsonrpc":"2.0","id":"#);
        let id = id.and_then(|rest| rest.split(',').next()).and_then(|id| id.parse::<u32>().ok());
        assert!(answer.contains("was cut off: ") && answer.contains(why), "{answer}");
        cut.push(id.expect(&answer));
    }
    // One of them, with all its calls.
    let back = cut[0] / 100;
    assert!(cut.iter().all(|id| id / 100 == back), "{cut:?}");
    assert!(12 <= cut.len(), "{cut:?}");
    assert_memory_below(512 * MIB, live.id());
}

#[test]
fn what_is_given_up_before_its_first_byte_is_written_is_never_seen_by_the_process() {
    let folder = Scratch::new();
    let seen = folder.path().join("seen");
    // Reads the first call, which is larger than its pipe, only when it is told to.
    let go = folder.path().join("go");
    let script = folder.path().join("server.sh");
    let text = format!(
        r#"read -r line; echo '{{"jsonrpc":"2.0","id":1,"result":{INITIALIZED}}}'
mkfifo '{go}'; read -r line < '{go}'
cut -c 1-80 > '{seen}'
"#,
        go = go.display(),
        seen = seen.display(),
    );
    std::fs::write(&script, text).expect("the folder is ours");
    let address = format!("mcp+stdio:sh {}", script.display());
    let mut live = Live::start(&["mcp", &address]);
    live.ask(INITIALIZE);
    live.say(&heavy_call(1, "f", 4 * MIB));
    (2..=9).for_each(|id| live.say(&legacy_call(id, "f", "{}")));
    (2..=9).for_each(|id| live.say(&cancelled(id)));
    // Answered by ourselves: all before it has been handled.
    let answer = live.ask(r#"{"jsonrpc":"2.0","id":10,"method":"ping"}"#);
    assert!(answer.contains(r#""id":10,"result""#), "{answer}");
    eventually("the process waits", || go.exists());
    std::fs::write(&go, "go\n").expect("it reads");
    live.hang_up();
    live.end();
    let seen = std::fs::read_to_string(&seen).expect("it has read to the end");
    let calls = seen.lines().filter(|line| line.contains("tools/call")).count();
    assert_eq!(calls, 1, "{seen}");
}

#[test]
fn halves_of_requests_cost_only_those_who_send_them() {
    let server = Server::start(&["mcp", "--http", "0", "builtin:"], 1);
    let name = session(server.url());
    let half = |session: &str| {
        let session = match session {
            "" => String::new(),
            session => format!("Mcp-Session-Id: {session}\r\n"),
        };
        let length = 16 * MIB;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n{session}Content-Length: {length}\r\n\r\n"
        );
        let mut request = Request::connect(server.url()).say(&head);
        // It may be refused in the middle.
        let _ = request.stream.write_all(&vec![b'7'; length - 1]);
        request
    };
    let assert_serves = || {
        let call = legacy_call(1, "add", r#"{"a":1,"b":2}"#);
        let other = session(server.url());
        let answer = Request::send(server.url(), "POST", &other, &call).answer();
        assert!(answer.contains(r#""text":"3""#), "{answer}");
    };
    // Those of one session: over its share the next is refused, with a reason.
    let mut halves: Vec<_> = (0..4).map(|_| half(&name)).collect();
    assert_serves();
    let mut refused = half(&name);
    refused.hear("has begun messages of 64 MiB and not ended them, and 64 MiB may wait");
    // Those of strangers: over the whole one is cut off.
    halves.extend((0..16).map(|_| half("")));
    assert_serves();
    assert!(server.hear().contains("was cut off: "), "it is logged");
    assert_memory_below(512 * MIB, server.id());
}

/// A server over HTTP that answers the handshake, and a call by asking without end.
struct Asking {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Asking {
    fn start() -> Asking {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let asked = counted.clone();
                thread::spawn(move || Asking::serve(stream, &asked));
            }
        });
        Asking { url, asked }
    }

    /// The answers to its own questions are taken, and never acknowledged.
    fn serve(stream: TcpStream, asked: &AtomicUsize) -> Option<()> {
        let mut writer = stream.try_clone().ok()?;
        let mut reader = BufReader::new(stream);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).ok().filter(|count| 0 < *count)?;
                let (name, value) = line.trim().split_once(": ").unwrap_or((line.trim(), ""));
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.parse().ok()?;
                }
                if name.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let body = String::from_utf8(body).ok()?;
            let id = body.split(r#""id":"#).nth(1).and_then(|rest| rest.split(',').next());
            let id = id.unwrap_or("null");
            let says = |method: &str| body.contains(&format!(r#""method":"{method}""#));
            let answer = |text: String| {
                let length = text.len();
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{text}"
                )
            };
            let answer = if says("initialize") {
                answer(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{INITIALIZED}}}"#))
            } else if says("notifications/initialized") {
                "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned()
            } else if says("tools/call") {
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned()
            } else if body.contains(r#""result""#) {
                // An answer to one of its own questions.
                continue;
            } else {
                "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_owned()
            };
            writer.write_all(answer.as_bytes()).ok()?;
            if says("tools/call") {
                for number in 0.. {
                    let ping = format!(
                        "data: {{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"ping\"}}\n\n"
                    );
                    writer.write_all(ping.as_bytes()).ok()?;
                    asked.store(number, Ordering::Relaxed);
                }
            }
        }
    }
}

#[test]
fn a_remote_server_that_asks_without_end_costs_only_its_own_calls() {
    let asking = Asking::start();
    let address = format!("mcp+{}", asking.url);
    let server = Server::start(&["mcp", "--http", "0", "--timeout", "4", &address], 1);
    let name = session(server.url());
    let call = legacy_call(1, "f", "{}");
    let waiting = Request::send(server.url(), "POST", &name, &call);
    eventually("it is heard no further", || {
        let asked = asking.asked.load(Ordering::Relaxed);
        0 < asked && stands_still(server.id()) && asked == asking.asked.load(Ordering::Relaxed)
    });
    assert_memory_below(64 * MIB, server.id());
    let answer = waiting.answer();
    assert!(answer.contains("timed out after 4 s"), "{answer}");
    assert_memory_below(64 * MIB, server.id());
}

#[test]
fn a_catalogue_has_a_limit_that_is_named() {
    let folder = Scratch::new();
    let script = folder.path().join("oracle.sh");
    let text = r#"printf '{"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":['
seq 1 300000 | sed 's/.*/"f&(a: u64) -> u64"/' | paste -s -d , | tr -d '\n'
printf ']}}\n'
cat > /dev/null
"#;
    std::fs::write(&script, text).expect("the folder is ours");
    let page = Page::of(&["tools", &format!("stdio:sh {}", script.display())]).run().to_string();
    assert!(
        page.contains("it offers more than 10000 tools, which is the limit for one peer"),
        "{page}"
    );
    assert!(page.ends_with("exit 3\n"), "{page}");
}

#[test]
fn a_provider_has_the_same_limit() {
    let folder = Scratch::new();
    let script = folder.path().join("provider.sh");
    let text = r#"read -r describe
printf '{"id":1,"result":{"schema":{"name":"many","version":"1","protocol":"1","actions":{'
seq 1 10001 | sed 's/.*/"a&":{}/' | paste -s -d , | tr -d '\n'
printf '}}}}\n'
read -r shutdown
"#;
    std::fs::write(&script, text).expect("the folder is ours");
    let page =
        Page::of(&["tools", &format!("orchard+stdio:sh {}", script.display())]).run().to_string();
    assert!(
        page.contains("it offers more than 10000 tools, which is the limit for one peer"),
        "{page}"
    );
    assert!(page.ends_with("exit 3\n"), "{page}");
}

#[test]
fn a_limit_that_could_not_be_held_is_refused() {
    Page::of(&["oracle", "serve", "--line-max", "1GiB", "builtin:"]).check(expect![[r#"
        stderr
        error: `--line-max`: `1GiB` is more than is ever held for one peer: 64MiB is the most
        exit 2
    "#]]);
    let config =
        "[back.x]\nconnect = \"mcp+http://127.0.0.1:1/mcp\"\nreply_bytes_max = \"65MiB\"\n";
    Page::of(&["tools"]).config("memory-limit", config).check(expect![[r#"
        stderr
        error: `toolbus.toml` line 3: `back.x.reply_bytes_max`: `65MiB` is more than is ever held for one peer: 64MiB is the most
        exit 2
    "#]]);
}

/// Runs toolbus with so few files that may be open.
fn with_files(count: u32, words: &[&str]) -> String {
    let mut command = Command::new("sh");
    let toolbus = env!("CARGO_BIN_EXE_toolbus");
    let script = format!(r#"ulimit -n {count}; exec "{toolbus}" "$@""#);
    command.args(["-c", &script, "sh"]).args(words).current_dir(env!("CARGO_TARGET_TMPDIR"));
    command.process_group(0);
    Program::of(command).stdin(Vec::new()).run().to_string()
}

#[test]
fn too_few_descriptors_are_an_error_and_no_panic() {
    expect![[r#"
        stderr
        error: cannot have 24 more files open, which toolbus needs
          caused by: Too many open files (os error 24)
        hint: raise the limit of open files, e.g. by `ulimit -n 1024`
        exit 1
    "#]]
    .assert_eq(&with_files(10, &["call", "builtin:", "add", "a=1", "b=2"]));
    // However many there are: it works, or says why not.
    let steps = ["forever", "{", "read", "answer", r#"{"content":[]}"#, "}"];
    let back =
        mcp_server(&[&PROBED[..], &["read", "answer", INITIALIZED, "read"], &steps].concat());
    let mut worked = 0;
    for count in 6..48 {
        let page = with_files(count, &["call", &back, "f"]);
        assert!(!page.contains("panicked"), "{count}: {page}");
        let is_told = page.contains("ulimit -n") || page.contains("Too many open files");
        let is_good = page.ends_with("exit 0\n");
        assert!(is_good || is_told, "{count}: {page}");
        worked += usize::from(is_good);
    }
    assert!(10 < worked, "{worked}");
}

#[test]
fn a_front_that_has_no_descriptor_left_waits_for_one() {
    let mut command = Command::new("sh");
    let toolbus = env!("CARGO_BIN_EXE_toolbus");
    let script = format!(r#"ulimit -n 40; exec "{toolbus}" mcp --http 0 builtin:"#);
    command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
    let server = Server::run(command, 1);
    let held: Vec<_> = (0..60).map(|_| Request::connect(server.url())).collect();
    let line = server.hear();
    assert!(line.contains("cannot accept connections for the moment"), "{line}");
    drop(held);
    let name = session(server.url());
    let call = legacy_call(1, "add", r#"{"a":1,"b":2}"#);
    let answer = Request::send(server.url(), "POST", &name, &call).answer();
    assert!(answer.contains(r#""text":"3""#), "{answer}");
}
