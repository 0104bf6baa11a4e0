//! `toolbus link` and `toolbus unlink`: the tools of the config for the editors and agents of the
//! user, by one server in the config of each.

mod entry;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use toolbus::address::{Place, Transport, Url};
use toolbus::bus::config::{Config, FrontConfig};
use toolbus::peer::Registry;
use toolbus_proto::did_you_mean::nearest;

use self::entry::{is_ours, linked, present, unlinked};
use super::wire::{self, WireFace};
use crate::args::Globals;
use crate::clients::{LinkForm, Linkable};
use crate::config::{self, Found, with_surroundings};
use crate::edited::{EditedFile, Mode, absolute};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::serve_of;
use crate::render::{self, table};
use crate::stderr;
use crate::stdio::Terminal as _;

/// Behind the name of a file, as it was before us.
const BEFORE: &str = ".before-toolbus";

/// Give the tools of the config to editors and agents
///
/// Writes one server, `toolbus`, into the config of each CLIENT, or of all that are there; every
/// other byte of it stays, comments included, and what the file was is kept beside it. It is a
/// command that starts toolbus with the config, or with `--url` the URL of a `toolbus serve`.
///
/// The clients are claude-code, claude-desktop, cursor, vscode, codex, gemini, windsurf, zed, cline,
/// continue, opencode and junie. `--list` shows where each has its config.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus link
  toolbus link cursor vscode --dry-run
  toolbus link --url=http://127.0.0.1:8932/path zed
  toolbus link --list")]
pub(crate) struct LinkArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// By the URL of the first MCP front of the config, or by this one
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, conflicts_with = "command")]
    url: Option<Option<String>>,
    /// By a command that starts toolbus
    #[arg(long)]
    command: bool,
    /// With the tools as this view of the config shows them
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    view: Option<String>,
    /// Show the clients, which have it and which are there, and write nothing
    #[arg(long, conflicts_with_all = ["url", "command", "view", "force", "dry_run"])]
    list: bool,
}

/// Take the tools of the config away from editors and agents
///
/// A file that nobody has changed since becomes what it was, to the byte. Of another the server alone
/// is taken out, and what the file was is kept.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus unlink
  toolbus unlink cursor --dry-run")]
pub(crate) struct UnlinkArgs {
    #[command(flatten)]
    which: WhichArgs,
}

/// Whose config is changed, and how.
#[derive(Debug, clap::Args)]
struct WhichArgs {
    /// Editors and agents, in place of all that are there
    #[arg(value_name = "CLIENT")]
    clients: Vec<String>,
    /// What the server is called there
    #[arg(long, value_name = "NAME", default_value = "toolbus")]
    name: String,
    /// Also where a server of that name is not ours
    #[arg(long)]
    force: bool,
    /// Show the change as a diff, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask on a terminal
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &LinkArgs, globals: &Globals) -> Result<(), Failed> {
    if args.list {
        return list(&args.which, globals);
    }
    let clients = args.which.clients(is_there)?;
    if clients.is_empty() {
        return Err(Failed::usage("no client was found").hint(names().join(", ")));
    }
    let form = form(args, globals)?;
    let plans = clients.into_iter().map(|client| plan_link(&args.which, client, &form)).collect();
    carry_out(plans, &args.which, Some(&form), globals)
}

pub(crate) fn run_unlink(args: &UnlinkArgs, globals: &Globals) -> Result<(), Failed> {
    let is_asked = !args.which.clients.is_empty();
    let clients = args.which.clients(|_| true)?;
    let plans = clients.into_iter().map(|client| plan_unlink(&args.which, client));
    let is_wanted = |plan: &LinkPlan| {
        is_asked
            || !matches!(plan.what, What::Absent | What::Fail(_))
            || matches!(&plan.what, What::Fail(_) if is_there(&plan.client))
    };
    carry_out(plans.filter(is_wanted).collect(), &args.which, None, globals)
}

