//! `toolbus init` and `toolbus doctor`: the way in for those who have servers set up already.

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use toolbus_testkit::scratch::Scratch;

use crate::page::{Page, our_command};

/// A page in this folder, which is also the user's home, with its path left out.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(folder: &Path, words: &[&str], expect: Expect) {
    let page = Page::of(words).folder(folder).env("HOME", folder.join("home")).run().to_string();
    let page = page.replace(folder.to_str().unwrap(), "FOLDER");
    expect.assert_eq(&page.replace(env!("CARGO_BIN_EXE_toolbus"), "toolbus"));
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> Scratch {
    let scratch = Scratch::new();
    for (name, text) in files {
        let path = scratch.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    scratch
}

/// The config of an editor, whose one server is ours.
fn editor() -> String {
    let words = our_command(&["mcp", "builtin:"]);
    let (command, args) = words.split_once(' ').unwrap();
    // Under another name: a server that is toolbus itself is left out.
    let args: Vec<_> = args.split(' ').map(|arg| arg.trim_matches('\'')).collect();
    let script = format!("exec {command} {}", args.join(" "));
    format!(
        r#"{{"mcpServers": {{"small tools": {{"command": "sh", "args": ["-c", {script:?}], "env": {{"A": "1"}}}},
            "off": {{"command": "x", "disabled": true}}}}}}"#
    )
}

