//! What a corpus cannot show: sizes, long chains, and the same evaluation in plan and run.

use std::path::Path;
use std::rc::Rc;

use toolbus_orchard::diagnostic::Code;
use toolbus_orchard::plan::{Chance, Plan};
use toolbus_orchard::value::{Value, from_any_json};
use toolbus_proto::json::Json;

use crate::plan::corpus::{Asked, folder, planned};

/// The plan of a scenario with this body and the provider `e`, or the codes of what is wrong.
fn plan(body: &str) -> Result<Plan, Vec<Code>> {
    let providers = "required_providers {\n e = { source = \"exec:../providers/echo\" }\n }";
    let text = format!("scenario \"s\" {{\n{providers}\n{body}\n}}\n");
    let path = folder().join("plans/inline.hcl");
    let (_, planned) = planned(&path, text.as_bytes(), &Asked::default());
    let codes = || planned.problems.iter().map(|problem| problem.code).collect();
    planned.plan.ok_or_else(codes)
}

fn outputs(json: &str) -> Value {
    from_any_json(&Json::parse(json.to_owned()).unwrap()).unwrap()
}

#[test]
fn a_run_evaluates_what_the_plan_did() {
    let plan = plan(
        r#"
        locals { said = upper(action.echo.a.text) }
        action "echo" "a" {
          text = "a"
          lifecycle {
            teardown { text = "undo ${self.text} ${local.said}" }
          }
        }
        action "echo" "b" { text = "${local.said} ${uuid()}" }
        output "o" { value = [local.said, action.echo.b.times] }
        "#,
    )
    .unwrap();
    let [a, b] = &plan.nodes[..] else { panic!("two nodes") };
    assert_eq!(b.depends_on[..], [0]);
    assert!(a.teardown_needs_self);
    let chance = || Chance::Known { seed: 7, clock: Rc::new(|| 0) };
    let run = plan.evaluation(chance());
    let text = |attrs: &toolbus_orchard::plan::PlannedAttrs| attrs["text"].value.shown();
    assert_eq!(text(&run.attrs(a).unwrap()), "\"a\"");
    assert_eq!(text(&run.attrs(b).unwrap()), "(known after run)");
    run.record(a, outputs(r#"{"text":"a","times":1}"#));
    let said = text(&run.attrs(b).unwrap());
    assert!(said.starts_with("\"A "), "{said}");
    // The same seed gives the same, whatever else was evaluated.
    let again = plan.evaluation(chance());
    again.record(a, outputs(r#"{"text":"a","times":1}"#));
    assert_eq!(text(&again.attrs(b).unwrap()), said);
    let own = outputs(r#"{"text":"x","times":1}"#);
    assert_eq!(text(&run.teardown(a, Some(&own)).unwrap().unwrap()), "\"undo x A\"");
    assert!(run.teardown(b, None).is_none());
    assert_eq!(run.output("o").unwrap().shown(), "[\"A\",(known after run)]");
    run.record(b, outputs(r#"{"text":"b","times":2}"#));
    assert_eq!(run.output("o").unwrap().shown(), "[\"A\",2]");
}

#[test]
fn long_chains_cost_no_stack() {
    let count = 3000;
    let mut locals = "locals {\n l0 = 1\n".to_owned();
    for at in 1..count {
        locals.push_str(&format!(" l{at} = local.l{} + 1\n", at - 1));
    }
    locals.push_str("}\n");
    // The other way round nothing is known when it is needed first.
    let chain = plan(&format!("{locals} output \"o\" {{ value = local.l{} }}", count - 1)).unwrap();
    assert_eq!(chain.outputs[0].value.shown(), count.to_string());
    let mut ring = "locals {\n".to_owned();
    for at in 0..count {
        ring.push_str(&format!(" l{at} = local.l{}\n", (at + 1) % count));
    }
    assert_eq!(plan(&format!("{ring}}}\n")).unwrap_err(), [Code::Cycle]);
    let mut actions = "action \"echo\" \"a0\" { text = \"x\" }\n".to_owned();
    for at in 1..count {
        let text = format!("action.echo.a{}.text", at - 1);
        actions = format!("action \"echo\" \"a{at}\" {{ text = {text} }}\n{actions}");
    }
    let plan = plan(&actions).unwrap();
    assert_eq!(plan.nodes[0].address, "action.echo.a0");
    assert_eq!(plan.nodes[count - 1].depends_on[..], [count - 2]);
}

#[test]
fn components_may_be_sixteen_deep() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deep");
    std::fs::create_dir_all(&scratch).unwrap();
    for at in 0..18 {
        let inner =
            format!("component \"c{}\" \"x\" {{ source = \"./c{}.hcl\" }}\n", at + 1, at + 1);
        let inner = if at == 17 { String::new() } else { inner };
        let text = format!("component \"c{at}\" {{\n{inner}}}\n");
        std::fs::write(scratch.join(format!("c{at}.hcl")), text).unwrap();
    }
    let codes = |from: usize| {
        let text = format!(
            "scenario \"s\" {{\n component \"c{from}\" \"x\" {{ source = \"./c{from}.hcl\" }}\n}}\n"
        );
        let path = scratch.join("s.hcl");
        let (_, planned) = planned(&path, text.as_bytes(), &Asked::default());
        planned.problems.iter().map(|problem| problem.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(2), []);
    assert_eq!(codes(1), [Code::ComponentCycle]);
}

#[test]
fn instances_that_need_the_same_share_what_they_need() {
    let plan = plan(
        r#"
        action "echo" "a" {
          for_each = toset([for i in range(300) : tostring(i)])
          text     = each.key
        }
        action "echo" "b" {
          for_each = action.echo.a
          text     = "${length(action.echo.a)} ${each.key}"
        }
        "#,
    )
    .unwrap();
    assert_eq!(plan.nodes.len(), 600);
    let (one, other) = (&plan.nodes[300].depends_on, &plan.nodes[599].depends_on);
    assert_eq!((one.len(), other.len()), (300, 300));
}