/// The clients of all wires.
fn all() -> Vec<Linkable> {
    with_surroundings(|surroundings| {
        let configs = wire::faces().filter_map(WireFace::client_configs);
        configs.flat_map(|configs| configs.linked(surroundings)).collect()
    })
}

fn names() -> Vec<&'static str> {
    all().iter().map(|client| client.name).collect()
}

fn is_there(client: &Linkable) -> bool {
    client.file.exists() || client.shown_by.is_dir()
}

impl WhichArgs {
    /// Those that are named, in the order of the table; else those that `is_meant`.
    fn clients(&self, is_meant: impl Fn(&Linkable) -> bool) -> Result<Vec<Linkable>, Failed> {
        let mut clients = all();
        for name in &self.clients {
            if !clients.iter().any(|client| client.is_called(name)) {
                let known = clients.iter().flat_map(|client| [Some(client.name), client.alias]);
                let meant = nearest(name, known.flatten());
                let meant = meant.map(|meant| format!("did you mean `{meant}`?"));
                return Err(Failed::usage(format!("there is no client `{name}`"))
                    .hint(meant.unwrap_or_else(|| names().join(", "))));
            }
        }
        clients.retain(|client| match self.clients.is_empty() {
            true => is_meant(client),
            false => self.clients.iter().any(|name| client.is_called(name)),
        });
        Ok(clients)
    }
}

/// What is to become of one client's config.
struct LinkPlan {
    client: Linkable,
    file: Option<EditedFile>,
    what: What,
}

enum What {
    Link {
        text: String,
    },
    Update {
        text: String,
        /// No other program has written to the file, so that there is nothing to keep.
        is_all_ours: bool,
    },
    Keep,
    Absent,
    /// The member alone goes.
    Unlink {
        text: String,
    },
    /// The file becomes what it was.
    Restore {
        text: String,
    },
    /// The file goes, which we have made.
    Remove,
    Fail(String),
}

fn plan(
    client: Linkable,
    decide: impl FnOnce(&Linkable, &EditedFile) -> Result<What, String>,
) -> LinkPlan {
    match EditedFile::read(&client.file) {
        Err(why) => LinkPlan { client, file: None, what: What::Fail(why) },
        Ok(mut file) => {
            file.shown = client.file.display().to_string();
            let what = decide(&client, &file).unwrap_or_else(What::Fail);
            LinkPlan { client, file: Some(file), what }
        }
    }
}

fn plan_link(which: &WhichArgs, client: Linkable, form: &LinkForm) -> LinkPlan {
    plan(client, |client, file| {
        let text = file.text.as_deref().unwrap_or_default();
        let entry = (client.entry)(form);
        let there = present(client, &which.name, text)?;
        if there.as_ref() == Some(&entry) {
            return Ok(What::Keep);
        }
        let new = linked(client, &which.name, text, &entry)?;
        match there {
            None => Ok(What::Link { text: new }),
            Some(there) if which.force || is_ours(&there) => {
                let of_nothing = linked(client, &which.name, "", &there);
                let is_all_ours = of_nothing.as_deref() == Ok(text);
                Ok(What::Update { text: new, is_all_ours })
            }
            Some(_) => Err(not_ours(&which.name)),
        }
    })
}

fn plan_unlink(which: &WhichArgs, client: Linkable) -> LinkPlan {
    plan(client, |client, file| {
        let Some(text) = &file.text else { return Ok(What::Absent) };
        let Some(entry) = present(client, &which.name, text)? else { return Ok(What::Absent) };
        if !which.force && !is_ours(&entry) {
            return Err(not_ours(&which.name));
        }
        let again = |before: &str| linked(client, &which.name, before, &entry);
        let backup = backup_of(client);
        match fs::read_to_string(&backup) {
            Ok(before) if again(&before).as_ref() == Ok(text) => {
                return Ok(What::Restore { text: before });
            }
            Err(_) if !backup.exists() && again("").as_ref() == Ok(text) => {
                return Ok(What::Remove);
            }
            _ => {}
        }
        Ok(What::Unlink { text: unlinked(client, &which.name, text)? })
    })
}