#[test]
fn a_config_of_addresses_works_at_once_and_is_never_overwritten() {
    let scratch = folder(&[]);
    let here = scratch.path();
    check(
        here,
        &["init", "builtin:", "builtin:"],
        expect![[r#"
            stdout
            wrote toolbus.toml: builtin, builtin-2
            `toolbus lock` pins what they show, so that no change goes unnoticed
            exit 0
        "#]],
    );
    expect![[r##"
        #:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json

        # A config of toolbus.
        #
        # `toolbus doctor` starts each back and says what works, `toolbus tools` lists
        # what can be called, and `toolbus serve` serves all of it.

        [back.builtin]
        connect = "builtin:"

        [back.builtin-2]
        connect = "builtin:"

        # What else a back may have:
        #   timeout = "30s"          how long a call may be quiet
        #   allow = ["a", "b"]       its tools that may be called; without it all
        #   env = { NAME = "value" }  set in its environment; env_pass = ["NAME"] passes one on

        # Where `toolbus serve` listens:
        [front.editor]
        serve = "mcp+http://127.0.0.1:8932/mcp"

        # [front.scripts]
        # serve = "mediocre+tcp://127.0.0.1:7420"
    "##]]
    .assert_eq(&fs::read_to_string(here.join("toolbus.toml")).unwrap());
    check(
        here,
        &["call", "builtin-2.add", "a=1", "b=2"],
        expect![[r#"
        stdout
        3
        exit 0
    "#]],
    );
    check(
        here,
        &["init", "builtin:"],
        expect![[r#"
        stderr
        error: `toolbus.toml` is there already, and is not overwritten
        hint: write another file by `--config FILE`, or move that one away
        exit 2
    "#]],
    );
    check(
        here,
        &["init", "--config", "other.toml", "--json"],
        expect![[r#"
            stdout
            {"path":"other.toml","backs":["builtin"],"left_out":[],"from":[],"renamed":[],"asks":[],"not_taken":[]}
            exit 0
        "#]],
    );
    check(
        here,
        &["init", "--config", "third.toml", "buildin:"],
        expect![[r#"
        stderr
        error: unsupported connection scheme: "buildin:"
        hint: did you mean `builtin:`?
        exit 2
    "#]],
    );
}

#[test]
fn the_servers_of_an_editor_become_backs() {
    let scratch = folder(&[("mcp.json", &editor())]);
    let here = scratch.path();
    check(
        here,
        &["init", "--from", "mcp.json"],
        expect![[r#"
            stdout
            wrote toolbus.toml: small-tools
            left out off: it is switched off where it comes from
            renamed small tools: small-tools
            `toolbus lock` pins what they show, so that no change goes unnoticed
            exit 0
        "#]],
    );
    let text = fs::read_to_string(here.join("toolbus.toml")).unwrap();
    let text = text.replace(env!("CARGO_BIN_EXE_toolbus"), "toolbus");
    expect![[r##"
        #:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json

        # A config of toolbus, made of mcp.json.
        #
        # `toolbus doctor` starts each back and says what works, `toolbus tools` lists
        # what can be called, and `toolbus serve` serves all of it.

        # its client calls it `small tools`
        [back.small-tools]
        connect = "mcp+stdio:sh -c 'exec toolbus mcp builtin:'"
        env = { A = "1" }

        # Left out: it is switched off where it comes from
        # [back.off]
        # connect = "mcp+stdio:x"

        # A secret need not stand here: "${NAME}" is that environment variable.

        # What else a back may have:
        #   timeout = "30s"          how long a call may be quiet
        #   allow = ["a", "b"]       its tools that may be called; without it all
        #   env = { NAME = "value" }  set in its environment; env_pass = ["NAME"] passes one on

        # Where `toolbus serve` listens:
        [front.editor]
        serve = "mcp+http://127.0.0.1:8932/mcp"

        # [front.scripts]
        # serve = "mediocre+tcp://127.0.0.1:7420"
    "##]]
    .assert_eq(&text);
    check(
        here,
        &["call", "small-tools.add", "a=1", "b=2"],
        expect![[r#"
        stdout
        3
        exit 0
    "#]],
    );
    // The editor's own config will do, too.
    check(
        here,
        &["call", "--config", "mcp.json", "small-tools.add", "a=1", "b=2"],
        expect![[r#"
            stdout
            3
            stderr
            warning: `off` is left out: it is switched off where it comes from
            exit 0
        "#]],
    );
}

#[test]
fn the_usual_places_are_looked_at() {
    let codex = "[mcp_servers.codex]\ncommand = \"server\"\n";
    let cursor = r#"{"mcpServers": {"codex": {"command": "other"}, "same": {"command": "s"}}}"#;
    let claude = r#"{"mcpServers": {"same": {"command": "s"}}, "theme": "dark"}"#;
    let scratch = folder(&[
        ("home/.codex/config.toml", codex),
        (".cursor/mcp.json", cursor),
        ("home/.claude.json", claude),
        ("home/.gemini/settings.json", "{ not JSON"),
    ]);
    check(
        scratch.path(),
        &["init", "--json"],
        expect![[r#"
            stdout
            {"path":"toolbus.toml","backs":["codex","same","codex-2"],"left_out":[],"from":["FOLDER/.cursor/mcp.json","FOLDER/home/.claude.json","FOLDER/home/.codex/config.toml"],"renamed":[{"from":"codex","to":"codex-2"}],"asks":[],"not_taken":[]}
            stderr
            warning: the config `FOLDER/home/.gemini/settings.json` is not JSON: key must be a string at line 1 column 3
            exit 0
        "#]],
    );
    let empty = folder(&[]);
    check(
        empty.path(),
        &["init", "--from"],
        expect![[r#"
            stderr
            error: no config of an editor or agent is in its usual place, or names a server
              FOLDER/.mcp.json (Claude Code)
              FOLDER/.cursor/mcp.json (Cursor)
              FOLDER/.vscode/mcp.json (VS Code)
              FOLDER/.gemini/settings.json (Gemini CLI)
              FOLDER/.junie/mcp/mcp.json (Junie)
              FOLDER/opencode.json (opencode)
              FOLDER/home/.claude.json (Claude Code)
              FOLDER/home/.config/Claude/claude_desktop_config.json (Claude Desktop)
              FOLDER/home/Library/Application Support/Claude/claude_desktop_config.json (Claude Desktop)
              FOLDER/home/.cursor/mcp.json (Cursor)
              FOLDER/home/.config/Code/User/mcp.json (VS Code)
              FOLDER/home/Library/Application Support/Code/User/mcp.json (VS Code)
              FOLDER/home/.codex/config.toml (Codex)
              FOLDER/home/.gemini/settings.json (Gemini CLI)
              FOLDER/home/.codeium/windsurf/mcp_config.json (Windsurf)
              FOLDER/home/.config/zed/settings.json (Zed)
              FOLDER/home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json (Cline)
              FOLDER/home/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json (Cline)
              FOLDER/home/.config/opencode/opencode.json (opencode)
              FOLDER/home/.junie/mcp/mcp.json (Junie)
              FOLDER/home/.continue/config.yaml (Continue)
            hint: name one by `--from FILE`, or name the peers themselves
            exit 2
        "#]],
    );
}

#[test]
fn nothing_that_a_client_says_is_lost_without_a_word() {
    let vs_code = r#"{
        "inputs": [{"id": "key", "type": "promptString", "description": "API Key", "password": true}],
        "servers": {"perplexity": {"command": "server", "env": {"PERPLEXITY_API_KEY": "${input:key}"}}}
    }"#;
    let gemini = r#"{"mcpServers": {"file system": {"command": "s", "includeTools": ["read"], "timeout": 5000, "trust": true}}}"#;
    let scratch = folder(&[
        (".vscode/mcp.json", vs_code),
        (".gemini/settings.json", gemini),
        ("opencode.jsonc", r#"{"mcp": {"o": {"type": "local", "command": ["s", "1"]}}}"#),
        (
            ".continue/mcpServers/b.json",
            r#"{"mcpServers": {"c": {"command": "s", "args": ["2"]}}}"#,
        ),
        (
            "home/.config/zed/settings.json",
            r#"{"context_servers": {"z": {"command": "s", "args": ["3"], "excludeTools": ["x"]}}}"#,
        ),
        (
            "home/.codeium/windsurf/mcp_config.json",
            r#"{"mcpServers": {"w": {"serverUrl": "https://h.example/mcp"}}}"#,
        ),
        ("home/.junie/mcp/mcp.json", r#"{"mcpServers": {"o": {"command": "s", "args": ["4"]}}}"#),
    ]);
    let here = scratch.path();
    check(
        here,
        &["init"],
        expect![[r#"
            stdout
            wrote toolbus.toml: perplexity, file-system, o, c, w, z, o-2
            renamed file system: file-system
            renamed o: o-2
            asks perplexity: KEY (API Key)
            `toolbus lock` pins what they show, so that no change goes unnoticed
            exit 0
        "#]],
    );
    let text = fs::read_to_string(here.join("toolbus.toml")).unwrap();
    let text = text.replace(here.to_str().unwrap(), "FOLDER");
    expect![[r##"
        #:schema https://github.com/toolbus/toolbus/raw/v0.1.0/docs/toolbus.schema.json

        # A config of toolbus, made of FOLDER/.vscode/mcp.json, FOLDER/.gemini/settings.json, FOLDER/opencode.jsonc, FOLDER/.continue/mcpServers/b.json, FOLDER/home/.codeium/windsurf/mcp_config.json, FOLDER/home/.config/zed/settings.json, FOLDER/home/.junie/mcp/mcp.json.
        #
        # `toolbus doctor` starts each back and says what works, `toolbus tools` lists
        # what can be called, and `toolbus serve` serves all of it.

        # VS Code asked you for `API Key`; it is ${KEY} now
        [back.perplexity]
        connect = "mcp+stdio:server"
        env = { PERPLEXITY_API_KEY = "${KEY}" }

        # its client calls it `file system`
        # Not taken over: `trust`: toolbus asks nobody before a call
        [back.file-system]
        connect = "mcp+stdio:s"
        allow = ["read"]
        timeout = "5s"

        [back.o]
        connect = "mcp+stdio:s 1"

        [back.c]
        connect = "mcp+stdio:s 2"

        [back.w]
        connect = "https://h.example/mcp"

        [back.z]
        connect = "mcp+stdio:s 3"

        # its client calls it `o`
        [back.o-2]
        connect = "mcp+stdio:s 4"

        [view.imported]
        hide = ["z.x"]

        # A secret need not stand here: "${NAME}" is that environment variable.
    "##]].assert_eq(text.split_once("\n# What else").unwrap().0);
    check(
        here,
        &["init", "--json", "--config", "other.toml"],
        expect![[r#"
            stdout
            {"path":"other.toml","backs":["perplexity","file-system","o","c","w","z","o-2"],"left_out":[],"from":["FOLDER/.vscode/mcp.json","FOLDER/.gemini/settings.json","FOLDER/opencode.jsonc","FOLDER/.continue/mcpServers/b.json","FOLDER/home/.codeium/windsurf/mcp_config.json","FOLDER/home/.config/zed/settings.json","FOLDER/home/.junie/mcp/mcp.json"],"renamed":[{"from":"file system","to":"file-system"},{"from":"o","to":"o-2"}],"asks":[{"back":"perplexity","name":"KEY","title":"API Key"}],"not_taken":[{"back":"file-system","key":"trust"}]}
            exit 0
        "#]],
    );
    // Without the variable that back fails, and says which.
    check(
        here,
        &["doctor", "perplexity"],
        expect![[r#"
        stdout
        FAIL perplexity: `back.perplexity.env.PERPLEXITY_API_KEY` asks for the environment variable `KEY`, which is not set
          hint: set it: `export KEY=…`, or take it out of the config
        exit 1
    "#]],
    );
    // What it would keep from being called is told where its own config is used.
    check(
        here,
        &["call", "--config", "home/.config/zed/settings.json", "z.x"],
        expect![[r#"
        stderr
        warning: `z`: not taken over: `excludeTools`: name by `allow` what may be called, which is all now
        error: there is no program `s` in PATH
        hint: install `s`, or give its path
        exit 3
    "#]],
    );
}

#[test]
fn files_that_name_no_servers() {
    let scratch = folder(&[("a.json", "{}"), ("b.json", "{"), ("c.toml", "x = 1")]);
    let here = scratch.path();
    check(
        here,
        &["init", "--from", "a.json"],
        expect![[r#"
            stderr
            error: `a.json` names no servers
            hint: they stand in `mcpServers`, in `servers`, in `context_servers`, in `mcp`, or in `[mcp_servers.NAME]`
            exit 2
        "#]],
    );
    check(
        here,
        &["init", "--from", "b.json"],
        expect![[r#"
        stderr
        error: the config `b.json` is not JSON: EOF while parsing an object at line 1 column 1
        exit 2
    "#]],
    );
    check(
        here,
        &["init", "--from", "c.toml"],
        expect![[r#"
            stderr
            error: `c.toml` names no servers
            hint: they stand in `mcpServers`, in `servers`, in `context_servers`, in `mcp`, or in `[mcp_servers.NAME]`
            exit 2
        "#]],
    );
    check(
        here,
        &["init", "--from", "none.json"],
        expect![[r#"
        stderr
        error: cannot read `none.json`
          caused by: No such file or directory (os error 2)
        exit 2
    "#]],
    );
    check(
        here,
        &["tools", "--config", "a.json"],
        expect![[r#"
            stderr
            error: `a.json` is JSON, but names no servers
            hint: a config of ours is TOML; of an editor's, they stand in `mcpServers`, in `servers`, in `context_servers`, in `mcp`, or in `[mcp_servers.NAME]`
            exit 2
        "#]],
    );
}

#[test]
fn what_is_wrong_with_the_config_of_an_editor_is_told_in_its_own_words() {
    let scratch = folder(&[
        ("m.json", r#"{"mcpServers": {"try": {"comand": "npx"}}}"#),
        (
            "n.json",
            r#"{"mcpServers": {"try": {"comand": "npx"}, "far": {"url": "http://127.0.0.1:1", "headers": {"A": "${", "B": "${"}}}}"#,
        ),
    ]);
    check(
        scratch.path(),
        &["tools", "--config", "m.json"],
        expect![[r#"
        stderr
        error: `m.json` names no server to call
          try: it has neither a command nor a URL; did you mean `command` where it says `comand`?
        hint: a server has `"command": "PROGRAM"` and `"args"`, or a `"url"`
        exit 2
    "#]],
    );
    check(
        scratch.path(),
        &["tools", "--config", "n.json"],
        expect![[r#"
            stderr
            warning: `try` is left out: it has neither a command nor a URL; did you mean `command` where it says `comand`?
            error: `n.json`: `back.far.headers.A` has a `${` without its `}`
            error: `n.json`: `back.far.headers.B` has a `${` without its `}`
            exit 2
        "#]],
    );
}

#[test]
fn the_config_is_found_in_a_folder_above_and_its_paths_with_it() {
    let config =
        "[back.x]\nconnect = \"mcp+stdio:sh ./server\"\nenv = { A = \"${file:secret}\" }\n";
    let server = format!("test \"$A\" = open && exec {}", our_command(&["mcp", "builtin:"]));
    let scratch = folder(&[
        ("toolbus.toml", config),
        ("server", &server),
        ("secret", "open\n"),
        ("below/further/x", ""),
    ]);
    let below = scratch.path().join("below/further");
    check(
        &below,
        &["call", "x.add", "a=1", "b=2"],
        expect![[r#"
        stdout
        3
        exit 0
    "#]],
    );
}

#[test]
fn the_doctor_tries_each_back() {
    let config = "[back.tools]\nconnect = \"builtin:\"\n\
        [back.dead]\nconnect = \"mcp+stdio:sh -c 'echo no API_KEY >&2; exit 3'\"\n\
        [back.none]\nconnect = \"mcp+stdio:no-such-program-at-all\"\n";
    let scratch = folder(&[("toolbus.toml", config)]);
    let page = |words: &[&str]| {
        let page = Page::of(words).folder(scratch.path()).env("API_KEY", "k").run().to_string();
        // How long it took is no one's business here.
        let (before, behind) = page.split_once("tools, ").unwrap_or((&page, " s"));
        let behind = behind.split_once(" s").map_or("", |(_, behind)| behind);
        format!("{before}tools, N s{behind}")
    };
    expect![[r#"
        stdout
        ok tools: 9 tools, N s
        FAIL dead: `dead` ended with exit status 3 before it was ready
          | no API_KEY
          hint: `API_KEY` was not passed on to it: write `--env-pass API_KEY` (`env_pass` in the config)
        FAIL none: there is no program `no-such-program-at-all` in PATH
          hint: install `no-such-program-at-all`, or give its path
        exit 1
    "#]].assert_eq(&page(&["doctor"]));
    let page = Page::of(&["doctor", "--json"]).folder(scratch.path()).run().to_string();
    let begins = r#"{"back":"tools","outcome":"ok","tools":9,"seconds":0."#;
    assert!(page.starts_with(&format!("stdout\n{begins}")), "{page}");
    expect![[r#"{"back":"dead","outcome":"fail","why":"`dead` ended with exit status 3 before it was ready","stderr":["no API_KEY"]}"#]].assert_eq(page.lines().nth(2).unwrap());
    let page = Page::of(&["doctor", "builtin:"]).run().to_string();
    assert!(page.starts_with("stdout\nok builtin:: 9 tools, 0."), "{page}");
    assert!(page.ends_with("exit 0\n"), "{page}");
}

#[test]
fn servers_of_continues_own_config_are_found() {
    let scratch = folder(&[(
        "home/.continue/config.yaml",
        "name: mine\nmcpServers:\n  - name: my files\n    command: npx\n    args: [\"-y\", files]\n    env:\n      KEY: ${{ secrets.KEY }}\n",
    )]);
    check(
        scratch.path(),
        &["init", "--json"],
        expect![[r#"
        stdout
        {"path":"toolbus.toml","backs":["my-files"],"left_out":[],"from":["FOLDER/home/.continue/config.yaml"],"renamed":[{"from":"my files","to":"my-files"}],"asks":[],"not_taken":[]}
        exit 0
    "#]],
    );
    let written = fs::read_to_string(scratch.path().join("toolbus.toml")).unwrap();
    assert!(written.contains("connect = \"mcp+stdio:npx -y files\"\nenv = { KEY = \"${KEY}\" }\n"));
}
