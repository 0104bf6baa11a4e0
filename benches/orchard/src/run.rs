//! What a run costs beside its providers: ten thousand actions of one that answers at once.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use toolbus::{Failure, LocalFuture};
use toolbus_orchard::builtin::{Execute, Inside};
use toolbus_orchard::model::Choice;
use toolbus_orchard::plan::variables::Given;
use toolbus_orchard::plan::{Plan, Provider};
use toolbus_orchard::project::{Opened, Project};
use toolbus_orchard::provider::{self, InProcess};
use toolbus_orchard::run::{self, Event, Options, Stop, Surface};
use toolbus_orchard::secrets::Secrets;
use toolbus_proto::json::Json;
use toolbus_proto::orchard::schema::ProviderSchema;

const ACTIONS: usize = 10_000;
const SCHEMA: &str = r#"{"name":"echo","version":"1","protocol":"1","actions":{"echo":{"attrs":{"text":{"type":"string","required":true},"times":{"type":"number","default":1}},"outputs":{"type":"object({text=string,times=number})"}}},"extensions":["parallel"]}"#;

/// Runs each scenario `rounds` times, with and without a record, and prints the best time an
/// action.
pub(crate) fn measure(rounds: usize) {
    println!("{ACTIONS} actions run, each answered at once inside the process");
    let after = |at: usize| match at {
        0 => "  action \"echo\" \"a0\" { text = \"x\" }\n".to_owned(),
        _ => format!("  action \"echo\" \"a{at}\" {{ text = action.echo.a{}.text }}\n", at - 1),
    };
    let each = format!("for_each = toset([for i in range({ACTIONS}) : tostring(i)])");
    let scenarios = [
        ("one after the other", (0..ACTIONS).map(after).collect::<String>(), 1),
        ("one block, 1 at a time", format!("  action \"echo\" \"a\" {{\n    {each}\n    text = \"hello ${{each.key}}\"\n  }}\n"), 1),
        ("one block, 16 at a time", format!("  action \"echo\" \"a\" {{\n    {each}\n    text = \"hello ${{each.key}}\"\n  }}\n"), 16),
    ];
    for (name, body, parallel) in scenarios {
        let plan = planned(&body);
        for is_recorded in [false, true] {
            let best = (0..rounds).map(|_| ran(&plan, parallel, is_recorded)).min();
            let micros = best.unwrap_or_default().as_secs_f64() * 1e6 / ACTIONS as f64;
            let record = if is_recorded { "recorded" } else { "no record" };
            println!("  {name:26} {record:10} {micros:7.1} us an action");
        }
    }
}

fn planned(body: &str) -> Plan {
    let text = format!("scenario \"s\" {{\n  required_providers {{\n    e = {{ source = \"builtin/exec\" }}\n  }}\n{body}}}\n");
    let opened = Opened { path: PathBuf::from("/s.hcl"), shown: "s.hcl".into(), bytes: text.into() };
    let project = Project::open(&opened, Choice::Only, &Given::default(), true);
    let (name, source) = project.providers[0].clone();
    let planned = project.plan(&[Provider { name, source, schema: Rc::new(schema()) }], &[]);
    planned.plan.expect("nothing is wrong")
}

fn schema() -> ProviderSchema {
    let schema = Json::parse(SCHEMA.to_owned()).expect("the schema is JSON");
    ProviderSchema::read(&schema).expect("the schema can be used").0
}

fn ran(plan: &Plan, parallel: usize, is_recorded: bool) -> Duration {
    let folder = std::env::temp_dir().join(format!("toolbus-bench-{}", std::process::id()));
    let record_folder = is_recorded.then(|| folder.clone());
    let options = Options { parallel, record_folder, ..Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime needs a few descriptors");
    let (_stopper, stop) = Stop::new();
    let took = tokio::task::LocalSet::new().block_on(&runtime, async {
        let inside: Rc<dyn Inside> = Rc::new(AtOnce);
        let provider = Rc::new(InProcess::new("e", schema(), inside));
        let providers: [Rc<dyn provider::Provider>; 1] = [provider];
        let begun = Instant::now();
        let ran = run::run(plan, &providers, &options, &Nobody, &Secrets::new(), stop).await;
        let took = begun.elapsed();
        let summary = ran.expect("the record can be written");
        assert_eq!(summary.counts.succeeded, ACTIONS);
        took
    });
    let _ = std::fs::remove_dir_all(&folder);
    took
}

/// Answers at once.
struct AtOnce;

impl Inside for AtOnce {
    fn configure(&self, _config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        Box::pin(async move { Ok(execute.attrs) })
    }
}

/// Is told everything and shows nothing.
struct Nobody;

impl Surface for Nobody {
    fn tell(&self, _event: &Event<'_>) {}
}
