//! `toolbus add` and `toolbus remove`: one more back, one fewer, and no other byte changed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use expect_test::{Expect, expect};
use toolbus_testkit::scratch::Scratch;

use crate::page::Page;

/// An MCP server with two tools, a prompt and three resources. It notes each of its starts.
const SERVER: &str = r#"
import json, os, sys
open("starts", "a").write(os.getcwd() + "\n")
LISTS = {
    "tools/list": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ("forecast", "alerts")]},
    "prompts/list": {"prompts": [{"name": "p"}]},
    "resources/list": {"resources": [{"uri": "x:%d" % i, "name": "r"} for i in range(3)]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}}, "serverInfo": {"name": "w", "version": "1"}}
    elif asked["method"] in LISTS:
        answer["result"] = LISTS[asked["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;

struct Folder(Scratch);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(Scratch::new());
        folder.write("weather.py", SERVER);
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check(&self, words: &[&str], expect: Expect) {
        let page = Page::of(words).folder(self.path()).run().to_string();
        let real = fs::canonicalize(self.path()).unwrap();
        let page = page.replace(real.to_str().unwrap(), "FOLDER");
        expect.assert_eq(&page.replace(self.path().to_str().unwrap(), "FOLDER"));
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path().join(name)).unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn the_first_back_makes_the_config_and_is_tried_before() {
    let folder = Folder::new();
    folder.check(
        &["add", "weather", "--", "python3", "weather.py", "two words"],
        expect![[r#"
        stdout
        added weather to toolbus.toml: 2 tools, 1 prompt, 3 resources
          weather.alerts, weather.forecast
        exit 0
    "#]],
    );
    expect![[r##"
        #:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json

        [back.weather]
        connect = "mcp+stdio:python3 weather.py 'two words'"
    "##]]
    .assert_eq(&folder.read("toolbus.toml"));
    assert_eq!(folder.mode("toolbus.toml") & 0o700, 0o600);
    folder.check(
        &["remove", "weather"],
        expect![[r#"
        stdout
        removed weather from toolbus.toml
        exit 0
    "#]],
    );
    expect![[r#"
        #:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json
    "#]]
    .assert_eq(&folder.read("toolbus.toml"));
    fs::remove_file(folder.path().join("starts")).unwrap();
    folder.check(
        &[
            "add",
            "--json",
            "--wire",
            "mcp",
            "--allow",
            "alerts",
            "w",
            "--",
            "python3",
            "weather.py",
        ],
        expect![[r#"
            stdout
            {"added":"w","config":"FOLDER/toolbus.toml","connect":"mcp+stdio:python3 weather.py","tried":true,"tools":["w.alerts"],"prompts":1,"resources":3}
            exit 0
        "#]],
    );
    assert_eq!(folder.read("starts").lines().count(), 1, "it was started once");
}

#[test]
fn every_flag_becomes_a_key_and_every_other_byte_stays() {
    let folder = Folder::new();
    let old = "# mine\r\n[back.a] # first\r\nconnect = \"builtin:\"\r\n# of the front\r\n[front.x]\r\n\
               serve = \"mcp+http://127.0.0.1:0/mcp\"\r\n";
    folder.write("toolbus.toml", old);
    folder.check(
        &[
            "add",
            "--no-try",
            "--env",
            "KEY=${NO_SUCH_KEY}",
            "--env",
            "B C=x\"y",
            "--env-pass",
            "P",
            "--allow",
            "t",
            "--timeout",
            "30",
            "--start-timeout",
            "1500ms",
            "--wire",
            "oracle",
            "o",
            "--",
            "./o",
            "it's",
        ],
        expect![[r#"
            stdout
            added o to toolbus.toml
            exit 0
        "#]],
    );
    folder.check(
        &[
            "add",
            "far",
            "https://h.example/mcp",
            "--header",
            "X-A: b",
            "--token-env",
            "T",
            "--no-try",
        ],
        expect![[r#"
            stdout
            added far to toolbus.toml
            exit 0
        "#]],
    );
    let text = folder.read("toolbus.toml");
    assert!(!text.replace("\r\n", "").contains('\n'), "{text:?}");
    expect![[r##"
        # mine
        [back.a] # first
        connect = "builtin:"

        [back.o]
        connect = "stdio:./o 'it'\\''s'"
        allow = ["t"]
        timeout = "30s"
        start_timeout = "1500ms"
        env = { KEY = "${NO_SUCH_KEY}", "B C" = "x\"y" }
        env_pass = ["P"]

        [back.far]
        connect = "https://h.example/mcp"
        headers = { X-A = "b" }
        token_env = "T"
        # of the front
        [front.x]
        serve = "mcp+http://127.0.0.1:0/mcp"
    "##]]
    .assert_eq(&text.replace("\r\n", "\n"));
    folder.check(
        &["remove", "far", "o"],
        expect![[r#"
        stdout
        removed far, o from toolbus.toml
        exit 0
    "#]],
    );
    assert_eq!(folder.read("toolbus.toml"), old);
}

#[test]
fn a_change_is_shown_and_not_made() {
    let folder = Folder::new();
    folder.write("toolbus.toml", "# mine\n");
    folder.check(
        &["add", "--dry-run", "w", "--", "python3", "weather.py"],
        expect![[r#"
        stdout
        --- toolbus.toml
        +++ toolbus.toml
        @@ -1 +1,4 @@
         # mine
        +
        +[back.w]
        +connect = "mcp+stdio:python3 weather.py"
        exit 0
    "#]],
    );
    assert_eq!(folder.read("toolbus.toml"), "# mine\n");
    assert!(!folder.path().join("starts").exists(), "it was started");
    folder.write("toolbus.toml", "[back.w]\nconnect = \"builtin:\"\n");
    folder.check(
        &["remove", "--dry-run", "w"],
        expect![[r#"
        stdout
        --- toolbus.toml
        +++ toolbus.toml
        @@ -1,2 +0,0 @@
        -[back.w]
        -connect = "builtin:"
        exit 0
    "#]],
    );
}

#[test]
fn what_makes_no_sense_is_told_and_nothing_is_written() {
    let folder = Folder::new();
    let config = "[back.weather]\nconnect = \"builtin:\"\n";
    folder.write("toolbus.toml", config);
    folder.write("x.json", "{\"mcpServers\": {}}");
    folder.write("inline.toml", "back = { a = { connect = \"builtin:\" } }\n");
    for (words, expect) in [
        (
            &["add", "a b", "builtin:"][..],
            expect![[r#"
            stderr
            error: `a b` is no name of a back
            hint: letters, digits, `_` and `-`
            exit 2
        "#]],
        ),
        (
            &["add", "toolbus", "builtin:"],
            expect![[r#"
            stderr
            error: `toolbus` is no name of a back
            hint: letters, digits, `_` and `-`
            exit 2
        "#]],
        ),
        (
            &["add", "weather", "builtin:"],
            expect![[r#"
            stderr
            error: `toolbus.toml` has a back `weather` already
            hint: `--force` replaces it
            exit 2
        "#]],
        ),
        (
            &["add", "w", "weather.py"],
            expect![[r#"
            stderr
            error: `weather.py` is no address
            hint: write a command behind `--`: toolbus add w -- weather.py
            exit 2
        "#]],
        ),
        (
            &["add", "w", "buildin:"],
            expect![[r#"
            stderr
            error: unsupported connection scheme: "buildin:"
            hint: did you mean `builtin:`?
            exit 2
        "#]],
        ),
        (
            &["add", "w"],
            expect![[r#"
            stderr
            error: `w` alone says not what to add
            hint: toolbus add w -- COMMAND, or toolbus add w URL
            exit 2
        "#]],
        ),
        (
            &["add", "w", "builtin:", "--", "x"],
            expect![[r#"
            stderr
            error: `builtin:` is one word too many
            hint: give an address or a command, not both
            exit 2
        "#]],
        ),
        (
            &["add", "w", "--wire", "smoke", "--", "x"],
            expect![[r#"
            stderr
            error: no command speaks `smoke`
            hint: it can be oracle, orchard, mcp, mediocre, godex
            exit 2
        "#]],
        ),
        (
            &["add", "w", "builtin:", "--token-env", "T"],
            expect![[r#"
            stderr
            error: `toolbus.toml` line 6: `back.w.token_env` is only for MCP over HTTP
            exit 2
        "#]],
        ),
        (
            &["add", "w", "builtin:", "--config", "x.json"],
            expect![[r#"
            stderr
            error: `x.json` is the config of a client, and is not edited
            hint: toolbus init --from x.json
            exit 2
        "#]],
        ),
        (
            &["add", "w", "builtin:", "--config", "inline.toml"],
            expect![[r#"
            stderr
            error: `back` is an inline table, and nothing can be added to it
            exit 2
        "#]],
        ),
        (
            &["remove", "wether"],
            expect![[r#"
            stderr
            error: `toolbus.toml` has no back `wether`
            hint: did you mean `weather`?
            exit 2
        "#]],
        ),
        (
            &["remove", "weather", "other"],
            expect![[r#"
            stderr
            error: `toolbus.toml` has no back `other`
            exit 2
        "#]],
        ),
    ] {
        folder.check(words, expect);
    }
    assert_eq!(folder.read("toolbus.toml"), config);
    folder.write("toolbus.toml", "[back.x]\nconnect = \"builtin:\"\ntimout = 1\nother = 2\n");
    folder.check(&["add", "w", "builtin:"], expect![[r#"
        stderr
        error: `toolbus.toml` line 3: there is no key `back.x.timout`
        hint: did you mean `timeout`?
        error: `toolbus.toml` line 4: there is no key `back.x.other`
        hint: it can be connect, allow, lock, rate, in_flight, pin, timeout, start_timeout, stop_timeout, restart, idle_stop
        exit 2
    "#]]);
}

#[test]
fn what_fails_is_not_added_and_what_lacks_a_variable_is_not_tried() {
    let folder = Folder::new();
    folder.check(
        &["add", "w", "--wire", "mcp", "--", "sh", "-c", "echo no >&2; exit 3"],
        expect![[r#"
            stderr
            error: cannot list the tools of `mcp+stdio:sh -c 'echo no >&2; exit 3'`: `w` ended with exit status 3 before it was ready
              | no
            hint: `--no-try` adds it all the same
            exit 3
        "#]],
    );
    folder.check(
        &["add", "--start-timeout", "1s", "w", "--", "sleep", "100"],
        expect![[r#"
            stderr
            error: cannot list the tools of `sleep 100`: `sleep` did not show within 1s what it speaks
            hint: say it before the command, as in `mcp+stdio:sleep 100`
            hint: `--no-try` adds it all the same
            exit 3
        "#]],
    );
    assert!(!folder.path().join("toolbus.toml").exists());
    folder.check(
        &["add", "--env", "KEY=${NO_SUCH_KEY}", "w", "--", "python3", "weather.py"],
        expect![[r#"
            stdout
            added w to toolbus.toml
            stderr
            note: not tried: `NO_SUCH_KEY` is not set
            exit 0
        "#]],
    );
    assert!(!folder.path().join("starts").exists(), "it was started");
    folder.check(
        &[
            "add",
            "--json",
            "--force",
            "--env",
            "KEY=${NO_SUCH_KEY}",
            "w",
            "--",
            "python3",
            "weather.py",
        ],
        expect![[r#"
            stdout
            {"replaced":"w","config":"FOLDER/toolbus.toml","connect":"mcp+stdio:python3 weather.py","tried":false,"missing":["NO_SUCH_KEY"]}
            stderr
            note: not tried: `NO_SUCH_KEY` is not set
            exit 0
        "#]],
    );
    folder.check(
        &["add", "--force", "w", "builtin:"],
        expect![[r#"
        stdout
        replaced w in toolbus.toml: 9 tools
          w.add, w.blob, w.count, w.early, w.echo, w.fail, w.sink, w.sleep, and 1 more
        exit 0
    "#]],
    );
    expect![[r##"
        #:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json

        [back.w]
        connect = "builtin:"
    "##]]
    .assert_eq(&folder.read("toolbus.toml"));
}

#[test]
fn a_value_that_may_be_secret_is_for_its_owner_alone_and_a_link_stays_one() {
    let folder = Folder::new();
    folder.check(
        &["add", "--no-try", "--env", "KEY=abc", "w", "--", "x"],
        expect![[r#"
        stdout
        added w to toolbus.toml
        exit 0
    "#]],
    );
    assert_eq!(folder.mode("toolbus.toml"), 0o600);
    fs::create_dir(folder.path().join("conf")).unwrap();
    folder.write("conf/real.toml", "");
    fs::set_permissions(folder.path().join("conf/real.toml"), fs::Permissions::from_mode(0o640))
        .unwrap();
    std::os::unix::fs::symlink("conf/real.toml", folder.path().join("link.toml")).unwrap();
    folder.check(
        &["add", "--config", "link.toml", "w", "builtin:"],
        expect![[r#"
        stdout
        added w to link.toml: 9 tools
          w.add, w.blob, w.count, w.early, w.echo, w.fail, w.sink, w.sleep, and 1 more
        exit 0
    "#]],
    );
    assert!(fs::symlink_metadata(folder.path().join("link.toml")).unwrap().is_symlink());
    assert_eq!(folder.read("conf/real.toml"), "[back.w]\nconnect = \"builtin:\"\n");
    assert_eq!(folder.mode("conf/real.toml"), 0o640);
}

#[test]
fn a_link_that_leads_to_nothing_yet_is_kept_and_what_is_no_file_is_told() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("conf")).unwrap();
    std::os::unix::fs::symlink("conf/new.toml", folder.path().join("link.toml")).unwrap();
    let add = |config: &'static str| ["--config", config, "add", "--no-try", "w", "--", "x"];
    folder.check(
        &add("link.toml"),
        expect![[r#"
        stdout
        added w to link.toml
        exit 0
    "#]],
    );
    assert!(fs::symlink_metadata(folder.path().join("link.toml")).unwrap().is_symlink());
    assert!(folder.read("conf/new.toml").ends_with("[back.w]\nconnect = \"mcp+stdio:x\"\n"));
    folder.check(
        &add("conf"),
        expect![[r#"
        stderr
        error: cannot read `conf`: Is a directory (os error 21)
        exit 2
    "#]],
    );
    folder.check(
        &add("/dev/null"),
        expect![[r#"
        stderr
        error: `/dev/null` is no file
        exit 2
    "#]],
    );
    folder.check(
        &add("none/x.toml"),
        expect![[r#"
        stderr
        error: cannot write `none/x.toml`
          caused by: No such file or directory (os error 2)
        exit 1
    "#]],
    );
}

#[test]
fn of_values_with_one_name_the_last_is_meant() {
    let folder = Folder::new();
    let words =
        ["add", "--dry-run", "--env", "A=1", "--env", "B=${B}", "--env", "A=2", "w", "--", "x"];
    folder.check(
        &words,
        expect![[r#"
        stdout
        --- toolbus.toml
        +++ toolbus.toml
        @@ -0,0 +1,5 @@
        +#:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json
        +
        +[back.w]
        +connect = "mcp+stdio:x"
        +env = { A = "2", B = "${B}" }
        exit 0
    "#]],
    );
}

#[test]
fn of_one_inline_table_nothing_can_be_taken_out() {
    let folder = Folder::new();
    folder.write("toolbus.toml", "back = { a = { connect = \"builtin:\" } }\n");
    folder.check(
        &["remove", "a"],
        expect![[r#"
        stderr
        error: `back` is an inline table, and nothing can be taken out of it
        exit 2
    "#]],
    );
    folder.check(
        &["add", "--no-try", "--force", "a", "--", "x"],
        expect![[r#"
        stderr
        error: `back` is an inline table, and nothing can be added to it
        exit 2
    "#]],
    );
}

/// A server of a registry: a package that is run by `npx`, and a URL.
const DOCUMENT: &str = r#"{"server": {"name": "io.example/weather", "description": "Tells the\nweather", "version": "1.2.3",
    "packages": [{"registryType": "npm", "identifier": "@example/weather", "version": "1.2.3", "transport": {"type": "stdio"},
        "packageArguments": [{"type": "named", "name": "--units", "valueHint": "units", "isRequired": true}],
        "environmentVariables": [{"name": "API_KEY", "isRequired": true, "isSecret": true}, {"name": "LANG"}]}],
    "remotes": [{"type": "streamable-http", "url": "https://h.example/mcp", "headers": [{"name": "X-Key", "value": "k {key}", "variables": {"key": {"isSecret": true}}}]}]},
    "_meta": {"io.modelcontextprotocol.registry/official": {"isLatest": true, "status": "deprecated", "statusMessage": "use another"}}}"#;

/// A folder with that document, and with an `npx` that is our server.
fn with_registry() -> (Folder, String) {
    let folder = Folder::new();
    folder.write("doc.json", DOCUMENT);
    folder.write("npx", "#!/bin/sh\nexec python3 weather.py\n");
    let npx = folder.path().join("npx");
    fs::set_permissions(npx, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    (folder, path)
}

#[test]
fn a_server_of_a_registry_is_added_by_its_document() {
    let (folder, path) = with_registry();
    let add = |words: &[&str]| {
        let words = [&["add", "io.example/weather", "--registry", "doc.json"], words].concat();
        Page::of(&words).folder(folder.path()).env("PATH", &path).run().to_string()
    };
    expect![[r#"
        stdout
        added weather to toolbus.toml
        stderr
        warning: `io.example/weather` is deprecated: use another
        note: not tried: `API_KEY` is not set
        exit 0
    "#]]
    .assert_eq(&add(&["--set", "units=c"]));
    expect![[r#"
        stdout
        added w to toolbus.toml: 2 tools, 1 prompt, 3 resources
          w.alerts, w.forecast
        stderr
        warning: `io.example/weather` is deprecated: use another
        warning: `API_KEY` is a secret, and stands in `toolbus.toml` now
        will run: npx -y @example/weather@1.2.3 --units c
        exit 0
    "#]]
    .assert_eq(&add(&["--set", "units=c", "--set", "API_KEY=abc", "--name", "w"]));
    assert_eq!(folder.mode("toolbus.toml"), 0o600);
    expect![[r#"
        stdout
        added far to toolbus.toml
        stderr
        warning: `io.example/weather` is deprecated: use another
        exit 0
    "#]]
    .assert_eq(&add(&["--remote", "--no-try", "--name", "far", "--allow", "x"]));
    expect![[r##"
        #:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json

        # io.example/weather 1.2.3: Tells the weather
        [back.weather]
        connect = "mcp+stdio:npx -y @example/weather@1.2.3 --units c"
        env = { API_KEY = "${API_KEY}" }

        # io.example/weather 1.2.3: Tells the weather
        [back.w]
        connect = "mcp+stdio:npx -y @example/weather@1.2.3 --units c"
        env = { API_KEY = "abc" }

        # io.example/weather 1.2.3: Tells the weather
        [back.far]
        connect = "https://h.example/mcp"
        allow = ["x"]
        headers = { X-Key = "k ${KEY}" }
    "##]]
    .assert_eq(&folder.read("toolbus.toml"));
    folder.check(
        &["remove", "weather", "w", "far"],
        expect![[r#"
        stdout
        removed weather, w, far from toolbus.toml
        exit 0
    "#]],
    );
    for (words, expect) in [
        (
            &[][..],
            expect![[r#"
            stderr
            warning: `io.example/weather` is deprecated: use another
            error: `io.example/weather` needs a value for `units`
            hint: --set units=VALUE
            exit 2
        "#]],
        ),
        (
            &["--set", "unit=c", "--set", "units=c"],
            expect![[r#"
            stderr
            warning: `io.example/weather` is deprecated: use another
            error: `io.example/weather` has no input `unit`
            hint: did you mean `units`?
            exit 2
        "#]],
        ),
        (
            &["--package", "pypi"],
            expect![[r#"
            stderr
            warning: `io.example/weather` is deprecated: use another
            error: `io.example/weather` has nothing that can be run here
            hint: it has npm, streamable-http
            exit 2
        "#]],
        ),
        (
            &["--version", "2"],
            expect![[r#"
            stderr
            error: the registry has no server `io.example/weather`
            exit 2
        "#]],
        ),
        (
            &["--wire", "mcp"],
            expect![[r#"
            stderr
            error: `--wire` is for a command
            hint: servers of a registry all speak the same
            exit 2
        "#]],
        ),
    ] {
        expect.assert_eq(&add(words));
    }
    folder.check(
        &["add", "w", "builtin:", "--set", "a=b"],
        expect![[r#"
        stderr
        error: `--set` is for a server of a registry
        hint: its name has a `/`, as in `io.github.example/weather`
        exit 2
    "#]],
    );
    folder.check(
        &["add", "a/b", "--registry", "weather.py"],
        expect![[r#"
        stderr
        error: the registry's answer about `a/b` is no server document: it is not JSON
        exit 3
    "#]],
    );
    folder.check(
        &["add", "a/b", "--registry", "http://far.example"],
        expect![[r#"
        stderr
        error: the registry `http://far.example` must be reached by https
        exit 2
    "#]],
    );
}

/// A registry that answers these paths with these bodies, and says what it was asked.
fn registry(
    answers: &'static [(&str, &str, &str)],
) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for (path, status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = String::new();
            let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") {
                assert!(0 < std::io::BufRead::read_line(&mut reader, &mut head).unwrap());
            }
            let first = head.lines().next().unwrap_or_default().to_owned();
            assert!(first.contains(path), "{first}");
            asked.push(first);
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
        }
        asked
    });
    (base, serving)
}

#[test]
fn a_registry_is_asked_in_both_of_its_ways() {
    let folder = Folder::new();
    let (base, serving) = registry(&[
        ("/v0.1/servers/io.example%2Fweather/versions/latest", "404 Not Found", ""),
        ("/v1/servers/io.example%2Fweather/versions/latest", "302 Found\r\nLocation: /doc", ""),
        ("/doc", "200 OK", DOCUMENT),
    ]);
    let words = ["add", "--no-try", "--remote", "io.example/weather"];
    let page = Page::of(&words).folder(folder.path()).env("TOOLBUS_REGISTRY", format!("{base}/"));
    expect![[r#"
        stdout
        added weather to toolbus.toml
        stderr
        warning: `io.example/weather` is deprecated: use another
        exit 0
    "#]]
    .assert_eq(&page.run().to_string());
    serving.join().unwrap();
    let (base, serving) = registry(&[("/x/v1/servers/a%2Fb/versions/2.0", "500 Oops", "")]);
    let words = ["add", "a/b", "--version", "2.0", "--registry", &format!("{base}/x/v1")];
    let page = Page::of(&words).folder(folder.path()).run().to_string();
    expect![[r#"
        stderr
        error: the registry `BASE/x/v1` could not be asked: it answers 500 Internal Server Error
        exit 3
    "#]]
    .assert_eq(&page.replace(&base, "BASE"));
    serving.join().unwrap();
}

#[test]
fn a_container_is_told_of_every_variable_and_the_user_has_the_last_word() {
    let folder = Folder::new();
    let document = r#"{"name": "io.example/box", "packages": [{"registryType": "oci", "identifier": "h.example/box", "version": "1",
        "transport": {"type": "stdio"}, "environmentVariables": [{"name": "MODE", "default": "a"}, {"name": "KEY", "isRequired": true}],
        "packageArguments": [{"type": "positional", "valueHint": "where", "value": "/fixed", "variables": {"unused": {}}}]}]}"#;
    folder.write("doc.json", document);
    let words = [
        "add",
        "io.example/box",
        "--registry",
        "doc.json",
        "--dry-run",
        "--env",
        "MORE=1",
        "--env",
        "MODE=b",
        "--set",
        "unused=1",
    ];
    folder.check(
        &words,
        expect![[r#"
        stdout
        --- toolbus.toml
        +++ toolbus.toml
        @@ -0,0 +1,6 @@
        +#:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json
        +
        +# io.example/box
        +[back.box]
        +connect = "mcp+stdio:docker run -i --rm -e MODE -e KEY -e MORE h.example/box:1 /fixed"
        +env = { MODE = "b", KEY = "${KEY}", MORE = "1" }
        exit 0
    "#]],
    );
}

#[test]
fn what_is_of_a_wrong_type_is_no_server_document() {
    let folder = Folder::new();
    let package = |more: &str| {
        format!(
            r#"{{"name": "a.b/c", "packages": [{{"registryType": "npm", "identifier": "x", {more}}}]}}"#
        )
    };
    let documents = [
        package(r#""transport": "stdio""#),
        package(r#""transport": {"type": 1}"#),
        package(r#""transport": {"type": "stdio"}, "environmentVariables": [{"name": "A", "isRequired": "yes"}]"#),
        package(r#""transport": {"type": "stdio"}, "packageArguments": [{"value": "{x}", "variables": {"x": {"default": 1}}}]"#),
        r#"{"name": "a.b/c", "_meta": []}"#.to_owned(),
        r#"{"name": "a.b/c", "remotes": [{"type": "sse"}]}"#.to_owned(),
        r#"{"name": "a.b/c", "packages": [], "remotes": [{"type": "x", "url": "http://far.example/"}]}"#.to_owned(),
    ];
    let mut told = String::new();
    for document in documents {
        folder.write("doc.json", &document);
        let page = Page::of(&["add", "a.b/c", "--registry", "doc.json", "--dry-run"]);
        told += &page.folder(folder.path()).run().to_string();
    }
    fs::write(folder.path().join("doc.json"), b"\xff").unwrap();
    let page = Page::of(&["add", "a.b/c", "--registry", "doc.json", "--dry-run"]);
    told += &page.folder(folder.path()).run().to_string();
    expect![[r#"
        stderr
        error: the registry's answer about `a.b/c` is no server document: `transport` is no object
        exit 3
        stderr
        error: the registry's answer about `a.b/c` is no server document: `type` is no text
        exit 3
        stderr
        error: the registry's answer about `a.b/c` is no server document: `isRequired` is neither true nor false
        exit 3
        stderr
        error: the registry's answer about `a.b/c` is no server document: `default` is no text
        exit 3
        stderr
        error: the registry's answer about `a.b/c` is no server document: `_meta` is no object
        exit 3
        stderr
        error: the registry's answer about `a.b/c` is no server document: a remote has no `url`
        exit 3
        stderr
        error: the registry's answer about `a.b/c` is no server document: `http://far.example/` is neither https nor this machine
        exit 3
        stderr
        error: the registry's answer about `a.b/c` is no server document: it is not UTF-8
        exit 3
    "#]].assert_eq(&told);
    assert!(!folder.path().join("toolbus.toml").exists());
}
