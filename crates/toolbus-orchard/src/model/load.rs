//! A file with all that it includes: components are read, each file once, and hung in.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use hcl_edit::expr::{Expression, ObjectKey, ObjectValue};

use super::read::{self, ReadBody, ReadItem, ReadScenario};
use super::{Body, Component, ComponentBlock, Expr, Index, Item, Name, Scenario, check};
use crate::diagnostic::{Code, FileId, Problem, Span};
use crate::expr::Files;
use crate::source::{FILE_BYTES_MAX, Sources, tidy};

/// How deep components may include each other.
const COMPONENT_DEPTH_MAX: usize = 16;

/// What was read, and what is wrong with it.
#[derive(Debug)]
pub struct Loaded {
    /// The files.
    pub sources: Sources,
    /// What the first of them holds, as far as it could be read.
    pub content: Content,
    /// What is wrong, in the order in which it was found.
    pub problems: Vec<Problem>,
}

/// What a file holds.
#[derive(Debug)]
pub enum Content {
    /// Scenarios, in file order.
    Scenarios(Vec<Rc<Scenario>>),
    /// One component.
    Component(Rc<Component>),
    /// Nothing that could be read.
    Broken,
}

/// Which scenarios of a file are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice<'a> {
    /// All of them.
    All,
    /// The only one.
    Only,
    /// The one of this name.
    Named(&'a str),
}

/// Reads the file at `path`, which has these bytes, and all components that it includes.
pub fn load(
    files: &dyn Files,
    path: PathBuf,
    shown: &str,
    bytes: &[u8],
    choice: Choice<'_>,
) -> Loaded {
    let mut loader = Loader {
        files,
        sources: Sources::default(),
        problems: Vec::new(),
        known: HashMap::new(),
        including: vec![tidy(&path)],
    };
    let content = match loader.take(path, shown.to_owned(), bytes) {
        None => Content::Broken,
        Some((file, read::Content::Component(body))) => loader.lone_component(file, *body, choice),
        Some((file, read::Content::Scenarios(scenarios))) => {
            let chosen = loader.chosen(file, scenarios, choice);
            let chosen = chosen.into_iter().map(|scenario| loader.scenario(scenario));
            Content::Scenarios(chosen.collect())
        }
    };
    Loaded { sources: loader.sources, content, problems: loader.problems }
}

struct Loader<'a> {
    files: &'a dyn Files,
    sources: Sources,
    problems: Vec<Problem>,
    /// Components by their files; `None` if they could not be read, which was told.
    known: HashMap<PathBuf, Option<Known>>,
    /// The files that are being read, each included by the one before.
    including: Vec<PathBuf>,
}

#[derive(Clone)]
struct Known {
    component: Rc<Component>,
    /// How many components stand inside each other in it, itself counted.
    height: usize,
}

