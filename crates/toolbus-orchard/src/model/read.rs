//! One file: its scenarios or its component, and everything in them but what is included.

use std::collections::BTreeMap;
use std::rc::Rc;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, ObjectKey};
use hcl_edit::structure::Block;
use toolbus_proto::orchard::types::{self, Type, TypeFault};

use super::blocks::Included;
use super::fields::{Fields, Labelled, Reader};
use super::grammar::{self, IN_BODY, IN_SCENARIO, names};
use super::{
    Action, Attribute, Expr, Local, Name, Output, ProviderConfig, RequiredProvider, Variable,
};
use crate::diagnostic::{Code, FileId, Problem, Span};
use crate::value::Value;

/// What a file holds.
pub(super) enum Content {
    Scenarios(Vec<ReadScenario>),
    Component(Box<ReadBody>),
}

/// A scenario whose components are not read yet.
pub(super) struct ReadScenario {
    pub(super) description: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) required_providers: Vec<RequiredProvider>,
    pub(super) provider_configs: Vec<ProviderConfig>,
    pub(super) body: ReadBody,
}

/// A body whose components are not read yet.
pub(super) struct ReadBody {
    pub(super) name: Name,
    pub(super) header: Span,
    pub(super) variables: BTreeMap<String, Variable>,
    pub(super) locals: BTreeMap<String, Local>,
    pub(super) outputs: Vec<Output>,
    /// In file order.
    pub(super) items: Vec<ReadItem>,
}

pub(super) enum ReadItem {
    Action(Rc<Action>),
    Component(Box<Included>),
}