fn not_ours(name: &str) -> String {
    format!("the server `{name}` there is not ours; `--force` takes it all the same")
}

fn backup_of(client: &Linkable) -> PathBuf {
    let name = client.file.file_name().unwrap_or_default().to_string_lossy();
    client.file.with_file_name(format!("{name}{BEFORE}"))
}

impl LinkPlan {
    /// What the file will hold, if it changes.
    fn new_text(&self) -> Option<&str> {
        match &self.what {
            What::Link { text } | What::Update { text, .. } | What::Unlink { text } => Some(text),
            What::Restore { text } => Some(text),
            What::Remove => Some(""),
            What::Keep | What::Absent | What::Fail(_) => None,
        }
    }

    fn diff(&self) -> String {
        let changed = self.file.as_ref().zip(self.new_text());
        changed.map(|(file, text)| file.diff(text)).unwrap_or_default()
    }

    /// Does it, and says where the file is kept as it was.
    fn carry_out(&mut self) -> Option<PathBuf> {
        let (Some(file), Some(new)) = (&self.file, self.new_text()) else { return None };
        let backup = backup_of(&self.client);
        let written = match &self.what {
            What::Update { is_all_ours: true, .. } => file.write(new, Mode::Usual),
            What::Link { .. } | What::Update { .. } => back_up(file, &self.client.file, &backup)
                .and_then(|is_made| {
                    let written = file.write(new, Mode::Private { makes_folders: true });
                    if written.is_err() && is_made {
                        let _ = fs::remove_file(&backup);
                    }
                    written
                }),
            What::Remove => file.remove(),
            What::Restore { .. } => {
                let written = file.write(new, Mode::Usual);
                if written.is_ok() {
                    let _ = fs::remove_file(&backup);
                }
                written
            }
            _ => file.write(new, Mode::Usual),
        };
        if let Err(failed) = written {
            self.what = What::Fail(failed.message());
            return None;
        }
        let is_kept = !matches!(self.what, What::Restore { .. } | What::Remove);
        (is_kept && backup.exists()).then_some(backup)
    }

    fn outcome(&self) -> &'static str {
        match self.what {
            What::Link { .. } => "linked",
            What::Update { .. } => "updated",
            What::Keep => "kept",
            What::Absent => "absent",
            What::Unlink { .. } | What::Restore { .. } | What::Remove => "unlinked",
            What::Fail(_) => "fail",
        }
    }

    fn told(&self) -> String {
        let (name, path) = (self.client.name, self.client.file.display());
        match &self.what {
            What::Fail(why) => format!("FAIL {name}: {why}\n"),
            _ => format!("{} {name} in {path}\n", self.outcome()),
        }
    }

    fn to_json(&self, form: Option<&LinkForm>, backup: Option<&Path>) -> String {
        let mut told = json!({
            "client": self.client.name,
            "path": self.client.file.display().to_string(),
            "outcome": self.outcome(),
        });
        let is_written = matches!(self.what, What::Link { .. } | What::Update { .. } | What::Keep);
        if let Some(form) = form.filter(|_| is_written) {
            told["form"] = json!(match form {
                LinkForm::Command { .. } => "command",
                LinkForm::Url { .. } => "url",
            });
        }
        if let Some(backup) = backup {
            told["backup"] = json!(backup.display().to_string());
        }
        if let What::Fail(why) = &self.what {
            told["why"] = json!(why);
        }
        format!("{told}\n")
    }
}

/// Keeps what the file was, if that is not kept yet. Has it been made?
fn back_up(file: &EditedFile, path: &Path, backup: &Path) -> Result<bool, Failed> {
    if file.text.is_none() || backup.exists() {
        return Ok(false);
    }
    let copied = fs::copy(path, backup);
    copied.map(|_| true).map_err(|error| {
        Failed::new(Exit::Failed, format!("cannot write `{}`", backup.display())).caused_by(&error)
    })
}

