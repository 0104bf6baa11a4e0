//! The journal: a line for each call, whatever ends it and whatever becomes of us or of the disk.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::Value;
use toolbus_testkit::patience::awaited;
use toolbus_testkit::scratch::Scratch;

use crate::listening::Server;
use crate::live::Live;
use crate::mcp::{META, modern_call, request};
use crate::page::Page;

const BUILTIN: &str = "[back.try]\nconnect = \"builtin:\"\n";

/// A folder with a config and a journal.
struct Folder(Scratch);

impl Folder {
    fn of(config: &str, journal: &str) -> Folder {
        let folder = Folder(Scratch::new());
        let journal = format!("[journal]\npath = \"calls.jsonl\"\n{journal}");
        fs::write(folder.config(), format!("{config}{journal}\n")).unwrap();
        folder
    }

    fn config(&self) -> String {
        self.0.file("tools.toml")
    }

    fn journal(&self) -> String {
        self.0.file("calls.jsonl")
    }

    fn start(&self, words: &[&str]) -> Live {
        Live::start(&[words, &["--config", &self.config()]].concat())
    }

    fn page(&self, words: &[&str]) -> Page {
        Page::of(&[words, &["--config", &self.config()]].concat())
    }

    /// All lines, the oldest first; each must be whole.
    fn lines(&self) -> Vec<Value> {
        lines(&self.journal())
    }

    /// Awaits so many lines: who, what, and how it ended.
    fn told(&self, count: usize) -> String {
        told(&self.journal(), count)
    }
}