/// Reads the text of a file.
pub(super) fn file(file: FileId, text: &str, problems: &mut Vec<Problem>) -> Option<Content> {
    let body = match super::parse_body(file, text) {
        Ok(body) => body,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let mut reader = Reader { file, text, problems };
    let Fields { attributes, blocks } = reader.fields(body);
    let mut scenarios: Vec<ReadScenario> = Vec::new();
    let mut components: Vec<ReadBody> = Vec::new();
    for attribute in attributes {
        let name = &attribute.name.text;
        let message = format!("a file has no attribute `{name}`");
        let help = "attributes stand inside of `scenario \"NAME\" { … }`";
        let problem = Problem::error(Code::UnknownAttribute, message).help(help);
        reader.problems.push(problem.at(attribute.name.span));
    }
    for block in blocks {
        match block.ident.as_str() {
            "scenario" => scenarios.extend(reader.scenario(block)),
            "component" => components.extend(reader.component(block)),
            _ => {
                let known = ["scenario", "component"];
                reader.unknown_block("a file", &block, &known, &[]);
            }
        }
    }
    let mut names: BTreeMap<&str, &Span> = BTreeMap::new();
    for scenario in &scenarios {
        let Name { text, span } = &scenario.body.name;
        if let Some(first) = names.insert(text, span) {
            reader.duplicate(&format!("scenario `{text}`"), span.clone(), first.clone());
        }
    }
    let headers = components.iter().map(|component| &component.header);
    if let Some(second) = headers.skip(usize::from(scenarios.is_empty())).min() {
        let message = match scenarios.is_empty() {
            true => "a file holds one component",
            false => "a file with scenarios holds no component",
        };
        let problem = Problem::error(Code::UnknownBlock, message).at(second.clone());
        reader.problems.push(problem.help("give the component a file of its own"));
    }
    match components.into_iter().next() {
        Some(component) if scenarios.is_empty() => Some(Content::Component(Box::new(component))),
        _ => Some(Content::Scenarios(scenarios)),
    }
}

impl Reader<'_> {
    fn scenario(&mut self, block: Block) -> Option<ReadScenario> {
        const KNOWN: [&str; 2] = names(&grammar::SCENARIO);
        let Labelled { labels, header, mut fields } = self.labelled(block, &["NAME"])?;
        let name = labels.into_iter().next()?;
        let [description, tags] = KNOWN.map(|name| fields.take(name));
        let (description, tags) = (self.text(description), self.tags(tags));
        let mut required_providers = Vec::new();
        let mut required_header: Option<Span> = None;
        let mut provider_configs: Vec<ProviderConfig> = Vec::new();
        let mut rest = Vec::new();
        for block in std::mem::take(&mut fields.blocks) {
            match block.ident.as_str() {
                "required_providers" => {
                    let header = self.header(&block);
                    if let Some(first) = &required_header {
                        self.duplicate("the block `required_providers`", header, first.clone());
                        continue;
                    }
                    required_header = Some(header);
                    required_providers = self.required_providers(block);
                }
                "provider" => {
                    let Some(config) = self.provider_config(block) else { continue };
                    let same = provider_configs.iter().find(|known| {
                        let alias = |config: &ProviderConfig| {
                            config.alias.as_ref().map(|alias| alias.text.clone())
                        };
                        known.name.text == config.name.text && alias(known) == alias(&config)
                    });
                    match same {
                        Some(first) => {
                            let what = match &config.alias {
                                Some(alias) => {
                                    format!("provider `{}.{}`", config.name.text, alias.text)
                                }
                                None => format!("provider `{}`", config.name.text),
                            };
                            self.duplicate(&what, config.header, first.header.clone());
                        }
                        None => provider_configs.push(config),
                    }
                }
                _ => rest.push(block),
            }
        }
        fields.blocks = rest;
        let body = self.body("a scenario", name, header, fields, &KNOWN, &IN_SCENARIO);
        Some(ReadScenario { description, tags, required_providers, provider_configs, body })
    }

    fn component(&mut self, block: Block) -> Option<ReadBody> {
        let Labelled { labels, header, fields } = self.labelled(block, &["NAME"])?;
        let name = labels.into_iter().next()?;
        Some(self.body("a component", name, header, fields, &[], &IN_BODY))
    }

    fn body(
        &mut self,
        what: &str,
        name: Name,
        header: Span,
        mut fields: Fields,
        attributes: &[&str],
        blocks: &[&str],
    ) -> ReadBody {
        let mut body = ReadBody {
            name,
            header,
            variables: BTreeMap::new(),
            locals: BTreeMap::new(),
            outputs: Vec::new(),
            items: Vec::new(),
        };
        let mut rest = Vec::new();
        for block in std::mem::take(&mut fields.blocks) {
            match block.ident.as_str() {
                "variable" => {
                    let Some(variable) = self.variable(block) else { continue };
                    let name = variable.name.clone();
                    if let Some(first) = body.variables.get(&name.text) {
                        let what = format!("variable `{}`", name.text);
                        self.duplicate(&what, name.span, first.name.span.clone());
                        continue;
                    }
                    body.variables.insert(name.text, variable);
                }
                "locals" => self.locals(block, &mut body.locals),
                "output" => {
                    let Some(output) = self.output(block) else { continue };
                    let is_same = |known: &&Output| known.name.text == output.name.text;
                    match body.outputs.iter().find(is_same) {
                        Some(first) => {
                            let what = format!("output `{}`", output.name.text);
                            self.duplicate(&what, output.name.span, first.name.span.clone());
                        }
                        None => body.outputs.push(output),
                    }
                }
                "action" => {
                    let action = self.action(block).map(Rc::new);
                    body.items.extend(action.map(ReadItem::Action));
                }
                "component" => {
                    body.items.extend(self.included(block).map(Box::new).map(ReadItem::Component));
                }
                _ => rest.push(block),
            }
        }
        self.duplicate_items(&body.items);
        fields.blocks = rest;
        self.nothing_else(what, fields, attributes, blocks);
        body
    }

    fn duplicate_items(&mut self, items: &[ReadItem]) {
        let mut seen: BTreeMap<_, &Span> = BTreeMap::new();
        let mut again = Vec::new();
        for item in items {
            let (kind, ty, name, header) = match item {
                ReadItem::Action(action) => ("action", &action.ty, &action.name, &action.header),
                ReadItem::Component(included) => {
                    let [ty, name] = &included.labels.labels[..] else { continue };
                    ("component", ty, name, &included.labels.header)
                }
            };
            let key = (kind, &ty.text, &name.text);
            match seen.get(&key) {
                Some(first) => {
                    let what = format!("`{kind}.{}.{}`", ty.text, name.text);
                    again.push((what, header.clone(), (*first).clone()));
                }
                None => drop(seen.insert(key, header)),
            }
        }
        for (what, header, first) in again {
            self.duplicate(&what, header, first);
        }
    }

    fn tags(&mut self, attribute: Option<Attribute>) -> Vec<String> {
        let Some(attribute) = attribute else { return Vec::new() };
        let Some(value) = self.constant(&attribute, &Type::List(Box::new(Type::String))) else {
            return Vec::new();
        };
        let texts = value.elements().unwrap_or_default().iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }

    fn variable(&mut self, block: Block) -> Option<Variable> {
        const KNOWN: [&str; 4] = names(&grammar::VARIABLE);
        let Labelled { labels, header, mut fields } = self.labelled(block, &["NAME"])?;
        let name = labels.into_iter().next()?;
        let [ty, default, description, sensitive] = KNOWN.map(|name| fields.take(name));
        let ty = ty.map_or(Type::Any, |attribute| self.ty(&attribute));
        let (description, sensitive) = (self.text(description), self.flag(sensitive));
        self.nothing_else("a variable", fields, &KNOWN, &[]);
        let default = default.map(|attribute| attribute.value);
        Some(Variable { name, header, ty, default, description, sensitive })
    }

    fn ty(&mut self, attribute: &Attribute) -> Type {
        let span = attribute.value.span.clone();
        let text = self.text.get(span.range.clone()).unwrap_or_default();
        match types::parse(text) {
            Ok(ty) => ty,
            Err(error) => {
                let at = (span.range.start + error.offset).min(span.range.end);
                let place = Span::new(span.file, at..span.range.end.max(at));
                let problem = Problem::error(Code::Syntax, error.to_string()).at(place);
                let quoted = matches!(attribute.value.expression, Expression::String(_));
                self.problems.push(match error.fault {
                    _ if quoted => problem.help("types are written without quotes"),
                    TypeFault::Unknown { meant: None, .. } => problem.help(
                        "types are `string`, `number`, `bool`, `any`, `list(…)`, `set(…)`, `map(…)`, `tuple([…])` and `object({…})`",
                    ),
                    _ => problem,
                });
                Type::Any
            }
        }
    }

    fn locals(&mut self, block: Block, locals: &mut BTreeMap<String, Local>) {
        let Some(Labelled { fields, .. }) = self.labelled(block, &[]) else { return };
        let Fields { attributes, blocks } = fields;
        for Attribute { name, value } in attributes {
            if let Some(first) = locals.get(&name.text) {
                self.duplicate(
                    &format!("`local.{}`", name.text),
                    name.span,
                    first.name.span.clone(),
                );
                continue;
            }
            locals.insert(name.text.clone(), Local { name, value });
        }
        for block in &blocks {
            self.unknown_block("`locals`", block, &[], &[]);
        }
    }

    fn output(&mut self, block: Block) -> Option<Output> {
        const KNOWN: [&str; 3] = names(&grammar::OUTPUT);
        let Labelled { labels, header, mut fields } = self.labelled(block, &["NAME"])?;
        let name = labels.into_iter().next()?;
        let [value, description, sensitive] = KNOWN.map(|name| fields.take(name));
        let (description, sensitive) = (self.text(description), self.flag(sensitive));
        if value.is_none() {
            let problem =
                Problem::error(Code::MissingAttribute, "an output needs the attribute `value`");
            self.problems.push(problem.at(header.clone()));
        }
        self.nothing_else("an output", fields, &KNOWN, &[]);
        let value = value.map(|attribute| attribute.value);
        Some(Output { name, header, value, description, sensitive })
    }

    fn provider_config(&mut self, block: Block) -> Option<ProviderConfig> {
        let Labelled { labels, header, mut fields } = self.labelled(block, &["NAME"])?;
        let name = labels.into_iter().next()?;
        let [alias] = names(&grammar::PROVIDER).map(|name| fields.take(name));
        let alias = alias.and_then(|attribute| {
            let span = attribute.value.span.clone();
            let text = self.text(Some(attribute))?;
            Some(Name { text, span })
        });
        for block in &fields.blocks {
            self.unknown_block("a provider", block, &[], &[]);
        }
        Some(ProviderConfig { name, alias, header, config: fields.attributes })
    }

    fn required_providers(&mut self, block: Block) -> Vec<RequiredProvider> {
        let Some(Labelled { fields, .. }) = self.labelled(block, &[]) else { return Vec::new() };
        for block in &fields.blocks {
            self.unknown_block("`required_providers`", block, &[], &[]);
        }
        let read = |attribute: Attribute| {
            let source = self.provider_source(&attribute)?;
            Some(RequiredProvider { name: attribute.name, source })
        };
        fields.attributes.into_iter().filter_map(read).collect()
    }

    /// `{ source = "…" }`.
    fn provider_source(&mut self, attribute: &Attribute) -> Option<Name> {
        let help =
            format!("write `{} = {{ source = \"exec:./my-provider\" }}`", attribute.name.text);
        let Expression::Object(object) = &attribute.value.expression else {
            let problem = Problem::error(
                Code::TypeMismatch,
                "a required provider is an object with `source`",
            );
            self.problems.push(problem.at(attribute.value.span.clone()).help(help));
            return None;
        };
        let mut source = None;
        for (key, value) in object {
            let span = self.span(value.expr().span());
            let name = match key {
                ObjectKey::Ident(name) => name.as_str(),
                ObjectKey::Expression(Expression::String(name)) => name.as_str(),
                ObjectKey::Expression(_) => "",
            };
            if name != "source" {
                let message = format!("a required provider has no attribute `{name}`");
                let span = key_span(self.text, name, &span);
                let problem = Problem::error(Code::UnknownAttribute, message).at(span);
                self.problems.push(problem.meant(name, ["source"]));
                continue;
            }
            let expr = Expr::new(self.file, value.expr().clone());
            let attribute = Attribute { name: attribute.name.clone(), value: expr };
            let text = self.text(Some(attribute));
            source = Some(text.map(|text| Name { text, span }));
        }
        if source.is_none() {
            let name = &attribute.name;
            let message = format!("provider `{}` needs the attribute `source`", name.text);
            let problem = Problem::error(Code::MissingAttribute, message);
            self.problems.push(problem.at(name.span.clone()).help(help));
        }
        source.flatten()
    }
}

/// Where the key of an object's value stands: the parser does not tell of keys without quotes.
pub(crate) fn key_span(text: &str, key: &str, value: &Span) -> Span {
    let before = text.get(..value.range.start).unwrap_or_default();
    let assignment = before.trim_end().trim_end_matches(['=', ':']).trim_end();
    let assignment = assignment.strip_suffix('"').unwrap_or(assignment);
    match assignment.ends_with(key) {
        true => Span::new(value.file, assignment.len() - key.len()..assignment.len()),
        false => value.clone(),
    }
}
