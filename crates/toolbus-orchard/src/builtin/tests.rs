use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use toolbus_proto::orchard::schema::{Attrs, ProviderSchema};
use toolbus_proto::orchard::value::convert;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::runtime;
use toolbus_testkit::scratch::Scratch;

use super::*;

/// The attributes with the defaults of the schema, as the host sends them.
fn with_defaults(attrs: &Attrs, given: &str) -> Json {
    let mut given: serde_json::Map<_, _> = serde_json::from_str(given).unwrap();
    for (name, attr) in attrs {
        if let Some(default) = &attr.default {
            given.entry(name).or_insert_with(|| default.read().unwrap());
        }
    }
    Json::of(&given)
}

fn schema_of(name: &str) -> ProviderSchema {
    schema(name).expect("a schema of ours can be read")
}

/// Executes one action in `folder`: its outputs, converted as the schema says, or the refusal.
async fn execute_in(
    folder: &Path,
    provider: &str,
    config: &str,
    action: &str,
    attrs: &str,
) -> String {
    let schema = schema_of(provider);
    let inside = open(provider).unwrap();
    if let Err(failure) = inside.configure(with_defaults(&schema.config, config)).await {
        return told(failure);
    }
    let ty = &schema.actions[action];
    let attrs = with_defaults(&ty.attrs, attrs);
    let execute = Execute { action: action.into(), attrs, folder: folder.to_owned() };
    match inside.execute(execute).await {
        Ok(outputs) => {
            convert(&ty.outputs.as_ref().unwrap().ty, &outputs).unwrap().value.to_string()
        }
        Err(failure) => told(failure),
    }
}

fn told(failure: Failure) -> String {
    let detail = failure.detail.as_ref().map(|detail| format!(" | {}", detail.shown()));
    format!("{failure}{}", detail.unwrap_or_default())
}

fn exec(action: &str, attrs: &str) -> String {
    runtime::run(execute_in(Path::new("."), "exec", "{}", action, attrs))
}

fn http(config: &str, action: &str, attrs: &str) -> String {
    runtime::run(execute_in(Path::new("."), "http", config, action, attrs))
}

#[test]
fn every_one_has_a_schema() {
    for name in NAMES {
        if cfg!(feature = "postgres") || name != "postgres" {
            assert_eq!(schema_of(name).name, name);
            assert!(schema_of(name).is_parallel());
        }
    }
    assert_eq!(schema("nothing"), None);
}

#[test]
fn a_command_runs_without_a_shell() {
    let ran = exec("exec_run", r#"{"command":"printf","args":["%s|","a b","$HOME"]}"#);
    assert_eq!(ran, r#"{"exit_code":0,"stderr":"","stdout":"a b|$HOME|"}"#);
}

#[test]
fn a_command_has_input_environment_and_folder() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join("sub")).unwrap();
    let attrs = r#"{"command":"sh","args":["-c","cat; echo $GREETING; basename $PWD >&2"],
        "stdin":"in\n","env":{"GREETING":"hi"},"cwd":"sub"}"#;
    let ran = runtime::run(execute_in(scratch.path(), "exec", "{}", "exec_run", attrs));
    assert_eq!(ran, r#"{"exit_code":0,"stderr":"sub\n","stdout":"in\nhi\n"}"#);
}