impl Loader<'_> {
    fn take(
        &mut self,
        path: PathBuf,
        shown: String,
        bytes: &[u8],
    ) -> Option<(FileId, read::Content)> {
        let (file, taken) = self.sources.add(path, shown, bytes);
        if let Err(problem) = taken {
            self.problems.push(problem);
            return None;
        }
        let text = self.sources.file(file).text.clone();
        let content = read::file(file, &text, &mut self.problems)?;
        Some((file, content))
    }

    fn chosen(
        &mut self,
        file: FileId,
        scenarios: Vec<ReadScenario>,
        choice: Choice<'_>,
    ) -> Vec<ReadScenario> {
        let names: Vec<String> =
            scenarios.iter().map(|scenario| scenario.body.name.text.clone()).collect();
        let shown = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let at = Span::new(file, 0..0);
        let refuse = |code, message: String, help: Option<String>| {
            let problem = Problem::error(code, message).at(at);
            match help {
                Some(help) => problem.help(help),
                None => problem,
            }
        };
        let problem = match choice {
            Choice::All if !scenarios.is_empty() => return scenarios,
            Choice::Only if scenarios.len() == 1 => return scenarios,
            Choice::Named(name) => {
                let found = scenarios.into_iter().find(|scenario| scenario.body.name.text == name);
                if let Some(found) = found {
                    return vec![found];
                }
                let problem = refuse(
                    Code::UnknownScenario,
                    format!("there is no scenario `{name}` in this file"),
                    Some(format!("there is {shown}")).filter(|_| !names.is_empty()),
                );
                let meant = problem.clone().meant(name, names.iter().map(String::as_str));
                if meant.help.is_some() { meant } else { problem }
            }
            _ if scenarios.is_empty() => {
                refuse(Code::ScenarioChoice, "there is no scenario in this file".to_owned(), None)
            }
            _ => {
                let help = format!("choose one by `--scenario NAME`: {shown}");
                let message = format!("this file has {} scenarios", names.len());
                refuse(Code::ScenarioChoice, message, Some(help))
            }
        };
        self.problems.push(problem);
        Vec::new()
    }

    fn lone_component(&mut self, file: FileId, body: ReadBody, choice: Choice<'_>) -> Content {
        if choice != Choice::All {
            let code = match choice {
                Choice::Named(_) => Code::UnknownScenario,
                _ => Code::ScenarioChoice,
            };
            let problem = Problem::error(code, "this file holds a component and no scenario");
            let help = "include it in a scenario by `component \"TYPE\" \"NAME\" { source = … }`";
            self.problems.push(problem.at(body.header.clone()).help(help));
            let _ = file;
            return Content::Broken;
        }
        let (body, _) = self.body(body);
        Content::Component(Rc::new(Component { body: Rc::new(body) }))
    }

    fn scenario(&mut self, read: ReadScenario) -> Rc<Scenario> {
        let ReadScenario { description, tags, required_providers, provider_configs, body } = read;
        let (body, _) = self.body(body);
        let body = Rc::new(body);
        let scenario = Scenario { description, tags, required_providers, provider_configs, body };
        check::providers(&scenario, &mut self.problems);
        Rc::new(scenario)
    }

    /// The body with its components, and how many stand inside each other.
    fn body(&mut self, read: ReadBody) -> (Body, usize) {
        let ReadBody { name, header, variables, locals, outputs, items } = read;
        let (mut actions, mut components) = (Vec::new(), Vec::new());
        let (mut order, mut index) = (Vec::new(), Index::default());
        let mut height = 0;
        for item in items {
            let (names, at, ty, name) = match item {
                ReadItem::Action(action) => {
                    let (ty, name) = (action.ty.text.clone(), action.name.text.clone());
                    order.push(Item::Action(actions.len()));
                    actions.push(action);
                    (&mut index.actions, actions.len() - 1, ty, name)
                }
                ReadItem::Component(included) => {
                    let included = *included;
                    let Ok([ty, name]) = <[Name; 2]>::try_from(included.labels.labels) else {
                        continue;
                    };
                    let labels = (ty.text.clone(), name.text.clone());
                    let known =
                        included.source.and_then(|(source, at)| self.include(&ty, &source, at));
                    height = height.max(known.as_ref().map_or(0, |known| known.height));
                    order.push(Item::Component(components.len()));
                    components.push(Rc::new(ComponentBlock {
                        ty,
                        name,
                        header: included.labels.header,
                        definition: known.map(|known| known.component),
                        named_inputs: included.inputs.as_ref().and_then(named_inputs),
                        inputs: included.inputs,
                        for_each: included.for_each,
                        depends_on: included.depends_on,
                    }));
                    (&mut index.components, components.len() - 1, labels.0, labels.1)
                }
            };
            // Of two of one name the first stays; the other was told.
            names.entry(ty).or_default().entry(name).or_insert(at);
        }
        let body =
            Body { name, header, variables, locals, actions, components, outputs, order, index };
        check::body(&body, &self.sources, &mut self.problems);
        (body, height)
    }

    fn include(&mut self, ty: &Name, source: &str, at: Span) -> Option<Known> {
        let from = self.sources.file(at.file);
        let path = tidy(&from.folder().join(source));
        let shown = Path::new(&from.shown).parent().unwrap_or(Path::new("")).join(source);
        let shown = tidy(&shown).display().to_string();
        if self.including.contains(&path) {
            let message = format!("`{shown}` includes itself");
            self.problems.push(Problem::error(Code::ComponentCycle, message).at(at));
            return None;
        }
        let known = match self.known.get(&path) {
            Some(known) => known.clone(),
            None => {
                let known = self.read_component(path.clone(), shown.clone(), &at);
                self.known.insert(path, known.clone());
                known
            }
        }?;
        if COMPONENT_DEPTH_MAX < self.including.len() - 1 + known.height {
            let message =
                format!("components include each other deeper than {COMPONENT_DEPTH_MAX}");
            self.problems.push(Problem::error(Code::ComponentCycle, message).at(at));
            return None;
        }
        let name = &known.component.body.name;
        if name.text != ty.text {
            let message =
                format!("`{shown}` holds the component `{}`, not `{}`", name.text, ty.text);
            let help = format!("write `component \"{}\"`", name.text);
            let problem = Problem::error(Code::ComponentLabel, message).at(ty.span.clone());
            self.problems.push(problem.label(name.span.clone(), "its name").help(help));
            return None;
        }
        Some(known)
    }

    fn read_component(&mut self, path: PathBuf, shown: String, at: &Span) -> Option<Known> {
        let cannot =
            |message: String| Problem::error(Code::ComponentSource, message).at(at.clone());
        let bytes = match self.files.read(&path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let message = format!("`{shown}` is larger than {FILE_BYTES_MAX} bytes");
                self.problems.push(Problem::error(Code::TooBig, message).at(at.clone()));
                return None;
            }
            Err(error) => {
                let problem = cannot(format!("cannot read `{shown}`: {error}"));
                let help = "the path is relative to the file that holds the block";
                self.problems.push(problem.help(help));
                return None;
            }
        };
        // Every file on the way is held once, so this is no deeper than the stack can bear.
        if COMPONENT_DEPTH_MAX < self.including.len() {
            let message =
                format!("components include each other deeper than {COMPONENT_DEPTH_MAX}");
            self.problems.push(Problem::error(Code::ComponentCycle, message).at(at.clone()));
            return None;
        }
        self.including.push(path.clone());
        let read = match self.take(path, shown.clone(), &bytes) {
            Some((_, read::Content::Component(body))) => {
                let (body, height) = self.body(*body);
                let component = Rc::new(Component { body: Rc::new(body) });
                Some(Known { component, height: height + 1 })
            }
            Some((_, read::Content::Scenarios(_))) => {
                let problem = cannot(format!("`{shown}` holds no component"));
                self.problems
                    .push(problem.help("it must have one block `component \"NAME\" { … }`"));
                None
            }
            None => None,
        };
        self.including.pop();
        read
    }
}

/// The members of an object whose keys are written out.
fn named_inputs(inputs: &Expr) -> Option<BTreeMap<String, Expr>> {
    let object = inputs.expression.as_object()?;
    let member = |(key, value): (&ObjectKey, &ObjectValue)| {
        let name = match key {
            ObjectKey::Ident(name) => name.as_str(),
            ObjectKey::Expression(Expression::String(name)) => name.as_str(),
            ObjectKey::Expression(_) => return None,
        };
        Some((name.to_owned(), Expr::new(inputs.file(), value.expr().clone())))
    };
    object.iter().map(member).collect()
}
