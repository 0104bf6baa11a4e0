use expect_test::{Expect, expect};

use super::*;
use crate::wire::orchard::settings::OrchardSettings;

fn parse(text: &str) -> Result<Config, ConfigError> {
    let env = |name: &str| match name {
        "KEY" => Some("s3cret".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    Config::parse(text, &env)
}

/// What is wrong with each config, and what to do about it.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(texts: &[&str], expect: Expect) {
    let told = |text: &&str| {
        let error = parse(text).expect_err(text);
        assert!(!format!("{error} {error:?}").contains("s3cret"));
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{error}{hint}\n")
    };
    expect.assert_eq(&texts.iter().map(told).collect::<String>());
}

/// The config of a back with this line.
fn back(connect: &str, line: &str) -> String {
    format!("[back.x]\nconnect = \"{connect}\"\n{line}\n")
}

#[test]
fn an_empty_file_is_an_empty_config() {
    assert_eq!(parse(""), Ok(Config::default()));
}

#[test]
fn every_key_is_read() {
    let config = parse(
        r#"
        [back.weather]
        connect = "mcp+stdio:python3 weather.py"
        timeout = "30s"
        start_timeout = "500ms"
        stop_timeout = "1m"
        restart = "never"
        env = { API_KEY = "a${KEY}b${EMPTY}", PLAIN = "$x" }
        env_pass = ["SSH_AUTH_SOCK"]
        cwd = "srv"
        allow = ["forecast", "alerts"]
        timeout_total = "5m"
        probe_timeout = "1s"
        input_timeout = "2m"
        reply_bytes_max = "1MiB"
        share = "session"

        [back.math]
        connect = "stdio:./math-oracle"
        functions = ["sqrt(x: u128) -> Option<u128>"]
        lenient_felts = true
        line_max = 65536

        [back.stripe]
        connect = "orchard+stdio:./bin/orchard-stripe"
        config = { key = "${KEY}", z = [1, 0x10, 1.5, true], a = { at = 2026-01-02T03:04:05Z } }
        configure_timeout = "3s"
        frame_bytes_max = "1KiB"

        [back.far]
        connect = "mediocre+tcp://h:1"
        methods = ["a"]
        blob_len = "hint"
        strict = true
        object_bytes_max = "2MiB"
        depth_max = 9

        [back.web]
        connect = "mcp+https://h/mcp"
        headers = { Authorization = "Bearer ${KEY}" }
        token_env = "TOKEN"
        insecure = true

        [back.sh]
        connect = "shell:"
        allow_shell = true

        [front.editor]
        serve = "mcp+http://127.0.0.1:8932/mcp"
        token_env = "T"
        insecure = true
        origins = ["http://a"]

        [front.scripts]
        serve = "mediocre+tcp://127.0.0.1:7420"
        list_timeout = "0s"
        blob_len = "exact"
        drain_bytes_max = "1MiB"
        drain_timeout = "2s"
        idle_timeout = "5m"
        call_timeout = "60s"

        [journal]
        path = "calls.jsonl"
        arguments = true
        results = true

        [admin]
        listen = "127.0.0.1:9000"
        token_env = "T"
        "#,
    )
    .unwrap();
    expect![[r#"
        Config {
            backs: [
                BackConfig {
                    name: "weather",
                    address: "mcp+stdio:python3 weather.py",
                    allow: Some(
                        [
                            ToolName(
                                "forecast",
                            ),
                            ToolName(
                                "alerts",
                            ),
                        ],
                    ),
                    lock: true,
                    limits: Limits {
                        rate: None,
                        in_flight: None,
                    },
                    settings: Settings {
                        name: Some(
                            "weather",
                        ),
                        timeout: Some(
                            30s,
                        ),
                        start_timeout: Some(
                            500ms,
                        ),
                        stop_timeout: Some(
                            60s,
                        ),
                        restart: Some(
                            Never,
                        ),
                        idle_stop: None,
                        pin: None,
                        clients: One,
                        era: None,
                        program: ProgramSettings {
                            env: [
                                (
                                    "API_KEY",
                                    ***,
                                ),
                                (
                                    "PLAIN",
                                    ***,
                                ),
                            ],
                            env_pass: [
                                "SSH_AUTH_SOCK",
                            ],
                            cwd: Some(
                                "srv",
                            ),
                        },
                        reply_bytes_max: None,
                        credentials: Credentials {
                            headers: [],
                            token: None,
                            token_env: None,
                            insecure: false,
                            tls: TlsFiles {
                                ca: None,
                                cert: None,
                                key: None,
                            },
                        },
                        allow_shell: false,
                        missing: None,
                        wire: WireSettings(
                            [
                                McpSettings {
                                    timeout_total: Some(
                                        300s,
                                    ),
                                    probe_timeout: Some(
                                        1s,
                                    ),
                                    input_timeout: Some(
                                        120s,
                                    ),
                                    reply_bytes_max: Some(
                                        1048576,
                                    ),
                                    share: Session,
                                    era: None,
                                    headers: [],
                                    token: None,
                                    token_env: None,
                                    insecure: false,
                                    back: Some(
                                        "weather",
                                    ),
                                    oauth: None,
                                    tls: TlsFiles {
                                        ca: None,
                                        cert: None,
                                        key: None,
                                    },
                                },
                            ],
                        ),
                    },
                },
                BackConfig {
                    name: "math",
                    address: "stdio:./math-oracle",
                    allow: None,
                    lock: true,
                    limits: Limits {
                        rate: None,
                        in_flight: None,
                    },
                    settings: Settings {
                        name: Some(
                            "math",
                        ),
                        timeout: None,
                        start_timeout: None,
                        stop_timeout: None,
                        restart: None,
                        idle_stop: None,
                        pin: None,
                        clients: One,
                        era: None,
                        program: ProgramSettings {
                            env: [],
                            env_pass: [],
                            cwd: None,
                        },
                        reply_bytes_max: None,
                        credentials: Credentials {
                            headers: [],
                            token: None,
                            token_env: None,
                            insecure: false,
                            tls: TlsFiles {
                                ca: None,
                                cert: None,
                                key: None,
                            },
                        },
                        allow_shell: false,
                        missing: None,
                        wire: WireSettings(
                            [
                                OracleSettings {
                                    functions: [
                                        "sqrt(x: u128) -> Option<u128>",
                                    ],
                                    lenient_felts: true,
                                    line_bytes_max: Some(
                                        65536,
                                    ),
                                },
                            ],
                        ),
                    },
                },
                BackConfig {
                    name: "stripe",
                    address: "orchard+stdio:./bin/orchard-stripe",
                    allow: None,
                    lock: true,
                    limits: Limits {
                        rate: None,
                        in_flight: None,
                    },
                    settings: Settings {
                        name: Some(
                            "stripe",
                        ),
                        timeout: None,
                        start_timeout: None,
                        stop_timeout: None,
                        restart: None,
                        idle_stop: None,
                        pin: None,
                        clients: One,
                        era: None,
                        program: ProgramSettings {
                            env: [],
                            env_pass: [],
                            cwd: None,
                        },
                        reply_bytes_max: None,
                        credentials: Credentials {
                            headers: [],
                            token: None,
                            token_env: None,
                            insecure: false,
                            tls: TlsFiles {
                                ca: None,
                                cert: None,
                                key: None,
                            },
                        },
                        allow_shell: false,
                        missing: None,
                        wire: WireSettings(
                            [
                                OrchardSettings {
                                    config: Some(
                                        ***,
                                    ),
                                    configure_timeout: Some(
                                        3s,
                                    ),
                                    frame_bytes_max: Some(
                                        1024,
                                    ),
                                },
                            ],
                        ),
                    },
                },
                BackConfig {
                    name: "far",
                    address: "mediocre+tcp://h:1",
                    allow: None,
                    lock: true,
                    limits: Limits {
                        rate: None,
                        in_flight: None,
                    },
                    settings: Settings {
                        name: Some(
                            "far",
                        ),
                        timeout: None,
                        start_timeout: None,
                        stop_timeout: None,
                        restart: None,
                        idle_stop: None,
                        pin: None,
                        clients: One,
                        era: None,
                        program: ProgramSettings {
                            env: [],
                            env_pass: [],
                            cwd: None,
                        },
                        reply_bytes_max: None,
                        credentials: Credentials {
                            headers: [],
                            token: None,
                            token_env: None,
                            insecure: false,
                            tls: TlsFiles {
                                ca: None,
                                cert: None,
                                key: None,
                            },
                        },
                        allow_shell: false,
                        missing: None,
                        wire: WireSettings(
                            [
                                MediocreSettings {
                                    methods: Some(
                                        [
                                            "a",
                                        ],
                                    ),
                                    blob_len: Hint,
                                    strict: true,
                                    object_bytes_max: Some(
                                        2097152,
                                    ),
                                    depth_max: Some(
                                        9,
                                    ),
                                },
                            ],
                        ),
                    },
                },
                BackConfig {
                    name: "web",
                    address: "mcp+https://h/mcp",
                    allow: None,
                    lock: true,
                    limits: Limits {
                        rate: None,
                        in_flight: None,
                    },
                    settings: Settings {
                        name: Some(
                            "web",
                        ),
                        timeout: None,
                        start_timeout: None,
                        stop_timeout: None,
                        restart: None,
                        idle_stop: None,
                        pin: None,
                        clients: One,
                        era: None,
                        program: ProgramSettings {
                            env: [],
                            env_pass: [],
                            cwd: None,
                        },
                        reply_bytes_max: None,
                        credentials: Credentials {
                            headers: [],
                            token: None,
                            token_env: None,
                            insecure: false,
                            tls: TlsFiles {
                                ca: None,
                                cert: None,
                                key: None,
                            },
                        },
                        allow_shell: false,
                        missing: None,
                        wire: WireSettings(
                            [
                                McpSettings {
                                    timeout_total: None,
                                    probe_timeout: None,
                                    input_timeout: None,
                                    reply_bytes_max: None,
                                    share: All,
                                    era: None,
                                    headers: [
                                        (
                                            "Authorization",
                                            ***,
                                        ),
                                    ],
                                    token: None,
                                    token_env: Some(
                                        "TOKEN",
                                    ),
                                    insecure: true,
                                    back: Some(
                                        "web",
                                    ),
                                    oauth: None,
                                    tls: TlsFiles {
                                        ca: None,
                                        cert: None,
                                        key: None,
                                    },
                                },
                            ],
                        ),
                    },
                },
                BackConfig {
                    name: "sh",
                    address: "shell:",
                    allow: None,
                    lock: true,
                    limits: Limits {
                        rate: None,
                        in_flight: None,
                    },
                    settings: Settings {
                        name: Some(
                            "sh",
                        ),
                        timeout: None,
                        start_timeout: None,
                        stop_timeout: None,
                        restart: None,
                        idle_stop: None,
                        pin: None,
                        clients: One,
                        era: None,
                        program: ProgramSettings {
                            env: [],
                            env_pass: [],
                            cwd: None,
                        },
                        reply_bytes_max: None,
                        credentials: Credentials {
                            headers: [],
                            token: None,
                            token_env: None,
                            insecure: false,
                            tls: TlsFiles {
                                ca: None,
                                cert: None,
                                key: None,
                            },
                        },
                        allow_shell: true,
                        missing: None,
                        wire: WireSettings(
                            [],
                        ),
                    },
                },
            ],
            fronts: [
                FrontConfig {
                    name: "editor",
                    serve: "mcp+http://127.0.0.1:8932/mcp",
                    list_timeout: None,
                    search: None,
                    always: None,
                    callers: None,
                    view: None,
                    limits: Limits {
                        rate: None,
                        in_flight: None,
                    },
                    oauth: None,
                    settings: WireSettings(
                        [
                            McpFrontSettings {
                                access: AccessSettings {
                                    token: None,
                                    token_env: Some(
                                        "T",
                                    ),
                                    insecure: true,
                                    origins: [
                                        "http://a",
                                    ],
                                    hosts: [],
                                },
                                sse: false,
                                sessions_over: None,
                                session_key: None,
                                session_key_old: None,
                                sessions_max: None,
                                connections_max: None,
                            },
                        ],
                    ),
                },
                FrontConfig {
                    name: "scripts",
                    serve: "mediocre+tcp://127.0.0.1:7420",
                    list_timeout: Some(
                        0ns,
                    ),
                    search: None,
                    always: None,
                    callers: None,
                    view: None,
                    limits: Limits {
                        rate: None,
                        in_flight: None,
                    },
                    oauth: None,
                    settings: WireSettings(
                        [
                            MediocreFrontSettings {
                                reading: MediocreSettings {
                                    methods: None,
                                    blob_len: Exact,
                                    strict: false,
                                    object_bytes_max: None,
                                    depth_max: None,
                                },
                                drain_bytes_max: Some(
                                    1048576,
                                ),
                                drain_timeout: Some(
                                    2s,
                                ),
                                idle_timeout: Some(
                                    300s,
                                ),
                                call_timeout: Some(
                                    60s,
                                ),
                                access: AccessSettings {
                                    token: None,
                                    token_env: None,
                                    insecure: false,
                                    origins: [],
                                    hosts: [],
                                },
                            },
                        ],
                    ),
                },
            ],
            views: [],
            callers: [],
            views_and_callers: [],
            journal: Some(
                JournalConfig {
                    path: "calls.jsonl",
                    arguments: true,
                    results: true,
                    bytes_max: 67108864,
                    required: false,
                },
            ),
            admin: Some(
                Admin {
                    listen: At {
                        host: "127.0.0.1",
                        port: 9000,
                    },
                    access: AccessSettings {
                        token: None,
                        token_env: Some(
                            "T",
                        ),
                        insecure: false,
                        origins: [],
                        hosts: [],
                    },
                    page: Look,
                    page_values: true,
                },
            ),
            threads: Count(
                1,
            ),
            locking: Locking {
                rules: Rules {
                    changed: Refuse,
                    new: Refuse,
                    program: Warn,
                },
                is_required: false,
                lock: None,
                is_fresh: false,
            },
            secrets: Secrets,
        }
    "#]]
    .assert_debug_eq(&config);
    let [weather, _, stripe, ..] = config.backs.as_slice() else { panic!("six backs") };
    assert_eq!(weather.settings.program.env[0].1.reveal(), "as3cretb");
    assert_eq!(weather.settings.program.env[1].1.reveal(), "$x");
    let configure = stripe.settings.wire.get::<OrchardSettings>().config.unwrap();
    let expected = r#"{"key":"s3cret","z":[1,16,1.5,true],"a":{"at":"2026-01-02T03:04:05Z"}}"#;
    assert_eq!(configure.reveal().as_str(), expected);
}

#[test]
fn unknown_keys_are_told_with_what_was_meant() {
    check(
        &[
            "[bakc.x]\nconnect = \"builtin:\"",
            "\n\nfoo = 1",
            &back("builtin:", "timout = \"1s\""),
            &back("builtin:", "zzz = 1"),
            &back("stdio:x", "function = []"),
            &back("mcp+stdio:x", "functions = []"),
            &back("builtin:", "cwd = \"x\""),
            &back("mcp+stdio:x", "headers = {}"),
            "[front.a]\nserve = \"mcp+http://h\"\nstrict = true",
            "[front.a]\nserve = \"mcp+http://h\"\nlist_timeout = \"-1s\"",
            "[front.a]\nserve = \"mediocre+tcp://h:1\"\norigins = []",
            "[journal]\npath = \"x\"\nresult = true",
            "[admin]\nlisten = \":1\"\nport = 1",
        ],
        expect![[r#"
            line 1: there is no key `bakc`; did you mean `back`?
            line 3: there is no key `foo`; it can be back, front, view, caller, journal, admin, serve, lock
            line 3: there is no key `back.x.timout`; did you mean `timeout`?
            line 3: there is no key `back.x.zzz`; it can be connect, allow, lock, rate, in_flight, pin, timeout, start_timeout, stop_timeout, restart, idle_stop
            line 3: there is no key `back.x.function`; did you mean `functions`?
            line 3: `back.x.functions` is only for oracle backs
            line 3: `back.x.cwd` is only for backs on stdio
            line 3: `back.x.headers` is only for MCP over HTTP
            line 3: `front.a.strict` is only for the mediocre wire
            line 3: `front.a.list_timeout`: `-1s` is no time at all: it must be more than zero
            line 3: `front.a.origins` is only for fronts over HTTP
            line 3: there is no key `journal.result`; did you mean `results`?
            line 3: there is no key `admin.port`; it can be listen, token, token_env, insecure, origins, hosts, page, page_values
        "#]],
    );
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = r#"
        [front.a]
        serve = "mcp://127.0.0.1:80/mcp"
        tokn = "x"
        token = 1
        [back.x]
        connect = "mpc+stdio:x"
        timeout = 30
        env = { A = 1 }
        functions = 1
        zzz = 1
        [back.y]
        conect = "stdio:x"
        alow = []
        [back."a.b"]
        connect = "mcp+stdio:x"
        env = { A = 1, B = "${", C = "${NOT_SET}", D = 2 }
        strict = true
        functions = []
        [journal]
        result = true
        [back.z]
        connect = "orchard+stdio:x"
        config = { a = nan, b = [inf, 1] }
        [admin]
        listen = "here"
        insecure = "no"
        [bakc.x]
    "#;
    let error = parse(text).unwrap_err();
    assert_eq!(error.hint(), None);
    let told = |mistake: &Mistake| {
        let hint = mistake.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{mistake}{hint}\n")
    };
    expect![[r#"
        line 3: `front.a.serve`: unsupported connection scheme: "mcp://127.0.0.1:80/mcp"; did you mean `mcp+http://127.0.0.1:80/mcp`?
        line 4: there is no key `front.a.tokn`; did you mean `token`?
        line 7: `back.x.connect`: unsupported connection scheme: "mpc+stdio:x"; did you mean `mcp+stdio:x`?
        line 8: `back.x.timeout` must be a time with its unit, as in "30s"
        line 11: there is no key `back.x.zzz`; it can be connect, allow, lock, rate, in_flight, pin, timeout, start_timeout, stop_timeout, restart, idle_stop
        line 13: there is no key `back.y.conect`; did you mean `connect`?
        line 14: there is no key `back.y.alow`; did you mean `allow`?
        line 15: `a.b` is no name: letters, digits, `_` and `-` make one, and `toolbus` is taken
        line 17: `back.a.b.env.A` must be a string
        line 17: `back.a.b.env.B` has a `${` without its `}`
        line 17: `back.a.b.env.D` must be a string
        line 18: `back.a.b.strict` is only for the mediocre wire
        line 19: `back.a.b.functions` is only for oracle backs
        line 20: `journal.path` is missing
        line 21: there is no key `journal.result`; did you mean `results`?
        line 24: `back.z.config.a` must be a finite number
        line 24: `back.z.config.b[0]` must be a finite number
        line 26: `admin.listen`: `here` is no address to listen on; write `HOST:PORT`, `:PORT` or `PORT`, e.g. `127.0.0.1:8932` or `[::1]:8932`
        line 27: `admin.insecure` must be true or false
        line 28: there is no key `bakc`; did you mean `back`?
    "#]].assert_eq(&error.mistakes.iter().map(told).collect::<String>());
    // Each has a line where there is one text for all.
    let lines: Vec<_> = error.mistakes.iter().map(ToString::to_string).collect();
    assert_eq!(error.to_string(), lines.join("\n"));
}

#[test]
fn values_that_make_no_sense() {
    check(
        &[
            "[back.x]\n[back.y]\nconnect = \"builtin:\"",
            "[front.x]",
            "[journal]",
            "back = 1",
            "[back]\nx = \"builtin:\"",
            "[back.x]\nconect = \"builtin:\"",
            "[front.x]\nserv = \"mcp+http://127.0.0.1:0/mcp\"",
            "[back.x]\nconnect = 1",
            "[back.x]\nconnect = \"mpc+stdio:\"",
            "[back.x]\nconnect = \"stdio:\"",
            "[back.\"a.b\"]\nconnect = \"builtin:\"",
            "[back.toolbus]\nconnect = \"builtin:\"",
            "[back.\"\"]\nconnect = \"builtin:\"",
            &back("builtin:", "timeout = 30"),
            &back("builtin:", "timeout = \"30\""),
            &back("builtin:", "timeout = \"0s\""),
            &back("builtin:", "timeout = \"soon\""),
            &back("builtin:", "restart = \"always\""),
            &back("builtin:", "allow = [1]"),
            &back("stdio:x", "line_max = \"64MB\""),
            &back("stdio:x", "line_max = 0x40"),
            &back("stdio:x", "lenient_felts = 1"),
            &back("mediocre+tcp://h:1", "depth_max = 0"),
            &back("stdio:x", "env = { A = 1 }"),
            &back("orchard+stdio:x", "config = { a = nan }"),
            "[front.a]\nserve = \"mcp://127.0.0.1:80/mcp\"",
            "[front.a]\nserve = \"127.0.0.1:80\"",
            "[front.a]\nserve = \"stdio:x\"",
            "[front.a]\nserve = \"mediocre+stdio:x\"",
            "[front.a]\nserve = \"mcp+sse://h\"",
            "[front.a]\nserve = \"mcp+http://h/mcp?x=1\"",
            "[admin]",
            "[admin]\nlisten = \"here\"",
        ],
        expect![[r#"
            line 1: `back.x.connect` is missing
            line 1: `front.x.serve` is missing
            line 1: `journal.path` is missing
            line 1: `back` must be a table
            line 2: `back.x` must be a table
            line 2: there is no key `back.x.conect`; did you mean `connect`?
            line 2: there is no key `front.x.serv`; did you mean `serve`?
            line 2: `back.x.connect` must be a string
            line 2: `back.x.connect`: unsupported connection scheme: "mpc+stdio:"; did you mean `mcp+stdio:`?
            line 2: `back.x.connect`: empty oracle command
            line 1: `a.b` is no name: letters, digits, `_` and `-` make one, and `toolbus` is taken
            line 1: `toolbus` is no name: letters, digits, `_` and `-` make one, and `toolbus` is taken
            line 1: `` is no name: letters, digits, `_` and `-` make one, and `toolbus` is taken
            line 3: `back.x.timeout` must be a time with its unit, as in "30s"
            line 3: `back.x.timeout`: `30` has no unit: write `500ms`, `2s` or `1m`
            line 3: `back.x.timeout`: `0s` is no time at all: it must be more than zero
            line 3: `back.x.timeout`: `soon` is not a time: give seconds (`2`, `0.5`) or a unit (`500ms`, `2s`, `1m`)
            line 3: `back.x.restart` must be "on-demand" or "never"
            line 3: `back.x.allow` must be an array of strings
            line 3: `back.x.line_max`: `64MB` is not a size: give bytes (`65536`) or a unit (`64KiB`, `16MiB`, `1GiB`)
            line 3: `back.x.line_max` must be a size, as in 65536 or "64KiB"
            line 3: `back.x.lenient_felts` must be true or false
            line 3: `back.x.depth_max` must be an integer above zero
            line 3: `back.x.env.A` must be a string
            line 3: `back.x.config.a` must be a finite number
            line 2: `front.a.serve`: unsupported connection scheme: "mcp://127.0.0.1:80/mcp"; did you mean `mcp+http://127.0.0.1:80/mcp`?
            line 2: `front.a.serve`: unsupported connection scheme: "127.0.0.1:80"; did you mean `mcp+http://127.0.0.1:80` or `mediocre+tcp://127.0.0.1:80`?
            line 2: `front.a.serve`: cannot listen on `stdio:x`
            line 2: `front.a.serve`: cannot listen on `mediocre+stdio:x`
            line 2: `front.a.serve`: cannot listen on `mcp+sse://h`
            line 2: `front.a.serve`: cannot listen on `mcp+http://h/mcp?x=***`
            line 1: `admin.listen` is missing
            line 2: `admin.listen`: `here` is no address to listen on; write `HOST:PORT`, `:PORT` or `PORT`, e.g. `127.0.0.1:8932` or `[::1]:8932`
        "#]],
    );
}

#[test]
fn secrets_come_from_the_environment_and_are_not_shown() {
    check(
        &[
            "[front.x]\nserve = \"mcp+http://h\"\ntoken = \"${NOT_SET}\"",
            "[front.x]\nserve = \"mcp+http://h\"\ntoken = \"${file:not/there}\"",
            "[front.x]\nserve = \"mcp+http://h\"\ntoken = \"${EMPTY}\"",
            "[admin]\nlisten = \":1\"\ntoken = \"${NOT_SET}\"",
            &back("stdio:x", "env = { A = \"${KEY}${\" }"),
            &back("mcp+http://h", "token = \"\""),
            "[back.x]\nenv = { A = \"s3cret }",
            "[back.x]\nconnect = \"builtin:\"\nconnect = \"s3cret\"",
        ],
        expect![[r#"
            line 3: `front.x.token` asks for the environment variable `NOT_SET`, which is not set; set it: `export NOT_SET=…`, or take it out of the config
            line 3: `front.x.token` asks for the file `not/there`, which cannot be read: No such file or directory (os error 2)
            line 3: `front.x.token` is empty; give `token` a value, see that the variable or file it names has one, or take it out of the config
            line 3: `admin.token` asks for the environment variable `NOT_SET`, which is not set; set it: `export NOT_SET=…`, or take it out of the config
            line 3: `back.x.env.A` has a `${` without its `}`
            line 3: `back.x.token` is empty; give `token` a value, see that the variable or file it names has one, or take it out of the config
            line 2: not TOML: unclosed inline table, expected `}`
            line 3: not TOML: duplicate key
        "#]],
    );
}

#[test]
fn what_is_not_there_for_a_back_is_missing_for_that_back_alone() {
    let told = |text: &String| {
        let config = parse(text).expect(text);
        let missing = config.backs[0].settings.missing.clone().expect(text);
        format!("{}; {}\n", missing.message, missing.hint.unwrap_or_default())
    };
    let texts = [
        back("stdio:x", "env = { A = \"${NOT_SET}\" }"),
        back("stdio:x", "env = { A = \"${KEY}-${NOT_SET}${NOR_THIS}\", B = \"${NOT_SET}\" }"),
        back("orchard+stdio:x", "config = { a = [\"${NOT_SET}\"] }"),
        back("mcp+http://h", "headers = { A = \"Bearer ${NOT_SET}\" }"),
        back("mcp+http://h", "token = \"${file:not/there}\""),
        back("mcp+http://h", "token = \"${EMPTY}\""),
        back("mcp+http://h", "token = \"${file:not/there}\"\nheaders = { A = \"${NOT_SET}\" }"),
    ];
    expect![[r#"
        `back.x.env.A` asks for the environment variable `NOT_SET`, which is not set; set it: `export NOT_SET=…`, or take it out of the config
        `back.x.env.A` asks for the environment variable `NOT_SET`, which is not set; `back.x.env.A` asks for the environment variable `NOR_THIS`, which is not set; `back.x.env.B` asks for the environment variable `NOT_SET`, which is not set; set them: `export NOT_SET=… NOR_THIS=…`, or take them out of the config
        `back.x.config.a[0]` asks for the environment variable `NOT_SET`, which is not set; set it: `export NOT_SET=…`, or take it out of the config
        `back.x.headers.A` asks for the environment variable `NOT_SET`, which is not set; set it: `export NOT_SET=…`, or take it out of the config
        `back.x.token` asks for the file `not/there`, which cannot be read: No such file or directory (os error 2); see that the file is there and can be read, or take it out of the config
        `back.x.token` is empty; give `token` a value, see that the variable or file it names has one, or take it out of the config
        `back.x.headers.A` asks for the environment variable `NOT_SET`, which is not set; `back.x.token` asks for the file `not/there`, which cannot be read: No such file or directory (os error 2); set it: `export NOT_SET=…`, or take it out of the config
    "#]].assert_eq(&texts.iter().map(told).collect::<String>());
    let config = parse(&format!("{}[back.y]\nconnect = \"builtin:\"\n", texts[0])).unwrap();
    assert_eq!(config.backs[1].settings.missing, None);
}

#[test]
fn nothing_secret_is_shown_by_a_config() {
    let text = r#"
        [back.w]
        connect = "mcp+https://w.example/mcp?api_key=k3y-in-query"
        headers = { X-Key = "${KEY}", Authorization = "Bearer k3y-in-header" }
        token = "${KEY}"
        [back.p]
        connect = "mcp+stdio:./p"
        env = { KEY = "${KEY}", OTHER = "k3y-in-env" }
        [front.f]
        serve = "mediocre+http://127.0.0.1:0"
        token = "${KEY}"
    "#;
    let env = |name: &str| (name == "KEY").then(|| " k3y-of-environment\n".to_owned());
    let config = Config::parse(text, &env).unwrap();
    let shown = format!("{config:?} {config:#?} {}", config.backs[0].address);
    assert!(!shown.contains("k3y"), "{shown}");
    // And it is known elsewhere that it must not be.
    let said = "with k3y-of-environment and k3y-in-query";
    assert_eq!(crate::secrets::masked(said), "with *** and ***");
}

#[test]
fn what_is_short_or_says_where_we_are_is_no_secret() {
    let text = r#"
        [back.p]
        connect = "mcp+stdio:./p"
        env = { A = "${HOME}/notes", B = "${SHORT}", C = "${LONG}" }
    "#;
    let env = |name: &str| match name {
        "HOME" => Some("/homes/of-this-test".to_owned()),
        "SHORT" => Some("q7xz5".to_owned()),
        "LONG" => Some("q7xz5w-of-this-test".to_owned()),
        _ => None,
    };
    Config::parse(text, &env).unwrap();
    let said = "/homes/of-this-test has q7xz5 and q7xz5w-of-this-test";
    assert_eq!(crate::secrets::masked(said), "/homes/of-this-test has q7xz5 and ***");
}

#[test]
fn views_and_callers_are_read() {
    let config = parse(
        r#"
        [back.git]
        connect = "builtin:"
        in_flight = 3
        [view.reader]
        show = ["git.*", "prompt:git.*"]
        hide = ["git.push*"]
        hints = { read_only = true }
        names = "full"
        instructions = ""
        [view.reader.tool."git.log"]
        rename = "history"
        fixed = { repo = "${KEY}", deep = { a = [1, true, 1.5] } }
        [caller.ann]
        token = ["${KEY}", "other"]
        cert_sha256 = "00:11:22:33:44:55:66:77:88:99:AA:bb:cc:dd:ee:ff:00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff"
        cert_subject = "O=Orchestra, CN=ann"
        uid = [0, 7]
        view = "reader"
        rate = "60/1m"
        in_flight = 4
        limit."git.*" = { rate = "10/1m" }
        [front.web]
        serve = "mediocre+http://127.0.0.1:0"
        callers = ["a*"]
        view = "reader"
        rate = "1/500ms"
        "#,
    )
    .unwrap();
    let [view] = config.views.as_slice() else { panic!("one view") };
    let rule = &view.tools["git.log"];
    assert_eq!(rule.fixed.get("repo").unwrap().as_str(), "\"s3cret\"");
    assert_eq!(rule.fixed.get("deep").unwrap().as_str(), r#"{"a":[1,true,1.5]}"#);
    assert!(!format!("{config:?}").contains("s3cret"));
    let [ann] = config.callers.as_slice() else { panic!("one caller") };
    assert_eq!(ann.known_by, ["token", "cert_sha256", "cert_subject", "uid"]);
    assert_eq!((ann.tokens.len(), ann.certificates[0][1], &ann.uids[..]), (2, 0x11, &[0, 7][..]));
    assert_eq!(ann.limits.rate.as_ref().unwrap().as_str(), "60/1m");
    assert_eq!(ann.limits_by_pattern[0].0.to_string(), "git.*");
    assert_eq!(config.fronts[0].callers.as_ref().unwrap(), &[CallerName::new("ann")]);
    assert_eq!(config.backs[0].limits.in_flight, Some(3));
}
