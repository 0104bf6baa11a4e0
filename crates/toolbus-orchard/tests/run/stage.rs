//! A provider that does as a test says, and a surface that keeps what it is told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::SystemTime;

use tokio::sync::Notify;
use toolbus::{Code, Failure, FailureKind, Json, LocalFuture};
use toolbus_orchard::builtin::{Execute, Inside};
use toolbus_orchard::model::Choice;
use toolbus_orchard::plan::variables::Given;
use toolbus_orchard::plan::{self, Plan};
use toolbus_orchard::project::{Opened, Project};
use toolbus_orchard::provider::{InProcess, Provider};
use toolbus_orchard::record::Record;
use toolbus_orchard::run::{Event, Options, Stop, Summary, Surface, run};
use toolbus_orchard::secrets::Secrets;
use toolbus_proto::orchard::schema::ProviderSchema;
use toolbus_proto::orchard::types::Type;
use toolbus_testkit::scratch::Scratch;

use crate::plan::corpus;

/// Gives back what it gets, under the names that its outputs have.
#[derive(Default)]
pub(crate) struct Mirror {
    pub(crate) schema: Option<Rc<ProviderSchema>>,
    /// What was asked of it.
    pub(crate) asked: RefCell<Vec<String>>,
    pub(crate) in_flight: Cell<usize>,
    pub(crate) in_flight_max: Cell<usize>,
    /// Answers that come before it gives anything back, by the attribute `text`.
    pub(crate) answers: RefCell<BTreeMap<String, Vec<Result<&'static str, Failure>>>>,
    /// What has the text `wait` ends when this is rung.
    pub(crate) go_on: Rc<Notify>,
    pub(crate) has_begun: Rc<Notify>,
}

pub(crate) fn refused(code: &str, message: &str) -> Failure {
    let code = Some(Code::Word(code.to_owned()));
    Failure { code, from_peer: true, ..Failure::new(FailureKind::Failed, message) }
}

impl Mirror {
    fn outputs(&self, action: &str, attrs: &Json) -> Json {
        let attrs: serde_json::Map<String, serde_json::Value> = attrs.read().unwrap();
        let schema = self.schema.as_ref().unwrap();
        let Some(outputs) = &schema.actions[action].outputs else { return Json::of(&attrs) };
        let Type::Object(fields) = &outputs.ty else { return Json::of(&attrs) };
        let value = |(name, field): (&String, &toolbus_proto::orchard::types::Field)| {
            let made = match &field.ty {
                Type::Number => serde_json::json!(7),
                Type::Bool => serde_json::json!(true),
                Type::List(_) | Type::Set(_) | Type::Tuple(_) => serde_json::json!([]),
                Type::Map(_) | Type::Object(_) => serde_json::json!({}),
                _ => serde_json::json!(format!("made {name}")),
            };
            (name.clone(), attrs.get(name).cloned().unwrap_or(made))
        };
        Json::of(&fields.iter().map(value).collect::<serde_json::Map<_, _>>())
    }
}

impl Inside for Mirror {
    fn configure(&self, config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        self.asked.borrow_mut().push(format!("configure {config}"));
        let refused = config.as_str().contains("refuse me");
        Box::pin(async move {
            match refused {
                true => Err(self::refused("configure_failed", "bad greeting: refuse me")),
                false => Ok(()),
            }
        })
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        let Execute { action, attrs, .. } = execute;
        self.asked.borrow_mut().push(format!("{action} {attrs}"));
        let text = toolbus_proto::json::edit::text(attrs.as_str(), "text").unwrap_or_default();
        let text = text.into_owned();
        Box::pin(async move {
            self.in_flight.set(self.in_flight.get() + 1);
            self.in_flight_max.set(self.in_flight_max.get().max(self.in_flight.get()));
            if text == "wait" {
                self.has_begun.notify_one();
                self.go_on.notified().await;
            }
            // So that others have their turn meanwhile.
            tokio::task::yield_now().await;
            self.in_flight.set(self.in_flight.get() - 1);
            let scripted = self
                .answers
                .borrow_mut()
                .get_mut(&text)
                .and_then(|answers| (!answers.is_empty()).then(|| answers.remove(0)));
            match scripted {
                Some(Ok(outputs)) => Ok(Json::parse(outputs).unwrap()),
                Some(Err(failure)) => Err(failure),
                None => Ok(self.outputs(&action, &attrs)),
            }
        })
    }
}

/// Keeps what it is told, as lines of JSON without times.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) lines: RefCell<Vec<String>>,
    pub(crate) secrets: Rc<Secrets>,
}

impl Surface for Kept {
    fn tell(&self, event: &Event<'_>) {
        let line = event.line(SystemTime::UNIX_EPOCH, &self.secrets);
        let line = line.replace(",\"at\":\"1970-01-01T00:00:00.000Z\"", "");
        self.lines.borrow_mut().push(without_numbers(&line));
    }
}

