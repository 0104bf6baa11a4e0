//! What a run leaves behind has no token in it: what is said, kept, recorded, and what is left of a
//! process that crashes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use toolbus_testkit::skipped::skipped;

use super::{FileWith as _, World, world};
use crate::listening::Server;

/// All secrets of a sign-in that are known by now.
fn secrets(kept: &Value) -> Vec<String> {
    let text = |name: &str| kept[name].as_str().unwrap().to_owned();
    vec![text("access_token"), text("refresh_token")]
}

#[test]
fn no_file_and_no_list_of_words_has_a_token() {
    let Some(world) = world(&["--slow", "0.5"]) else { return };
    let text = format!(
        "[back.x]\nconnect = \"{}\"\n[front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n\
         [front.rpc]\nserve = \"mediocre+http://127.0.0.1:0/\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n\
         [journal]\npath = \"calls.jsonl\"\narguments = true\nresults = true\n",
        world.url
    );
    world.scratch.file_with("toolbus.toml", &text);
    world.login();
    let mut known = secrets(&world.kept());
    let server = Server::run(world.command(&["-vv", "serve"]), 3);
    let rpc = server.urls.iter().find(|url| url.starts_with("mediocre")).unwrap().clone();
    let mut said = String::new();
    let by_front = ["-vv", "call", "--json", rpc.as_str(), "x.hello"];
    let runs: [&[&str]; 2] = [&by_front, &["-vv", "call", "x.hello"]];
    for words in runs {
        world.ask("/expire");
        let child =
            world.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // While it runs: what it was started with is for all to see.
        let place = format!("/proc/{}", child.id());
        for name in ["cmdline", "environ"] {
            let read = fs::read(format!("{place}/{name}")).unwrap_or_default();
            said.push_str(&String::from_utf8_lossy(&read));
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        known.extend(secrets(&world.kept()));
    }
    known.sort();
    known.dedup();
    assert!(4 <= known.len(), "the token was refreshed: {known:?}");
    // The page and the numbers.
    let admin = server.urls.iter().find(|url| !url.ends_with("/mcp") && **url != rpc).unwrap();
    for path in ["/metrics", "/readyz", "/"] {
        said.push_str(&crate::callers::ask(admin, "GET", path, "", "", ""));
    }
    server.signal(Signal::TERM);
    said.push_str(&server.end());
    // All that is there now, but the store itself.
    let mut folders = vec![world.scratch.path().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path == world.folder() => {}
                true => folders.push(path),
                false => {
                    files += 1;
                    said.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap()));
                }
            }
        }
    }
    assert!(2 <= files, "the config and the journal are there");
    for secret in known {
        assert!(!said.contains(&secret), "`{secret}` is told:\n{said}");
    }
    assert!(!said.contains("Bearer at-") && !said.contains("code_verifier="), "{said}");
}

/// Is ended as a crash ends it, where cores may be as large as they like; tells whether there was
/// one.
fn dumps_core(child: &mut Child) -> bool {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::ABORT).unwrap();
    child.wait().unwrap().core_dumped()
}

/// The same run where cores may be as large as they like.
fn with_cores(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(command.get_current_dir().unwrap());
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    shell
}

/// An MCP server of ours before this back, which has answered; `None` if it could not be started.
fn answering(world: &World, words: &[&str]) -> Option<Child> {
    let mut child = with_cores(&world.command(words)).spawn().unwrap();
    // It is gone where the machine does not let cores be any larger.
    let _ = writeln!(child.stdin.as_mut().unwrap(), "{}", crate::mcp::INITIALIZE);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let has_answered = line.contains("serverInfo");
    if !has_answered {
        child.wait().unwrap();
    }
    has_answered.then_some(child)
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_holds_a_token_leaves_no_core() {
    let Some(world) = world(&[]) else { return };
    world.config("");
    world.login();
    // One that holds none is written out, or nothing can be seen here.
    let cores = answering(&world, &["mcp", "builtin:"]).map(|mut other| dumps_core(&mut other));
    if cores != Some(true) {
        return skipped("this machine writes no cores");
    }
    let mut holding = answering(&world, &["mcp"]).expect("it is signed in");
    assert!(!dumps_core(&mut holding), "a core was written");
}
