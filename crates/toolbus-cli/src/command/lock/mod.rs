//! `toolbus lock`: what the backs of the config show, pinned in a file that people review.

mod diff;
mod lines;

use std::collections::BTreeSet;
use std::path::PathBuf;

use toolbus::bus::config::Config;
use toolbus::bus::lock::{OnProgram, Surveyed, file};
use toolbus_proto::did_you_mean::nearest;
use toolbus_proto::json::Json;
use toolbus_proto::pin::{self, Change, Flag, Lock, PinKind, Pinned};

use crate::args::Globals;
use crate::args::peer::LimitArgs;
use crate::config;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::spinner::Spinner;
use crate::render::{self, failure};
use crate::stderr;

/// Pin what the backs of the config show, in a file to be reviewed
///
/// Each back of the config is asked for its tools, prompts, templates and instructions, and what
/// it shows is written to `toolbus.lock`, beside the config: every text of it that a model can
/// see. From then on what has changed is held back until it is approved, and lists are answered
/// from the file, so that a program is started by its first call and not before.
///
/// Each change of the file is told by a line; hidden characters, names that look alike and texts
/// that name tools of other backs are warned of. With `--check` nothing is written, and the exit
/// code is 1 if anything differs. A back that could not be asked stays as it was; the exit code
/// is 3 then.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "Examples:\n  toolbus lock\n  toolbus lock --check\n  toolbus lock diff weather\n  toolbus lock approve weather.forecast"
)]
pub(crate) struct LockArgs {
    #[command(subcommand)]
    command: Option<LockCommand>,
    /// Write nothing; the exit code is 1 if something differs
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    limit: LimitArgs,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum LockCommand {
    /// Show what has changed since it was locked, and how
    ///
    /// Under each change stand its members: texts by lines, JSON by the places that differ, `-`
    /// for what was, `+` for what is. A line that begins with `!` tells what may deceive: hidden
    /// characters, a name that looks like another, a text that names a tool of another back.
    #[command(
        after_long_help = "Examples:\n  toolbus lock diff\n  toolbus lock diff weather.forecast"
    )]
    Diff(DiffArgs),
    /// Approve what some backs or tools show now
    ///
    /// BACK takes in a whole back, BACK.NAME its tool, prompt and template of that name: changed,
    /// new or gone. Only the backs that are named are asked. Without a name all are approved, as
    /// by `toolbus lock`.
    #[command(
        after_long_help = "Examples:\n  toolbus lock approve weather\n  toolbus lock approve weather.forecast mail.send"
    )]
    Approve(ApproveArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// Only this back, or this one of its tools, prompts and templates
    #[arg(value_name = "BACK[.NAME]")]
    name: Option<String>,
    #[command(flatten)]
    limit: LimitArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// Backs, or single tools, prompts and templates of them
    #[arg(value_name = "BACK[.NAME]")]
    names: Vec<String>,
    #[command(flatten)]
    limit: LimitArgs,
}

pub(crate) fn run(args: &LockArgs, globals: &Globals) -> Result<(), Failed> {
    let limit = match &args.command {
        None => &args.limit,
        Some(LockCommand::Diff(diff)) => &diff.limit,
        Some(LockCommand::Approve(approve)) => &approve.limit,
    };
    let work = Work::read(limit, globals)?;
    match &args.command {
        None if args.check => work.check(),
        None => work.lock(),
        Some(LockCommand::Approve(approve)) if approve.names.is_empty() => work.lock(),
        Some(LockCommand::Approve(approve)) => work.approve(&approve.names),
        Some(LockCommand::Diff(diff)) => work.diff(diff.name.as_deref()),
    }
}

/// A config, its lock, and how long all may take.
struct Work<'a> {
    config: Config,
    path: PathBuf,
    old: Option<Lock>,
    limit: &'a LimitArgs,
    globals: &'a Globals,
}

/// A word of a user: a back, or something of it.
struct Named<'a> {
    back: &'a str,
    entry: Option<&'a str>,
}

