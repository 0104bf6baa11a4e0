//! `toolbus serve`: every front of a config, over all its backs, through reloads to the end.

use std::fs;
use std::path::Path;

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::port;
use toolbus_testkit::scratch::Scratch;

use crate::http::{Request, session};
use crate::listening::Server;
use crate::live::{Live, marked};
use crate::mcp::{DISCOVERED, INITIALIZED, META, legacy_call, request};
use crate::page::{Page, mcp_server, oracle};

pub(crate) const BUILTIN: &str = "[back.try]\nconnect = \"builtin:\"\n";
pub(crate) const MCP: &str = "[front.editor]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n";
const TCP: &str = "[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";

/// A config in a folder of its own.
pub(crate) struct Config(Scratch);

impl Config {
    pub(crate) fn of(text: &str) -> Config {
        let config = Config(Scratch::new());
        config.write(text);
        config
    }

    pub(crate) fn write(&self, text: &str) {
        fs::write(self.path(), text).expect("the folder is ours");
    }

    pub(crate) fn path(&self) -> String {
        self.file("tools.toml")
    }

    /// A path beside it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.file(name)
    }

    /// Serves it, once so many fronts listen.
    pub(crate) fn serve(&self, count: usize) -> Server {
        Server::start(&["serve", "--config", &self.path()], count)
    }

    /// Has it read again, and awaits that it was.
    pub(crate) fn reload(&self, server: &Server, text: &str) -> Vec<String> {
        self.reload_listening(server, text, 0)
    }

    /// The same, and awaits that so many fronts listen anew: one that is slow to do so follows.
    pub(crate) fn reload_listening(
        &self,
        server: &Server,
        text: &str,
        mut listening: usize,
    ) -> Vec<String> {
        self.write(text);
        server.signal(Signal::HUP);
        let (mut heard, mut is_read) = (Vec::new(), false);
        while !is_read || 0 < listening {
            let line = server.hear();
            match line.as_str() {
                "info: the config was read again" => is_read = true,
                line if line.starts_with("warning: the config was not taken") => return heard,
                line => {
                    let listens = line.starts_with("listening on ");
                    listening = listening.saturating_sub(usize::from(listens));
                    heard.push(line.to_owned());
                }
            }
        }
        heard
    }
}

/// What a call to the MCP front answers.
fn mcp_call(server: &Server, tool: &str) -> String {
    let address = format!("mcp+{}", server.url());
    Page::of(&["call", "-q", &address, tool, "a=1", "b=2"]).run().to_string()
}

pub(crate) fn back(name: &str, address: &str) -> String {
    format!("[back.{name}]\nconnect = \"\"\"{address}\"\"\"\n")
}

const THREE: &str = "stdout\n3\nexit 0\n";

/// The steps of an MCP server whose tool `add` says this.
fn saying(text: &str) -> Vec<String> {
    let both = format!(
        r#"{{"tools":[{{"name":"add","inputSchema":{{"type":"object"}}}}],"content":[{{"type":"text","text":"{text}"}}]}}"#
    );
    ["read", "answer", DISCOVERED, "forever", "{", "read", "answer", &both, "}"]
        .map(str::to_owned)
        .into()
}

/// The address of an MCP server that does these steps and then is one whose `add` says `text`.
pub(crate) fn server_after(steps: &[&str], text: &str) -> String {
    let saying = saying(text);
    let saying: Vec<&str> = saying.iter().map(String::as_str).collect();
    mcp_server(&[steps, &saying].concat())
}

