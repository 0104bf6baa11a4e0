//! The tables of the config: which keys each has, and for whom (`design` §5).

use toml::de::DeTable;
use toolbus_proto::tool::{ToolName, Wire};

use super::error::{ConfigError, Problem};
use super::keys::{Entry, Keys, Source};
use super::{Admin, BackConfig, ClientSettings, Config, FrontConfig, Journal};
use crate::address::{Address, Place, Purpose, Transport};
use crate::wire::settings::{
    BlobLen, Clients, McpSettings, MediocreSettings, OracleSettings, OrchardSettings,
    ProgramSettings, Restart, Settings, Share,
};

const JOURNAL_BYTES_MAX: usize = 64 << 20;

pub(super) fn read(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let source = Source { text, env };
    let table = DeTable::parse(text).map_err(|error| {
        // Its own rendering would show the line, and with it what may be a secret.
        let message = error.message().to_owned();
        source.error(&error.span().unwrap_or(0..0), Problem::Syntax { message })
    })?;
    let mut keys = Keys::new(source, String::new(), 0..0, table.get_ref());
    let config = Config {
        backs: keys.take("back", |entry| each(entry, back))?.unwrap_or_default(),
        fronts: keys.take("front", |entry| each(entry, front))?.unwrap_or_default(),
        journal: keys.take("journal", journal)?,
        admin: keys.take("admin", admin)?,
    };
    keys.finish()?;
    Ok(config)
}

/// The tables of a kind, by name: `[back.math]`, `[back.weather]`.
fn each<T>(
    kind: &Entry<'_>,
    read: fn(&Entry<'_>) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let named = |entry: &Entry<'_>| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if entry.name.is_empty() || !entry.name.chars().all(is_letter) || entry.name == "toolbus" {
            return Err(entry.key_error(Problem::Name { name: entry.name.to_owned() }));
        }
        read(entry)
    };
    kind.entries()?.iter().map(named).collect()
}

fn back(entry: &Entry<'_>) -> Result<BackConfig, ConfigError> {
    let mut keys = entry.keys()?;
    let address = keys.need("connect", |entry| entry.address(Purpose::Call))?;
    let allow = keys.take("allow", Entry::strings)?;
    let settings = Settings {
        name: Some(entry.name.to_owned()),
        timeout: keys.take("timeout", Entry::duration)?,
        start_timeout: keys.take("start_timeout", Entry::duration)?,
        stop_timeout: keys.take("stop_timeout", Entry::duration)?,
        restart: keys.take("restart", |entry| {
            choice(entry, "\"on-demand\" or \"never\"", |text| match text {
                "on-demand" => Some(Restart::OnDemand),
                "never" => Some(Restart::Never),
                _ => None,
            })
        })?,
        program: program(&mut keys, &address)?,
        oracle: oracle(&mut keys, &address)?,
        allow_shell: {
            keys.only_for("the back `shell:`", *address.place() == Place::Shell);
            keys.take("allow_shell", Entry::bool)?.unwrap_or_default()
        },
        mediocre: MediocreSettings {
            methods: {
                keys.only_for("mediocre backs", speaks(&address, toolbus_proto::mediocre::WIRE));
                keys.take("methods", Entry::strings)?
            },
            ..mediocre(&mut keys, &address)?
        },
        orchard: orchard(&mut keys, &address)?,
        mcp: mcp(&mut keys, &address)?,
    };
    keys.finish()?;
    let allow = allow.map(|names| names.into_iter().map(ToolName::new).collect());
    Ok(BackConfig { name: entry.name.to_owned(), address, allow, settings })
}

fn program(keys: &mut Keys<'_>, address: &Address) -> Result<ProgramSettings, ConfigError> {
    keys.only_for("backs on stdio", matches!(address.place(), Place::Command { .. }));
    Ok(ProgramSettings {
        env: keys.take("env", Entry::secrets)?.unwrap_or_default(),
        env_pass: keys.take("env_pass", Entry::strings)?.unwrap_or_default(),
        cwd: keys.take("cwd", Entry::path_buf)?,
    })
}

fn oracle(keys: &mut Keys<'_>, address: &Address) -> Result<OracleSettings, ConfigError> {
    keys.only_for("oracle backs", speaks(address, toolbus_proto::oracle::WIRE));
    Ok(OracleSettings {
        functions: keys.take("functions", Entry::strings)?.unwrap_or_default(),
        lenient_felts: keys.take("lenient_felts", Entry::bool)?.unwrap_or_default(),
        line_bytes_max: keys.take("line_max", Entry::size)?,
    })
}

/// What both sides of the mediocre wire have.
fn mediocre(keys: &mut Keys<'_>, address: &Address) -> Result<MediocreSettings, ConfigError> {
    keys.only_for("the mediocre wire", speaks(address, toolbus_proto::mediocre::WIRE));
    let blob_len = keys.take("blob_len", |entry| {
        choice(entry, "\"exact\" or \"hint\"", |text| match text {
            "exact" => Some(BlobLen::Exact),
            "hint" => Some(BlobLen::Hint),
            _ => None,
        })
    })?;
    Ok(MediocreSettings {
        methods: None,
        blob_len: blob_len.unwrap_or_default(),
        strict: keys.take("strict", Entry::bool)?.unwrap_or_default(),
        object_bytes_max: keys.take("object_bytes_max", Entry::size)?,
        depth_max: keys.take("depth_max", Entry::count)?,
    })
}

