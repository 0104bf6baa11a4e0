//! The tables of the config: which keys each has, and for whom (`docs/config.md`).

use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;
use toolbus_proto::page::PageMode;
use toolbus_proto::search::Search;
use toolbus_proto::tool::ToolName;

use super::callers::{caller, limits};
use super::error::{ConfigError, Problem};
use super::key::{BadValue, Key, Values};
use super::keys::{Entry, Fault, Faults, Keys, Source};
use super::views::view;
use super::{Admin, BackConfig, Config, FrontConfig, JournalConfig, ThreadCount, references};
use crate::address::{Address, Place, Purpose};
use crate::bus::lock::{Locking, OnChange, OnNew, OnProgram, Rules};
#[cfg(feature = "oauth")]
use crate::oauth::tokens::FrontOauth;
use crate::peer::access::{AccessSettings, is_loopback};
use crate::peer::at::At;
use crate::peer::settings::{Missing, ProgramSettings, Restart, Settings};
use crate::peer::{FrontKind, PeerKind, Registry};
use crate::scope::Scope;
use crate::secrets::Secrets;

const JOURNAL_BYTES_MAX: usize = 64 << 20;

pub(super) fn read(
    registry: &Registry,
    folder: &Path,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let read = read_all(registry, folder, text, env);
    read.faults.finish()?;
    Ok(read.config)
}

/// What could be read of a config, and all that is wrong with it.
pub(super) struct ReadConfig {
    /// Without the tables that could not be read.
    pub(super) config: Config,
    pub(super) faults: Faults,
    /// What single backs ask for and is not there.
    pub(super) missing: Faults,
}

