//! What tables of the config say of each other: views that fronts and callers name, callers that
//! fronts are for. Looked at when all of them are read.

use std::collections::HashMap;
use std::sync::Arc;

use toml::de::DeTable;
use toolbus_proto::caller::CallerName;
use toolbus_proto::view::{Selection, View};

use super::error::Problem;
use super::keys::{Entry, Fault, Source, entries};
use super::{CallerConfig, Config, FrontConfig, ViewOrCaller};
use crate::did_you_mean::nearest;
use crate::peer::tells_apart::TellsApart;

/// Notes every mistake, and puts in place what the names stand for.
pub(super) fn resolve(source: Source<'_>, table: &DeTable<'_>, config: &mut Config) {
    let at = |path: [&str; 3]| find(source, table, path);
    let note = |fault: Fault| source.faults.note(fault);
    let known = config.views.clone();
    let view = |key: [&str; 3], name: &str| {
        let found = known.iter().find(|view| *view.name == *name).cloned();
        if found.is_none()
            && let Some(entry) = at(key)
        {
            let names = known.iter().map(|view| &*view.name);
            note(entry.fault(unknown(&entry, "view", name, names)));
        }
        found
    };
    for own in &known {
        let same = Selection::new(Some(own.clone()), None).and_then(|alone| alone.same_name());
        if let (Some(same), Some(entry)) = (same, table_of(source, table, ["view", &own.name])) {
            let key = entry.path.clone();
            note(entry.key_fault(Problem::SameName { key, tools: same.tools, name: same.name }));
        }
    }
    let mut views: HashMap<CallerName, Arc<View>> = HashMap::new();
    for caller in &config.callers {
        let name = caller.name.as_str();
        if let Some(view) = caller.view.as_ref().and_then(|own| view(["caller", name, "view"], own))
        {
            views.insert(caller.name.clone(), view);
        }
    }
    same_credentials(source, table, &config.callers);
    carried(source, table, &config.fronts);
    let callers = &config.callers;
    for front in &mut config.fronts {
        let own = front.view.as_ref().and_then(|own| view(["front", &front.name, "view"], own));
        let Some(entry) = at(["front", &front.name, "callers"]) else { continue };
        let token = |key| at(["front", &front.name, key]);
        let token = token("token").or_else(|| token("token_env"));
        let allowed = allowed(&entry, front, token.as_ref(), callers);
        if let Some(allowed) = source.faults.noted(allowed) {
            for caller in &allowed {
                clash(&entry, own.clone(), views.get(caller).cloned());
            }
            front.callers = Some(allowed);
        }
    }
}

/// Sessions are shared over a front that can carry them.
fn carried(source: Source<'_>, table: &DeTable<'_>, fronts: &[FrontConfig]) {
    let carries = |front: &FrontConfig| front.serve.kind().front()?.carries_sessions();
    let all = source.registry.kinds().filter_map(|kind| kind.front()?.carries_sessions());
    let what = all.collect::<Vec<_>>().join(" or ");
    for front in fronts {
        let Some(entry) = find(source, table, ["front", &front.name, "sessions_over"]) else {
            continue;
        };
        let Ok(over) = entry.string() else { continue };
        if !fronts.iter().any(|front| *front.name == over && carries(front).is_some()) {
            let problem = Problem::NoCarrier { key: entry.path.clone(), what: what.clone(), over };
            source.faults.note(entry.fault(problem));
        }
    }
}

/// The views and callers as they stand in the file.
pub(super) fn in_order(source: Source<'_>, table: &DeTable<'_>) -> Vec<ViewOrCaller> {
    let kinds = entries(source, "", table).into_iter();
    let mut named: Vec<_> = kinds
        .filter(|kind| kind.name == "view" || kind.name == "caller")
        .flat_map(|kind| {
            let all = kind.entries().unwrap_or_default();
            all.into_iter().map(move |entry| (entry.start(), kind.name == "view", entry.name))
        })
        .collect();
    named.sort_by_key(|(start, ..)| *start);
    let one = |(_, is_view, name): (usize, bool, &str)| match is_view {
        true => ViewOrCaller::View(name.into()),
        false => ViewOrCaller::Caller(CallerName::new(name)),
    };
    named.into_iter().map(one).collect()
}

