//! How MCP clients write one server down: which file, in which object, in which words. Each row cites
//! what the client's own documentation says.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clients::{LinkForm, LinkFormat, Linkable, Surroundings};

/// One client.
struct Client {
    name: &'static str,
    /// What else it is called.
    alias: Option<&'static str>,
    /// Its file, below the home folder.
    file: &'static str,
    /// The same on macOS, where that differs.
    file_on_macos: Option<&'static str>,
    /// The variable that names the folder of the file.
    folder_variable: Option<&'static str>,
    /// The folder that shows that it is there; that of the file if there is none.
    shown_by: Option<&'static str>,
    /// The object, or the family of tables, that names servers.
    object: &'static str,
    dialect: Dialect,
}

/// The words of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// `command` and `args`; a URL under this name, behind the `type` if there is one.
    Plain { url: &'static str, url_type: Option<&'static str> },
    /// The same with a `type` for commands too.
    Typed,
    /// It takes no URLs: a toolbus passes it on.
    CommandsAlone,
    /// The command as one list.
    Opencode,
    /// TOML.
    Codex,
}

const PLAIN: Dialect = Dialect::Plain { url: "url", url_type: None };

const CLIENTS: [Client; 12] = [
    // https://code.claude.com/docs/en/mcp
    Client {
        folder_variable: Some("CLAUDE_CONFIG_DIR"),
        shown_by: Some(".claude"),
        dialect: Dialect::Typed,
        ..Client::new("claude-code", ".claude.json", "mcpServers")
    },
    // https://modelcontextprotocol.io/docs/develop/connect-local-servers
    Client {
        file_on_macos: Some("Library/Application Support/Claude/claude_desktop_config.json"),
        dialect: Dialect::CommandsAlone,
        ..Client::new("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers")
    },
    // https://cursor.com/docs/context/mcp
    Client::new("cursor", ".cursor/mcp.json", "mcpServers"),
    // https://code.visualstudio.com/docs/copilot/customization/mcp-servers
    Client {
        file_on_macos: Some("Library/Application Support/Code/User/mcp.json"),
        dialect: Dialect::Typed,
        ..Client::new("vscode", ".config/Code/User/mcp.json", "servers")
    },
    // https://developers.openai.com/codex/mcp
    Client {
        folder_variable: Some("CODEX_HOME"),
        dialect: Dialect::Codex,
        ..Client::new("codex", ".codex/config.toml", "mcp_servers")
    },
    // https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
    Client {
        dialect: Dialect::Plain { url: "httpUrl", url_type: None },
        ..Client::new("gemini", ".gemini/settings.json", "mcpServers")
    },
    // https://docs.windsurf.com/windsurf/cascade/mcp
    Client {
        dialect: Dialect::Plain { url: "serverUrl", url_type: None },
        ..Client::new("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers")
    },
    // https://zed.dev/docs/ai/mcp
    Client::new("zed", ".config/zed/settings.json", "context_servers"),
    // https://docs.cline.bot/mcp/configuring-mcp-servers
    Client {
        file_on_macos: Some(
            "Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
        dialect: Dialect::Plain { url: "url", url_type: Some("streamableHttp") },
        ..Client::new(
            "cline",
            ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "mcpServers",
        )
    },
    // https://docs.continue.dev/customize/deep-dives/mcp
    Client {
        shown_by: Some(".continue"),
        dialect: Dialect::Plain { url: "url", url_type: Some("http") },
        ..Client::new("continue", ".continue/mcpServers/toolbus.json", "mcpServers")
    },
    // https://opencode.ai/docs/mcp-servers
    Client {
        dialect: Dialect::Opencode,
        ..Client::new("opencode", ".config/opencode/opencode.json", "mcp")
    },
    // https://junie.jetbrains.com/docs/junie-cli-mcp-configuration.html
    Client {
        alias: Some("jetbrains"),
        shown_by: Some(".junie"),
        ..Client::new("junie", ".junie/mcp/mcp.json", "mcpServers")
    },
];

/// All of them, with the files that they have for this user.
pub(super) fn all(surroundings: &Surroundings<'_>) -> Vec<Linkable> {
    let Some(home) = surroundings.home else { return Vec::new() };
    CLIENTS.iter().map(|client| client.linkable(home, surroundings)).collect()
}

impl Client {
    const fn new(name: &'static str, file: &'static str, object: &'static str) -> Client {
        Client {
            name,
            alias: None,
            file,
            file_on_macos: None,
            folder_variable: None,
            shown_by: None,
            object,
            dialect: PLAIN,
        }
    }

    fn linkable(&self, home: &Path, surroundings: &Surroundings<'_>) -> Linkable {
        let below = match self.file_on_macos {
            Some(file) if cfg!(target_os = "macos") => file,
            _ => self.file,
        };
        let named = self.folder_variable.and_then(|name| (surroundings.env)(name));
        let named = named.filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let file = match &named {
            Some(folder) => folder.join(Path::new(below).file_name().unwrap_or_default()),
            None => super::found_at(home, below, surroundings),
        };
        let shown_by = match (named, self.shown_by) {
            (Some(folder), _) => folder,
            (None, Some(folder)) => home.join(folder),
            (None, None) => file.parent().unwrap_or(home).to_path_buf(),
        };
        // That of the extension, not that of its settings.
        let shown_by = match shown_by.ends_with("saoudrizwan.claude-dev/settings") {
            true => shown_by.parent().unwrap_or(home).to_path_buf(),
            false => shown_by,
        };
        Linkable {
            name: self.name,
            alias: self.alias,
            file,
            shown_by,
            format: match self.dialect {
                Dialect::Codex => LinkFormat::Toml { family: self.object },
                Dialect::Opencode => {
                    LinkFormat::Json { object: self.object, inner: Some("servers") }
                }
                _ => LinkFormat::Json { object: self.object, inner: None },
            },
            entry: self.dialect.entry_of(),
        }
    }
}

impl Dialect {
    /// What makes the entry of a form.
    fn entry_of(self) -> Box<dyn Fn(&LinkForm) -> Value> {
        Box::new(move |form| match (self, form) {
            (Dialect::Typed, LinkForm::Command { program, args }) => {
                json!({"type": "stdio", "command": program, "args": args})
            }
            (Dialect::Typed, LinkForm::Url { url, .. }) => json!({"type": "http", "url": url}),
            (Dialect::Opencode, LinkForm::Command { program, args }) => {
                let command: Vec<&String> = std::iter::once(program).chain(args).collect();
                json!({"type": "local", "command": command, "enabled": true})
            }
            (Dialect::Opencode, LinkForm::Url { url, .. }) => {
                json!({"type": "remote", "url": url, "enabled": true})
            }
            (Dialect::CommandsAlone, LinkForm::Url { program, url }) => {
                json!({"command": program, "args": ["mcp", url]})
            }
            (Dialect::Plain { url: key, url_type }, LinkForm::Url { url, .. }) => {
                let mut entry = match url_type {
                    Some(kind) => json!({"type": kind}),
                    None => json!({}),
                };
                entry[key] = json!(url);
                entry
            }
            (Dialect::Codex, LinkForm::Url { url, .. }) => json!({"url": url}),
            (_, LinkForm::Command { program, args }) => json!({"command": program, "args": args}),
        })
    }
}
