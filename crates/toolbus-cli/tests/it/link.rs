//! `toolbus link` and `toolbus unlink`: files of clients as people have them, changed by one server and
//! no other byte.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use toolbus_testkit::scratch::Scratch;

use crate::page::Page;

/// A home with these files in it, and a config beside it.
struct Home(Scratch);

impl Home {
    fn of(files: &[(&str, &str)]) -> Home {
        let home = Home(Scratch::new());
        fs::create_dir(home.0.path().join("home")).unwrap();
        let config = "[back.a]\nconnect = \"builtin:\"\n[front.s]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n\
                      [front.web]\nserve = \"mcp+http://127.0.0.1:8932/mcp\"\n[view.v]\nshow = [\"a.*\"]\n";
        fs::write(home.0.path().join("toolbus.toml"), config).unwrap();
        for (name, text) in files {
            home.write(name, text);
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("home").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        self.shown(&fs::read_to_string(self.path(name)).unwrap())
    }

    /// Without what differs from machine to machine.
    fn shown(&self, text: &str) -> String {
        let real = fs::canonicalize(self.0.path()).unwrap();
        let text = text.replace(env!("CARGO_BIN_EXE_toolbus"), "/bin/toolbus");
        let text = text.replace(real.to_str().unwrap(), "/f");
        text.replace(self.0.path().to_str().unwrap(), "/f")
    }

    fn run(&self, words: &[&str]) -> String {
        let page = Page::of(words).folder(self.0.path()).env("HOME", self.path(""));
        self.shown(&page.run().to_string()).replace("/f/home//", "/f/home/")
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check(&self, words: &[&str], expect: Expect) {
        expect.assert_eq(&self.run(words));
    }
}

/// Each client, its file, and a file of it as people have it.
const CLIENTS: [(&str, &str, &str); 12] = [
    (
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"a\": {\n      \"type\": \"stdio\",\n      \"command\": \"x\"\n    }\n  },\n  \"z\": [1,2]\n}",
    ),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "{\r\n\t\"mcpServers\": {\r\n\t}\r\n}\r\n",
    ),
    ("cursor", ".cursor/mcp.json", "{\"mcpServers\":{\"a\":{\"url\":\"https://x\"}}}"),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"}, // the only one\n\t},\n\t\"inputs\": []\n}\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = \"y\"\n# end\n",
    ),
    ("gemini", ".gemini/settings.json", "{\n    \"theme\": \"dark\",\n    \"mcpServers\": {}\n}\n"),
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        "{\n  \"mcpServers\": {\n    \"a\": { \"serverUrl\": \"https://x\" }\n  }\n}\n",
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// Zed\n{\n  \"theme\": {\n    \"mode\": \"dark\", // \"context_servers\": {\n  },\n}\n",
    ),
    (
        "cline",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "{ \"mcpServers\": { \"a\": { \"command\": \"x\" } } }\n",
    ),
    ("continue", ".continue/mcpServers/toolbus.json", ""),
    (
        "opencode",
        ".config/opencode/opencode.json",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"a\": {\"type\": \"local\", \"command\": [\"x\"]}\n    /* last */\n  }\n}\n",
    ),
    ("junie", ".junie/mcp/mcp.json", "\u{feff}{}"),
];