/// Whom a front is for. What is wrong with single names is noted.
fn allowed(
    entry: &Entry<'_>,
    front: &FrontConfig,
    token: Option<&Entry<'_>>,
    callers: &[CallerConfig],
) -> Result<Vec<CallerName>, Fault> {
    let faults = entry.source.faults;
    let patterns = entry.strings()?;
    let key = entry.path.clone();
    if patterns.is_empty() {
        return Err(entry.fault(Problem::NoCallers { key }));
    }
    if let Some(token) = token {
        let problem = Problem::NotTogether { key: token.path.clone(), other: key };
        return Err(token.key_fault(problem));
    }
    let tells = TellsApart::at(&front.serve);
    match tells {
        TellsApart::Nothing => return Err(entry.key_fault(Problem::CannotTellApart { key })),
        TellsApart::NeedsClientCa => return Err(entry.key_fault(Problem::NoClientCa { key })),
        TellsApart::By(_) => {}
    }
    #[cfg(feature = "oauth")]
    let by_tokens = front.oauth.is_some();
    #[cfg(not(feature = "oauth"))]
    let by_tokens = false;
    let mut allowed: Vec<CallerName> = Vec::new();
    let elements = entry.elements().unwrap_or_default();
    for (element, pattern) in elements.iter().zip(&patterns) {
        let is_exact = !pattern.contains(['*', '?']);
        let matched =
            |caller: &&CallerConfig| toolbus_proto::pattern::matches(pattern, caller.name.as_str());
        let matched: Vec<_> = callers.iter().filter(matched).collect();
        if matched.is_empty() {
            let names = callers.iter().map(|caller| caller.name.as_str());
            let problem = unknown(entry, "caller", pattern, names);
            faults.note(element.fault(problem));
        }
        for caller in matched {
            let has_token = by_tokens && caller.known_by.contains(&"oauth");
            if !has_token && !tells.knows(&caller.known_by) {
                if is_exact {
                    let (key, caller) = (key.clone(), caller.name.to_string());
                    let needs = tells.needs();
                    faults.note(element.fault(Problem::NothingToShow { key, caller, needs }));
                }
                continue;
            }
            if !allowed.contains(&caller.name) {
                allowed.push(caller.name.clone());
            }
        }
    }
    Ok(allowed)
}

/// What a front's view and a caller's cannot both say.
fn clash(entry: &Entry<'_>, front: Option<Arc<View>>, caller: Option<Arc<View>>) {
    let (Some(front), Some(caller)) = (front, caller) else { return };
    let views = [front.name.to_string(), caller.name.to_string()];
    let is_known = |view: &Arc<View>| {
        Selection::new(Some(view.clone()), None).is_some_and(|alone| alone.same_name().is_some())
    };
    let is_known = is_known(&front) || is_known(&caller);
    let Some(both) = Selection::new(Some(front), Some(caller)) else { return };
    let (faults, key) = (entry.source.faults, entry.path.clone());
    if let Some(same) = both.same_name().filter(|_| !is_known) {
        let problem = Problem::SameName { key: key.clone(), tools: same.tools, name: same.name };
        faults.note(entry.fault(problem));
    }
    if let Some((tool, argument)) = both.fixed_twice() {
        faults.note(entry.fault(Problem::FixedTwice { key, views, argument, tool }));
    }
}

/// A credential that two callers would have.
fn same_credentials(source: Source<'_>, table: &DeTable<'_>, callers: &[CallerConfig]) {
    for (index, caller) in callers.iter().enumerate() {
        for key in &caller.known_by {
            let is_first = |other: &&CallerConfig| caller.shares(other, key);
            let Some(first) = callers[..index].iter().find(is_first) else { continue };
            let Some(entry) = find(source, table, ["caller", caller.name.as_str(), key]) else {
                continue;
            };
            let problem =
                Problem::SameCredential { key: entry.path.clone(), first: first.name.to_string() };
            source.faults.note(entry.fault(problem));
        }
    }
}

fn unknown<'a>(
    entry: &Entry<'_>,
    what: &'static str,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Problem {
    let nearest = nearest(name, names).map(str::to_owned);
    Problem::NotThere { key: entry.path.clone(), what, name: name.to_owned(), nearest }
}

fn table_of<'a>(
    source: Source<'a>,
    table: &'a DeTable<'a>,
    [kind, name]: [&str; 2],
) -> Option<Entry<'a>> {
    let kind = entries(source, "", table).into_iter().find(|entry| entry.name == kind)?;
    kind.entries().ok()?.into_iter().find(|entry| entry.name == name)
}

fn find<'a>(
    source: Source<'a>,
    table: &'a DeTable<'a>,
    [kind, name, key]: [&str; 3],
) -> Option<Entry<'a>> {
    let table = table_of(source, table, [kind, name])?;
    table.entries().ok()?.into_iter().find(|entry| entry.name == key)
}
