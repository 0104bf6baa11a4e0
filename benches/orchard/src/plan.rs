//! What planning costs: ten thousand actions, however they come about.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use toolbus_orchard::model::Choice;
use toolbus_orchard::plan::Provider;
use toolbus_orchard::plan::variables::Given;
use toolbus_orchard::project::{Opened, Project};
use toolbus_orchard::secrets::Secrets;
use toolbus_orchard::show::plan_text;
use toolbus_proto::json::Json;
use toolbus_proto::orchard::schema::ProviderSchema;

const ACTIONS: usize = 10_000;
const SCHEMA: &str = r#"{"name":"echo","version":"1","protocol":"1","actions":{"echo":{"attrs":{"text":{"type":"string","required":true},"times":{"type":"number","default":1}},"outputs":{"type":"object({text=string,times=number})"}}}}"#;

/// Plans each scenario `rounds` times, and prints the best time and what it took of memory.
pub(crate) fn measure(rounds: usize) {
    println!("{ACTIONS} actions planned, from the text to the page");
    for (name, body) in scenarios() {
        let text = format!("scenario \"s\" {{\n  required_providers {{\n    e = {{ source = \"builtin/exec\" }}\n  }}\n{body}}}\n");
        let before = resident();
        let mut best = Duration::MAX;
        let mut held = 0;
        for _ in 0..rounds {
            let begun = Instant::now();
            let (count, resident) = planned(&text);
            best = best.min(begun.elapsed());
            held = held.max(resident.saturating_sub(before));
            assert_eq!(count, ACTIONS, "{name}");
        }
        println!("  {name:34} {:7.0} ms  {:6.1} MiB", best.as_secs_f64() * 1e3, held as f64 / 1048576.0);
    }
}

fn scenarios() -> [(&'static str, String); 4] {
    let all = |action: &dyn Fn(usize) -> String| (0..ACTIONS).map(action).collect::<String>();
    let each = format!("for_each = toset([for i in range({ACTIONS}) : tostring(i)])");
    let half = format!("for_each = toset([for i in range({}) : tostring(i)])", ACTIONS / 2);
    [
        ("written out", all(&|at| format!("  action \"echo\" \"a{at}\" {{\n    text  = \"hello {at}\"\n    times = {at}\n  }}\n"))),
        ("one after the other", all(&|at| match at {
            0 => "  action \"echo\" \"a0\" { text = \"x\" }\n".to_owned(),
            _ => format!("  action \"echo\" \"a{at}\" {{ text = \"${{action.echo.a{}.text}}!\" }}\n", at - 1),
        })),
        ("one block with for_each", format!("  action \"echo\" \"a\" {{\n    {each}\n    text = \"hello ${{each.key}}\"\n  }}\n")),
        ("two blocks, each needs its like", format!("  action \"echo\" \"a\" {{\n    {half}\n    text = each.key\n  }}\n  action \"echo\" \"b\" {{\n    {half}\n    text = action.echo.a[each.key].text\n  }}\n")),
    ]
}

/// How many actions the plan has, and what the process holds while it is there.
fn planned(text: &str) -> (usize, usize) {
    let opened = Opened { path: PathBuf::from("/s.hcl"), shown: "s.hcl".into(), bytes: text.into() };
    let project = Project::open(&opened, Choice::Only, &Given::default(), true);
    let schema = Json::parse(SCHEMA.to_owned()).expect("the schema is JSON");
    let schema = Rc::new(ProviderSchema::read(&schema).expect("the schema can be used").0);
    let (name, source) = project.providers[0].clone();
    let planned = project.plan(&[Provider { name, source, schema }], &[]);
    let plan = planned.plan.expect("nothing is wrong");
    let page = plan_text(&plan, &Secrets::new());
    assert!(page.len() > ACTIONS);
    (plan.nodes.len(), resident())
}

/// What the process holds, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
