//! `toolbus orchestrator`: plugins that come up, fail, die, come back and are stopped.

use std::fs;

use expect_test::expect;
use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::patience::eventually;
use toolbus_testkit::process::Group;
use toolbus_testkit::scratch::Scratch;

use super::{Hub, Talking, builtin, call, script, text};
use crate::page::{Page, check};

#[test]
fn plugins_come_up_are_called_and_say_goodbye() {
    let mut hub =
        Hub::ready(&[builtin("tools.one"), "{id: off, binary: x, enabled: false}".into()]);
    let heard = hub.program.heard.clone();
    let shown: Vec<_> = heard
        .iter()
        .map(|line| match line.split_once(" (pid=") {
            Some((line, _)) => format!("{line} (pid=N)"),
            None => line.split("127.0.0.1:").next().unwrap_or_default().to_owned(),
        })
        .collect();
    expect![[r#"
        orchestrator listening on 
        skipping disabled plugin "off"
        started plugin "tools.one" (pid=N)
        plugin "tools.one" ready at 
        [tools.one] registered with orchestrator at 
        plugin "tools.one" registered and booted
        orchestrator ready: 1 of 1 plugins, 9 tools"#]]
    .assert_eq(&shown.join("\n"));
    let mut stdio = hub.stdio(&[]);
    assert_eq!(stdio.ask(&call(1, "echo", r#"{"text":"hi"}"#)), text(1, "hi"));
    hub.program.signal(Signal::TERM);
    assert_eq!(hub.program.end(), Some(0));
    for line in [
        "received signal terminated, shutting down",
        "stopped plugin \"tools.one\"",
        "orchestrator stopped",
    ] {
        assert!(hub.program.has_said(line), "{line}: {:#?}", hub.program.heard);
    }
}

#[test]
fn a_plugin_that_dies_fails_its_calls_and_is_back() {
    let mut hub = Hub::start(&[builtin("tools.one")]);
    let pid = hub.program.hear("started plugin \"tools.one\" (pid=");
    let pid: u32 = pid.trim_end_matches(')').parse().unwrap();
    hub.program.hear("orchestrator ready: ");
    let mut stdio = hub.stdio(&[]);
    stdio.say(&call(1, "sleep", r#"{"ms":600000}"#));
    // The next answer says that the call before it was sent.
    stdio.ask(&call(2, "add", r#"{"a":1,"b":2}"#));
    Group::led_by(pid).kill();
    let lost = stdio.answer();
    assert!(lost.contains("plugin exited with signal 9"), "{lost}");
    let rest = hub.program.hear("plugin \"tools.one\" exited with ");
    assert_eq!(rest, "signal 9; restarting in 0.5s");
    hub.program.hear("plugin \"tools.one\" registered and booted");
    assert_eq!(stdio.ask(&call(3, "echo", r#"{"text":"back"}"#)), text(3, "back"));
}

#[test]
fn the_calls_of_a_hub_are_in_the_journal() {
    let scratch = Scratch::new();
    let journal = "[journal]\npath = \"calls.jsonl\"\narguments = true\nresults = true\n";
    fs::write(scratch.file("toolbus.toml"), journal).unwrap();
    let path = scratch.file("calls.jsonl");
    let mut hub = Hub::start_at(scratch, "127.0.0.1:0", &[builtin("tools.one")]);
    hub.program.hear("orchestrator ready: ");
    let mut stdio = hub.stdio(&[]);
    stdio.ask(&call(1, "echo", r#"{"text":"hi"}"#));
    stdio.ask(&call(2, "fail", r#"{"message":"no"}"#));
    stdio.ask(&call(3, "nothing", "{}"));
    stdio.say(&call(4, "sleep", r#"{"ms":600000}"#));
    // The next answer says that the call before it was sent.
    stdio.ask(&call(5, "add", r#"{"a":1,"b":2}"#));
    stdio.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}"#);
    expect![[r#"
        orchestrator tools.one echo ok
        orchestrator tools.one fail failed
        orchestrator - nothing unknown_tool
        orchestrator tools.one add ok
        orchestrator tools.one sleep cancelled
    "#]]
    .assert_eq(&crate::journal::told(&path, 5));
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().next().unwrap();
    let values = r#""arguments":{"text":"hi"},"result":{"text":"hi"}}"#;
    assert!(line.ends_with(values), "{line}");
}

#[test]
fn a_hub_refuses_calls_that_cannot_be_written_down() {
    let scratch = Scratch::new();
    let journal = "[journal]\npath = \"/proc/none/calls.jsonl\"\nrequired = true\n";
    fs::write(scratch.file("toolbus.toml"), journal).unwrap();
    let mut hub = Hub::start_at(scratch, "127.0.0.1:0", &[builtin("tools.one")]);
    hub.program.hear("orchestrator ready: ");
    let answer = hub.stdio(&[]).ask(&call(1, "echo", r#"{"text":"hi"}"#));
    assert!(answer.contains("and without it no call is answered"), "{answer}");
    assert!(answer.contains(r#""isError":true"#), "{answer}");
}

#[test]
fn a_config_that_is_wrong_keeps_no_hub_from_working() {
    let scratch = Scratch::new();
    fs::write(scratch.file("toolbus.toml"), "[journal]\n").unwrap();
    let mut hub = Hub::start_at(scratch, "127.0.0.1:0", &[]);
    hub.program.hear("warning: calls are not written into a journal: ");
    hub.program.hear("orchestrator ready: ");
}

#[test]
fn plugins_that_do_not_come_up_are_told_and_given_up() {
    let mut hub = Hub::start(&[
        script("never", "exec sleep 1000", ", start_timeout: 0.2, restart: never"),
        script("silent", "exit 2", ", restart: never"),
        script("wrong", "echo READY nowhere >&2; exec sleep 1000", ", restart: never"),
        "{id: absent, binary: ./absent, restart: never}".into(),
        script("after", "exit 3", ", depends_on: [never], restart: never"),
        builtin("tools.one"),
    ]);
    assert_eq!(hub.program.hear("orchestrator ready: "), "1 of 6 plugins, 9 tools");
    for line in [
        "failed to start plugin \"never\": plugin \"never\" did not become ready within 0.2 seconds",
        "plugin \"silent\" exited with status 2",
        "failed to start plugin \"silent\": plugin \"silent\" exited without printing READY",
        "failed to start plugin \"absent\": there is no program \"./absent\"",
        "plugin \"absent\": enabled is not set, starting it",
    ] {
        assert!(hub.program.has_said(line), "{line}: {:#?}", hub.program.heard);
    }
    let at = |begin: &str| hub.program.heard.iter().position(|line| line.starts_with(begin));
    assert!(at("failed to start plugin \"never\"") < at("started plugin \"after\""));
}

#[test]
fn five_failed_starts_in_a_row_are_enough() {
    let mut hub = Hub::start(&[script("bad", "exit 1", "")]);
    hub.program.hear("giving up on plugin \"bad\" after 5 failed starts");
    let failed = "failed to start plugin \"bad\": plugin \"bad\" exited without printing READY";
    assert_eq!(hub.program.heard.iter().filter(|line| *line == failed).count(), 5);
}

#[test]
fn whatever_a_plugin_writes_it_is_read() {
    let flood = "head -c 2000000 /dev/zero >&2; printf '\\na\\377b\\n' >&2; echo done >&2; exit 1";
    let mut hub = Hub::start(&[script("loud", flood, ", restart: never")]);
    hub.program.hear("[loud] a\u{fffd}b");
    hub.program.hear("[loud] done");
    let cut = hub.program.heard.iter().find(|line| line.starts_with("[loud] \\x00"));
    assert!(cut.is_some_and(|line| line.len() <= 65_536 + "[loud] ".len()));
}

#[test]
fn no_plugin_outlives_its_hub() {
    let mut hub = Hub::start(&[builtin("tools.one")]);
    let pid = hub.program.hear("started plugin \"tools.one\" (pid=");
    let group = Group::led_by(pid.trim_end_matches(')').parse().unwrap());
    hub.program.hear("orchestrator ready: ");
    hub.program.signal(Signal::KILL);
    group.assert_gone();
}

#[test]
fn a_plugin_that_will_not_go_is_made_to_and_a_second_signal_does_not_wait() {
    let stubborn =
        script("stubborn", "trap '' TERM; echo up >&2; while :; do sleep 1000; done", "");
    for is_hurried in [false, true] {
        let mut hub = Hub::start(std::slice::from_ref(&stubborn));
        let pid = hub.program.hear("started plugin \"stubborn\" (pid=");
        let group = Group::led_by(pid.trim_end_matches(')').parse().unwrap());
        hub.program.hear("[stubborn] up");
        hub.program.signal(Signal::INT);
        hub.program.hear("received signal interrupt, shutting down");
        if is_hurried {
            hub.program.signal(Signal::TERM);
        }
        assert_eq!(hub.program.end(), Some(if is_hurried { 143 } else { 0 }));
        group.assert_gone();
    }
}

#[test]
fn what_a_plugin_leaves_behind_is_asked_to_end_and_then_made_to() {
    let helper = |trap: &str| {
        format!("(trap '{trap}' TERM; echo helping >&2; while :; do sleep 1000 & wait; done) &")
    };
    let polite = helper("echo asked to end >&2; exit 0");
    let stubborn = helper("echo asked in vain >&2");
    let both = script("both", &format!("{polite} {stubborn} exec sleep 1000"), ", restart: never");
    let mut hub = Hub::start(&[both]);
    let pid: i32 =
        hub.program.hear("started plugin \"both\" (pid=").trim_end_matches(')').parse().unwrap();
    let group = Group::led_by(pid.unsigned_abs());
    hub.program.hear("[both] helping");
    hub.program.hear("[both] helping");
    let leader = Pid::from_raw(pid).unwrap();
    kill_process(leader, Signal::KILL).unwrap();
    // Neither is heard in a fixed order; that its leader is gone is told without waiting for them.
    let wanted =
        ["[both] asked to end", "[both] asked in vain", "failed to start plugin \"both\": "];
    while !wanted.iter().all(|begin| hub.program.heard.iter().any(|line| line.starts_with(begin))) {
        hub.program.hear("");
    }
    group.assert_gone();
}

#[test]
fn two_plugins_of_one_tool_are_told_and_the_later_is_called() {
    let mut hub = Hub::start(&[builtin("tools.one"), builtin("tools.two")]);
    hub.program.hear("orchestrator ready: 2 of 2 plugins, 9 tools");
    let line = "duplicate tool \"add\": provided by \"tools.one\" and \"tools.two\"; calls go to \"tools.two\"";
    assert!(hub.program.has_said(line), "{:#?}", hub.program.heard);
}

#[test]
fn an_address_in_use_is_a_failure() {
    let hub = Hub::start(&[]);
    let config = hub.scratch.file("plugins.yaml");
    let words = ["orchestrator", "--config", &config, "--listen-addr", &hub.address];
    let page = Page::of(&words).run();
    assert_eq!(page.status.code(), Some(1), "{page}");
    assert!(page.to_string().contains(&hub.address), "{page}");
}

#[test]
fn files_that_are_wrong_are_told_by_line_and_key() {
    let scratch = Scratch::new();
    let file = scratch.file("plugins.yaml");
    fs::write(&file, "plugins:\n  - id: a\n    binray: x\n").unwrap();
    let page = Page::of(&["orchestrator", "--config", &file]).run().to_string();
    expect![[r#"
        stderr
        error: FILE: line 2: `plugins[0].binary` is missing
        hint: line 3 has `binray`; did you mean `binary`?
        exit 2
    "#]]
    .assert_eq(&page.replace(&file, "FILE"));
    fs::write(&file, "listen_addr: 127.0.0.1:0\nalow_anonymous: true\n").unwrap();
    let certs = scratch.file("certs");
    let mut hub = Talking::start(&["orchestrator", "--config", &file, "--certs-dir", &certs]);
    let warning = hub.hear("warning: ");
    assert!(warning.ends_with("there is no key `alow_anonymous`; did you mean `allow_anonymous`?"));
    check(
        "orchestrator --config no-such-plugins.yaml",
        expect![[r#"
            stderr
            error: cannot read `no-such-plugins.yaml`
              caused by: No such file or directory (os error 2)
            hint: name the file by `--config FILE`; `toolbus orchestrator --help` shows a small one
            exit 2
        "#]],
    );
}

#[test]
fn requests_may_come_over_plain_tcp_where_that_is_wanted() {
    use std::io::{Read, Write};
    let scratch = Scratch::new();
    let file = scratch.file("plugins.yaml");
    let certs = scratch.file("certs");
    let text = format!("listen_addr: 127.0.0.1:0\ntcp_addr: 127.0.0.1:0\ncerts_dir: {certs}\n");
    fs::write(&file, text).unwrap();
    let mut hub = Talking::start(&["orchestrator", "--config", &file]);
    let warning = hub.hear("warning: tcp_addr ");
    assert!(warning.ends_with(" lets anyone who can connect call every tool"), "{warning}");
    let address = hub.hear("orchestrator TCP server listening on ");
    let mut answers = Vec::new();
    eventually("it answers", || {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.write_all(b"\0\0\0\x06\x0a\x02h1j\0").unwrap();
        answers.clear();
        stream.read_to_end(&mut answers).is_ok()
    });
    assert_eq!(answers, b"\0\0\0\x19\x0a\x02h1j\x13\x08\x01\x12\x0forchestrator ok");
}
