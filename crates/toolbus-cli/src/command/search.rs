//! `toolbus search`: which tool is it?

use toolbus::peer::settings::Settings;
use toolbus_proto::json::Json;
use toolbus_proto::search::{Document, Index};
use toolbus_proto::tool::{Failure, ToolSpec};

use super::tools;
use crate::args::Globals;
use crate::args::asked::listing_clients;
use crate::args::peer::{DaemonArgs, FreshArgs, LimitArgs};
use crate::args::view::ViewArgs;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::spinner::Spinner;
use crate::render::{self, failure, printable, table, width};
use crate::stderr;

/// Find tools of the config by words
///
/// Say in a few words what is to be done, or give a name: the tools that fit are listed, best
/// first. With `--json` each is a line as `toolbus tools --json` prints it, with its score. If
/// none fits, the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  toolbus search create an issue\n  toolbus search read_file --limit 3"
)]
pub(crate) struct SearchArgs {
    /// What the tool should do, in a few words
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// List at most so many tools
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count)]
    limit: usize,
    /// Look through what this view of the config shows, under its names
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    #[command(flatten)]
    fresh: FreshArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| 0 < *count);
    count.ok_or_else(|| "it must be a whole number, 1 or more".to_owned())
}

pub(crate) fn run(args: &SearchArgs, globals: &Globals) -> Result<(), Failed> {
    let query = args.words.join(" ");
    if query.trim().is_empty() {
        return Err(Failed::usage("WORD is missing")
            .lines(["usage: toolbus search [OPTIONS] <WORD>...".to_owned()])
            .hint("say in a few words what the tool should do"));
    }
    let settings = Settings {
        start_timeout: args.limits.start_timeout,
        clients: listing_clients(),
        ..Settings::default()
    };
    let peers = Peers::of(&[] as &[&str], globals, settings)?;
    let peers = peers.seen_as(&ViewArgs { view: args.view.clone(), caller: None })?;
    let peers = peers.fresh_if(args.fresh.fresh).within(args.limits.timeout);
    let says_how = args.limits.start_timeout.is_some();
    let peers = peers.served_if(args.daemon.may_be_asked() && !says_how);
    let deadline = args.limits.deadline();
    peers.meet(async |bus| {
        let spinner = Spinner::for_people(globals);
        let listed = bus.list_by(deadline).await;
        drop(spinner);
        let mut documents = Vec::new();
        let mut specs: Vec<(ToolSpec, String)> = Vec::new();
        for listed in &listed {
            for (own, spec) in bus.shown_with_own_names(listed) {
                let shown = Some(spec.name.to_string());
                let own = ToolSpec { name: own, ..spec.clone() };
                documents.push(Document { shown, ..Document::of(&listed.back, &own) });
                specs.push((spec, listed.address.to_string()));
            }
        }
        let matches = Index::new(&documents).search(&query);
        let found: Vec<_> = matches.found.iter().take(args.limit).collect();
        let text = match globals.json {
            true => found
                .iter()
                .map(|found| {
                    let (spec, address) = &specs[found.tool];
                    let line = tools::line(spec, address);
                    let line = line.trim_end().strip_suffix('}').unwrap_or_default();
                    format!("{line},\"score\":{}}}\n", Json::of(&found.score))
                })
                .collect(),
            false => rows(found.iter().map(|found| &specs[found.tool].0)),
        };
        render::print(&text)?;
        for word in &matches.unmatched {
            stderr::write(&format!("note: no tool has the word `{}`\n", printable(word)));
        }
        let mut ended = Ok(());
        for listed in &listed {
            if let Err(failure) = &listed.tools {
                ended = Err(unasked(&listed.back, failure).told(globals));
            }
        }
        if !matches.found.is_empty() {
            return ended;
        }
        let message = format!("no tool fits `{query}`");
        if globals.json {
            let message = Json::of(&message);
            let unmatched = Json::of(&matches.unmatched);
            render::print(&format!(
                "{{\"error\":{{\"kind\":\"nothing_fits\",\"message\":{message},\"unmatched\":{unmatched}}}}}\n"
            ))?;
        }
        let failed = Failed::new(Exit::Failed, message).told(globals);
        ended.and(Err(failed))
    })
}

fn unasked(back: &str, failure: &Failure) -> Failed {
    let message = format!("back.{back} could not be asked: {failure}");
    let failed = Failed::new(Exit::Unreachable, message);
    match &failure.last_words {
        Some(words) => failure::with_last_words(failed, words),
        None => failed,
    }
}

/// The names, and the first line of what is said of each.
fn rows<'a>(specs: impl Iterator<Item = &'a ToolSpec>) -> String {
    let row = |spec: &ToolSpec| {
        let description = spec.description.as_deref().or(spec.title.as_deref());
        let description = description.and_then(|text| text.lines().next()).unwrap_or_default();
        [spec.name.as_str(), description].map(|cell| printable(cell).replace(['\n', '\t'], " "))
    };
    let rows: Vec<_> = specs.map(row).collect();
    match width::of_stdout() {
        None => table::plain(&rows),
        Some(width) => table::fitted(rows, width, &[(1, 24)]),
    }
}