#[test]
fn a_status_fails_unless_it_is_allowed() {
    let command = r#""command":"sh","args":["-c","echo why >&2; exit 3"]"#;
    let failed = exec("exec_run", &format!("{{{command}}}"));
    assert_eq!(failed, "execute_failed: `sh` exited with status 3 | why");
    let allowed = exec("exec_run", &format!("{{{command},\"allow_failure\":true}}"));
    assert_eq!(allowed, r#"{"exit_code":3,"stderr":"why\n","stdout":""}"#);
    let killed = r#"{"command":"sh","args":["-c","kill -9 $$"],"allow_failure":true}"#;
    assert_eq!(exec("exec_run", killed), r#"{"exit_code":137,"stderr":"","stdout":""}"#);
    let none = exec("exec_run", r#"{"command":"there-is-no-such-program"}"#);
    assert!(
        none.starts_with("execute_failed: there is no program `there-is-no-such-program` in PATH"),
        "{none}"
    );
}

#[test]
fn a_command_that_runs_too_long_is_stopped_with_all_it_started() {
    let scratch = Scratch::new();
    let pids = scratch.file("pids");
    let script = format!("echo $$ > {pids}; sleep 1000 & echo $! >> {pids}; wait");
    let attrs = serde_json::json!({"command": "sh", "args": ["-c", script], "timeout": "300ms"});
    let failed = exec("exec_run", &attrs.to_string());
    assert_eq!(failed, "execute_failed: `sh` did not end within 300ms");
    no_process_of(&pids);
}

#[test]
fn what_a_command_leaves_behind_does_not_outlive_it() {
    let scratch = Scratch::new();
    let pids = scratch.file("pids");
    // It holds the pipes open, and does not hear SIGTERM.
    let script = format!("(trap '' TERM; echo $$; exec sleep 1000) & echo $! > {pids}; echo done");
    let attrs = serde_json::json!({"command": "sh", "args": ["-c", script]});
    let ran = exec("exec_run", &attrs.to_string());
    assert!(ran.contains("done"), "{ran}");
    no_process_of(&pids);
}

fn no_process_of(pids: &str) {
    for pid in std::fs::read_to_string(pids).unwrap().lines() {
        // What was killed may take a moment to die.
        eventually("a process of the command is gone", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        });
    }
}

#[test]
fn a_command_that_writes_without_end_is_stopped() {
    let failed = exec("exec_run", r#"{"command":"yes"}"#);
    assert_eq!(
        failed,
        "execute_failed: `yes` wrote more than 16777216 bytes to its standard output"
    );
}

#[test]
fn a_command_is_repeated_until_it_succeeds() {
    let scratch = Scratch::new();
    let file = scratch.file("count");
    let script = format!("echo x >> {file}; [ $(wc -l < {file}) = 3 ]");
    let wait = |timeout: &str, script: &str| {
        let args = ["-c", script];
        let attrs = serde_json::json!(
            {"command": "sh", "args": args, "interval": "1ms", "timeout": timeout});
        exec("exec_wait", &attrs.to_string())
    };
    assert_eq!(wait("30s", &script), r#"{"attempts":3}"#);
    let failed = wait("50ms", "echo no >&2; false");
    assert!(failed.starts_with("execute_failed: `sh` did not succeed within 50ms"), "{failed}");
    let odd = wait("soon", "true");
    assert_eq!(
        odd,
        "validation_failed: attrs.timeout: `soon` is not a time: write it as in `500ms`, `2s` or `1h30m`"
    );
}

/// A server that answers each connection with the next of these, and tells what it was asked.
fn server(answers: Vec<String>) -> (u16, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let serve_one = |answer: &String| {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let mut request = String::new();
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                request.push_str(&line);
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            request.push_str(&String::from_utf8(body).unwrap());
            (&stream).write_all(answer.as_bytes()).unwrap();
            request
        };
        answers.iter().map(serve_one).collect()
    };
    (port, std::thread::spawn(serve))
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[test]
fn any_status_is_an_answer() {
    let headers = "content-type: text/plain\r\nX-Two: 1\r\nX-Two: 2\r\n";
    let (port, asked) = server(vec![answer("418 Teapot", headers, "short \u{e4}")]);
    let config = format!(
        r#"{{"base_url":"http://127.0.0.1:{port}/api","default_headers":{{"X-A":"1","x-b":"1"}}}}"#
    );
    let got = http(
        &config,
        "http_request",
        r#"{"url":"pots?hot=1","method":"POST","headers":{"X-B":"2"},"body":"tea"}"#,
    );
    assert_eq!(
        got,
        "{\"body\":\"short \u{e4}\",\"headers\":{\"Connection\":\"close\",\"Content-Length\":\"8\",\
         \"Content-Type\":\"text/plain\",\"X-Two\":\"1\"},\"status\":418}"
    );
    let asked = asked.join().unwrap().remove(0).to_ascii_lowercase();
    assert!(asked.starts_with("post /api/pots?hot=1 http/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\nx-a: 1\r\n") && asked.contains("\r\nx-b: 2\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\ntea"), "{asked}");
}

#[test]
fn redirects_are_followed_and_secrets_stay() {
    let (other, asked_other) = server(vec![answer("200 OK", "", "here")]);
    let elsewhere = format!("Location: http://localhost:{other}/there\r\n");
    let (port, asked) = server(vec![
        answer("303 See Other", "Location: next\r\n", ""),
        answer("307 Temporary", &elsewhere, ""),
    ]);
    let attrs = format!(
        r#"{{"url":"http://u:p@127.0.0.1:{port}/a/b","method":"POST","body":"x","headers":{{"Cookie":"c=1"}}}}"#
    );
    let got = http("{}", "http_request", &attrs);
    assert!(got.contains(r#""body":"here""#), "{got}");
    let asked = asked.join().unwrap();
    assert!(asked[0].starts_with("POST /a/b "), "{}", asked[0]);
    assert!(asked[0].contains(": Basic dTpw"), "{}", asked[0]);
    assert!(asked[1].starts_with("GET /a/next ") && asked[1].contains("c=1"), "{}", asked[1]);
    let there = asked_other.join().unwrap().remove(0).to_lowercase();
    assert!(!there.contains("cookie") && !there.contains("authorization"), "{there}");
}

#[test]
fn redirects_without_end_are_not() {
    let (port, _asked) = server(vec![answer("302 Found", "Location: /\r\n", ""); 11]);
    let got = http("{}", "http_request", &format!(r#"{{"url":"http://127.0.0.1:{port}/"}}"#));
    assert_eq!(got, "execute_failed: there are more than 10 redirects");
}

#[test]
fn a_server_is_waited_for() {
    let (port, asked) = server(vec![answer("503 No", "", ""), answer("200 OK", "", "")]);
    let attrs = format!(r#"{{"url":"http://127.0.0.1:{port}/","interval":"1ms"}}"#);
    assert_eq!(http("{}", "http_wait", &attrs), r#"{"attempts":2}"#);
    assert_eq!(asked.join().unwrap().len(), 2);
    // Now the server is gone.
    let attrs =
        format!(r#"{{"url":"http://127.0.0.1:{port}/","interval":"1ms","timeout":"20ms"}}"#);
    let got = http("{}", "http_wait", &attrs);
    assert!(got.contains("did not answer with status 200 within 20ms"), "{got}");
    let got =
        http("{}", "http_request", &attrs.replace(r#","interval":"1ms","timeout":"20ms""#, ""));
    assert!(got.starts_with("execute_failed: "), "{got}");
}

#[test]
fn what_cannot_be_asked_is_told_before() {
    let got = http("{}", "http_request", r#"{"url":"/relative"}"#);
    assert!(got.starts_with("validation_failed: attrs.url: `/relative` is no address"), "{got}");
    let got = http(r#"{"base_url":"h"}"#, "http_request", r#"{"url":"/relative"}"#);
    assert!(got.starts_with("configure_failed: `h` is no address"), "{got}");
}

/// A provider of commands, the schema's defaults filled in, and what it says besides.
struct Commands {
    inside: Rc<dyn Inside>,
    heard: Rc<std::cell::RefCell<Vec<String>>>,
}

impl Commands {
    fn new() -> Commands {
        let inside = open("exec").unwrap();
        let heard: Rc<std::cell::RefCell<Vec<String>>> = Rc::default();
        let hears = heard.clone();
        inside.listen(Rc::new(move |notice| match notice {
            Notice::Stderr(line) => hears.borrow_mut().push(line.to_string()),
            Notice::Warning(message) => hears.borrow_mut().push(format!("warning: {message}")),
            _ => {}
        }));
        Commands { inside, heard }
    }

    async fn execute(&self, action: &str, attrs: &str) -> String {
        let schema = schema_of("exec");
        let attrs = with_defaults(&schema.actions[action].attrs, attrs);
        let execute = Execute { action: action.into(), attrs, folder: ".".into() };
        match self.inside.execute(execute).await {
            Ok(outputs) => outputs.to_string(),
            Err(failure) => told(failure),
        }
    }

    fn heard(&self) -> String {
        self.heard.borrow().join("|")
    }
}

fn pid(outputs: &str) -> String {
    let outputs: serde_json::Value = serde_json::from_str(outputs).expect(outputs);
    format!("/proc/{}", outputs["pid"])
}

#[test]
fn services_run_until_the_end_and_are_stopped_the_last_first() {
    let scratch = Scratch::new();
    let log = scratch.file("log");
    let service = |name: &str| {
        let script = format!(
            "trap 'echo {name} >> {log}; exit 0' TERM; echo up {name} >&2; while :; do sleep 0.02; done"
        );
        let command = serde_json::json!(["sh", "-c", script]);
        format!(r#"{{"command":{command},"ready":{{"line":"^up .$"}}}}"#)
    };
    runtime::run(async {
        let commands = Commands::new();
        let mut running = Vec::new();
        for name in ["a", "b", "c"] {
            running.push(pid(&commands.execute("exec_service", &service(name)).await));
        }
        assert!(running.iter().all(|process| Path::new(process).exists()));
        assert_eq!(commands.heard(), "up a|up b|up c");
        commands.inside.shutdown().await;
        assert!(running.iter().all(|process| !Path::new(process).exists()));
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "c\nb\na\n");
    });
}

#[test]
fn a_service_that_does_not_listen_is_killed() {
    runtime::run(async {
        let commands = Commands::new();
        let stubborn = r#"{"command":["sh","-c","trap '' TERM; echo up; while :; do sleep 0.02; done"],
            "ready":{"line":"up"},"stop_timeout":"50ms"}"#;
        let process = pid(&commands.execute("exec_service", stubborn).await);
        commands.inside.shutdown().await;
        assert!(!Path::new(&process).exists());
        let process =
            pid(&commands.execute("exec_service", r#"{"command":["sleep","1000"]}"#).await);
        commands.inside.kill();
        commands.inside.shutdown().await;
        assert!(!Path::new(&process).exists());
    });
}

#[test]
fn a_service_is_ready_when_it_can_be_asked() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!(
        r#""command":["python3","-m","http.server","{port}","--bind","127.0.0.1","--directory","/var/empty"]"#
    );
    let server = server.replace("/var/empty", env!("CARGO_MANIFEST_DIR"));
    runtime::run(async {
        let by_tcp = format!(r#"{{{server},"ready":{{"tcp":"127.0.0.1:{port}"}}}}"#);
        let by_http = format!(r#"{{{server},"ready":{{"http":"http://127.0.0.1:{port}/src/"}}}}"#);
        for attrs in [&by_tcp, &by_http] {
            let commands = Commands::new();
            let process = pid(&commands.execute("exec_service", attrs).await);
            // Whatever becomes of a second one: that the port is taken was told.
            commands.execute("exec_service", attrs).await;
            let heard = commands.heard();
            assert!(heard.contains(" already, before `python3` was started"), "{heard}");
            commands.inside.shutdown().await;
            assert!(!Path::new(&process).exists());
        }
    });
}

#[test]
fn a_service_that_is_never_ready() {
    for (attrs, expected) in [
        (r#"{"command":[]}"#, "validation_failed: attrs.command: it is empty"),
        (
            r#"{"command":["sleep","9"],"ready":{"tcp":"x:1","line":"x"}}"#,
            "validation_failed: attrs.ready: only one of `tcp`, `http` and `line`",
        ),
        (
            r#"{"command":["sleep","9"],"ready":{"tcp":"localhost"}}"#,
            "validation_failed: attrs.ready.tcp: `localhost` is no `HOST:PORT`",
        ),
        (
            r#"{"command":["sh","-c","echo no luck >&2; exit 3"],"ready":{"line":"up"}}"#,
            "execute_failed: `sh` exited with status 3 before it was ready | no luck",
        ),
        (
            r#"{"command":["sleep","1000"],"ready":{"line":"up"},"ready_timeout":"20ms"}"#,
            "execute_failed: `sleep` was not ready within 20ms: not a line fits `up`",
        ),
    ] {
        assert_eq!(exec("exec_service", attrs), expected, "{attrs}");
    }
    let missing = exec("exec_service", r#"{"command":["no-such-program"]}"#);
    assert!(missing.contains("there is no program `no-such-program`"), "{missing}");
}

#[test]
fn what_becomes_of_programs_in_the_background_is_told() {
    runtime::run(async {
        let commands = Commands::new();
        let attrs = r#"{"command":"sh","args":["-c","sleep 1000 & echo hi"]}"#;
        let ran = commands.execute("exec_run", attrs).await;
        assert!(ran.contains(r#""stdout":"hi\n""#), "{ran}");
        let heard = commands.heard();
        assert!(heard.starts_with("warning: `sh` left `"), "{heard}");
        assert!(heard.ends_with("an `exec_service`"), "{heard}");
        // A service that ends before the run does is no secret, either.
        let commands = Commands::new();
        commands.execute("exec_service", r#"{"command":["sh","-c","exit 4"]}"#).await;
        while commands.heard().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            commands.heard(),
            "warning: the service `sh` exited with status 4 before the run did"
        );
    });
}
