//! What may follow behind `toolbus prompt` and `toolbus resource`: only the server knows, and it is
//! asked as clients ask it (`completion/complete`).

use std::time::Duration;

use toolbus_proto::json::{Json, edit};

use super::context::{HowArgs, Server, ask, text};
use crate::args::Globals;
use crate::command::wire::Unfinished;

/// How long a server has to answer. Users who wait for more type the name.
const PATIENCE: Duration = Duration::from_secs(2);

/// What may follow: a word and what it means.
pub(super) type Words = Vec<(String, String)>;

/// Behind `toolbus prompt`.
pub(super) fn prompts(line: &Unfinished<'_>) -> Option<Words> {
    let (["get"], [server, typed @ ..]) = (line.commands, line.positional) else { return None };
    Some(asked(line, server, async |server| {
        let prompts = server.list("prompts/list", "prompts").await.ok()?;
        let (Some((name, given)), word) = (typed.split_first(), line.word) else {
            return Some(prompts.iter().map(named).collect());
        };
        let prompt = prompts.iter().find(|prompt| text(prompt.as_str(), "name") == *name)?;
        let given: Vec<_> = given.iter().filter_map(|word| word.split_once('=')).collect();
        if let Some((key, value)) = word.split_once('=') {
            let of = format!("{{\"type\":\"ref/prompt\",\"name\":{}}}", Json::of(name));
            let values = values(server, &of, (key, value), &given).await?;
            return Some(
                values.into_iter().map(|value| (format!("{key}={value}"), String::new())).collect(),
            );
        }
        let arguments = edit::elements(edit::member(prompt.as_str(), "arguments").unwrap_or("[]"));
        let open = arguments.filter(|argument| {
            let name = text(argument, "name");
            given.iter().all(|(key, _)| *key != name)
        });
        Some(
            open.map(|argument| {
                (format!("{}=", text(argument, "name")), text(argument, "description"))
            })
            .collect(),
        )
    }))
}

/// Behind `toolbus resource`.
pub(super) fn resources(line: &Unfinished<'_>) -> Option<Words> {
    let (["read"], [server]) = (line.commands, line.positional) else { return None };
    Some(asked(line, server, async |server| {
        let listed = server.list("resources/list", "resources").await.unwrap_or_default();
        let mut words: Words = listed
            .iter()
            .map(|resource| (text(resource.as_str(), "uri"), text(resource.as_str(), "name")))
            .collect();
        let templates = server.list("resources/templates/list", "resourceTemplates").await;
        for template in templates.unwrap_or_default() {
            let uri = text(template.as_str(), "uriTemplate");
            match typed_in(&uri, line.word) {
                Typed::Not => {}
                Typed::Literal(literal) => words.push((literal, text(template.as_str(), "name"))),
                Typed::Variable { before, name, value, given } => {
                    let of = format!("{{\"type\":\"ref/resource\",\"uri\":{}}}", Json::of(&uri));
                    let given: Vec<_> =
                        given.iter().map(|(key, value)| (&**key, &**value)).collect();
                    let values = values(server, &of, (&name, &value), &given).await;
                    let whole = |value: String| (format!("{before}{value}"), String::new());
                    words.extend(values.unwrap_or_default().into_iter().map(whole));
                }
            }
        }
        Some(words)
    }))
}

/// Asks the server that a line names. What does not answer in time knows nothing.
fn asked(
    line: &Unfinished<'_>,
    server: &str,
    work: impl AsyncFnOnce(&Server<'_>) -> Option<Words>,
) -> Words {
    let globals = Globals::quiet(line.config.clone());
    let how = HowArgs::within(PATIENCE);
    let found = ask(Some(server), &how, &globals, async |server| {
        let found = work(server).await.unwrap_or_default();
        server.hurry();
        Ok(found)
    });
    found.unwrap_or_default()
}

fn named(entry: &Json) -> (String, String) {
    (text(entry.as_str(), "name"), text(entry.as_str(), "description"))
}

/// What a server proposes for an argument that begins with `value`.
async fn values(
    server: &Server<'_>,
    of: &str,
    (name, value): (&str, &str),
    given: &[(&str, &str)],
) -> Option<Vec<String>> {
    let given: Vec<_> =
        given.iter().map(|(key, value)| format!("{}:{}", Json::of(key), Json::of(value))).collect();
    let context = match given.is_empty() {
        true => String::new(),
        false => format!(",\"context\":{{\"arguments\":{{{}}}}}", given.join(",")),
    };
    let argument = format!("{{\"name\":{},\"value\":{}}}", Json::of(name), Json::of(value));
    let params = format!("{{\"ref\":{of},\"argument\":{argument}{context}}}");
    let result = server.request("completion/complete", &params).await.ok()?;
    let completion = edit::member(result.as_str(), "completion")?;
    let values = edit::elements(edit::member(completion, "values")?);
    Some(values.filter_map(|raw| Json::parse(raw.to_owned()).ok()?.string()).collect())
}

/// Where in a template of URIs a word ends.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// It is of no such URI.
    Not,
    /// Before a variable: what stands up to there.
    Literal(String),
    /// In a variable: what stands before it, and what is typed of it and of those before.
    Variable { before: String, name: String, value: String, given: Vec<(String, String)> },
}

/// Templates of simple variables, `note://{id}/{page}`, are understood.
fn typed_in(template: &str, word: &str) -> Typed {
    let (mut given, mut rest, mut typed) = (Vec::new(), template, word);
    loop {
        let (literal, behind) = rest.split_once('{').unwrap_or((rest, ""));
        if typed != literal && literal.starts_with(typed) && !behind.is_empty() {
            return Typed::Literal(format!("{}{literal}", &word[..word.len() - typed.len()]));
        }
        let Some(value) = typed.strip_prefix(literal) else { return Typed::Not };
        let Some((name, behind)) = behind.split_once('}') else { return Typed::Not };
        let next = behind.split('{').next().unwrap_or_default();
        match value.split_once(next).filter(|_| !next.is_empty()) {
            Some((value, _)) => {
                given.push((name.to_owned(), value.to_owned()));
                let at = typed.len() - literal.len() - value.len();
                typed = &typed[typed.len() - at..];
                rest = behind;
            }
            None => {
                let before = word[..word.len() - value.len()].to_owned();
                return Typed::Variable {
                    before,
                    name: name.to_owned(),
                    value: value.to_owned(),
                    given,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_ends_somewhere_in_a_template() {
        let literal = |text: &str| Typed::Literal(text.to_owned());
        let variable = |before: &str, name: &str, value: &str, given: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            Typed::Variable {
                before: before.to_owned(),
                name: name.to_owned(),
                value: value.to_owned(),
                given: given.iter().map(owned).collect(),
            }
        };
        let template = "note://{id}/page/{page}";
        assert_eq!(typed_in(template, ""), literal("note://"));
        assert_eq!(typed_in(template, "no"), literal("note://"));
        assert_eq!(typed_in(template, "note://"), variable("note://", "id", "", &[]));
        assert_eq!(typed_in(template, "note://7"), variable("note://", "id", "7", &[]));
        assert_eq!(
            typed_in(template, "note://7/page/1"),
            variable("note://7/page/", "page", "1", &[("id", "7")])
        );
        assert_eq!(typed_in(template, "file://"), Typed::Not);
        assert_eq!(typed_in("note://all", "note://a"), Typed::Not);
    }
}