impl<'a> Named<'a> {
    fn of(word: &'a str) -> Named<'a> {
        match word.split_once('.') {
            Some((back, entry)) => Named { back, entry: Some(entry) },
            None => Named { back: word, entry: None },
        }
    }
}

impl Work<'_> {
    fn read<'a>(limit: &'a LimitArgs, globals: &'a Globals) -> Result<Work<'a>, Failed> {
        let found = config::parsed_without_lock(globals.config.as_deref())?.ok_or_else(|| {
            Failed::usage(format!("there is no `{}` here or above", config::USUAL))
                .hint("`toolbus init` writes one, or name a config by `--config FILE`")
        })?;
        let mut config = found.config;
        let lock = config.locking.lock.take();
        Ok(Work {
            path: file::path_of(&found.path),
            old: lock.map(|lock| (*lock).clone()),
            config,
            limit,
            globals,
        })
    }

    /// The lock that there has to be.
    fn needed(&self) -> Result<&Lock, Failed> {
        self.old.as_ref().ok_or_else(|| {
            Failed::usage(format!("there is no `{}`", self.path.display()))
                .hint("`toolbus lock` writes it")
        })
    }

    fn lock(&self) -> Result<(), Failed> {
        let old = self.old.clone().unwrap_or_default();
        let asked = self.ask(|_| true)?;
        let (new, is_whole) = self.all(&old, &asked);
        self.tell(&new, &pin::changes(&old, &new))?;
        self.write(&new)?;
        self.ended(asked, is_whole)
    }

    fn check(&self) -> Result<(), Failed> {
        let old = self.needed()?.clone();
        let asked = self.ask(|_| true)?;
        let (new, is_whole) = self.all(&old, &asked);
        let changes = pin::changes(&old, &new);
        self.tell(&new, &changes)?;
        let is_refused = self.config.locking.rules.program == OnProgram::Refuse;
        let differs = |change: &Change| match change {
            Change::Noted { key, .. } => {
                is_refused && (key.starts_with("program") || key.starts_with("package"))
            }
            _ => true,
        };
        let is_same = !changes.iter().any(differs);
        match (self.ended(asked, is_whole), is_same) {
            (ended, true) => ended,
            (_, false) => Err(Failed::quietly(Exit::Failed)),
        }
    }

    fn approve(&self, words: &[String]) -> Result<(), Failed> {
        let old = self.old.clone().unwrap_or_default();
        let named: Vec<Named<'_>> = words.iter().map(|word| Named::of(word)).collect();
        for (named, word) in named.iter().zip(words) {
            self.must_know_back(named.back, word, &old)?;
        }
        let asked = self.ask(|back| named.iter().any(|named| named.back == back))?;
        let mut new = old.clone();
        let mut is_whole = true;
        for (named, word) in named.iter().zip(words) {
            let now = asked.iter().find(|asked| *asked.back == *named.back);
            match (now.map(|asked| &asked.pinned), named.entry) {
                (Some(Err(_)), _) => is_whole = false,
                // It is not in the config any more, or not to be locked.
                (None, None) if new.backs.remove(named.back).is_none() => {
                    return Err(Failed::usage(format!("back.{word} is not to be locked"))
                        .hint("it has `lock = false` in the config"));
                }
                (None, None) => {}
                (None, Some(entry)) => {
                    let known = new.backs.get_mut(named.back);
                    if !known.is_some_and(|known| remove(known, entry)) {
                        return Err(self.unknown(word, named, None, &old));
                    }
                }
                (Some(Ok(now)), None) => {
                    let now = worded(now, old.backs.get(named.back));
                    new.backs.insert(named.back.to_owned(), now);
                }
                (Some(Ok(now)), Some(entry)) => {
                    let bare =
                        || Pinned { shown: pin::Visible::default(), legacy: None, ..now.clone() };
                    let known = new.backs.entry(named.back.to_owned()).or_insert_with(bare);
                    let before = known.clone();
                    if !take(known, now, entry) {
                        return Err(self.unknown(word, named, Some(now), &old));
                    }
                    *known = worded(known, Some(&before));
                }
            }
        }
        self.tell(&new, &pin::changes(&old, &new))?;
        self.write(&new)?;
        self.ended(asked, is_whole)
    }

