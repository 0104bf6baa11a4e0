//! How runs end: providers that misbehave, signals, records that do not fit, other sources.

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
