//! How runs end: providers that misbehave, signals, records that do not fit, other sources.

use std::fs;

use expect_test::expect;

use super::Folder;

#[test]
fn a_provider_that_dies_is_told_with_its_last_words() {
    let folder = Folder::new();
    folder.0.program(
        "dies",
        "#!/bin/sh\nread x; sed -n 's/^schema=.\\(.*\\).$/{\"id\":1,\"result\":{\"schema\":\\1}}/p' orchard-echo\n\
         read x; echo '{\"id\":2,\"result\":{}}'\nread x; echo 'out of luck' >&2; exit 2\n",
    );
    folder.write(
        "d.hcl",
        "scenario \"d\" {\n  required_providers {\n    e = { source = \"exec:./dies\" }\n  }\n  action \"echo\" \"a\" { text = \"x\" }\n}\n",
    );
    let page = folder.run(&["run", "d.hcl", "--no-record"]);
    assert_eq!(page.status.code(), Some(3), "{page}");
    assert!(
        page.stdout.contains(
            "provider_gone: provider `e` exited with status 2 during `execute` of `action.echo.a`"
        ),
        "{page}"
    );
    assert!(page.stderr.contains("[e] out of luck"), "{page}");
}

#[test]
fn any_address_is_a_source() {
    let folder = Folder::new();
    folder.write(
        "t.hcl",
        r#"scenario "t" {
  required_providers {
    t = { source = "builtin:" }
    x = { source = "builtin/exec" }
  }
  action "upper" "a" { text = "hello" }
  action "exec_run" "b" {
    command = "printf"
    args    = ["%s!", action.upper.a.result]
  }
  output "said" { value = action.exec_run.b.stdout }
}
"#,
    );
    expect![[r#"
        scenario: t
        executing...
        ok action.upper.a (Nms)
        ok action.exec_run.b (Nms)
        said = HELLO!
    "#]]
    .assert_eq(&super::without_chance(&folder.run(&["run", "t.hcl", "--no-record"]).stdout));
}

#[test]
fn a_teardown_that_cannot_be_is_refused() {
    let folder = Folder::new();
    folder.write("shop2.hcl", &std::fs::read_to_string(folder.0.file("shop.hcl")).unwrap());
    assert_eq!(folder.run(&["run", "shop2.hcl", "--var", "token=s3cr3t"]).status.code(), Some(0));
    let page = folder.run(&["teardown", "--latest"]);
    assert_eq!(page.status.code(), Some(2), "{page}");
    assert!(page.stderr.contains("`token`") && page.stderr.contains("--var token="), "{page}");
    folder.write("shop2.hcl", "# changed");
    let page = folder.run(&["teardown", "--latest", "--var", "token=s3cr3t"]);
    assert_eq!(page.status.code(), Some(2), "{page}");
    assert!(page.stderr.contains("has changed since the run"), "{page}");
    let page = folder.run(&["teardown", "--latest", "--var", "token=s3cr3t", "--use-recorded"]);
    assert_eq!(page.status.code(), Some(0), "{page}");
    let page = folder.run(&["runs"]);
    assert!(page.stdout.trim_end().ends_with("shop  succeeded  2/2  succeeded"), "{page}");
}

#[test]
fn what_is_wrong_is_told_before_anything_is_started() {
    let folder = Folder::new();
    let page = folder.run(&["run", "shop.hcl"]);
    assert_eq!(page.status.code(), Some(2), "{page}");
    assert!(page.stderr.contains("missing_variable"), "{page}");
    assert_eq!(page.stdout, "");
    let page = folder.run(&["run", "shop.hcl", "--json"]);
    let last = page.stdout.lines().last().unwrap();
    assert!(
        last.contains(r#""event":"run_ended""#) && last.contains(r#""status":"invalid""#),
        "{page}"
    );
    assert_eq!(folder.run(&["run", "shop.hcl", "--parallel", "0"]).status.code(), Some(2));
    assert_eq!(folder.run(&["run", "nothing.hcl"]).status.code(), Some(2));
}

/// The events of a run, by their names.
fn events(page: &toolbus_testkit::page::Page) -> Vec<serde_json::Value> {
    page.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_source_that_is_too_large_is_told_as_any_other_mistake() {
    let folder = Folder::new();
    let limit = 4 << 20;
    for (bytes, is_large) in [(limit, false), (limit + 1, true), (limit + 2, true)] {
        let text = "scenario \"s\" {}\n";
        folder.write("large.hcl", &format!("{text}{}", " ".repeat(bytes - text.len())));
        let page = folder.run(&["plan", "large.hcl", "--json"]);
        let plan: serde_json::Value = serde_json::from_str(&page.stdout).unwrap();
        assert_eq!(plan["valid"], !is_large, "{bytes}");
        if !is_large {
            continue;
        }
        assert_eq!(plan["diagnostics"][0]["code"], "too_big", "{page}");
        let message = "the file is larger than 4194304 bytes";
        assert_eq!(plan["diagnostics"][0]["message"], message, "{page}");
        assert_eq!((page.status.code(), &*page.stderr), (Some(2), ""), "{page}");
    }
    let page = folder.run(&["run", "large.hcl", "--json"]);
    let names: Vec<_> = events(&page).iter().map(|event| event["event"].clone()).collect();
    assert_eq!(names, ["start", "diagnostic", "run_ended"], "{page}");
    folder.write(
        "small.hcl",
        "scenario \"s\" {\n  component \"c\" \"x\" { source = \"./large.hcl\" }\n}\n",
    );
    let page = folder.run(&["validate", "small.hcl"]);
    assert!(page.stderr.contains("too_big"), "{page}");
    assert!(page.stderr.contains("`large.hcl` is larger than 4194304 bytes"), "{page}");
}

#[test]
fn what_cannot_be_read_has_a_first_and_a_last_event() {
    let folder = Folder::new();
    for words in
        [&["run", "nothing.hcl"][..], &["teardown", "nothing.json"], &["teardown", "--latest"]]
    {
        let page = folder.run(&[words, &["--json"]].concat());
        let events = events(&page);
        let ended = format!("{}_ended", words[0]);
        assert_eq!(events.len(), 2, "{page}");
        assert_eq!((&events[0]["event"], &events[1]["event"]), (&"start".into(), &ended.into()));
        assert_eq!(events[1]["status"], "invalid", "{page}");
        assert_eq!((page.status.code(), &*page.stderr), (Some(2), ""), "{page}");
        assert_ne!(events[1]["error"]["message"], serde_json::Value::Null, "{page}");
    }
}

#[test]
fn what_is_not_known_yet_stands_in_the_record_as_null() {
    let folder = Folder::new();
    folder.run(&["run", "shop.hcl", "--var", "token=s3cr3t"]);
    let record: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.record()).unwrap()).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let nulls = value.as_object().unwrap().iter().filter(|(_, value)| value.is_null());
        nulls.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(keys(&record), ["error", "teardown"]);
    assert_eq!(keys(&record["nodes"][0]), ["error"]);
    assert_eq!(keys(&record["nodes"][0]["teardown"]), ["error", "ended_at"]);
    assert_eq!(keys(&record["nodes"][1]), ["error", "teardown"]);
}

#[test]
fn the_detail_of_a_provider_that_cannot_describe_itself_is_shown() {
    let folder = Folder::new();
    folder.write(
        "orchard-echo",
        "#!/bin/sh\nread x\necho '{\"id\":1,\"error\":{\"code\":\"internal_error\",\
         \"message\":\"no database\",\"detail\":\"dial tcp: s3cr3t refused\"}}'\nread x\n",
    );
    let words = ["run", "shop.hcl", "--var", "token=s3cr3t"];
    let page = folder.run(&words);
    assert_eq!(page.status.code(), Some(3), "{page}");
    expect![[r#"
        error: provider `e` answered `describe` with an error: internal_error: no database
        dial tcp: (sensitive) refused
    "#]]
    .assert_eq(&page.stderr);
    let page = folder.run(&[&words[..], &["--json"]].concat());
    let last = events(&page).pop().unwrap();
    assert_eq!(last["error"]["detail"], "dial tcp: (sensitive) refused", "{page}");
}

#[test]
fn a_run_that_fails_says_how_it_is_undone() {
    let folder = Folder::new();
    folder.write(
        "fails.hcl",
        r#"scenario "fails" {
  required_providers {
    x = { source = "builtin/exec" }
  }
  variable "key" { sensitive = true }
  action "exec_run" "a" {
    command = "true"
    lifecycle {
      teardown { command = "true" }
    }
  }
  action "exec_run" "b" {
    command    = "false"
    depends_on = [action.exec_run.a]
  }
}
"#,
    );
    let page = folder.run(&["run", "fails.hcl", "--var", "key=s3cr3t", "--record-dir", "re cords"]);
    let said = super::without_chance(&page.stderr);
    let record = "re cords/orchard_fails_run_RUN.json";
    let line = format!("hint: undo what was done: toolbus orchard teardown '{record}' --var key=…");
    assert!(said.ends_with(&format!("{line}\nrecord: {record}\n")), "{page}");
    let page = folder.run(&["teardown", "--record-dir", "re cords"]);
    assert!(page.stderr.contains("`--latest` takes the newest record"), "{page}");
    let page = folder.run(&["runs", "--record-dir", "re cords"]);
    assert!(page.stdout.trim_end().ends_with("fails  failed  1/2  -"), "{page}");
    // Nothing is left to undo, so nothing is said of it.
    let words = ["run", "fails.hcl", "--var", "key=s3cr3t", "--teardown-on-failure"];
    let page = folder.run(&words);
    assert!(!page.stderr.contains("undo what was done"), "{page}");
}

#[test]
fn what_providers_are_asked_to_do_is_in_the_journal() {
    let folder = Folder::new();
    let config = "[journal]\npath = \"calls.jsonl\"\narguments = true\nresults = true\n";
    folder.write("toolbus.toml", config);
    folder.run(&["run", "shop.hcl", "--var", "token=s3cr3t"]);
    folder.run(&["teardown", "--latest", "--var", "token=s3cr3t"]);
    let journal = folder.0.file("calls.jsonl");
    expect![[r#"
        orchard e echo ok
        orchard e echo ok
        orchard e echo ok
    "#]]
    .assert_eq(&crate::journal::told(&journal, 3));
    let text = fs::read_to_string(&journal).unwrap();
    // Which of it is sensitive only the record knows.
    assert!(!text.contains("arguments") && !text.contains("result"), "{text}");
    let page = folder.run(&["run", "shop.hcl", "--var", "token=s3cr3t", "--config", "none.toml"]);
    assert_eq!(page.status.code(), Some(2), "{page}");
    assert!(page.stderr.contains("cannot read the config `none.toml`"), "{page}");
    // An action without a line is not executed, by no fault of its provider.
    let config = "[journal]\npath = \"/proc/none/calls.jsonl\"\nrequired = true\n";
    folder.write("toolbus.toml", config);
    let page = folder.run(&["run", "shop.hcl", "--var", "token=s3cr3t"]);
    assert_eq!(page.status.code(), Some(1), "{page}");
    assert!(page.stdout.contains("and without it no call is answered"), "{page}");
}