/// All lines of a journal, the oldest first; each must be whole.
fn lines(journal: &str) -> Vec<Value> {
    let names = [".3", ".2", ".1", ""].map(|end| format!("{journal}{end}"));
    let texts = names.iter().filter_map(|name| fs::read_to_string(name).ok());
    let text: String = texts.collect();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Awaits so many lines of a journal: who, what, and how it ended.
pub(crate) fn told(journal: &str, count: usize) -> String {
    let lines = awaited("the lines are there", || {
        let lines = lines(journal);
        (count <= lines.len()).then_some(lines)
    });
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or("-").to_owned();
    let told = |line: &Value| {
        ["front", "back", "tool", "outcome"].map(|key| text(line, key)).join(" ") + "\n"
    };
    lines.iter().map(told).collect()
}

#[test]
fn every_call_has_a_line_whatever_ends_it() {
    let fronts = "timeout = \"2s\"\n[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";
    let folder = Folder::of(&format!("{BUILTIN}{fronts}"), "");
    let server = Server::start(&["serve", "--config", &folder.config()], 1);
    let call = |tool: &str, args: &str| {
        Page::of(&["rpc", "call", server.url(), tool, args]).run();
    };
    call("try.add", r#"{"a":1,"b":2}"#);
    call("try.add", r#"{"a":"x"}"#);
    call("try.fail", r#"{"message":"no"}"#);
    call("try.nothing", "{}");
    call("no.such", "{}");
    call("try.sleep", r#"{"ms":86400000}"#);
    call("try.count", r#"{"n":3}"#);
    server.signal(Signal::TERM);
    server.end();
    expect![[r#"
        scripts try add ok
        scripts try add invalid_arguments
        scripts try fail failed
        scripts try nothing unknown_tool
        scripts - no.such unknown_tool
        scripts try sleep timed_out
        scripts try count ok
    "#]]
    .assert_eq(&folder.told(7));
    for line in folder.lines() {
        let keys: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let known = ["time", "front", "back", "tool", "outcome", "duration", "bytes"];
        assert!(keys.iter().all(|key| known.contains(key)), "{line}");
        assert!(line["duration"].is_f64() && line["bytes"]["in"].is_u64(), "{line}");
    }
}

#[test]
fn a_call_that_its_caller_or_we_give_up_has_a_line() {
    let folder = Folder::of(BUILTIN, "");
    let mut live = folder.start(&["mcp"]);
    let sleep = r#"{"ms":86400000}"#;
    // Answered behind the call that sleeps, which is under way then.
    live.say(&modern_call(1, "sleep", sleep));
    live.ask(&modern_call(2, "echo", "{}"));
    live.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    folder.told(2);
    live.say(&modern_call(3, "sleep", sleep));
    live.ask(&modern_call(4, "echo", "{}"));
    live.signal(Signal::TERM);
    live.end();
    expect![[r#"
        mcp try echo ok
        mcp try sleep cancelled
        mcp try echo ok
        mcp try sleep cancelled
    "#]]
    .assert_eq(&folder.told(4));
}

#[test]
fn what_passes_through_has_lines_too() {
    let toolbus = env!("CARGO_BIN_EXE_toolbus");
    let back = format!("[back.server]\nconnect = \"mcp+stdio:{toolbus} mcp builtin:\"\n");
    let folder = Folder::of(&back, "arguments = true\nresults = true");
    let mut live = folder.start(&["mcp"]);
    live.ask(&modern_call(1, "upper", r#"{"text":"hi"}"#));
    live.ask(&modern_call(2, "fail", r#"{"message":"no"}"#));
    live.ask(&request(3, "tools/list", &format!("{{{META}}}")));
    let trace =
        r#""_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","#;
    let meta = META.replace(r#""_meta":{"#, trace);
    let traced = format!(r#"{{{meta},"name":"echo","arguments":{{}}}}"#);
    live.ask(&request(4, "tools/call", &traced));
    live.hang_up();
    live.end();
    expect![[r#"
        mcp server upper ok
        mcp server fail failed
        mcp server echo ok
    "#]]
    .assert_eq(&folder.told(3));
    let lines = folder.lines();
    assert_eq!(lines[0]["arguments"]["text"], "hi");
    assert_eq!(lines[0]["result"]["content"][0]["text"], "HI");
    assert_eq!(lines[2]["trace"], "0af7651916cd43dd8448eb211c80319c");
}

/// Says so many calls at once, and nothing to the answers.
fn flood(live: &mut Live, count: u32) -> thread::JoinHandle<()> {
    let mut stdin = live.take_stdin();
    thread::spawn(move || {
        for id in 1..=count {
            let line = format!("{}\n", modern_call(id, "echo", &format!(r#"{{"n":{id}}}"#)));
            // It is killed while we write.
            if std::io::Write::write_all(&mut stdin, line.as_bytes()).is_err() {
                return;
            }
        }
        // Kept open: the end of its input would end it.
        thread::park_timeout(std::time::Duration::from_secs(60));
    })
}

#[test]
fn what_was_answered_is_there_when_we_are_killed() {
    let folder = Folder::of(BUILTIN, "arguments = true");
    let mut live = folder.start(&["mcp"]);
    let flooding = flood(&mut live, 50_000);
    let mut answered = Vec::new();
    while answered.len() < 1000 {
        answered.push(live.hear());
    }
    live.signal(Signal::KILL);
    let rest = live.end();
    answered.extend(rest.lines().filter(|line| line.ends_with('}')).map(str::to_owned));
    flooding.thread().unpark();
    flooding.join().unwrap();
    let text = fs::read_to_string(folder.journal()).unwrap();
    // The last may be torn where we were killed in the middle of it: its caller was not answered then.
    let whole = &text[..text.rfind('\n').unwrap()];
    let lines: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let written: Vec<u64> = lines.iter().map(|l| l["arguments"]["n"].as_u64().unwrap()).collect();
    assert!(answered.len() < 50_000, "it was to be killed in the middle");
    for answer in &answered {
        let answer: Value = serde_json::from_str(answer).unwrap();
        let id = answer["id"].as_u64().unwrap();
        assert!(written.contains(&id), "{id} of {}", written.len());
    }
}

#[test]
fn nothing_is_lost_when_it_is_rotated_under_load() {
    let folder = Folder::of(BUILTIN, "arguments = true\nbytes_max = \"64KiB\"");
    let mut live = folder.start(&["mcp"]);
    let flooding = flood(&mut live, 1000);
    for _ in 0..1000 {
        live.hear();
    }
    live.signal(Signal::TERM);
    live.end();
    flooding.thread().unpark();
    flooding.join().unwrap();
    let mut written: Vec<_> =
        folder.lines().iter().map(|line| line["arguments"]["n"].as_u64().unwrap()).collect();
    assert!(Path::new(&format!("{}.2", folder.journal())).exists());
    written.sort_unstable();
    assert_eq!(written, (1..=1000).collect::<Vec<_>>());
}

#[test]
#[cfg(target_os = "linux")]
fn on_a_full_disk_calls_go_on_unless_it_is_required() {
    let folder = Folder(Scratch::new());
    let full = |required: bool| {
        let journal = format!("[journal]\npath = \"/dev/full\"\nrequired = {required}\n");
        fs::write(folder.config(), format!("{BUILTIN}{journal}")).unwrap();
        folder.page(&["call", "try.add", "a=1", "b=2"])
    };
    full(false).check(expect![[r#"
        stdout
        3
        stderr
        error: the journal `/dev/full` cannot be written: No space left on device (os error 28); calls go on without it (`required = false`)
        error: the journal `/dev/full`: one line is lost
        exit 0
    "#]]);
    full(true).check(expect![[r#"
        stderr
        error: the journal `/dev/full` cannot be written: No space left on device (os error 28); calls fail until it can (`required = true`)
        error: the journal `/dev/full`: one line is lost
        error: the journal `/dev/full` cannot be written (No space left on device (os error 28)), and without it no call is answered
        exit 3
    "#]]);
}

/// A server whose files may not grow beyond a kibibyte or so.
fn limited(folder: &Folder) -> Server {
    let mut command = Command::new("sh");
    let script = r#"ulimit -f 2; exec "$0" serve --config "$1""#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_toolbus"), &folder.config()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Server::run(command, 1)
}

#[test]
fn when_there_is_room_again_it_goes_on_and_says_what_was_lost() {
    for required in [false, true] {
        let front = "[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";
        let folder = Folder::of(&format!("{BUILTIN}{front}"), &format!("required = {required}"));
        let server = limited(&folder);
        let call = || Page::of(&["rpc", "call", server.url(), "try.echo", "1"]).run().to_string();
        let answered = "stdout\n1\nexit 0\n";
        let mut failed = None;
        // The line that does not fit is among these.
        for _ in 0..24 {
            let told = call();
            if told != answered {
                failed = Some(told);
                break;
            }
        }
        let heard = server.hear();
        assert!(heard.starts_with("error: the journal `"), "{heard}");
        assert!(heard.contains("File too large"), "{heard}");
        match failed {
            Some(told) => {
                assert!(required, "{told}");
                assert!(told.contains("unavailable") && told.contains("File too large"), "{told}");
                assert_ne!(call(), answered);
            }
            None => assert!(!required),
        }
        fs::write(folder.journal(), "").unwrap();
        // The first shows that there is room.
        call();
        assert_eq!(call(), answered);
        let heard = server.hear();
        assert!(heard.contains("can be written again: "), "{heard}");
        assert!(heard.ends_with(" lost"), "{heard}");
        assert_eq!(folder.lines().len(), 2);
        server.signal(Signal::TERM);
        server.end();
    }
}

#[test]
fn a_reload_opens_it_anew() {
    let front = "[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";
    let folder = Folder::of(&format!("{BUILTIN}{front}"), "");
    let server = Server::start(&["serve", "--config", &folder.config()], 1);
    let call = || Page::of(&["rpc", "call", server.url(), "try.echo", "1"]).run();
    call();
    fs::rename(folder.journal(), folder.0.file("old")).unwrap();
    server.signal(Signal::HUP);
    assert_eq!(server.hear(), "info: the config was read again");
    call();
    assert_eq!(folder.told(1), "scripts try echo ok\n");
    assert_eq!(fs::read_to_string(folder.0.file("old")).unwrap().lines().count(), 1);
    server.signal(Signal::TERM);
    server.end();
}

#[test]
fn secrets_are_masked_in_it() {
    let back = "[back.try]\nconnect = \"builtin:\"\n[back.other]\nconnect = \"mcp+stdio:x\"\nenv = { KEY = \"${file:key}\" }\n";
    let folder = Folder::of(back, "arguments = true\nresults = true");
    fs::write(folder.0.file("key"), "k3y-of/weather\n").unwrap();
    // All in one process, so that each secret is known.
    let toolbus = ["mcp"];
    let mut live = folder.start(&toolbus);
    let echo = |id, args: &str| modern_call(id, "try_echo", args);
    let answer = live.ask(&echo(1, r#"{"key":"k3y-of\/weather","n":1.50}"#));
    assert!(answer.contains("k3y-of"), "what a tool answers passes as it is: {answer}");
    live.ask(&echo(2, r#"{"key":"\u006b3y-of/weather"}"#));
    live.hang_up();
    live.end();
    let lines = folder.lines();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(line["arguments"]["key"], "***", "{line}");
        assert!(!line.to_string().contains("k3y"), "{line}");
    }
    assert!(fs::read_to_string(folder.journal()).unwrap().contains(r#""n":1.50"#));
}

#[test]
fn a_reload_reads_files_of_secrets_again() {
    let scratch = Scratch::new();
    let token = |text: &str| fs::write(scratch.file("token"), format!("{text}\n")).unwrap();
    token("first-token");
    let config = scratch.file("tools.toml");
    let front =
        "[front.editor]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\ntoken = \"${file:token}\"\n";
    fs::write(&config, format!("{BUILTIN}{front}")).unwrap();
    let server = Server::start(&["serve", "--config", &config], 1);
    let call = |url: &str, token: &str| {
        let address = format!("mcp+{url}");
        let words = ["call", "-q", &address, "add", "a=1", "b=2", "--token-env", "TOKEN"];
        Page::of(&words).env("TOKEN", token).run().status.code()
    };
    assert_eq!(call(server.url(), "first-token"), Some(0));
    token("second-token");
    server.signal(Signal::HUP);
    let listening = server.hear();
    let url = listening.strip_prefix("listening on ").expect("it is another front now");
    assert_eq!(server.hear(), "info: the config was read again");
    assert_ne!(call(url, "first-token"), Some(0));
    assert_eq!(call(url, "second-token"), Some(0));
    server.signal(Signal::TERM);
    server.end();
}

#[test]
fn a_file_that_holds_no_secret_is_named() {
    let scratch = Scratch::new();
    let config = scratch.file("toolbus.toml");
    let back = "[back.w]\nconnect = \"mcp+stdio:x\"\nenv = { KEY = \"${file:sub/key}\" }\n";
    fs::write(&config, back).unwrap();
    fs::create_dir(scratch.file("sub")).unwrap();
    let key = scratch.file("sub/key");
    let mut told = String::new();
    let mut page = |what: &str| {
        let page = Page::of(&["tools", "--config", &config]).run();
        assert_eq!(page.status.code(), Some(3), "{page}");
        told.push_str(&format!("{what}: {}", page.stderr));
    };
    page("missing");
    fs::write(&key, b"\xff\xfe\n").unwrap();
    page("not text");
    fs::write(&key, "x".repeat((1 << 20) + 1)).unwrap();
    page("too large");
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    page("a folder");
    expect![[r#"
        missing: error: cannot list the tools of `mcp+stdio:x`: `back.w.env.KEY` asks for the file `sub/key`, which cannot be read: No such file or directory (os error 2)
        hint: see that the file is there and can be read, or take it out of the config
        not text: error: cannot list the tools of `mcp+stdio:x`: `back.w.env.KEY` asks for the file `sub/key`, which cannot be read: it is not UTF-8
        hint: see that the file is there and can be read, or take it out of the config
        too large: error: cannot list the tools of `mcp+stdio:x`: `back.w.env.KEY` asks for the file `sub/key`, which cannot be read: it is larger than 1024 KiB
        hint: see that the file is there and can be read, or take it out of the config
        a folder: error: cannot list the tools of `mcp+stdio:x`: `back.w.env.KEY` asks for the file `sub/key`, which cannot be read: Is a directory (os error 21)
        hint: see that the file is there and can be read, or take it out of the config
    "#]]
    .assert_eq(&told);
}
