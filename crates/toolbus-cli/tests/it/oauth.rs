//! Signing in: `toolbus login`, `auth`, `logout`, and calls that show and renew a token, against a
//! strict sign-in server that takes a second use of a refresh token for theft.

mod ask;
mod left_behind;

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolbus_testkit::page::{Page, Program};
use toolbus_testkit::patience::{awaited, eventually};
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::skipped::is_there;

use crate::page::command;

const INTEROP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../interop/oauth");

/// A sign-in server, an MCP server that wants its tokens, and a user who has nothing yet.
struct World {
    child: Child,
    issuer: String,
    url: String,
    scratch: Scratch,
}

impl Drop for World {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None` where the servers cannot run.
fn world(flags: &[&str]) -> Option<World> {
    if !is_there(&["python3", "--version"]) {
        return None;
    }
    let mut child = Command::new("python3")
        .arg(format!("{INTEROP}/strict.py"))
        .args(flags)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let text = |name: &str| told[name].as_str().unwrap().to_owned();
    Some(World { child, issuer: text("issuer"), url: text("url"), scratch: Scratch::new() })
}

impl World {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(words);
        command.env("XDG_STATE_HOME", self.scratch.path());
        command.env("TOOLBUS_BROWSER", format!("python3 {INTEROP}/fetch.py"));
        command.current_dir(self.scratch.path());
        command
    }

    fn run(&self, words: &[&str]) -> Page {
        Program::of(self.command(words)).run()
    }

    /// Runs it, which must end so, and gives what it printed.
    #[track_caller]
    fn ends(&self, code: i32, words: &[&str]) -> Page {
        let page = self.run(words);
        assert_eq!(page.status.code(), Some(code), "{words:?}\n{}{}", page.stdout, page.stderr);
        page
    }

    #[track_caller]
    fn login(&self) {
        self.ends(0, &["login", &self.url]);
    }

    /// What a failed call says, as JSON.
    #[track_caller]
    fn refused(&self, words: &[&str]) -> Value {
        let page = self.ends(3, &[&["call", "--json"], words].concat());
        serde_json::from_str(&page.stdout).unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.scratch.path().join("toolbus/oauth")
    }

    /// The one sign-in that is kept.
    #[track_caller]
    fn token_file(&self) -> PathBuf {
        let names = fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        let mut files = names.filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("token-") && name.ends_with(".json")
        });
        let file = files.next().expect("a sign-in is kept");
        assert_eq!(files.next(), None, "one sign-in is kept");
        file
    }

    fn kept(&self) -> Value {
        serde_json::from_slice(&fs::read(self.token_file()).unwrap()).unwrap()
    }

    /// Asks the sign-in server something that only tests ask.
    fn ask(&self, path: &str) -> Value {
        let host = self.issuer.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn config(&self, oauth: &str) {
        let text = format!("[back.x]\nconnect = \"{}\"\n{oauth}", self.url);
        self.scratch.file_with("toolbus.toml", &text);
    }
}

/// What tests write into a scratch folder.
trait FileWith {
    fn file_with(&self, name: &str, text: &str);
}

impl FileWith for Scratch {
    fn file_with(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }
}

#[test]
fn a_user_signs_in_and_out() {
    let Some(world) = world(&[]) else { return };
    let failed = world.refused(&[&world.url, "hello"]);
    let login = format!("toolbus login {}", world.url);
    assert_eq!(
        failed["error"]["message"],
        format!("`{}` needs a sign-in: run `{login}`", world.url)
    );
    assert_eq!(failed["error"]["detail"], json!({"reason": "needs_sign_in", "login": login}));

    let page = world.ends(0, &["login", &world.url]);
    assert_eq!(page.stdout, "");
    let lines: Vec<&str> = page.stderr.lines().collect();
    assert_eq!(lines[0], format!("signing in to `{}` at {}", world.url, world.issuer));
    assert!(lines[1].starts_with(&format!("open {}/authorize?from=metadata&", world.issuer)));
    assert_eq!(lines[2], format!("signed in to `{}`", world.url));
    assert_eq!(lines[3], format!("kept in {}", world.token_file().display()));

    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(world.token_file()), 0o600);
    assert_eq!((mode(world.folder()), mode(world.scratch.path().join("toolbus"))), (0o700, 0o700));

    assert_eq!(world.ends(0, &["call", &world.url, "hello"]).stdout, "\"hello\"\n");
    // The server keeps not all rules, and lists its tools to no client without a token.
    let checked = world.ends(1, &["check", "mcp", &world.url]);
    assert!(checked.stdout.contains("ok tools-list\n"), "{checked}");

    let page = world.ends(0, &["auth", "--json"]);
    let line: Value = serde_json::from_str(&page.stdout).unwrap();
    assert_eq!(line["state"], "signed_in");
    assert_eq!(line["client"], "registration");
    assert_eq!(line["refresh"], true);
    assert_eq!(line["kept"], world.token_file().display().to_string());
    let kept = fs::read_to_string(world.token_file()).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert!(!page.stdout.contains(kept["access_token"].as_str().unwrap()));

    let page = world.ends(0, &["logout", &world.url]);
    assert_eq!(page.stderr, format!("signed out of `{}`\n", world.url));
    let page = world.ends(0, &["logout", &world.url]);
    assert_eq!(page.stderr, format!("`{}` was not signed in\n", world.url));
    let seen = world.ask("/seen");
    assert_eq!(seen["dead"], 1, "the family was revoked");
    assert!(seen["seen"].to_string().contains(r#"{"revoke":"refresh_token"}"#));
    world.ends(1, &["auth", &world.url]);
}

#[test]
fn a_token_that_is_refused_is_renewed_once_for_all() {
    let Some(world) = world(&[]) else { return };
    world.login();
    let before = world.kept();
    world.ask("/expire");
    // As many processes as like: one of them refreshes.
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| world.ends(0, &["call", &world.url, "hello"]));
        }
    });
    let after = world.kept();
    assert_ne!(before["access_token"], after["access_token"]);
    assert_ne!(before["refresh_token"], after["refresh_token"]);
    assert!(after["refreshed_at"].is_u64());
    let seen = world.ask("/seen");
    assert_eq!((&seen["reused"], &seen["dead"]), (&json!(0), &json!(0)));
    let refreshes = seen["seen"].to_string().matches(r#""token":"refresh_token""#).count();
    assert_eq!(refreshes, 1, "{seen}");
}

#[test]
fn a_family_that_is_dead_wants_another_sign_in() {
    let Some(world) = world(&[]) else { return };
    world.login();
    let mut kept = world.kept();
    kept["refresh_token"] = json!("rt-of-a-thief");
    let file = world.token_file();
    fs::write(&file, kept.to_string()).unwrap();
    world.ask("/expire");
    for _ in 0..2 {
        let failed = world.refused(&[&world.url, "hello"]);
        assert_eq!(failed["error"]["detail"]["reason"], "needs_sign_in");
        let expected =
            format!("the sign-in to `{0}` has ended: run `toolbus login {0}`", world.url);
        assert_eq!(failed["error"]["message"], expected);
    }
    let kept = world.kept();
    assert!(kept.get("refresh_token").is_none() && kept.get("access_token").is_some());
    world.login();
    world.ends(0, &["call", &world.url, "hello"]);
}

#[test]
fn more_scopes_are_asked_for_by_the_next_sign_in() {
    let Some(world) = world(&[]) else { return };
    world.login();
    assert_eq!(world.kept()["asked"], json!(["tools", "offline_access"]));
    let failed = world.refused(&[&world.url, "more"]);
    let detail = &failed["error"]["detail"];
    assert_eq!(
        (&detail["reason"], &detail["scope"]),
        (&json!("needs_sign_in"), &json!("tools more"))
    );
    assert_eq!(
        failed["error"]["message"],
        format!("`{0}` wants the scope `tools more`: run `toolbus login {0}`", world.url)
    );
    assert_eq!(world.kept()["wanted"], json!(["more"]));
    let page = world.ends(1, &["auth", "--json", &world.url]);
    assert!(page.stdout.contains(r#""state":"needs_sign_in","why":"scope""#), "{}", page.stdout);
    world.login();
    assert_eq!(world.kept()["asked"], json!(["tools", "offline_access", "more"]));
    world.ends(0, &["call", &world.url, "more"]);
}

#[test]
fn what_others_can_read_is_not_used() {
    let Some(world) = world(&[]) else { return };
    world.login();
    let file = world.token_file();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let failed = world.refused(&[&world.url, "hello"]);
    assert_eq!(failed["error"]["detail"]["reason"], "store");
    let shown = file.display();
    assert_eq!(failed["error"]["message"], format!("{shown} can be read by others (mode 0644)"));
    let page = world.ends(3, &["call", &world.url, "hello"]);
    assert!(page.stderr.contains(&format!("hint: chmod 600 {shown}")), "{}", page.stderr);
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    world.ends(0, &["call", &world.url, "hello"]);
    fs::write(&file, "{").unwrap();
    let failed = world.refused(&[&world.url, "hello"]);
    assert_eq!(failed["error"]["detail"]["reason"], "store");
    world.login();
    world.ends(0, &["call", &world.url, "hello"]);
}

#[test]
fn a_sign_in_that_cannot_be_kept_is_not_begun() {
    let Some(world) = world(&[]) else { return };
    world.scratch.file_with("toolbus", "no folder");
    let page = world.ends(1, &["login", &world.url]);
    assert!(page.stderr.starts_with("error: cannot keep tokens in "), "{}", page.stderr);
    assert_eq!(world.ask("/seen")["seen"], json!([]));
}

#[test]
fn a_user_who_says_no_keeps_what_there_was() {
    let Some(world) = world(&["--deny"]) else { return };
    let page = world.ends(1, &["login", &world.url]);
    let expected = "error: the sign-in server refused: access_denied: the user says no\n";
    assert!(page.stderr.ends_with(expected), "{}", page.stderr);
    assert!(
        !world
            .folder()
            .read_dir()
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with("token-") })
    );
}

#[test]
fn a_client_id_is_asked_for_where_none_is_registered() {
    let Some(world) = world(&["--no-registration"]) else { return };
    let page = world.ends(2, &["login", &world.url]);
    let expected = format!(
        "the sign-in server at {} takes no registration: a client id is needed",
        world.issuer
    );
    assert!(page.stderr.contains(&expected), "{}", page.stderr);
    world.ends(0, &["login", &world.url, "--client-id", "known"]);
    assert_eq!(world.kept()["client"]["from"], "config");
    world.ends(0, &["call", &world.url, "hello"]);
}

#[test]
fn an_answer_can_be_pasted() {
    let Some(world) = world(&[]) else { return };
    let mut child = world
        .command(&["login", "--no-browser", &world.url])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let open = lines.find_map(|line| Some(line.strip_prefix("open ")?.to_owned())).unwrap();
    // The browser is elsewhere: what it is sent to does not load there.
    let path = open.trim_start_matches(&world.issuer).to_owned();
    let host = world.issuer.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let redirect = answer.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "http://localhost/callback?code=x&state=y").unwrap();
    assert_eq!(lines.next().unwrap(), "that is not the answer to this sign-in");
    writeln!(stdin, "{redirect}").unwrap();
    assert_eq!(lines.next().unwrap(), format!("signed in to `{}`", world.url));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_code_is_entered_elsewhere() {
    let Some(world) = world(&[]) else { return };
    let mut child =
        world.command(&["login", "--device", &world.url]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let open = lines.find(|line| line.starts_with("open ")).unwrap();
    assert!(
        open.starts_with(&format!("open {}/enter and enter the code ", world.issuer)),
        "{open}"
    );
    assert!(lines.next().unwrap().starts_with(&format!("or open {}/enter?code=", world.issuer)));
    world.ask("/approve");
    assert!(child.wait().unwrap().success());
    assert_eq!(world.kept()["grant"], "device");
    world.ends(0, &["call", &world.url, "hello"]);
}

#[test]
fn a_robot_needs_no_person() {
    let Some(world) = world(&[]) else { return };
    world.config(
        "[back.x.oauth]\ngrant = \"client_credentials\"\nclient_id = \"robot\"\n\
         client_secret = \"s3cret-of-robot\"\n",
    );
    assert_eq!(world.ends(0, &["call", "x.hello"]).stdout, "\"hello\"\n");
    let kept = world.kept();
    assert!(kept.get("refresh_token").is_none());
    assert_eq!(kept["asked"], json!(["tools"]));
    world.ask("/expire");
    world.ends(0, &["call", "x.hello"]);
    // What it lacks it asks for by itself.
    world.ends(0, &["call", "x.more"]);
    let page = world.ends(0, &["auth"]);
    assert!(page.stdout.contains("by_itself"), "{}", page.stdout);
    world.config(
        "[back.x.oauth]\ngrant = \"client_credentials\"\nclient_id = \"robot\"\n\
         client_secret = \"another-secret\"\n",
    );
    world.ends(0, &["logout", "--all"]);
    let failed = world.refused(&["x.hello"]);
    assert_eq!(failed["error"]["detail"]["reason"], "refused");
    let expected = "the sign-in server of `x` refused: invalid_client";
    assert_eq!(failed["error"]["message"], expected);
}

#[test]
fn a_refresh_that_was_sent_is_seen_through() {
    let Some(world) = world(&["--slow", "1"]) else { return };
    world.login();
    for (round, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        let before = world.kept();
        world.ask("/expire");
        let mut child = world
            .command(&["call", &world.url, "hello"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the refresh is sent", || {
            let seen = world.ask("/seen")["seen"].to_string();
            seen.matches(r#""token":"refresh_token""#).count() == round + 1
        });
        let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let ended = awaited("the process ends", || child.try_wait().unwrap());
        assert!(!ended.success());
        assert_ne!(world.kept()["refresh_token"], before["refresh_token"]);
        world.ends(0, &["call", &world.url, "hello"]);
    }
    assert_eq!(world.ask("/seen")["reused"], 0);
}

#[test]
fn nothing_that_is_left_behind_has_a_token() {
    let Some(world) = world(&[]) else { return };
    world.config("[journal]\npath = \"calls.jsonl\"\narguments = true\nresults = true\n");
    let mut said = String::new();
    let mut run = |words: &[&str]| {
        let page = world.run(&[&["-vv"], words].concat());
        said.push_str(&page.stdout);
        // The URL that the user is to open is for the user.
        let lines = page.stderr.lines().filter(|line| !line.starts_with("open "));
        said.extend(lines.map(|line| format!("{line}\n")));
    };
    run(&["login", "x"]);
    let mut secrets = vec![world.kept()];
    run(&["call", "x.hello"]);
    world.ask("/expire");
    run(&["call", "--json", "x.hello"]);
    secrets.push(world.kept());
    run(&["call", "x.more"]);
    run(&["auth", "--json"]);
    run(&["doctor", "--json"]);
    run(&["logout", "x"]);
    said.push_str(&fs::read_to_string(world.scratch.path().join("calls.jsonl")).unwrap());
    for kept in secrets {
        for name in ["access_token", "refresh_token"] {
            let secret = kept[name].as_str().unwrap();
            assert!(!said.contains(secret), "{name} is told:\n{said}");
        }
    }
    assert!(!said.contains("Bearer at-") && !said.contains("code_verifier="), "{said}");
}

#[test]
fn all_mistakes_of_a_sign_in_are_told() {
    let Some(world) = world(&[]) else { return };
    world.config(
        "token_env = \"X\"\n[back.x.oauth]\ngrant = \"magic\"\nscopes = [\"a b\"]\n\
         redirect = \"http://example.com/\"\naccount = \"a/b\"\nauthorize_params = { state = \"x\" }\n\
         private_key = \"wrong-text-of-a-key\"\nclient_metadata_url = \"http://a.example/x\"\nnonsense = 1\n",
    );
    let page = world.ends(2, &["config", "check"]);
    let said = page.stdout + &page.stderr;
    for expected in [
        "back.x has a fixed token (`token_env`) and `oauth`: keep one",
        "`back.x.oauth.grant` must be",
        "`back.x.oauth.scopes` has `a b`, which is no scope",
        "`back.x.oauth.redirect` must be",
        "`back.x.oauth.account` can have",
        "`back.x.oauth.authorize_params` has `state`, which toolbus sets itself",
        "`back.x.oauth.private_key` cannot be used",
        "`back.x.oauth.client_metadata_url` must be an https URL",
        "there is no key `back.x.oauth.nonsense`",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    world.config("[back.x.oauth]\ngrant = \"id_jag\"\n");
    let page = world.ends(2, &["config", "check"]);
    assert!((page.stdout + &page.stderr).contains("grant \"id_jag\" is not there yet"));
    world.config("[back.x.oauth]\ngrant = \"client_credentials\"\n");
    let page = world.ends(2, &["tools"]);
    assert!(page.stderr.contains("`back.x.oauth.client_id` is missing"), "{}", page.stderr);
}

#[test]
fn there_is_nothing_to_sign_in_to() {
    let Some(world) = world(&[]) else { return };
    let text = "[back.pipe]\nconnect = \"mcp+stdio:x\"\n[back.fixed]\nconnect = \"http://127.0.0.1:1/mcp\"\ntoken = \"s3cret-token\"\n";
    world.scratch.file_with("toolbus.toml", text);
    let page = world.ends(2, &["login", "pipe"]);
    let expected = "`pipe` is no MCP server over HTTP: there is nothing to sign in to";
    assert!(page.stderr.contains(expected), "{}", page.stderr);
    let page = world.ends(2, &["login", "fixed"]);
    let expected = "`fixed` has a fixed token: there is nothing to sign in to";
    assert!(page.stderr.contains(expected), "{}", page.stderr);
    assert_eq!(world.ends(0, &["login"]).stderr, "nothing to sign in to\n");
    let page = world.ends(3, &["login", "http://127.0.0.1:1/mcp"]);
    assert!(page.stderr.starts_with("error: "), "{}", page.stderr);
    world.ends(2, &["logout"]);
    world.ends(2, &["login", "nothing-of-that-name"]);
    world.config("");
    let page = world.ends(0, &["login"]);
    assert!(page.stderr.contains("signed in to `x`"), "{}", page.stderr);
    assert_eq!(world.ends(0, &["login"]).stderr, "nothing to sign in to\n");
}

#[test]
fn a_doctor_tells_the_command() {
    let Some(world) = world(&[]) else { return };
    world.config("");
    let page = world.ends(1, &["doctor"]);
    assert_eq!(page.stdout, "FAIL x: needs a sign-in\n  hint: run `toolbus login x`\n");
    let page = world.ends(1, &["doctor", "--json"]);
    let line: Value = serde_json::from_str(&page.stdout).unwrap();
    assert_eq!(line["reason"], "needs_sign_in");
}

#[test]
fn a_server_that_needs_a_sign_in_is_added_and_not_tried() {
    let Some(world) = world(&[]) else { return };
    let page = world.ends(0, &["add", "x", &world.url]);
    assert_eq!(page.stdout, "added x to toolbus.toml\n");
    assert_eq!(page.stderr, "note: not tried: it needs a sign-in\nhint: `toolbus login x`\n");
    world.ends(0, &["login", "x"]);
    let page = world.ends(0, &["add", "--json", "--force", "x", &world.url]);
    let line: Value = serde_json::from_str(&page.stdout).unwrap();
    assert_eq!((&line["replaced"], &line["tried"]), (&json!("x"), &json!(true)));
}