pub(super) fn read_all(
    registry: &Registry,
    folder: &Path,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> ReadConfig {
    let (faults, missing) = (Faults::default(), Faults::default());
    let lacks = &missing;
    let source = Source { text, folder, env, registry, faults: &faults, lacks, missing: None };
    let table = DeTable::parse(text).map_err(|error| {
        // Its own rendering would show the line, and with it what may be a secret.
        let message = error.message().to_owned();
        source.fault(&error.span().unwrap_or(0..0), Problem::Syntax { message })
    });
    let secrets = Secrets::within();
    let scope = Scope::current().knowing(secrets.clone());
    let read = |table: Spanned<DeTable<'_>>| scope.enter(|| config(source, table.get_ref()));
    let config = faults.noted(table).map(read);
    ReadConfig { config: Config { secrets, ..config.unwrap_or_default() }, faults, missing }
}

fn config(source: Source<'_>, table: &DeTable<'_>) -> Config {
    let mut keys = Keys::new(source, String::new(), 0..0, table);
    let mut config = Config {
        backs: keys.take("back", |entry| each(entry, back)).unwrap_or_default(),
        fronts: keys.take("front", |entry| each(entry, front)).unwrap_or_default(),
        views: keys.take("view", |entry| each(entry, view)).unwrap_or_default(),
        callers: keys.take("caller", |entry| each(entry, caller)).unwrap_or_default(),
        views_and_callers: references::in_order(source, table),
        journal: keys.take("journal", journal).flatten(),
        admin: keys.take("admin", admin).flatten(),
        threads: keys.take("serve", serving).flatten().unwrap_or_default(),
        locking: keys.take("lock", locking).unwrap_or_default(),
        secrets: Secrets::default(),
    };
    keys.finish();
    references::resolve(source, table, &mut config);
    config
}

/// The tables of a kind, by name: `[back.math]`, `[back.weather]`.
fn each<T>(
    kind: &Entry<'_>,
    read: fn(&Entry<'_>) -> Result<Option<T>, Fault>,
) -> Result<Vec<T>, Fault> {
    let named = |entry: &Entry<'_>| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let faults = entry.source.faults;
        if entry.name.is_empty() || !entry.name.chars().all(is_letter) || entry.name == "toolbus" {
            let (key, name) = (entry.path.clone(), entry.name.to_owned());
            faults.note(entry.key_fault(Problem::Name { key, name }));
        }
        faults.noted(read(entry)).flatten()
    };
    Ok(kind.entries()?.iter().filter_map(named).collect())
}

/// `None` if there is a mistake in it, which is noted.
fn back(entry: &Entry<'_>) -> Result<Option<BackConfig>, Fault> {
    let missing = Faults::default();
    let back = back_lacking(&missing, &entry.lacking(&missing));
    for fault in missing.in_order() {
        entry.source.lacks.note(fault);
    }
    back
}

fn back_lacking(missing: &Faults, entry: &Entry<'_>) -> Result<Option<BackConfig>, Fault> {
    let registry = entry.source.registry;
    let mut keys = entry.keys()?;
    let address = keys.need("connect", |entry| entry.address(Purpose::Call));
    let allow = keys.take("allow", Entry::strings);
    let back_name = entry.name.to_owned();
    let lock = keys.take("lock", Entry::bool).unwrap_or(true);
    let limits = limits(&mut keys);
    let settings = Settings {
        name: Some(entry.name.to_owned()),
        pin: keys.take("pin", Entry::bool),
        timeout: keys.take("timeout", Entry::duration),
        start_timeout: keys.take("start_timeout", Entry::duration),
        stop_timeout: keys.take("stop_timeout", Entry::duration),
        restart: keys.take("restart", |entry| {
            choice(entry, "\"on-demand\" or \"never\"", |text| match text {
                "on-demand" => Some(Restart::OnDemand),
                "never" => Some(Restart::Never),
                _ => None,
            })
        }),
        idle_stop: keys.take("idle_stop", |entry| {
            let time = entry.duration()?;
            match &address {
                Some(address) if !address.kind().keeps_running(address) => {
                    let (key, back) = (entry.path.clone(), back_name.clone());
                    Err(entry.fault(Problem::NoProgram { key, back }))
                }
                _ => Ok(time),
            }
        }),
        ..Settings::default()
    };
    let Some(address) = address else {
        keys.pass_over(PROGRAM_KEYS.into_iter().chain(names_of(registry, PeerKind::back_keys)));
        keys.finish();
        return Ok(None);
    };
    let settings = Settings { program: program(&mut keys, &address), ..settings };
    let values = of_kind(&mut keys, &address, registry, PeerKind::back_keys);
    keys.finish();
    note_mistakes(entry, address.kind().mistakes(&entry.path, &values));
    let settings = address.kind().configure(&values, settings);
    let settings = Settings { missing: told_missing(&missing.problems()), ..settings };
    let allow = allow.map(|names| names.into_iter().map(ToolName::new).collect());
    let name = entry.name.to_owned();
    Ok(Some(BackConfig { name, address, allow, lock, limits, settings }))
}

/// What a kind of peer says of values that are well written, each by itself.
fn note_mistakes(entry: &Entry<'_>, mistakes: Vec<BadValue>) {
    for BadValue { key, message, hint } in mistakes {
        let problem = Problem::Said { key: format!("{}.{key}", entry.path), message, hint };
        entry.source.faults.note(entry.fault_below(&key, problem));
    }
}

/// All that a back needs and is not there, as its calls are told it.
fn told_missing(problems: &[Problem]) -> Option<Missing> {
    let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let mut variables: Vec<&str> = Vec::new();
    for problem in problems {
        if let Problem::Unset { variable, .. } = problem
            && !variables.contains(&variable.as_str())
        {
            variables.push(variable);
        }
    }
    let hint = match (problems, variables.as_slice()) {
        ([], _) => return None,
        ([first, ..], []) => first.hint().unwrap_or_else(|| {
            "see that the file is there and can be read, or take it out of the config".to_owned()
        }),
        (_, [only]) => format!("set it: `export {only}=…`, or take it out of the config"),
        (_, several) => {
            let set: String = several.iter().map(|name| format!(" {name}=…")).collect();
            format!("set them: `export{set}`, or take them out of the config")
        }
    };
    Some(Missing { message, hint: Some(hint) })
}

/// The values of the keys that the kind of this peer has; those of other kinds are misplaced.
fn of_kind(
    keys: &mut Keys<'_>,
    address: &Address,
    registry: &Registry,
    keys_of: impl Fn(&'static dyn PeerKind) -> &'static [Key],
) -> Values {
    let mut values = Values { folder: keys.folder().to_owned(), ..Values::default() };
    let own = address.kind();
    for key in keys_of(own) {
        keys.only_for(key.only_for, key.applies_to(address));
        if let Some(value) = keys.take(key.name, |entry| entry.value(key.kind)) {
            values.read.push((key.name, value));
        }
    }
    // Behind its own, since two kinds may have keys of one name.
    for key in registry.kinds().filter(|kind| !kind.is(own)).flat_map(keys_of) {
        keys.only_for(key.only_for, false);
        keys.take(key.name, |_| Ok(()));
    }
    values
}

/// The keys that a peer may have of which it is not known what it is.
fn names_of(
    registry: &Registry,
    keys_of: impl Fn(&'static dyn PeerKind) -> &'static [Key],
) -> impl Iterator<Item = &'static str> {
    registry.kinds().flat_map(keys_of).map(|key| key.name)
}

const PROGRAM_KEYS: [&str; 3] = ["env", "env_pass", "cwd"];

fn program(keys: &mut Keys<'_>, address: &Address) -> ProgramSettings {
    keys.only_for("backs on stdio", matches!(address.place(), Place::Command(_)));
    ProgramSettings {
        env: keys.take("env", Entry::secrets).unwrap_or_default(),
        env_pass: keys.take("env_pass", Entry::strings).unwrap_or_default(),
        cwd: keys.take("cwd", Entry::path_buf),
    }
}

fn front(entry: &Entry<'_>) -> Result<Option<FrontConfig>, Fault> {
    let registry = entry.source.registry;
    let mut keys = entry.keys()?;
    let serve = keys.need("serve", |entry| {
        let address = entry.address(Purpose::Serve)?;
        if address.kind().can_listen(&address) {
            return Ok(address);
        }
        let (key, address) = (entry.path.clone(), address.to_string());
        Err(entry.fault(Problem::CannotServe { key, address }))
    });
    let keys_of = |kind: &'static dyn PeerKind| kind.front().map_or(&[][..], FrontKind::keys);
    let list_timeout = keys.take("list_timeout", Entry::duration_or_none);
    let search = keys.take("search", search);
    let always = keys.take("always", super::views::patterns);
    // Whom it is for is read when all callers are known.
    keys.take("callers", |_| Ok(()));
    let view = keys.take("view", Entry::string);
    let limits = limits(&mut keys);
    let Some(serve) = serve else {
        keys.pass_over(names_of(registry, keys_of));
        keys.finish();
        return Ok(None);
    };
    let values = of_kind(&mut keys, &serve, registry, keys_of);
    keys.finish();
    let front = serve.kind().front();
    note_mistakes(
        entry,
        front.map(|front| front.mistakes(&entry.path, &values)).unwrap_or_default(),
    );
    #[cfg(feature = "oauth")]
    let oauth = values.table("oauth").and_then(|table| {
        let read = FrontOauth::read(&format!("{}.oauth", entry.path), &table);
        read.map_err(|mistakes| note_mistakes(entry, mistakes)).ok().map(std::sync::Arc::new)
    });
    let settings = front.map(|front| front.settings(&values)).unwrap_or_default();
    Ok(Some(FrontConfig {
        name: entry.name.to_owned(),
        serve,
        list_timeout,
        search,
        always,
        callers: None,
        view,
        limits,
        #[cfg(feature = "oauth")]
        oauth,
        settings,
    }))
}

fn journal(entry: &Entry<'_>) -> Result<Option<JournalConfig>, Fault> {
    let mut keys = entry.keys()?;
    let path = keys.need("path", Entry::path_buf);
    let journal = JournalConfig {
        path: path.clone().unwrap_or_default(),
        arguments: keys.take("arguments", Entry::bool).unwrap_or_default(),
        results: keys.take("results", Entry::bool).unwrap_or_default(),
        bytes_max: keys.take("bytes_max", Entry::size).unwrap_or(JOURNAL_BYTES_MAX),
        required: keys.take("required", Entry::bool).unwrap_or_default(),
    };
    keys.finish();
    Ok(path.map(|_| journal))
}

fn admin(entry: &Entry<'_>) -> Result<Option<Admin>, Fault> {
    let mut keys = entry.keys()?;
    let listen = keys.need("listen", |entry| {
        let why = |why| entry.fault(Problem::Listen { key: entry.path.clone(), why });
        entry.string()?.parse().map_err(why)
    });
    let access = AccessSettings {
        token: keys.take("token", Entry::secret),
        token_env: keys.take("token_env", Entry::string),
        insecure: keys.take("insecure", Entry::bool).unwrap_or_default(),
        origins: keys.take("origins", Entry::strings).unwrap_or_default(),
        hosts: keys.take("hosts", Entry::strings).unwrap_or_default(),
    };
    let page =
        keys.take("page", |entry| choice(entry, "\"look\", \"call\" or \"off\"", PageMode::parse));
    let page_values = keys.take("page_values", Entry::bool).unwrap_or(true);
    keys.finish();
    Ok(listen.map(|listen: At| {
        // Where others can reach us, somebody has to want it.
        let usual = if is_loopback(&listen.host) { PageMode::Look } else { PageMode::Off };
        Admin { listen, access, page: page.unwrap_or(usual), page_values }
    }))
}

/// `[serve]`: how `toolbus serve` works.
fn serving(entry: &Entry<'_>) -> Result<Option<ThreadCount>, Fault> {
    let mut keys = entry.keys()?;
    let threads = keys.take("threads", |entry| {
        let count = match (entry.value.as_str(), entry.integer()) {
            (Some(text), _) if text == ThreadCount::AUTO => Some(ThreadCount::Auto),
            (_, Some(count)) => usize::try_from(count).ok().and_then(ThreadCount::of),
            _ => None,
        };
        count.ok_or_else(|| entry.wrong_type("\"auto\" or an integer from 1 to 64"))
    });
    keys.finish();
    Ok(threads)
}

/// `[lock]`: what becomes of what differs from the lock.
fn locking(entry: &Entry<'_>) -> Result<Locking, Fault> {
    let mut keys = entry.keys()?;
    let changed = keys.take("changed", |entry| {
        choice(entry, "\"refuse\" or \"warn\"", |text| match text {
            "refuse" => Some(OnChange::Refuse),
            "warn" => Some(OnChange::Warn),
            _ => None,
        })
    });
    let new = keys.take("new", |entry| {
        choice(entry, "\"refuse\", \"warn\" or \"allow\"", |text| match text {
            "refuse" => Some(OnNew::Refuse),
            "warn" => Some(OnNew::Warn),
            "allow" => Some(OnNew::Allow),
            _ => None,
        })
    });
    let program = keys.take("program", |entry| {
        choice(entry, "\"warn\", \"refuse\" or \"ignore\"", |text| match text {
            "warn" => Some(OnProgram::Warn),
            "refuse" => Some(OnProgram::Refuse),
            "ignore" => Some(OnProgram::Ignore),
            _ => None,
        })
    });
    keys.finish();
    let rules = Rules {
        changed: changed.unwrap_or_default(),
        new: new.unwrap_or_default(),
        program: program.unwrap_or_default(),
    };
    Ok(Locking { rules, is_required: true, ..Locking::default() })
}

pub(super) fn search(entry: &Entry<'_>) -> Result<Search, Fault> {
    match (entry.value.as_bool(), entry.value.as_str()) {
        (Some(true), _) => Ok(Search::On),
        (Some(false), _) => Ok(Search::Off),
        (_, Some("auto")) => Ok(Search::Auto),
        _ => Err(entry.wrong_type("true, false or \"auto\"")),
    }
}

pub(super) fn choice<T>(
    entry: &Entry<'_>,
    expected: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Fault> {
    entry.value.as_str().and_then(read).ok_or_else(|| entry.wrong_type(expected))
}
