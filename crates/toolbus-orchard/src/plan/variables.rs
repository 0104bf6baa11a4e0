//! The values of a scenario's variables: flags over files over the environment over defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toolbus_proto::json::Json;

use crate::diagnostic::{Code, FileId, Problem, Span};
use crate::expr::{NoNames, Source, evaluate};
use crate::model::{self, Body, Expr, Variable, parse_body, parse_expression};
use crate::source::Sources;
use crate::value::{Type, Value, convert, from_any_json};

/// What the user gives.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// `--var NAME=TEXT`, in order.
    pub flags: Vec<(String, String)>,
    /// `--var-file`, in order.
    pub files: Vec<VarFile>,
    /// `TOOLBUS_VAR_NAME`, by name.
    pub environment: BTreeMap<String, String>,
}

/// A file of values.
#[derive(Debug, Clone)]
pub struct VarFile {
    /// Where it is, absolute.
    pub path: PathBuf,
    /// Where it is, as the user said.
    pub shown: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Where a value comes from.
enum From<'a> {
    Flag(&'a str),
    Environment(&'a str),
    File(&'a Value, Option<Span>),
}

/// The values of the variables of a scenario. Those that have none are told if they are needed.
pub fn values(
    body: &Body,
    given: &Given,
    are_needed: bool,
    sources: &mut Sources,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Value> {
    let names = || body.variables.keys().map(String::as_str);
    for (name, _) in given.flags.iter().filter(|(name, _)| !body.variables.contains_key(name)) {
        let message = format!("`--var {name}`: variable `{name}` is not declared");
        problems.push(Problem::error(Code::UnknownVariable, message).meant(name, names()));
    }
    let mut in_files: BTreeMap<String, (Value, Option<Span>)> = BTreeMap::new();
    for file in &given.files {
        for (name, value, span) in read(file, sources, problems) {
            if !body.variables.contains_key(&name) {
                let message = format!("variable `{name}` is not declared");
                let problem =
                    Problem::warning(Code::UnknownVariable, message).meant(&name, names());
                problems.push(Problem { span, ..problem });
                continue;
            }
            in_files.insert(name, (value, span));
        }
    }
    let mut values = BTreeMap::new();
    for (name, variable) in &body.variables {
        let flag = given.flags.iter().rev().find(|(flag, _)| flag == name);
        let from = match (flag, in_files.get(name), given.environment.get(name)) {
            (Some((_, text)), _, _) => Some(From::Flag(text)),
            (None, Some((value, span)), _) => Some(From::File(value, span.clone())),
            (None, None, Some(text)) => Some(From::Environment(text)),
            (None, None, None) => None,
        };
        let value = match (from, &variable.default) {
            (Some(from), _) => typed(variable, &from),
            (None, Some(default)) => {
                model::constant(default, &variable.ty).map_err(|problem| match problem.code {
                    Code::TypeMismatch => problem.label(variable.header.clone(), "declared here"),
                    _ => problem,
                })
            }
            (None, None) if are_needed => Err(missing(variable)),
            (None, None) => continue,
        };
        match value {
            Ok(value) => {
                values.insert(name.clone(), value.with_sensitive(variable.sensitive));
            }
            Err(problem) => problems.push(problem),
        }
    }
    values
}

fn missing(variable: &Variable) -> Problem {
    let name = &variable.name.text;
    let message = format!("variable `{name}` has no value");
    let problem = Problem::error(Code::MissingVariable, message).at(variable.header.clone());
    let how = format!("give it by `--var {name}=…`, `--var-file` or `TOOLBUS_VAR_{name}`");
    problem.help(match &variable.description {
        Some(description) => format!("{how}: {description}"),
        None => how,
    })
}

fn typed(variable: &Variable, from: &From<'_>) -> Result<Value, Problem> {
    let Variable { name, ty, .. } = variable;
    let (how, value, span) = match from {
        From::Flag(text) => (format!("`--var {}`", name.text), of_text(text, ty), None),
        From::Environment(text) => {
            (format!("`TOOLBUS_VAR_{}`", name.text), of_text(text, ty), None)
        }
        From::File(value, span) => {
            (format!("`{}`", name.text), Some((*value).clone()), span.clone())
        }
    };
    let mismatch = |why: String| {
        let problem = Problem::error(Code::TypeMismatch, format!("{how}: {why}"));
        match span.clone() {
            Some(span) => problem.at(span).label(variable.header.clone(), format!("wants `{ty}`")),
            None => problem
                .at(variable.header.clone())
                .help(format!("the value must be of type `{ty}`")),
        }
    };
    let Some(value) = value else {
        return Err(mismatch(format!("the text is no value of type `{ty}`")));
    };
    convert(&value, ty).map_err(|mismatched| mismatch(mismatched.to_string()))
}

/// What a text means to a variable of this type; `None` if nothing.
fn of_text(text: &str, ty: &Type) -> Option<Value> {
    let evaluated = || {
        let file = FileId::default();
        let expression = parse_expression(file, text).ok()?;
        evaluate(&expression, &NoNames, &Source::pure(file)).ok()
    };
    match ty {
        Type::String => Some(Value::string(text)),
        Type::Any => Some(evaluated().unwrap_or_else(|| Value::string(text))),
        _ => evaluated(),
    }
}

/// The values in a file, with their places.
fn read(
    file: &VarFile,
    sources: &mut Sources,
    problems: &mut Vec<Problem>,
) -> Vec<(String, Value, Option<Span>)> {
    let (id, taken) = sources.add(file.path.clone(), &*file.shown, &file.bytes);
    if let Err(problem) = taken {
        problems.push(problem);
        return Vec::new();
    }
    let text = sources.file(id).text.clone();
    match file.path.extension().is_some_and(|extension| extension == "json") {
        true => read_json(id, &text, problems),
        false => read_hcl(id, &text, problems),
    }
}

fn read_json(
    file: FileId,
    text: &str,
    problems: &mut Vec<Problem>,
) -> Vec<(String, Value, Option<Span>)> {
    let start = Span::new(file, 0..0);
    let json = match Json::parse(text.to_owned()) {
        Ok(json) => json,
        Err(error) => {
            problems.push(Problem::error(Code::Syntax, error.to_string()).at(start));
            return Vec::new();
        }
    };
    let value = match from_any_json(&json) {
        Ok(value) => value,
        Err(mismatch) => {
            problems.push(Problem::error(Code::NumberTooLarge, mismatch.to_string()).at(start));
            return Vec::new();
        }
    };
    let Some(members) = value.members() else {
        let message = format!("a file of values is one object, not a {}", value.kind_word());
        problems.push(Problem::error(Code::TypeMismatch, message).at(start));
        return Vec::new();
    };
    let member =
        |(name, value): (&String, &Value)| (name.clone(), value.clone(), Some(start.clone()));
    members.iter().map(member).collect()
}

fn read_hcl(
    file: FileId,
    text: &str,
    problems: &mut Vec<Problem>,
) -> Vec<(String, Value, Option<Span>)> {
    let body = match parse_body(file, text) {
        Ok(body) => body,
        Err(problem) => {
            problems.push(problem);
            return Vec::new();
        }
    };
    let mut values = Vec::new();
    for structure in body {
        match structure {
            hcl_edit::structure::Structure::Attribute(attribute) => {
                let name = attribute.key.as_str().to_owned();
                let expr = Expr::new(file, attribute.value);
                match evaluate(&expr.expression, &NoNames, &Source::pure(file)) {
                    Ok(value) => values.push((name, value, Some(expr.span))),
                    Err(problem) => problems.push(problem),
                }
            }
            hcl_edit::structure::Structure::Block(block) => {
                let range = hcl_edit::Span::span(&block.ident).unwrap_or_default();
                let message = format!("a file of values has no block `{}`", block.ident.as_str());
                let problem =
                    Problem::error(Code::UnknownBlock, message).at(Span::new(file, range));
                problems.push(problem.help("write `name = value`, one a line"));
            }
        }
    }
    values
}