fn orchard(keys: &mut Keys<'_>, address: &Address) -> Result<OrchardSettings, ConfigError> {
    keys.only_for("orchard backs", speaks(address, crate::address::ORCHARD));
    Ok(OrchardSettings {
        config: keys.take("config", Entry::secret_object)?,
        configure_timeout: keys.take("configure_timeout", Entry::duration)?,
        frame_bytes_max: keys.take("frame_bytes_max", Entry::size)?,
    })
}

fn mcp(keys: &mut Keys<'_>, address: &Address) -> Result<McpSettings, ConfigError> {
    keys.only_for("MCP backs", speaks(address, toolbus_proto::mcp::WIRE));
    let timeout_total = keys.take("timeout_total", Entry::duration)?;
    let probe_timeout = keys.take("probe_timeout", Entry::duration)?;
    let input_timeout = keys.take("input_timeout", Entry::duration)?;
    let reply_bytes_max = keys.take("reply_bytes_max", Entry::size)?;
    let share = keys.take("share", |entry| {
        choice(entry, "\"all\" or \"session\"", |text| match text {
            "all" => Some(Share::All),
            "session" => Some(Share::Session),
            _ => None,
        })
    })?;
    let is_url = matches!(address.place(), Place::Url(_));
    keys.only_for("MCP over HTTP", speaks(address, toolbus_proto::mcp::WIRE) && is_url);
    Ok(McpSettings {
        timeout_total,
        probe_timeout,
        input_timeout,
        reply_bytes_max,
        share: share.unwrap_or_default(),
        clients: Clients::default(),
        headers: keys.take("headers", Entry::secrets)?.unwrap_or_default(),
        token_env: keys.take("token_env", Entry::string)?,
        insecure: keys.take("insecure", Entry::bool)?.unwrap_or_default(),
    })
}

fn front(entry: &Entry<'_>) -> Result<FrontConfig, ConfigError> {
    let mut keys = entry.keys()?;
    let serve = keys.need("serve", |entry| {
        let address = entry.address(Purpose::Serve)?;
        if can_be_served(&address) {
            return Ok(address);
        }
        let (key, address) = (entry.path.clone(), address.to_string());
        Err(entry.error(Problem::CannotServe { key, address }))
    })?;
    let mediocre = mediocre(&mut keys, &serve)?;
    let clients = ClientSettings {
        drain_bytes_max: keys.take("drain_bytes_max", Entry::size)?,
        drain_timeout: keys.take("drain_timeout", Entry::duration)?,
        idle_timeout: keys.take("idle_timeout", Entry::duration)?,
        call_timeout: keys.take("call_timeout", Entry::duration)?,
    };
    keys.only_for("MCP over HTTP", speaks(&serve, toolbus_proto::mcp::WIRE));
    let token_env = keys.take("token_env", Entry::string)?;
    let insecure = keys.take("insecure", Entry::bool)?.unwrap_or_default();
    let origins = keys.take("origins", Entry::strings)?.unwrap_or_default();
    keys.finish()?;
    let name = entry.name.to_owned();
    Ok(FrontConfig { name, serve, mediocre, clients, token_env, insecure, origins })
}

fn journal(entry: &Entry<'_>) -> Result<Journal, ConfigError> {
    let mut keys = entry.keys()?;
    let journal = Journal {
        path: keys.need("path", Entry::path_buf)?,
        arguments: keys.take("arguments", Entry::bool)?.unwrap_or_default(),
        results: keys.take("results", Entry::bool)?.unwrap_or_default(),
        bytes_max: keys.take("bytes_max", Entry::size)?.unwrap_or(JOURNAL_BYTES_MAX),
    };
    keys.finish()?;
    Ok(journal)
}

fn admin(entry: &Entry<'_>) -> Result<Admin, ConfigError> {
    let mut keys = entry.keys()?;
    let admin = Admin { listen: keys.need("listen", Entry::string)? };
    keys.finish()?;
    Ok(admin)
}

fn speaks(address: &Address, wire: Wire) -> bool {
    match address.place() {
        Place::Builtin | Place::Shell => wire == Wire::INSIDE,
        Place::Command { wire: spoken, .. } => *spoken == wire,
        Place::Unix(_) => wire == toolbus_proto::mediocre::WIRE,
        Place::Url(url) => url.wire == wire,
    }
}

fn can_be_served(address: &Address) -> bool {
    match address.place() {
        Place::Builtin | Place::Shell | Place::Command { .. } => false,
        Place::Unix(_) => true,
        Place::Url(url) if url.wire == toolbus_proto::mcp::WIRE => {
            url.carrier == Transport::Http && !url.path.contains('?')
        }
        Place::Url(_) => true,
    }
}

fn choice<T>(
    entry: &Entry<'_>,
    expected: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, ConfigError> {
    entry.value.as_str().and_then(read).ok_or_else(|| entry.wrong_type(expected))
}