/// How long something took differs from run to run.
pub(crate) fn without_numbers(line: &str) -> String {
    let mut out = line.to_owned();
    if let Some(at) = out.find("\"duration_ms\":") {
        let from = at + "\"duration_ms\":".len();
        let digits = out[from..].bytes().take_while(u8::is_ascii_digit).count();
        if digits != 0 {
            out.replace_range(from..from + digits, "N");
        }
    }
    out
}

/// A plan with its providers, all of them mirrors.
pub(crate) struct Stage {
    pub(crate) plan: Plan,
    pub(crate) mirrors: Vec<Rc<Mirror>>,
    providers: Vec<Rc<dyn Provider>>,
    pub(crate) kept: Kept,
    pub(crate) scratch: Scratch,
    pub(crate) options: Options,
}

impl Stage {
    pub(crate) fn of(plan: Plan) -> Stage {
        let kept = Kept::default();
        plan.variables.values().for_each(|value| kept.secrets.hide_sensitive(value));
        let mirrors: Vec<Rc<Mirror>> = plan
            .providers
            .iter()
            .map(|instance| {
                Rc::new(Mirror { schema: Some(instance.schema.clone()), ..Mirror::default() })
            })
            .collect();
        let provider = |(instance, mirror): (&plan::ProviderInstance, &Rc<Mirror>)| {
            let inside: Rc<dyn Inside> = mirror.clone();
            let schema = (*instance.schema).clone();
            Rc::new(InProcess::new(&instance.name, schema, inside)) as Rc<dyn Provider>
        };
        let providers = plan.providers.iter().zip(&mirrors).map(provider).collect();
        let scratch = Scratch::new();
        let options = Options {
            record_folder: Some(scratch.path().to_owned()),
            seed: 1,
            ..Options::default()
        };
        Stage { plan, mirrors, providers, kept, scratch, options }
    }

    /// A scenario with the provider `e`, whose schema is that of the corpus's echo.
    pub(crate) fn scenario(body: &str, variables: &[(&str, &str)]) -> Stage {
        Stage::with_schema(body, variables, |_| {})
    }

    pub(crate) fn with_schema(
        body: &str,
        variables: &[(&str, &str)],
        change: impl Fn(&mut ProviderSchema),
    ) -> Stage {
        let text = format!(
            "scenario \"s\" {{\n  required_providers {{\n    e = {{ source = \"exec:providers/echo\" }}\n  }}\n{body}\n}}\n"
        );
        let opened = Opened {
            path: corpus::folder().join("s.hcl"),
            shown: "s.hcl".to_owned(),
            bytes: text.into_bytes(),
        };
        let flags = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let given = Given { flags: flags.collect(), ..Given::default() };
        let project = Project::open(&opened, Choice::Only, &given, true);
        let providers: Vec<plan::Provider> = project
            .providers
            .iter()
            .map(|(name, source)| {
                let mut schema = (*corpus::schema(source)).clone();
                change(&mut schema);
                plan::Provider {
                    name: name.clone(),
                    source: source.clone(),
                    schema: Rc::new(schema),
                }
            })
            .collect();
        let planned = project.plan(&providers, &[]);
        assert!(planned.plan.is_some(), "{:?}", planned.problems);
        Stage::of(planned.plan.unwrap())
    }

    pub(crate) async fn run(&self, stop: Stop) -> Summary {
        let Stage { plan, providers, kept, options, .. } = self;
        run(plan, providers, options, kept, &kept.secrets, stop).await.unwrap()
    }

    /// Runs it to its end; what it told, and how it ended.
    pub(crate) fn to_end(&self) -> (String, Summary) {
        let (_stopper, stop) = Stop::new();
        let summary = toolbus_testkit::runtime::run_and_let_time_fly(self.run(stop));
        (self.told(), summary)
    }

    pub(crate) fn told(&self) -> String {
        let lines = self.kept.lines.borrow();
        lines
            .iter()
            .filter(|line| !line.contains("run_started"))
            .map(|line| format!("{line}\n"))
            .collect()
    }

    pub(crate) fn record_path(&self) -> PathBuf {
        toolbus_orchard::record::file::list(self.scratch.path()).unwrap().remove(0)
    }

    pub(crate) fn record(&self) -> Record {
        toolbus_orchard::record::file::load(&self.record_path()).unwrap()
    }

    pub(crate) fn record_text(&self) -> String {
        std::fs::read_to_string(self.record_path()).unwrap()
    }

    pub(crate) fn states(&self) -> Vec<&'static str> {
        self.record().nodes.iter().map(|node| node.state.as_str()).collect()
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.mirrors[0].asked.borrow().clone()
    }

    /// Before it gives anything back for this text, these come.
    pub(crate) fn answer(&self, text: &str, answers: Vec<Result<&'static str, Failure>>) {
        self.mirrors[0].answers.borrow_mut().insert(text.to_owned(), answers);
    }
}