    fn diff(&self, word: Option<&str>) -> Result<(), Failed> {
        let old = self.needed()?.clone();
        let named = word.map(Named::of);
        if let (Some(named), Some(word)) = (&named, word) {
            self.must_know_back(named.back, word, &old)?;
        }
        let is_meant = |back: &str| named.as_ref().is_none_or(|named| named.back == back);
        let asked = self.ask(is_meant)?;
        let (new, is_whole) = self.all_of(&old, &asked, &is_meant);
        if let (Some(Named { back, entry: Some(entry) }), Some(word)) = (&named, word) {
            let has = |lock: &Lock| {
                let back = lock.backs.get(*back);
                back.is_some_and(|back| {
                    PinKind::ALL.iter().any(|kind| back.shown.of(*kind).contains_key(*entry))
                })
            };
            if is_whole && !has(&old) && !has(&new) {
                let named = Named { back, entry: Some(entry) };
                return Err(self.unknown(word, &named, new.backs.get(*back), &old));
            }
        }
        let mut changes = pin::changes(&old, &new);
        if let Some(Named { entry: Some(entry), .. }) = &named {
            changes.retain(|change| match change {
                Change::Entry { name, how, .. } => {
                    name == entry || matches!(how, pin::How::Renamed(to) if to == entry)
                }
                _ => false,
            });
        }
        let flags = pin::flags(&new, &changes);
        let text = match self.globals.json {
            true => diff::json(&old, &new, &changes),
            false => diff::text(&old, &new, &changes, &flags),
        };
        render::print(&text)?;
        if changes.is_empty() && is_whole {
            stderr::write("nothing has changed\n");
        }
        self.ended(asked, is_whole)
    }

    /// Asks these backs side by side; those that are not to be locked are left out.
    fn ask(&self, is_meant: impl Fn(&str) -> bool) -> Result<Vec<Surveyed>, Failed> {
        let mut config = self.config.clone();
        config.backs.retain(|back| back.lock && is_meant(&back.name));
        config.journal = None;
        for back in &mut config.backs {
            let start_timeout = &mut back.settings.start_timeout;
            *start_timeout = self.limit.start_timeout.or(*start_timeout);
        }
        if config.backs.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<String> = config.backs.iter().map(|back| back.name.clone()).collect();
        let deadline = self.limit.deadline();
        let peers = Peers::of_config(config, self.globals);
        let peers = peers.knowing_wires().within(self.limit.timeout);
        peers.meet(async |bus| {
            let _spinner = Spinner::for_people(self.globals);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            Ok(bus.survey(&names, deadline).await)
        })
    }

    /// Everything as it is now. A back that could not be asked is as it was.
    fn all(&self, old: &Lock, asked: &[Surveyed]) -> (Lock, bool) {
        self.all_of(old, asked, &|_| true)
    }

    fn all_of(
        &self,
        old: &Lock,
        asked: &[Surveyed],
        is_meant: &dyn Fn(&str) -> bool,
    ) -> (Lock, bool) {
        let is_locked =
            |name: &String| self.config.backs.iter().any(|back| back.lock && back.name == *name);
        let mut new = old.clone();
        new.backs.retain(|name, _| !is_meant(name) || is_locked(name));
        let mut is_whole = true;
        for Surveyed { back, pinned } in asked {
            match pinned {
                Ok(now) => {
                    let now = worded(now, old.backs.get(&**back));
                    new.backs.insert(back.to_string(), now);
                }
                Err(_) => is_whole = false,
            }
        }
        (new, is_whole)
    }

    fn tell(&self, new: &Lock, changes: &[Change]) -> Result<(), Failed> {
        let flags = pin::flags(new, changes);
        let text: String = match self.globals.json {
            true => {
                let changes = changes.iter().map(lines::json);
                changes.chain(flags.iter().map(lines::flag_json)).collect()
            }
            false => changes.iter().map(lines::line).collect(),
        };
        render::print(&text)?;
        for Flag { message, .. } in flags.iter().filter(|_| !self.globals.json) {
            stderr::write(&format!("warning: {message}\n"));
        }
        for (name, back) in &new.backs {
            let pin::Noted { package, package_version, .. } = &back.noted;
            if let (Some(package), None) = (package, package_version) {
                stderr::write(&format!(
                    "note: back.{name} runs whatever version of `{package}` is newest; name one, as in `{package}@1.2.3`\n"
                ));
            }
        }
        Ok(())
    }