#[test]
fn each_client_gets_one_server_and_loses_it_without_a_trace() {
    let home = Home::of(&CLIENTS.map(|(_, file, text)| (file, text)));
    home.check(&["link"], expect![[r#"
        stdout
        linked claude-code in /f/home/.claude.json
        linked claude-desktop in /f/home/.config/Claude/claude_desktop_config.json
        linked cursor in /f/home/.cursor/mcp.json
        linked vscode in /f/home/.config/Code/User/mcp.json
        linked codex in /f/home/.codex/config.toml
        linked gemini in /f/home/.gemini/settings.json
        linked windsurf in /f/home/.codeium/windsurf/mcp_config.json
        linked zed in /f/home/.config/zed/settings.json
        linked cline in /f/home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json
        linked continue in /f/home/.continue/mcpServers/toolbus.json
        linked opencode in /f/home/.config/opencode/opencode.json
        linked junie in /f/home/.junie/mcp/mcp.json
        exit 0
    "#]]);
    let mut all = String::new();
    for (client, file, _) in CLIENTS {
        all += &format!("=== {client}\n{}\n", home.read(file).replace('\r', "␍"));
    }
    expect![[r#"
        === claude-code
        {
          "numStartups": 3,
          "mcpServers": {
            "a": {
              "type": "stdio",
              "command": "x"
            },
            "toolbus": {
              "type": "stdio",
              "command": "/bin/toolbus",
              "args": [
                "mcp",
                "--config",
                "/f/toolbus.toml"
              ]
            }
          },
          "z": [1,2]
        }
        === claude-desktop
        {␍
        	"mcpServers": {␍
        		"toolbus": {␍
        			"command": "/bin/toolbus",␍
        			"args": [␍
        				"mcp",␍
        				"--config",␍
        				"/f/toolbus.toml"␍
        			]␍
        		}␍
        	}␍
        }␍

        === cursor
        {"mcpServers":{"a":{"url":"https://x"},"toolbus":{"command":"/bin/toolbus","args":["mcp","--config","/f/toolbus.toml"]}}}
        === vscode
        {
        	// mine
        	"servers": {
        		"a": {"command": "x"},
        		"toolbus": {
        			"type": "stdio",
        			"command": "/bin/toolbus",
        			"args": [
        				"mcp",
        				"--config",
        				"/f/toolbus.toml"
        			]
        		}, // the only one
        	},
        	"inputs": []
        }

        === codex
        model = "x" # mine

        [mcp_servers.a]
        command = "y"
        # end

        [mcp_servers.toolbus]
        command = "/bin/toolbus"
        args = ["mcp", "--config", "/f/toolbus.toml"]

        === gemini
        {
            "theme": "dark",
            "mcpServers": {"toolbus": {"command": "/bin/toolbus", "args": ["mcp", "--config", "/f/toolbus.toml"]}}
        }

        === windsurf
        {
          "mcpServers": {
            "a": { "serverUrl": "https://x" },
            "toolbus": {
              "command": "/bin/toolbus",
              "args": [
                "mcp",
                "--config",
                "/f/toolbus.toml"
              ]
            }
          }
        }

        === zed
        // Zed
        {
          "theme": {
            "mode": "dark", // "context_servers": {
          },
          "context_servers": {
            "toolbus": {
              "command": "/bin/toolbus",
              "args": [
                "mcp",
                "--config",
                "/f/toolbus.toml"
              ]
            }
          },
        }

        === cline
        { "mcpServers": { "a": { "command": "x" }, "toolbus": {"command": "/bin/toolbus", "args": ["mcp", "--config", "/f/toolbus.toml"]} } }

        === continue
        {
          "mcpServers": {
            "toolbus": {
              "command": "/bin/toolbus",
              "args": [
                "mcp",
                "--config",
                "/f/toolbus.toml"
              ]
            }
          }
        }

        === opencode
        {
          "$schema": "https://opencode.ai/config.json",
          "mcp": {
            "a": {"type": "local", "command": ["x"]},
            "toolbus": {
              "type": "local",
              "command": [
                "/bin/toolbus",
                "mcp",
                "--config",
                "/f/toolbus.toml"
              ],
              "enabled": true
            }
            /* last */
          }
        }

        === junie
        ﻿{"mcpServers": {"toolbus": {"command": "/bin/toolbus", "args": ["mcp", "--config", "/f/toolbus.toml"]}}}
    "#]].assert_eq(&all);
    // Again: nothing to do.
    let again = home.run(&["link"]);
    assert_eq!(again.matches("\nkept ").count(), 12, "{again}");
    home.check(&["unlink"], expect![[r#"
        stdout
        unlinked claude-code in /f/home/.claude.json
        unlinked claude-desktop in /f/home/.config/Claude/claude_desktop_config.json
        unlinked cursor in /f/home/.cursor/mcp.json
        unlinked vscode in /f/home/.config/Code/User/mcp.json
        unlinked codex in /f/home/.codex/config.toml
        unlinked gemini in /f/home/.gemini/settings.json
        unlinked windsurf in /f/home/.codeium/windsurf/mcp_config.json
        unlinked zed in /f/home/.config/zed/settings.json
        unlinked cline in /f/home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json
        unlinked continue in /f/home/.continue/mcpServers/toolbus.json
        unlinked opencode in /f/home/.config/opencode/opencode.json
        unlinked junie in /f/home/.junie/mcp/mcp.json
        exit 0
    "#]]);
    for (client, file, text) in CLIENTS {
        let now = fs::read_to_string(home.path(file)).unwrap();
        assert_eq!(now, text, "{client}");
        let backup = home.path(&format!("{file}.before-toolbus"));
        assert!(!backup.exists(), "{client}");
    }
    home.check(
        &["unlink", "cursor"],
        expect![[r#"
        stdout
        absent cursor in /f/home/.cursor/mcp.json
        exit 0
    "#]],
    );
}

#[test]
fn each_client_is_given_a_url_in_its_own_words() {
    let home = Home::of(&[]);
    let mut words = vec!["link", "--url"];
    words.extend(CLIENTS.map(|(client, ..)| client));
    let linked = home.run(&words);
    assert_eq!(linked.matches("\nlinked ").count(), 12, "{linked}");
    let mut all = String::new();
    for (client, file, _) in CLIENTS {
        all += &format!("=== {client}\n{}", home.read(file));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&home.path(file)), 0o600, "{client}");
        let folder = home.path(file);
        let folder = folder.parent().unwrap();
        assert!(folder == home.path("") || mode(folder) == 0o700, "{client}");
    }
    expect![[r#"
        === claude-code
        {
          "mcpServers": {
            "toolbus": {
              "type": "http",
              "url": "http://127.0.0.1:8932/mcp"
            }
          }
        }
        === claude-desktop
        {
          "mcpServers": {
            "toolbus": {
              "command": "/bin/toolbus",
              "args": [
                "mcp",
                "http://127.0.0.1:8932/mcp"
              ]
            }
          }
        }
        === cursor
        {
          "mcpServers": {
            "toolbus": {
              "url": "http://127.0.0.1:8932/mcp"
            }
          }
        }
        === vscode
        {
          "servers": {
            "toolbus": {
              "type": "http",
              "url": "http://127.0.0.1:8932/mcp"
            }
          }
        }
        === codex
        [mcp_servers.toolbus]
        url = "http://127.0.0.1:8932/mcp"
        === gemini
        {
          "mcpServers": {
            "toolbus": {
              "httpUrl": "http://127.0.0.1:8932/mcp"
            }
          }
        }
        === windsurf
        {
          "mcpServers": {
            "toolbus": {
              "serverUrl": "http://127.0.0.1:8932/mcp"
            }
          }
        }
        === zed
        {
          "context_servers": {
            "toolbus": {
              "url": "http://127.0.0.1:8932/mcp"
            }
          }
        }
        === cline
        {
          "mcpServers": {
            "toolbus": {
              "type": "streamableHttp",
              "url": "http://127.0.0.1:8932/mcp"
            }
          }
        }
        === continue
        {
          "mcpServers": {
            "toolbus": {
              "type": "http",
              "url": "http://127.0.0.1:8932/mcp"
            }
          }
        }
        === opencode
        {
          "mcp": {
            "toolbus": {
              "type": "remote",
              "url": "http://127.0.0.1:8932/mcp",
              "enabled": true
            }
          }
        }
        === junie
        {
          "mcpServers": {
            "toolbus": {
              "url": "http://127.0.0.1:8932/mcp"
            }
          }
        }
    "#]]
    .assert_eq(&all);
    // What we have made goes again.
    let unlinked = home.run(&["unlink"]);
    assert_eq!(unlinked.matches("\nunlinked ").count(), 12, "{unlinked}");
    for (client, file, _) in CLIENTS {
        assert!(!home.path(file).exists(), "{client}");
    }
}

#[test]
fn forms_views_and_names_are_as_they_are_asked_for() {
    let home = Home::of(&[(".cursor/mcp.json", "{\"mcpServers\": {}}\n")]);
    home.check(&["link", "--dry-run", "--view", "v", "--name", "tools", "cursor"], expect![[r#"
        stdout
        --- /f/home/.cursor/mcp.json
        +++ /f/home/.cursor/mcp.json
        @@ -1 +1 @@
        -{"mcpServers": {}}
        +{"mcpServers": {"tools": {"command": "/bin/toolbus", "args": ["mcp", "--config", "/f/toolbus.toml", "--view", "v"]}}}
        exit 0
    "#]]);
    home.check(&["link", "--json", "--url=http://127.0.0.1:1/mcp", "cursor"], expect![[r#"
        stdout
        {"client":"cursor","path":"/f/home/.cursor/mcp.json","outcome":"linked","form":"url","backup":"/f/home/.cursor/mcp.json.before-toolbus"}
        exit 0
    "#]]);
    home.check(&["link", "--json", "cursor"], expect![[r#"
        stdout
        {"client":"cursor","path":"/f/home/.cursor/mcp.json","outcome":"updated","form":"command","backup":"/f/home/.cursor/mcp.json.before-toolbus"}
        exit 0
    "#]]);
    expect![[r#"
        {"mcpServers": {"toolbus": {"command": "/bin/toolbus", "args": ["mcp", "--config", "/f/toolbus.toml"]}}}
    "#]].assert_eq(&home.read(".cursor/mcp.json"));
    home.check(
        &["link", "--view", "w", "cursor"],
        expect![[r#"
        stderr
        error: there is no view `w`
        hint: did you mean `v`?
        exit 2
    "#]],
    );
    home.check(
        &["link", "curser"],
        expect![[r#"
        stderr
        error: there is no client `curser`
        hint: did you mean `cursor`?
        exit 2
    "#]],
    );
    home.check(
        &["link", "--list", "jetbrains", "cursor"],
        expect![[r#"
        stdout
        cursor  linked  /f/home/.cursor/mcp.json
        junie   absent  /f/home/.junie/mcp/mcp.json
        exit 0
    "#]],
    );
    home.check(
        &["link", "--list", "--json", "zed", "cursor"],
        expect![[r#"
        stdout
        {"client":"cursor","state":"linked","path":"/f/home/.cursor/mcp.json"}
        {"client":"zed","state":"absent","path":"/f/home/.config/zed/settings.json"}
        exit 0
    "#]],
    );
    // Somebody goes on writing: then the server alone is taken out.
    home.write(
        ".cursor/mcp.json",
        "{\"mcpServers\": {\"toolbus\": {\"command\": \"toolbus\"}, \"b\": 1}}\n",
    );
    home.check(
        &["unlink", "cursor"],
        expect![[r#"
        stdout
        unlinked cursor in /f/home/.cursor/mcp.json
        stderr
        note: what it was stays in /f/home/.cursor/mcp.json.before-toolbus
        exit 0
    "#]],
    );
    assert_eq!(home.read(".cursor/mcp.json"), "{\"mcpServers\": { \"b\": 1}}\n");
    assert_eq!(home.read(".cursor/mcp.json.before-toolbus"), "{\"mcpServers\": {}}\n");
}

#[test]
fn what_cannot_be_linked_is_left_as_it_is_and_the_others_are_done() {
    let home = Home::of(&[
        (".cursor/mcp.json", "{\"mcpServers\": {\"toolbus\": {\"command\": \"other\"}}}"),
        (".gemini/settings.json", "{"),
        (".junie/mcp/mcp.json", "{\"mcpServers\": []}"),
        (".codex/config.toml", "mcp_servers = { a = { command = \"x\" } }\n"),
        (".config/zed/settings.json", "{\"context_servers\": {}, \"context_servers\": {}}"),
        (".codeium/windsurf/mcp_config.json", "{}\n"),
    ]);
    home.check(
        &["link"],
        expect![[r#"
        stdout
        FAIL cursor: the server `toolbus` there is not ours; `--force` takes it all the same
        FAIL codex: `mcp_servers` is an inline table
        FAIL gemini: it is not JSON (line 1)
        linked windsurf in /f/home/.codeium/windsurf/mcp_config.json
        FAIL zed: `context_servers` is there twice
        FAIL junie: `mcpServers` is no object
        exit 1
    "#]],
    );
    assert_eq!(home.read(".gemini/settings.json"), "{");
    assert!(!home.path(".cursor/mcp.json.before-toolbus").exists());
    home.check(
        &["unlink", "cursor"],
        expect![[r#"
        stdout
        FAIL cursor: the server `toolbus` there is not ours; `--force` takes it all the same
        exit 1
    "#]],
    );
    home.check(
        &["link", "--force", "cursor", "--url=https://far.example/mcp"],
        expect![[r#"
        stdout
        updated cursor in /f/home/.cursor/mcp.json
        exit 0
    "#]],
    );
    assert_eq!(
        home.read(".cursor/mcp.json"),
        "{\"mcpServers\": {\"toolbus\": {\"url\": \"https://far.example/mcp\"}}}"
    );
    home.check(
        &["unlink", "cursor", "--force", "--json"],
        expect![[r#"
        stdout
        {"client":"cursor","path":"/f/home/.cursor/mcp.json","outcome":"unlinked"}
        exit 0
    "#]],
    );
}

#[test]
fn a_file_that_is_all_ours_leaves_nothing_behind_however_often_it_is_linked() {
    let home = Home::of(&[]);
    for words in [
        &["link", "cursor", "codex"][..],
        &["link", "cursor", "codex", "--view", "v"],
        &["link", "cursor", "codex", "--url", "--json"],
    ] {
        home.run(words);
    }
    assert!(!home.path(".cursor/mcp.json.before-toolbus").exists());
    home.check(
        &["unlink"],
        expect![[r#"
        stdout
        unlinked cursor in /f/home/.cursor/mcp.json
        unlinked codex in /f/home/.codex/config.toml
        exit 0
    "#]],
    );
    assert!(!home.path(".cursor/mcp.json").exists() && !home.path(".codex/config.toml").exists());
}

#[test]
fn what_was_ours_before_is_put_back_and_a_backup_that_cannot_be_read_stays() {
    let before = "{\"mcpServers\": {\"toolbus\": {\"command\": \"toolbus\", \"args\": [\"mcp\"]}}} // mine\n";
    let home = Home::of(&[(".cursor/mcp.json", before)]);
    home.check(&["link", "--json"], expect![[r#"
        stdout
        {"client":"cursor","path":"/f/home/.cursor/mcp.json","outcome":"updated","form":"command","backup":"/f/home/.cursor/mcp.json.before-toolbus"}
        exit 0
    "#]]);
    assert_eq!(home.read(".cursor/mcp.json.before-toolbus"), before);
    home.check(
        &["unlink", "cursor"],
        expect![[r#"
        stdout
        unlinked cursor in /f/home/.cursor/mcp.json
        exit 0
    "#]],
    );
    assert_eq!(home.read(".cursor/mcp.json"), before);
    // Whatever it is, it is not ours to lose.
    let home = Home::of(&[]);
    home.run(&["link", "cursor"]);
    fs::write(home.path(".cursor/mcp.json.before-toolbus"), b"\xff").unwrap();
    home.check(
        &["unlink", "cursor"],
        expect![[r#"
        stdout
        unlinked cursor in /f/home/.cursor/mcp.json
        stderr
        note: what it was stays in /f/home/.cursor/mcp.json.before-toolbus
        exit 0
    "#]],
    );
    assert_eq!(home.read(".cursor/mcp.json"), "{\n  \"mcpServers\": {\n  }\n}\n");
}

#[test]
fn without_a_client_a_config_or_a_front_there_is_nothing_to_link() {
    let home = Home::of(&[]);
    home.check(&["link"], expect![[r#"
        stderr
        error: no client was found
        hint: claude-code, claude-desktop, cursor, vscode, codex, gemini, windsurf, zed, cline, continue, opencode, junie
        exit 2
    "#]]);
    let config = home.0.path().join("toolbus.toml");
    fs::write(
        &config,
        "[back.a]\nconnect = \"builtin:\"\n[front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n",
    )
    .unwrap();
    home.check(
        &["link", "--url", "zed"],
        expect![[r#"
        stderr
        error: `front.web` has no fixed port, and no `toolbus serve` runs
        exit 2
    "#]],
    );
    home.check(
        &["link", "--url=127.0.0.1:8932", "zed"],
        expect![[r#"
        stderr
        error: `127.0.0.1:8932` is no URL that clients take
        hint: write `--url=http://HOST:PORT/PATH`, or `--url` for that of the config
        exit 2
    "#]],
    );
    fs::write(&config, "[back.a]\nconnect = \"builtin:\"\n").unwrap();
    home.check(
        &["link", "--url", "zed"],
        expect![[r#"
        stderr
        error: `toolbus.toml` has no MCP front
        exit 2
    "#]],
    );
    fs::remove_file(&config).unwrap();
    home.check(
        &["link", "zed"],
        expect![[r#"
        stderr
        error: there is no config to link
        hint: toolbus init
        exit 2
    "#]],
    );
    assert!(!home.path(".config").exists());
}