fn carry_out(
    mut plans: Vec<LinkPlan>,
    which: &WhichArgs,
    form: Option<&LinkForm>,
    globals: &Globals,
) -> Result<(), Failed> {
    let diffs: String = plans.iter().map(LinkPlan::diff).collect();
    if which.dry_run {
        render::print(&diffs)?;
        let mut ended = Ok(());
        for plan in plans.iter().filter(|plan| matches!(plan.what, What::Fail(_))) {
            stderr::write(&plan.told());
            ended = Err(Failed::quietly(Exit::Failed));
        }
        return ended;
    }
    if !diffs.is_empty() && !which.yes && io::stdin().is_terminal() && !is_wanted(&diffs)? {
        return Err(Failed::quietly(Exit::Failed));
    }
    let mut ended = Ok(());
    let mut told = String::new();
    for plan in &mut plans {
        let is_unlink = matches!(plan.what, What::Unlink { .. });
        let backup = plan.carry_out();
        told += &match globals.json {
            true => plan.to_json(form, backup.as_deref()),
            false => plan.told(),
        };
        if let Some(backup) = backup.filter(|_| is_unlink && !globals.json) {
            stderr::write(&format!("note: what it was stays in {}\n", backup.display()));
        }
        if matches!(plan.what, What::Fail(_)) {
            ended = Err(Failed::quietly(Exit::Failed));
        }
    }
    render::print(&told)?;
    ended
}

/// Shows the change, and asks whether it is to be made.
fn is_wanted(diffs: &str) -> Result<bool, Failed> {
    stderr::write(&render::printable(diffs));
    stderr::write_awaited("Write this? [Y/n] ");
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failed::new(Exit::Failed, "cannot read the answer").caused_by(&error))?;
    Ok(!line.is_empty() && matches!(line.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes"))
}

fn list(which: &WhichArgs, globals: &Globals) -> Result<(), Failed> {
    let mut rows = Vec::new();
    let mut lines = String::new();
    for client in which.clients(|_| true)? {
        let file = EditedFile::read(&client.file).ok();
        let text = file.and_then(|file| file.text).unwrap_or_default();
        let entry = present(&client, &which.name, &text).ok().flatten();
        let state = match entry {
            Some(entry) if is_ours(&entry) => "linked",
            _ if is_there(&client) => "found",
            _ => "absent",
        };
        let path = client.file.display().to_string();
        let told = json!({"client": client.name, "state": state, "path": path});
        lines += &format!("{told}\n");
        rows.push([client.name.to_owned(), state.to_owned(), path]);
    }
    render::print(&if globals.json { lines } else { table::plain(&rows) })
}

/// What the clients are to be given.
fn form(args: &LinkArgs, globals: &Globals) -> Result<LinkForm, Failed> {
    let program = program()?;
    if let Some(Some(url)) = &args.url {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Failed::usage(format!("`{url}` is no URL that clients take"))
                .hint("write `--url=http://HOST:PORT/PATH`, or `--url` for that of the config"));
        }
        return Ok(LinkForm::Url { program, url: url.clone() });
    }
    let found = config::parsed_without_lock(globals.config.as_deref())?;
    let found =
        found.ok_or_else(|| Failed::usage("there is no config to link").hint("toolbus init"))?;
    let is_open = args.url.is_none() && !args.command && args.view.is_none();
    if args.url.is_some() || is_open {
        let running = serve_of(&found.path);
        let shown = crate::edited::shown(&found.path);
        let front = first_front(&found.config, &shown);
        let listening = front.as_ref().ok().and_then(|(front, _)| {
            let fronts = running?.fronts;
            let said = fronts.into_iter().find(|(name, _)| *name == front.name)?.1;
            Some(said.strip_prefix("listening on ")?.to_owned())
        });
        match (args.url.is_some(), listening) {
            (true, Some(url)) => return Ok(LinkForm::Url { program, url }),
            (true, None) => {
                let (front, url) = front?;
                return Ok(LinkForm::Url { program, url: url_of(front, url)? });
            }
            (false, Some(url))
                if front.is_ok_and(|(front, place)| is_free(&found, front, place)) =>
            {
                return Ok(LinkForm::Url { program, url });
            }
            (false, _) => {}
        }
    }
    let path = absolute(&found.path).display().to_string();
    let served_by = wire::faces().find(|face| face.client_configs().is_some());
    let command = served_by.map_or("", WireFace::name).to_owned();
    let mut words = vec![command, "--config".to_owned(), path];
    if let Some(view) = &args.view {
        let known = found.config.views.iter().map(|view| &*view.name);
        if !known.clone().any(|name| name == view) {
            let meant = nearest(view, known).map(|name| format!("did you mean `{name}`?"));
            return Err(Failed::usage(format!("there is no view `{view}`")).hint_if_any(meant));
        }
        words.extend(["--view".to_owned(), view.clone()]);
    }
    Ok(LinkForm::Command { program, args: words })
}