    fn write(&self, new: &Lock) -> Result<(), Failed> {
        let shown = self.path.display();
        let is_written = file::write(&self.path, new).map_err(|error| {
            Failed::new(Exit::Failed, format!("cannot write `{shown}`")).caused_by(&error)
        })?;
        let counted = |count: usize, what: &str| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {what}{plural}")
        };
        let (backs, tools) = (counted(new.backs.len(), "back"), counted(new.tools(), "tool"));
        stderr::write(&match is_written {
            true => format!("wrote {shown}: {backs}, {tools}\n"),
            false => format!("{shown} is up to date: {backs}, {tools}\n"),
        });
        Ok(())
    }

    /// Tells who could not be asked.
    fn ended(&self, asked: Vec<Surveyed>, is_whole: bool) -> Result<(), Failed> {
        let known = self.old.as_ref().map(|old| &old.backs);
        for Surveyed { back, pinned } in asked {
            let Err(failure) = pinned else { continue };
            let is_known = known.is_some_and(|known| known.contains_key(&*back));
            let what = if is_known { "kept as it was" } else { "left out" };
            let message = format!("back.{back} could not be asked: {failure}; {what}");
            if self.globals.json {
                render::print(&format!(
                    "{{\"error\":{{\"kind\":{},\"message\":{},\"back\":{}}}}}\n",
                    Json::of(failure.kind.as_str()),
                    Json::of(&message),
                    Json::of(&*back)
                ))?;
            }
            let failed = Failed::new(Exit::Unreachable, message);
            let failed = match &failure.last_words {
                Some(words) => failure::with_last_words(failed, words),
                None => failed,
            };
            drop(failed.told(self.globals));
        }
        match is_whole {
            true => Ok(()),
            false => Err(Failed::quietly(Exit::Unreachable)),
        }
    }

    fn must_know_back(&self, back: &str, word: &str, old: &Lock) -> Result<(), Failed> {
        let of_config = self.config.backs.iter().map(|back| back.name.as_str());
        let names: BTreeSet<&str> = of_config.chain(old.backs.keys().map(String::as_str)).collect();
        if names.contains(back) {
            return Ok(());
        }
        let meant = nearest(back, names).map(|meant| format!("did you mean `{meant}`?"));
        Err(Failed::usage(format!("there is no `{word}`")).hint_if_any(meant))
    }

    fn unknown(&self, word: &str, named: &Named<'_>, now: Option<&Pinned>, old: &Lock) -> Failed {
        let of_file = old.backs.get(named.back);
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for back in of_file.into_iter().chain(now) {
            for kind in PinKind::ALL {
                names.extend(back.shown.of(kind).keys().map(String::as_str));
            }
        }
        let meant = nearest(named.entry.unwrap_or_default(), names)
            .map(|meant| format!("did you mean `{}.{meant}`?", named.back));
        Failed::usage(format!("there is no `{word}`")).hint_if_any(meant)
    }
}

/// As it is now, in the words that the file has for it already.
fn worded(now: &Pinned, before: Option<&Pinned>) -> Pinned {
    match before {
        Some(before) => now.clone().worded_as(before),
        None => now.clone(),
    }
}

/// Takes what has this name as it is now; tells whether there is or was such a thing.
fn take(known: &mut Pinned, now: &Pinned, name: &str) -> bool {
    let mut is_there = false;
    for kind in PinKind::ALL {
        let (old, new) = (known.shown.of_mut(kind), now.shown.of(kind).get(name));
        is_there |= new.is_some() || old.contains_key(name);
        match new {
            Some(new) => drop(old.insert(name.to_owned(), new.clone())),
            None => drop(old.remove(name)),
        }
        let legacy = now.legacy.as_ref().and_then(|legacy| legacy.of(kind).get(name));
        let own = known.legacy.get_or_insert_default().of_mut(kind);
        match legacy {
            Some(legacy) => drop(own.insert(name.to_owned(), legacy.clone())),
            None => drop(own.remove(name)),
        }
    }
    known.legacy = known.legacy.take().filter(|legacy| !legacy.is_empty());
    is_there
}

/// Takes out what has this name; tells whether there was such a thing.
fn remove(known: &mut Pinned, name: &str) -> bool {
    take(known, &Pinned::default(), name)
}
