//! The corpus: each scenario in `corpus/` beside the page that planning it gives.
//!
//! The first line of a scenario may say what is given on the command line: `# --var x=1`. No
//! process is started: a provider's schema is the file beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use toolbus_orchard::builtin;
use toolbus_orchard::model::Choice;
use toolbus_orchard::plan::variables::{Given, VarFile};
use toolbus_orchard::plan::{Planned, Provider};
use toolbus_orchard::project::{Opened, Project};
use toolbus_orchard::provider::ProviderSource;
use toolbus_orchard::secrets::Secrets;
use toolbus_orchard::show::problems::{self, Look};
use toolbus_orchard::show::{plan_text, secrets_of};
use toolbus_proto::json::Json;
use toolbus_proto::orchard::schema::ProviderSchema;

/// The corpus.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan/corpus")
}

/// The scenarios of a part of the corpus, by name.
pub(crate) fn scenarios(part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder().join(part)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "hcl")).collect();
    paths.sort();
    paths
}

/// What a scenario's first line says about the command line.
#[derive(Default)]
pub(crate) struct Asked {
    given: Given,
    scenario: Option<String>,
    targets: Vec<String>,
}

impl Asked {
    pub(crate) fn read(path: &Path, text: &[u8]) -> Asked {
        let text = String::from_utf8_lossy(text);
        let first = text.lines().next().unwrap_or_default();
        let mut asked = Asked::default();
        let words = first.trim_start_matches('\u{feff}').strip_prefix("# --");
        let line = words.map(|rest| format!("--{rest}")).unwrap_or_default();
        let mut words = line.split_whitespace();
        while let (Some(flag), Some(value)) = (words.next(), words.next()) {
            match flag {
                "--var" => {
                    let (name, value) = value.split_once('=').unwrap();
                    asked.given.flags.push((name.to_owned(), value.to_owned()));
                }
                "--env" => {
                    let (name, value) = value.split_once('=').unwrap();
                    asked.given.environment.insert(name.to_owned(), value.to_owned());
                }
                "--var-file" => {
                    let path = path.parent().unwrap().join(value);
                    let bytes = fs::read(&path).unwrap();
                    asked.given.files.push(VarFile { path, shown: value.to_owned(), bytes });
                }
                "--scenario" => asked.scenario = Some(value.to_owned()),
                "--target" => asked.targets.push(value.to_owned()),
                other => panic!("{} asks for {other}", path.display()),
            }
        }
        asked
    }
}

/// The schema of a provider: of a program, the file beside it.
pub(crate) fn schema(source: &ProviderSource) -> Rc<ProviderSchema> {
    let schema = match source {
        ProviderSource::Builtin(name) => builtin::schema(name).unwrap(),
        ProviderSource::Program { words, .. } => {
            let text = fs::read_to_string(format!("{}.json", words[0])).unwrap();
            ProviderSchema::read(&Json::parse(text).unwrap()).unwrap().0
        }
        ProviderSource::Address(address) => panic!("no plan of the corpus calls {address}"),
    };
    Rc::new(schema)
}

/// Opens a file with these bytes, asks and plans.
pub(crate) fn planned(path: &Path, bytes: &[u8], asked: &Asked) -> (Project, Planned) {
    let shown = path.file_name().unwrap().to_str().unwrap().to_owned();
    let opened = Opened { path: path.to_owned(), shown, bytes: bytes.to_vec() };
    let choice = asked.scenario.as_deref().map_or(Choice::Only, Choice::Named);
    let project = Project::open(&opened, choice, &asked.given, true);
    if project.is_broken {
        let planned = Planned { plan: None, problems: project.problems.clone() };
        return (project, planned);
    }
    let provider = |(name, source): &(String, ProviderSource)| Provider {
        name: name.clone(),
        source: source.clone(),
        schema: schema(source),
    };
    let providers: Vec<Provider> = project.providers.iter().map(provider).collect();
    let planned = project.plan(&providers, &asked.targets);
    (project, planned)
}

/// What `toolbus orchard plan` prints of it.
pub(crate) fn page(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let (project, planned) = planned(path, &bytes, &Asked::read(path, &bytes));
    let shown = path.file_name().unwrap().to_str().unwrap();
    let secrets = match &planned.plan {
        Some(plan) => secrets_of(plan),
        None => {
            let secrets = Secrets::new();
            project.variables.values().for_each(|value| secrets.hide_sensitive(value));
            secrets
        }
    };
    let mut page = "stdout:\n".to_owned();
    if let Some(plan) = &planned.plan {
        page.push_str(&plan_text(plan, &secrets));
    }
    page.push_str("stderr:\n");
    // Wide, since paths are longer on some machines than on others.
    let look = Look { width: 400, ..Look::PLAIN };
    let told = problems::text(&planned.problems, &project.sources, look);
    page.push_str(&secrets.masked(&told));
    if let Some(summary) = problems::summary(&planned.problems, shown) {
        page.push_str(&format!("error: {summary}\n"));
    }
    page.push_str(if planned.plan.is_some() { "exit: 0\n" } else { "exit: 2\n" });
    // Where the corpus lies differs from machine to machine.
    page.replace(folder().to_str().unwrap(), "CORPUS")
}