#[test]
fn all_fronts_are_served_at_once() {
    let scratch = Scratch::new();
    let socket = scratch.file("socket");
    let unix = format!("[front.local]\nserve = \"mediocre+unix:{socket}\"\n");
    let server = Config::of(&format!("{BUILTIN}{MCP}{TCP}{unix}")).serve(3);
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
    assert!(server.url().ends_with("/mcp"), "{}", server.url());
    assert!(server.urls[1].starts_with("mediocre+tcp://127.0.0.1:"), "{}", server.urls[1]);
    assert_eq!(server.urls[2], format!("mediocre+unix:{socket}"));
    // One back: MCP clients know its tools by their own names.
    assert_eq!(mcp_call(&server, "add"), THREE);
    for url in &server.urls[1..] {
        let page = Page::of(&["rpc", "call", url, "try.add", r#"{"a":1,"b":2}"#]).run();
        assert_eq!(page.to_string(), THREE);
        let tools = Page::of(&["rpc", "call", url, "toolbus.tools"]).run();
        assert!(tools.stdout.contains(r#""name":"try.upper""#), "{tools}");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
    assert!(!Path::new(&socket).exists());
}

#[test]
fn a_back_has_its_own_timeout_whatever_the_front_would_wait() {
    let slow = "[back.slow]\nconnect = \"builtin:\"\ntimeout = \"200ms\"\n";
    let server = Config::of(&[slow, TCP].concat()).serve(1);
    let page = Page::of(&["rpc", "call", server.url(), "slow.sleep", r#"{"ms":86400000}"#]).run();
    assert!(page.stderr.contains("deadline_exceeded"), "{page}");
    assert_eq!(page.status.code(), Some(4), "{page}");
}

#[test]
fn several_backs_have_their_names_before_their_tools() {
    let config = format!("{BUILTIN}{}{MCP}{TCP}", back("other", "builtin:"));
    let server = Config::of(&config).serve(2);
    assert_eq!(mcp_call(&server, "other_add"), THREE);
    let page = Page::of(&["rpc", "call", &server.urls[1], "other.add", r#"{"a":1,"b":2}"#]).run();
    assert_eq!(page.to_string(), THREE);
    server.signal(Signal::INT);
    assert_eq!(server.end(), "exit 130\n");
}

#[test]
fn a_back_that_cannot_be_opened_is_left_out_and_tried_again() {
    let scratch = Scratch::new();
    // Dies when it is first asked for its tools.
    let steps = ["once", &scratch.file("asked"), "{", "exit", "3", "}", "echo-oracle"];
    let shy = back("shy", &oracle(&steps));
    let config = format!("{BUILTIN}{shy}{}{MCP}", back("no", "stdio:nobody"));
    let server = Config::of(&config).serve(1);
    assert_eq!(mcp_call(&server, "try_add"), THREE);
    let address = format!("mcp+{}", server.url());
    let words = ["call", &address, "shy_invoke", "selector=f", r#"calldata=["0x7"]"#];
    assert_eq!(Page::of(&words).run().to_string(), "stdout\n[\"0x7\"]\nexit 0\n");
    server.signal(Signal::TERM);
    let said = server.end();
    let left_out: Vec<_> = said.lines().filter(|line| line.contains("left out")).take(2).collect();
    assert_eq!(
        left_out,
        [
            "warning: shy: left out: `shy` ended with exit status 3 before it was ready",
            "warning: no: left out: there is no program `nobody` in PATH",
        ],
        "{said}"
    );
}

#[test]
fn no_process_is_left_however_it_ends() {
    for signal in [Signal::TERM, Signal::KILL] {
        let scratch = Scratch::new();
        let mark = scratch.file("there");
        let family = ["ignore-term", "fork", "{", "ignore-term", "stay", "}", "mark", &mark];
        let stubborn = server_after(&family, "hm");
        let server = Config::of(&format!("{}{MCP}", back("stubborn", &stubborn))).serve(1);
        let there = marked(&mark, 1);
        server.signal(signal);
        if signal == Signal::TERM {
            assert_eq!(server.end(), "exit 0\n");
        }
        there[0].assert_gone();
    }
}

/// A server of the old era that does these steps, and after each message those.
fn legacy_server(first: &[&str], each: &[&str]) -> String {
    let greeting = INITIALIZED.strip_suffix('}').expect("an object");
    let tools = r#""tools":[{"name":"f","inputSchema":{"type":"object"}}]"#;
    let all = format!(r#"{greeting},{tools},"content":[]}}"#);
    let answers = [&["forever", "{", "read"], each, &["answer", &all, "}"]].concat();
    mcp_server(&[first, &answers].concat())
}

#[test]
fn each_session_may_have_a_process_of_its_own() {
    let scratch = Scratch::new();
    let mark = scratch.file("there");
    let server = back("x", &legacy_server(&["mark", &mark], &[]));
    let server = Config::of(&format!("{server}share = \"session\"\n{MCP}")).serve(1);
    // The first one lists its tools.
    marked(&mark, 1);
    let sessions = [(); 2].map(|()| session(server.url()));
    let there = marked(&mark, 3);
    let call = |name: &str| {
        let call = legacy_call(1, "f", "{}");
        let answer = Request::send(server.url(), "POST", name, &call).answer();
        assert!(answer.contains(r#""content":[]"#), "{answer}");
    };
    sessions.iter().for_each(|name| call(name));
    Request::send(server.url(), "DELETE", &sessions[0], "").answer();
    there[1].assert_gone();
    call(&sessions[1]);
    assert_eq!(marked(&mark, 3).len(), 3);
    server.signal(Signal::TERM);
    assert!(server.end().ends_with("exit 0\n"));
    there.iter().for_each(|process| process.assert_gone());
}

#[test]
fn fronts_that_share_a_server_do_not_share_their_sessions() {
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let server = back("x", &legacy_server(&[], &["say", changed]));
    let other = MCP.replace("editor", "other");
    let server = Config::of(&format!("{server}{MCP}{other}")).serve(2);
    let listening: Vec<_> =
        server.urls.iter().map(|url| Request::send(url, "GET", &session(url), "")).collect();
    let call = legacy_call(1, "f", "{}");
    drop(Request::send(server.url(), "POST", &session(server.url()), &call).answer());
    for mut stream in listening {
        stream.hear(changed);
    }
}

#[test]
fn a_reload_keeps_what_is_as_before() {
    let scratch = Scratch::new();
    let (kept, old, new) = (scratch.file("kept"), scratch.file("old"), scratch.file("new"));
    let kept_back = back("kept", &server_after(&["mark", &kept], "kept"));
    let config = Config::of(&format!(
        "{kept_back}{}{MCP}{TCP}",
        back("other", &server_after(&["mark", &old], "old"))
    ));
    let server = config.serve(2);
    assert_eq!(mcp_call(&server, "other_add"), "stdout\n\"old\"\nexit 0\n");
    let was = marked(&old, 1);

    let unix = format!("[front.local]\nserve = \"mediocre+unix:{}\"\n", scratch.file("socket"));
    let added = format!(
        "{}{}",
        back("other", &server_after(&["mark", &new], "new")),
        back("added", "builtin:")
    );
    let heard = config.reload(&server, &format!("{kept_back}{added}{MCP}{unix}"));
    // The front that is new says where it is; the MCP front never went away.
    assert_eq!(heard, [format!("listening on mediocre+unix:{}", scratch.file("socket"))]);
    assert_eq!(mcp_call(&server, "other_add"), "stdout\n\"new\"\nexit 0\n");
    assert_eq!(mcp_call(&server, "added_add"), THREE);
    assert_eq!(mcp_call(&server, "kept_add"), "stdout\n\"kept\"\nexit 0\n");
    was[0].assert_gone();
    assert_eq!(marked(&kept, 1).len(), 1, "the one that stays was started again");
    let gone = Page::of(&["rpc", "call", &server.urls[1], "kept.add"]).run();
    assert_eq!(gone.status.code(), Some(3), "{gone}");
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
    for file in [kept, new] {
        marked(&file, 1)[0].assert_gone();
    }
}

#[test]
fn a_client_that_listens_is_told_of_a_reload() {
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let server = config.serve(1);
    let mut client = Live::start(&["mcp", &format!("mcp+{}", server.url())]);
    let wanted = format!(r#"{{{META},"notifications":{{"toolsListChanged":true}}}}"#);
    let acknowledged = client.ask(&request(1, "subscriptions/listen", &wanted));
    assert!(acknowledged.contains("subscriptions/acknowledged"), "{acknowledged}");
    config.reload(&server, &format!("{BUILTIN}{}{MCP}", back("added", "builtin:")));
    let told = client.hear();
    assert!(told.contains("notifications/tools/list_changed"), "{told}");
}

#[test]
fn a_server_that_is_passed_through_may_become_another() {
    let scratch = Scratch::new();
    let (old, new) = (scratch.file("old"), scratch.file("new"));
    // A port of its own choice it would not find again.
    let port = port::free();
    let front = format!("[front.editor]\nserve = \"mcp+http://127.0.0.1:{port}/tools\"\n");
    let config =
        Config::of(&format!("{}{front}", back("x", &server_after(&["mark", &old], "old"))));
    let server = config.serve(1);
    assert_eq!(server.url(), format!("http://127.0.0.1:{port}/tools"));
    assert_eq!(mcp_call(&server, "add"), "stdout\n\"old\"\nexit 0\n");
    let text = format!("{}{front}", back("x", &server_after(&["mark", &new], "new")));
    let heard = config.reload_listening(&server, &text, 1);
    assert_eq!(heard, [format!("listening on http://127.0.0.1:{port}/tools")]);
    assert_eq!(mcp_call(&server, "add"), "stdout\n\"new\"\nexit 0\n");
    marked(&old, 1)[0].assert_gone();
}

#[test]
fn a_reload_with_a_mistake_changes_nothing() {
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let server = config.serve(1);
    let path = config.path();
    let heard = config.reload(&server, &format!("{BUILTIN}timout = \"1s\"\n{MCP}"));
    assert_eq!(
        heard,
        [
            format!("error: `{path}` line 3: there is no key `back.try.timout`"),
            "hint: did you mean `timeout`?".to_owned(),
        ]
    );
    assert_eq!(mcp_call(&server, "add"), THREE);
    let shell = format!("{BUILTIN}{}{MCP}", back("sh", "shell:"));
    assert_eq!(config.reload(&server, &shell).len(), 2);
    // A front that cannot listen is told, and the others go on.
    let taken = server.url().replace("/mcp", "/other");
    let taken = format!("{BUILTIN}{MCP}[front.taken]\nserve = \"mcp+{taken}\"\n");
    let heard = config.reload(&server, &taken);
    assert!(heard[0].starts_with("error: cannot listen on"), "{heard:?}");
    assert_eq!(mcp_call(&server, "add"), THREE);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn a_front_lets_in_whom_its_config_says() {
    let config = format!("{BUILTIN}{MCP}token_env = \"PATH\"\norigins = [\"https://a.example\"]\n");
    let server = Config::of(&config).serve(1);
    let address = format!("mcp+{}", server.url());
    let page = Page::of(&["call", &address, "add", "a=1", "b=2"]).run();
    assert_eq!(page.status.code(), Some(3), "{page}");
    let with_token = format!("[back.there]\nconnect = \"{address}\"\ntoken_env = \"PATH\"\n");
    let page = Page::of(&["call", "there.add", "a=1", "b=2"]).config("serve_token", &with_token);
    assert_eq!(page.run().to_string(), THREE);
    let with_origin = |origin| {
        let headers = format!("headers = {{ Origin = \"{origin}\" }}\n");
        let page = Page::of(&["call", "there.add", "a=1", "b=2"]);
        page.config("serve_origin", &format!("{with_token}{headers}")).run()
    };
    assert_eq!(with_origin("https://a.example").to_string(), THREE);
    assert_eq!(with_origin("https://b.example").status.code(), Some(3));
}

#[test]
fn configs_that_cannot_be_served() {
    let check = |name, config: &str, expect: expect_test::Expect| {
        Page::of(&["serve"]).config(name, config).check(expect);
    };
    crate::page::check(
        "serve",
        expect![[r#"
            stderr
            error: there is no `toolbus.toml` here or above
            hint: name a config by `--config FILE`; `toolbus init` writes one
            exit 2
        "#]],
    );
    check(
        "serve_no_front",
        BUILTIN,
        expect![[r#"
        stderr
        error: `toolbus.toml` names no fronts
        hint: add one: `[front.editor]` and under it `serve = "mcp+http://127.0.0.1:8932/mcp"`
        exit 2
    "#]],
    );
    check(
        "serve_no_back",
        MCP,
        expect![[r#"
        stderr
        error: `toolbus.toml` names no backs
        hint: add one: `[back.try]` and under it `connect = "builtin:"`
        exit 2
    "#]],
    );
    check(
        "serve_mistake",
        "[front.x]\nsreve = 1\n",
        expect![[r#"
            stderr
            error: `toolbus.toml` line 2: there is no key `front.x.sreve`
            hint: did you mean `serve`?
            exit 2
        "#]],
    );
    let strangers = "[front.x]\nserve = \"mcp+http://0.0.0.0:0/mcp\"\n";
    check(
        "serve_strangers",
        &format!("{BUILTIN}{strangers}"),
        expect![[r#"
            stderr
            error: `front.x.serve`: will not listen on 0.0.0.0:0 without a token: other machines can reach it
            hint: name the variable that holds one by `token_env`, or set `insecure = true`
            exit 2
        "#]],
    );
    let no_token = format!("{BUILTIN}{MCP}token_env = \"TOOLBUS_NO_SUCH_TOKEN\"\n");
    check(
        "serve_no_token",
        &no_token,
        expect![[r#"
            stderr
            error: `front.editor.token_env`: the environment variable `TOOLBUS_NO_SUCH_TOKEN` holds no token
            hint: set it, and not to nothing: `export TOOLBUS_NO_SUCH_TOKEN=…`
            exit 2
        "#]],
    );
    let hub = "[front.x]\nserve = \"orchestra+quic://127.0.0.1:0?certs=c&hub=h&id=i\"\n";
    check(
        "serve_no_hub",
        &format!("{BUILTIN}{hub}"),
        expect![[r#"
        stderr
        error: cannot listen on `orchestra+quic://127.0.0.1:0?certs=c&hub=h&id=i`: `hub`: expected `HOST:PORT`
        exit 2
    "#]],
    );
    let tls = "[front.x]\nserve = \"mediocre+tls://127.0.0.1:0\"\n";
    check(
        "serve_no_cert",
        &format!("{BUILTIN}{tls}"),
        expect![[r#"
            stderr
            error: cannot listen on `mediocre+tls://127.0.0.1:0`: it has no certificate
            hint: name the certificate and its key by `?cert=FILE&key=FILE`
            exit 2
        "#]],
    );
}

#[test]
fn an_address_that_is_taken_ends_it() {
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let server = config.serve(1);
    let taken = format!("{BUILTIN}[front.x]\nserve = \"mcp+{}\"\n", server.url());
    let page = Page::of(&["serve"]).config("serve_taken", &taken).run();
    assert_eq!((page.stdout.as_str(), page.status.code()), ("", Some(1)), "{page}");
    assert!(page.stderr.starts_with("error: cannot listen on 127.0.0.1:"), "{page}");
}

#[test]
fn other_commands_read_the_same_config() {
    let config = Config::of(&format!("{BUILTIN}{MCP}{TCP}"));
    let path = config.path();
    Page::of(&["call", "--config", &path, "try.add", "a=1", "b=2"]).check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    let tools = Page::of(&["tools", "--config", &path]).run();
    assert!(tools.stdout.starts_with("try.add "), "{tools}");
    let mcp = format!("mcp+stdio:{} mcp --config {path}", env!("CARGO_BIN_EXE_toolbus"));
    Page::of(&["call", &mcp, "add", "a=1", "b=2"]).check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
}