/// What a front has that asks for a credential.
const CREDENTIALS: [&str; 4] = ["callers", "oauth", "token", "token_env"];

/// Does the front let in who shows nothing?
fn is_free(found: &Found, front: &FrontConfig, url: &Url) -> bool {
    url.parameter("client_ca").is_none() && !found.front_has(&front.name, &CREDENTIALS)
}

/// The URL of a front, as the config has it.
fn url_of(front: &FrontConfig, url: &Url) -> Result<String, Failed> {
    if url.port == 0 {
        let message =
            format!("`front.{}` has no fixed port, and no `toolbus serve` runs", front.name);
        return Err(Failed::usage(message));
    }
    let scheme = if url.carrier == Transport::Https { "https" } else { "http" };
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let path = url.path.split('?').next().unwrap_or_default();
    Ok(format!("{scheme}://{host}:{}{path}", url.port))
}

/// The first front that such clients can come in by, and where it is to listen.
fn first_front<'a>(config: &'a Config, shown: &str) -> Result<(&'a FrontConfig, &'a Url), Failed> {
    let faces: Vec<_> = wire::faces().filter(|face| face.client_configs().is_some()).collect();
    for front in &config.fronts {
        let is_theirs = faces.iter().any(|face| face.wire() == front.serve.kind().wire());
        let Place::Url(url) = front.serve.place() else { continue };
        if is_theirs && matches!(url.carrier, Transport::Http | Transport::Https) {
            return Ok((front, url));
        }
    }
    // `MCP` of `MCP clients`.
    let registry = Registry::default();
    let kinds = faces.iter().filter_map(|face| registry.find(face.wire().name())?.front());
    let what = kinds.filter_map(|front| front.callers().split(' ').next()).collect::<Vec<_>>();
    let what = what.join(" or ");
    Err(Failed::usage(format!("`{shown}` has no {what} front")))
}

/// This program, as PATH has it if PATH leads to it.
fn program() -> Result<String, Failed> {
    let own = std::env::current_exe().map_err(|error| {
        Failed::new(Exit::Failed, "cannot tell where this program is").caused_by(&error)
    })?;
    let real = fs::canonicalize(&own).unwrap_or_else(|_| own.clone());
    let is_own = |path: &PathBuf| fs::canonicalize(path).is_ok_and(|path| path == real);
    // By the name that it was started by, which may be a link with a name of its own.
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let names = [called.file_name(), own.file_name()];
    let found = names.iter().flatten().find_map(|name| in_path(name).filter(is_own));
    Ok(found.as_ref().unwrap_or(&own).display().to_string())
}

/// The program of this name that is the first in PATH.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&folders).filter(|folder| folder.is_absolute());
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}
