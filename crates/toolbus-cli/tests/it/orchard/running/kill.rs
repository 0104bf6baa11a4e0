//! Killed at every stage of a run: the record tells the truth, a teardown undoes what was done,
//! and no process is left.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use toolbus_testkit::page::Program;
use toolbus_testkit::patience::{awaited, eventually};

use super::Folder;

/// What the provider did, a text a line.
fn effects(folder: &Folder) -> Vec<String> {
    let text = fs::read_to_string(folder.0.file("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_first_signal_says_what_happens() {
    let folder = Folder::new();
    let at = folder.0.file("at");
    let mut command = folder.command(&["run", "sweep.hcl"]);
    command.env("STOP_AT", "6").env("AT", &at).env("EFFECTS", folder.0.file("effects"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    awaited("the provider stands at its stage", || fs::read_to_string(&at).ok());
    let pid = rustix::process::Pid::from_child(&child);
    let interrupt = || rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    interrupt();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), "ends after this action; Ctrl-C again kills it");
    interrupt();
    let said: Vec<String> = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    let hint = said.iter().find(|line| line.starts_with("hint: undo what was done: "));
    assert!(hint.is_some(), "{said:?}");
}

#[test]
fn a_service_ends_with_the_run_also_if_that_is_killed() {
    let folder = Folder::new();
    folder.write(
        "service.hcl",
        r#"scenario "service" {
  required_providers {
    x = { source = "builtin/exec" }
  }
  action "exec_service" "s" {
    command = ["sh", "-c", "echo $$ > service.part; mv service.part service; exec sleep 1000"]
  }
  action "exec_wait" "w" {
    command    = "test"
    args       = ["-e", "go-on"]
    interval   = "20ms"
    depends_on = [action.exec_service.s]
  }
}
"#,
    );
    for is_killed in [true, false] {
        let _ = fs::remove_file(folder.0.file("service"));
        let mut command = folder.command(&["run", "service.hcl", "--no-record"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let service = awaited("it runs", || fs::read_to_string(folder.0.file("service")).ok());
        let service = format!("/proc/{}", service.trim());
        assert!(Path::new(&service).exists());
        match is_killed {
            true => child.kill().unwrap(),
            false => folder.write("go-on", ""),
        }
        assert_eq!(child.wait().unwrap().success(), !is_killed);
        eventually("the service is gone", || !Path::new(&service).exists());
    }
}

#[test]
fn whenever_it_is_killed_it_can_be_undone() {
    // describe, configure, two actions before and after they have done something, shutdown.
    let states: [Option<&[&str]>; 7] = [
        None,
        Some(&["pending", "pending"]),
        Some(&["running", "pending"]),
        Some(&["running", "pending"]),
        Some(&["succeeded", "running"]),
        Some(&["succeeded", "running"]),
        Some(&["succeeded", "succeeded"]),
    ];
    for (stage, states) in (1..).zip(states) {
        let folder = Folder::new();
        let at = folder.0.file("at");
        let mut command = folder.command(&["run", "sweep.hcl"]);
        command.env("STOP_AT", stage.to_string()).env("AT", &at);
        command.env("EFFECTS", folder.0.file("effects"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let provider = awaited("the provider stands at its stage", || fs::read_to_string(&at).ok());
        child.kill().unwrap();
        child.wait().unwrap();
        let provider = format!("/proc/{}", provider.trim());
        eventually("the provider is gone", || !Path::new(&provider).exists());
        let Some(states) = states else {
            let page = folder.run(&["teardown", "--latest"]);
            assert!(page.stderr.contains("there is no record"), "stage {stage}: {page}");
            continue;
        };
        assert_eq!(folder.states(), states, "stage {stage}");
        if stage == 5 {
            let page = folder.run(&["runs"]);
            assert!(page.stdout.trim_end().ends_with("sweep  killed  1/2  -"), "{page}");
            let hint = "hint: undo what was done before it was killed: toolbus orchard teardown";
            assert!(page.stderr.starts_with(hint), "{page}");
        }
        let mut teardown = folder.command(&["teardown", "--latest"]);
        teardown.env("EFFECTS", folder.0.file("effects"));
        let page = Program::of(teardown).run();
        assert_eq!(page.status.code(), Some(0), "stage {stage}: {page}");
        // Each thing that was done is undone behind it, the last first.
        let effects = effects(&folder);
        let done = effects.iter().filter(|text| !text.starts_with("undo "));
        let undone: Vec<_> = effects.iter().filter_map(|text| text.strip_prefix("undo ")).collect();
        for text in done {
            assert!(undone.contains(&text.as_str()), "stage {stage}: {effects:?}");
        }
        let expected = states.iter().filter(|state| **state != "pending").count();
        assert_eq!(undone.len(), expected, "stage {stage}: {effects:?}");
        let page = folder.run(&["teardown", "--latest"]);
        assert_eq!(page.stdout, "nothing to tear down\n", "stage {stage}");
    }
}
