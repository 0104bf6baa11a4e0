//! The runner: order, failures, retries, signals, records.

use std::collections::BTreeMap;
use std::time::Duration;

use toolbus::{Failure, FailureKind};
use toolbus_orchard::record::value::Variables;
use toolbus_orchard::record::{Status, TeardownState};
use toolbus_orchard::run::Stop;
use toolbus_orchard::run::teardown::{self, What};
use toolbus_testkit::runtime::{run, run_and_let_time_fly};

use crate::run::stage::{Stage, refused};

const THREE: &str = r#"
  action "echo" "a" { text = "a" }
  action "echo" "b" { text = "b ${action.echo.a.text}" }
  action "echo" "c" { text = "c" }
  output "said" { value = action.echo.b.text }
"#;

#[test]
fn nodes_run_in_the_order_of_what_they_need() {
    let stage = Stage::scenario(THREE, &[]);
    let (_, summary) = stage.to_end();
    assert_eq!((summary.exit_code, summary.status), (0, Some(Status::Succeeded)));
    assert_eq!(
        stage.asked(),
        [
            r#"configure {"greeting":"hi"}"#,
            r#"echo {"text":"a","times":1}"#,
            r#"echo {"text":"b a","times":1}"#,
            r#"echo {"text":"c","times":1}"#,
        ]
    );
    let record = stage.record();
    assert_eq!(record.status, Status::Succeeded);
    let seqs: Vec<_> = record.nodes.iter().map(|node| node.seq).collect();
    assert_eq!(seqs, [Some(1), Some(2), Some(3)]);
    assert_eq!(record.outputs["said"].get(), r#""b a""#);
    assert_eq!(record.nodes[1].depends_on, ["action.echo.a"]);
}

#[test]
fn after_a_failure_nothing_new_begins() {
    let stage = Stage::scenario(THREE, &[]);
    stage.answer("a", vec![Err(refused("execute_failed", "no"))]);
    let (told, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 1);
    assert_eq!(stage.states(), ["failed", "skipped", "skipped"]);
    assert!(told.contains(r#""state":"failed","duration_ms":N,"attempts":1,"outputs":null,"error":{"code":"execute_failed","message":"no"}}"#), "{told}");
    assert!(summary.outputs.is_empty());
}

#[test]
fn going_on_leaves_out_what_needs_the_failed_one() {
    let mut stage = Stage::scenario(THREE, &[]);
    stage.options.keep_going = true;
    stage.answer("a", vec![Err(refused("execute_failed", "no"))]);
    let (_, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 1);
    assert_eq!(stage.states(), ["failed", "skipped", "succeeded"]);
}

#[test]
fn a_provider_that_dies_leaves_its_node_unknown() {
    let mut stage = Stage::scenario(THREE, &[]);
    stage.options.keep_going = true;
    stage.answer("a", vec![Err(Failure::new(FailureKind::Gone, "it died"))]);
    let (_, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 3);
    assert_eq!(stage.states(), ["unknown", "skipped", "skipped"]);
}

#[test]
fn time_outs_have_an_exit_code_of_their_own() {
    let body = r#"action "echo" "a" {
        text = "wait"
        timeout = "2s"
    }"#;
    let stage = Stage::scenario(body, &[]);
    let (told, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 4);
    assert_eq!(stage.states(), ["unknown"]);
    assert!(
        told.contains("provider `e` did not answer `execute` of `action.echo.a` within 2s"),
        "{told}"
    );
}

#[test]
fn a_node_is_tried_again() {
    let body = r#"action "echo" "a" {
        text = "a"
        retry {
            attempts = 3
            delay    = "1s"
            backoff  = 2
        }
    }"#;
    let stage = Stage::scenario(body, &[]);
    let no = || Err(refused("execute_failed", "no"));
    stage.answer("a", vec![no(), no()]);
    let (told, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 0);
    assert_eq!(stage.record().nodes[0].attempts, 3);
    assert_eq!(stage.asked().len(), 4);
    assert!(
        told.contains(r#""event":"node_retry","address":"action.echo.a","attempt":1,"#),
        "{told}"
    );
    assert!(told.contains(r#""delay_ms":1000"#) && told.contains(r#""delay_ms":2000"#), "{told}");
    // Only for the codes that are meant.
    let stage = Stage::scenario(body, &[]);
    stage.answer("a", vec![Err(refused("quota", "no"))]);
    assert_eq!(stage.to_end().1.exit_code, 1);
    assert_eq!(stage.asked().len(), 2);
}

#[test]
fn outputs_that_do_not_fit_are_told() {
    let body = r#"action "echo" "a" { text = "a" }
      action "echo" "b" { text = action.echo.a.text }"#;
    let stage = Stage::scenario(body, &[]);
    stage.answer("a", vec![Ok(r#"{"text":["x"],"times":1}"#)]);
    let (told, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 1);
    assert_eq!(stage.states(), ["executed_bad_outputs", "skipped"]);
    assert!(told.contains("invalid_outputs"), "{told}");
    assert_eq!(
        stage.record().nodes[0].outputs.as_ref().unwrap().get().replace([' ', '\n'], ""),
        r#"{"text":["x"],"times":1}"#
    );
    // Numbers become text, and what the schema does not have is dropped with a word.
    let stage = Stage::scenario(body, &[]);
    stage.answer("a", vec![Ok(r#"{"text":5,"times":"1","more":true}"#)]);
    let (told, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 0);
    assert!(told.contains("`outputs.more`"), "{told}");
    assert!(stage.asked()[2].contains(r#""text":"5""#));
}

#[test]
fn a_refused_config_begins_nothing() {
    let stage = Stage::scenario(
        r#"provider "e" { greeting = "refuse me" }
           action "echo" "a" { text = "a" }"#,
        &[],
    );
    let (_, summary) = stage.to_end();
    assert_eq!((summary.exit_code, summary.status), (1, Some(Status::Failed)));
    let error = summary.error.unwrap();
    assert_eq!((&*error.code, error.provider.as_deref()), ("configure_failed", Some("e")));
    assert_eq!(stage.asked().len(), 1);
    assert_eq!(stage.record().error.unwrap().code, "configure_failed");
}

#[test]
fn only_providers_that_can_get_more_than_one_at_a_time() {
    let body: String =
        (0..6).map(|n| format!("action \"echo\" \"n{n}\" {{ text = \"{n}\" }}\n")).collect();
    for (extension, most) in [(false, 1), (true, 3)] {
        let mut stage = Stage::with_schema(&body, &[], |schema| {
            schema.extensions = if extension { vec!["parallel".to_owned()] } else { Vec::new() };
        });
        stage.options.parallel = 3;
        assert_eq!(stage.to_end().1.exit_code, 0);
        assert_eq!(stage.mirrors[0].in_flight_max.get(), most);
    }
}

#[test]
fn the_first_signal_lets_what_runs_end() {
    let body = r#"action "echo" "a" { text = "wait" }
      action "echo" "b" { text = "b" }"#;
    let stage = Stage::scenario(body, &[]);
    let (stopper, stop) = Stop::new();
    let mirror = stage.mirrors[0].clone();
    let summary = run(async {
        let signals = async {
            mirror.has_begun.notified().await;
            stopper.stop();
            mirror.go_on.notify_one();
        };
        tokio::join!(stage.run(stop), signals).0
    });
    assert_eq!(summary.status, Some(Status::Interrupted));
    assert_eq!(stage.states(), ["succeeded", "skipped"]);
    assert_eq!(stage.record().status, Status::Interrupted);
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let stage = Stage::scenario(r#"action "echo" "a" { text = "wait" }"#, &[]);
    let (stopper, stop) = Stop::new();
    let mirror = stage.mirrors[0].clone();
    let summary = run(async {
        let signals = async {
            mirror.has_begun.notified().await;
            stopper.stop();
            stopper.stop();
        };
        tokio::join!(stage.run(stop), signals).0
    });
    assert_eq!(summary.status, Some(Status::Interrupted));
    assert_eq!(stage.states(), ["unknown"]);
}

const UNDONE: &str = r#"
  variable "token" {
    type      = string
    sensitive = true
  }
  locals { id = uuid() }
  action "echo" "a" {
    text = "made ${local.id}"
    lifecycle {
      teardown { text = "undo ${self.text} with ${var.token}" }
    }
  }
  action "echo" "b" {
    text = "b ${var.token}"
    lifecycle {
      teardown { text = "undo b" }
    }
  }
  action "echo" "c" { text = "c" }
"#;

#[test]
fn a_record_holds_what_is_needed_to_undo() {
    let stage = Stage::scenario(UNDONE, &[("token", "s3cr3t")]);
    assert_eq!(stage.to_end().1.exit_code, 0);
    let record = stage.record();
    let made = stage.asked()[1].clone();
    let id = made.split("made ").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let text = stage.record_text();
    assert!(!text.contains("s3cr3t"), "{text}");
    // Without the variable it cannot be undone, and it is named.
    let steps = teardown::todo(&record, &Variables::new(), false, &BTreeMap::new());
    assert_eq!(steps.len(), 2);
    assert!(matches!(&steps[1].what, What::Lost(error) if error.to_string().contains("`token`")));
    // With it the last comes first, and values are those of the run.
    let variables = Variables::from([("token".to_owned(), "s3cr3t".into())]);
    let steps = teardown::todo(&record, &variables, false, &BTreeMap::new());
    let attrs: Vec<String> = steps
        .iter()
        .map(|step| match &step.what {
            What::Undo(attrs) => attrs.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(attrs[0], r#"{"text":"undo b","times":1}"#);
    assert_eq!(attrs[1], format!(r#"{{"text":"undo made {id} with s3cr3t","times":1}}"#));
}

#[test]
fn secrets_may_be_recorded() {
    let mut stage = Stage::scenario(UNDONE, &[("token", "s3cr3t")]);
    stage.options.record_secrets = true;
    assert_eq!(stage.to_end().1.exit_code, 0);
    assert!(stage.record_text().contains("b s3cr3t"));
    let steps = teardown::todo(&stage.record(), &Variables::new(), false, &BTreeMap::new());
    assert!(steps.iter().all(|step| matches!(step.what, What::Undo(_))));
}

#[test]
fn what_was_done_is_undone_after_a_failure() {
    let body = format!("{UNDONE}\n  action \"echo\" \"d\" {{ text = \"boom\" }}");
    let mut stage = Stage::scenario(&body, &[("token", "s3cr3t")]);
    stage.options.teardown_on_failure = true;
    stage.answer("boom", vec![Err(refused("execute_failed", "no"))]);
    let (told, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 1);
    let asked = stage.asked();
    assert!(asked[asked.len() - 2].contains("undo b"), "{asked:?}");
    assert!(asked[asked.len() - 1].contains("undo made"), "{asked:?}");
    let record = stage.record();
    assert_eq!(record.teardown.as_ref().unwrap().status, Status::Succeeded);
    assert_eq!(record.nodes[0].teardown.as_ref().unwrap().state, TeardownState::Succeeded);
    // Nothing is left to do.
    assert!(teardown::todo(&record, &Variables::new(), false, &BTreeMap::new()).is_empty());
    assert!(!told.contains("s3cr3t"), "{told}");
}

#[test]
fn a_node_without_an_answer_is_undone_if_its_teardown_needs_none() {
    let body = r#"
      action "echo" "a" {
        text = "gone"
        lifecycle {
          teardown { text = "undo" }
        }
      }
      action "echo" "b" {
        text = "gone too"
        lifecycle {
          teardown { text = "undo ${self.text}" }
        }
      }"#;
    let mut stage = Stage::with_schema(body, &[], |schema| {
        schema.extensions = vec!["parallel".to_owned()];
    });
    stage.options.parallel = 2;
    let late = || Err(Failure::new(FailureKind::TimedOut, "too late"));
    stage.answer("gone", vec![late()]);
    stage.answer("gone too", vec![late()]);
    assert_eq!(stage.to_end().1.exit_code, 4);
    assert_eq!(stage.states(), ["unknown", "unknown"]);
    let steps = teardown::todo(&stage.record(), &Variables::new(), false, &BTreeMap::new());
    assert!(matches!(&steps[0].what, What::Skip(why) if why.contains("left behind")), "{steps:?}");
    assert!(matches!(steps[1].what, What::Undo(_)), "{steps:?}");
}

#[test]
fn what_a_provider_says_of_a_secret_is_sensitive() {
    let stage = Stage::scenario(
        r#"variable "token" {
             type      = string
             sensitive = true
           }
           action "echo" "a" { text = var.token }
           action "echo" "b" { text = "then ${action.echo.a.text}" }
           output "said" { value = action.echo.b.text }"#,
        &[("token", "s3cr3t")],
    );
    stage.answer("then s3cr3t", vec![Err(refused("execute_failed", "s3cr3t is wrong"))]);
    let (told, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 1);
    assert!(told.contains(r#""outputs":{"text":"(sensitive)","times":1}"#), "{told}");
    assert!(told.contains("(sensitive) is wrong") && !told.contains("s3cr3t"), "{told}");
    assert!(stage.record_text().contains(r#""$sensitive": "then ${var.token}""#));
    assert!(!stage.record_text().contains("s3cr3t"));
}

#[test]
fn evaluation_fails_its_node_with_the_code_of_the_problem() {
    let stage = Stage::scenario(
        r#"action "echo" "a" { text = "a" }
           action "echo" "b" { text = split(",", action.echo.a.text)[3] }"#,
        &[],
    );
    let (told, summary) = stage.to_end();
    assert_eq!(summary.exit_code, 1);
    assert_eq!(stage.states(), ["succeeded", "failed"]);
    assert!(told.contains(r#""code":"bad_index""#), "{told}");
}

#[test]
fn a_retry_does_not_outlast_a_signal() {
    let body = r#"action "echo" "a" {
        text = "a"
        retry {
            attempts = 2
            delay    = "1h"
        }
    }"#;
    let stage = Stage::scenario(body, &[]);
    stage.answer("a", vec![Err(refused("execute_failed", "no"))]);
    let (stopper, stop) = Stop::new();
    let summary = run_and_let_time_fly(async {
        let signals = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stopper.stop();
        };
        tokio::join!(stage.run(stop), signals).0
    });
    assert_eq!(summary.status, Some(Status::Interrupted));
    assert_eq!(stage.states(), ["failed"]);
    assert_eq!(stage.record().nodes[0].error.as_ref().unwrap().message, "no");
}
