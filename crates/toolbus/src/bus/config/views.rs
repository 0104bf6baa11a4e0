//! `[view.x]`: what is shown, under which names and texts, with which arguments filled in.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::de::DeValue;
use toolbus_proto::view::{Fixed, Names, Pattern, Rule, Sort, View, WantedHints};

use super::error::Problem;
use super::keys::{Entry, Fault};

/// One view. What is wrong with it is noted.
pub(super) fn view(entry: &Entry<'_>) -> Result<Option<Arc<View>>, Fault> {
    let mut keys = entry.keys()?;
    let view = View {
        name: entry.name.into(),
        show: keys.take("show", patterns),
        hide: keys.take("hide", patterns).unwrap_or_default(),
        hints: keys.take("hints", hints).unwrap_or_default(),
        names: keys.take("names", |entry| {
            super::tables::choice(entry, "\"back\", \"plain\" or \"full\"", |text| match text {
                "back" => Some(Names::Back),
                "plain" => Some(Names::Plain),
                "full" => Some(Names::Full),
                _ => None,
            })
        }),
        instructions: keys.take("instructions", Entry::string),
        search: keys.take("search", super::tables::search),
        always: keys.take("always", patterns),
        tools: keys.take("tool", tools).unwrap_or_default(),
    };
    keys.finish();
    Ok(Some(Arc::new(view)))
}

pub(super) fn patterns(entry: &Entry<'_>) -> Result<Vec<Pattern>, Fault> {
    let expected = "an array of strings";
    let elements = entry.elements().ok_or_else(|| entry.wrong_type(expected))?;
    let one = |element: &Entry<'_>| {
        let text = element.value.as_str().ok_or_else(|| entry.wrong_type(expected));
        let pattern = text.and_then(|text| pattern(element, &entry.path, text));
        entry.source.faults.noted(pattern)
    };
    Ok(elements.iter().filter_map(one).collect())
}

/// A pattern that can match something.
pub(super) fn pattern(entry: &Entry<'_>, key: &str, text: &str) -> Result<Pattern, Fault> {
    let pattern = Pattern::new(text);
    match pattern.can_match() {
        true => Ok(pattern),
        false => {
            let (key, pattern) = (key.to_owned(), text.to_owned());
            Err(entry.fault(Problem::MatchesNothing { key, pattern }))
        }
    }
}

fn hints(entry: &Entry<'_>) -> Result<WantedHints, Fault> {
    let mut keys = entry.keys()?;
    let hints = WantedHints {
        read_only: keys.take("read_only", Entry::bool),
        idempotent: keys.take("idempotent", Entry::bool),
        destructive: keys.take("destructive", Entry::bool),
    };
    keys.finish();
    Ok(hints)
}

/// What is changed about single tools, by `<back>.<tool>`.
fn tools(entry: &Entry<'_>) -> Result<BTreeMap<String, Rule>, Fault> {
    let one = |entry: &Entry<'_>| {
        let name = entry.name;
        let is_name = Pattern::new(name).sort == Sort::Tool
            && !name.contains(['*', '?'])
            && name.split_once('.').is_some_and(|(back, own)| !back.is_empty() && !own.is_empty());
        if !is_name {
            let (key, name) = (entry.path.clone(), name.to_owned());
            entry.source.faults.note(entry.key_fault(Problem::NoTool { key, name }));
            return None;
        }
        Some((name.to_owned(), entry.source.faults.noted(rule(entry))?))
    };
    Ok(entry.entries()?.iter().filter_map(one).collect())
}

fn rule(entry: &Entry<'_>) -> Result<Rule, Fault> {
    let mut keys = entry.keys()?;
    let rule = Rule {
        rename: keys.take("rename", |entry| {
            let name = entry.string()?;
            let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            match (1..=64).contains(&name.len()) && name.chars().all(is_fine) {
                true => Ok(name),
                false => {
                    let key = entry.path.clone();
                    Err(entry.fault(Problem::NoNameOfTool { key, name }))
                }
            }
        }),
        title: keys.take("title", Entry::string),
        description: keys.take("description", Entry::string),
        append: keys.take("append", Entry::string),
        fixed: keys.take("fixed", fixed).unwrap_or_default(),
    };
    keys.finish();
    Ok(rule)
}

fn fixed(entry: &Entry<'_>) -> Result<Fixed, Fault> {
    let one = |entry: &Entry<'_>| {
        let value = no_dates(entry).and_then(|()| entry.secret_json());
        Some((entry.name.to_owned(), entry.source.faults.noted(value)?))
    };
    Ok(entry.entries()?.iter().filter_map(one).collect())
}

/// JSON has no dates, and which text a tool would take for one is not for us to say.
fn no_dates(entry: &Entry<'_>) -> Result<(), Fault> {
    match entry.value {
        DeValue::Datetime(_) => Err(entry.wrong_type("a string, number, boolean, array or table")),
        DeValue::Array(_) => entry.elements().iter().flatten().try_for_each(no_dates),
        DeValue::Table(_) => entry.entries()?.iter().try_for_each(no_dates),
        _ => Ok(()),
    }
}
