//! `toolbus certs`, and what is done with folders that are not as they should be.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use expect_test::{Expect, expect};
use rustix::process::Signal;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::scratch::Scratch;

use super::Talking;
use crate::listening::Server;
use crate::page::{Page, check};
use crate::serve::{BUILTIN, Config};

/// Runs `toolbus certs` on this folder and compares, whatever day it is.
#[track_caller]
fn certs(scratch: &Scratch, words: &[&str], expect: Expect) {
    let folder = scratch.file("certs");
    let page = Page::of(&[&["certs"], words, &["--certs-dir", &folder]].concat()).run().to_string();
    let mut told = page.replace(&folder, "FOLDER");
    // Dates and times of any day.
    while let Some(at) = told.find("202").filter(|at| told.as_bytes()[at + 4] == b'-') {
        let is_time = told.as_bytes().get(at + 10) == Some(&b'T');
        let end = at + if is_time { 20 } else { 10 };
        told.replace_range(at..end, "DATE");
    }
    // A year is left, or a day less once a second of it has passed.
    for days in ["365", "364"] {
        told = told.replace(&format!("{days} days"), "DAYS days");
        told = told.replace(&format!("\"days_left\":{days}"), "\"days_left\":DAYS");
    }
    expect.assert_eq(&told);
}

#[test]
fn a_folder_that_is_a_file_is_told() {
    let scratch = Scratch::new();
    fs::write(scratch.file("certs"), "").unwrap();
    certs(
        &scratch,
        &["show"],
        expect![[r#"
            stderr
            error: cannot read `FOLDER`
              caused by: Not a directory (os error 20)
            hint: the folder of the certificates is a file; name another by `--certs-dir`
            exit 2
        "#]],
    );
}

#[test]
fn certificates_are_made_shown_and_renewed() {
    let scratch = Scratch::new();
    certs(
        &scratch,
        &["show"],
        expect![[r#"
            stderr
            error: there is no folder `FOLDER`
            hint: name another by `--certs-dir`, or run `toolbus certs renew NAME` to make it
            exit 2
        "#]],
    );
    certs(
        &scratch,
        &["renew", "tools.peer", "orchestrator"],
        expect![[r#"
            stdout
            renewed orchestrator, expires DATE
            renewed tools.peer, expires DATE
            exit 0
        "#]],
    );
    certs(
        &scratch,
        &["show"],
        expect![[r#"
            stdout
            ca            ca    expires DATE  DAYS days left  signed by this CA  key ok
            orchestrator  leaf  expires DATE  DAYS days left  signed by this CA  key ok
            tools.peer    leaf  expires DATE  DAYS days left  signed by this CA  key ok
            exit 0
        "#]],
    );
    certs(
        &scratch,
        &["show", "--json"],
        expect![[r#"
            stdout
            {"name":"ca","kind":"ca","subject":"O=Orchestra, CN=Orchestra CA","not_after":"DATE","days_left":DAYS,"issued_by_ca":true,"key":"ok"}
            {"name":"orchestrator","kind":"leaf","subject":"O=Orchestra, CN=orchestrator","not_after":"DATE","days_left":DAYS,"issued_by_ca":true,"key":"ok"}
            {"name":"tools.peer","kind":"leaf","subject":"O=Orchestra, CN=tools.peer","not_after":"DATE","days_left":DAYS,"issued_by_ca":true,"key":"ok"}
            exit 0
        "#]],
    );
    certs(
        &scratch,
        &["renew"],
        expect![[r#"
            exit 0
        "#]],
    );
    let mode = |name: &str| fs::metadata(scratch.file(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("certs"), 0o700);
    for file in ["ca.crt", "ca.key", "tools.peer.crt", "tools.peer.key"] {
        assert_eq!(mode(&format!("certs/{file}")), 0o600, "{file}");
    }
}

#[test]
fn another_ca_makes_all_certificates_anew() {
    let scratch = Scratch::new();
    let made = expect![[r#"
        stdout
        renewed a, expires DATE
        exit 0
    "#]];
    certs(&scratch, &["renew", "a"], made);
    let ca = fs::read(scratch.file("certs/ca.crt")).unwrap();
    certs(
        &scratch,
        &["renew", "--ca"],
        expect![[r#"
            stdout
            renewed ca, expires DATE
            renewed a, expires DATE
            exit 0
        "#]],
    );
    assert_eq!(fs::read(scratch.file("certs/ca.crt.old")).unwrap(), ca);
    // The old pair put back: now all are another's.
    for kind in ["crt", "key"] {
        let file = scratch.file(&format!("certs/ca.{kind}"));
        fs::copy(format!("{file}.old"), &file).unwrap();
    }
    certs(
        &scratch,
        &["show"],
        expect![[r#"
            stdout
            ca  ca    expires DATE  DAYS days left  signed by this CA      key ok
            a   leaf  expires DATE  DAYS days left  not signed by this CA  key ok
            exit 1
        "#]],
    );
    certs(
        &scratch,
        &["renew"],
        expect![[r#"
            stdout
            renewed a, expires DATE
            exit 0
        "#]],
    );
}

#[test]
fn what_is_not_ours_to_replace_is_refused() {
    let scratch = Scratch::new();
    let config = scratch.file("plugins.yaml");
    fs::write(&config, format!("listen_addr: 127.0.0.1:0\ncerts_dir: {}", scratch.file("certs")))
        .unwrap();
    let made = expect![[r#"
        stdout
        renewed orchestrator, expires DATE
        exit 0
    "#]];
    certs(&scratch, &["renew", "orchestrator"], made);
    let folder = scratch.file("certs");
    let hub = || {
        let page = Page::of(&["orchestrator", "--config", &config]).run().to_string();
        page.replace(&folder, "FOLDER")
    };
    let set_mode = |mode| {
        let key = scratch.file("certs/ca.key");
        fs::set_permissions(key, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o644);
    expect![[r#"
        stderr
        error: cannot use the certificates in `FOLDER`: others may read `ca.key`
        hint: run `chmod 600 FOLDER/ca.key`
        exit 2
    "#]]
    .assert_eq(&hub());
    set_mode(0o600);
    fs::write(scratch.file("certs/ca.crt"), "no certificate").unwrap();
    expect![[r#"
        stderr
        error: cannot use the certificates in `FOLDER`: `ca.crt` is damaged
        hint: put `ca.crt` back, or run `toolbus certs renew --ca`
        exit 2
    "#]]
    .assert_eq(&hub());
    assert_eq!(fs::read(scratch.file("certs/ca.crt")).unwrap(), b"no certificate");
    fs::remove_file(scratch.file("certs/ca.crt")).unwrap();
    fs::remove_file(scratch.file("certs/orchestrator.key")).unwrap();
    expect![[r#"
        stderr
        error: cannot use the certificates in `FOLDER`: `ca.crt` is missing
        hint: put `ca.crt` back, or run `toolbus certs renew --ca`
        exit 2
    "#]]
    .assert_eq(&hub());
}

#[test]
fn first_starts_at_once_end_with_one_ca() {
    let scratch = Scratch::new();
    let folder = scratch.file("certs");
    let names: Vec<_> = (0..8).map(|number| format!("tool-{number}")).collect();
    let renew = |name: &String| Talking::start(&["certs", "renew", name, "--certs-dir", &folder]);
    let mut running: Vec<_> = names.iter().map(renew).collect();
    for program in &mut running {
        assert_eq!(program.end(), Some(0), "{:?}", program.heard);
    }
    let page = Page::of(&["certs", "show", "--certs-dir", &folder]).run();
    assert_eq!(page.status.code(), Some(0), "{page}");
    assert_eq!(page.to_string().matches("signed by this CA  key ok").count(), 9, "{page}");
}

#[test]
fn names_become_files_and_must_be_fit_for_that() {
    check(
        "certs renew ../evil --certs-dir nowhere",
        expect![[r#"
            stderr
            error: `../evil` cannot be the name of a certificate
            hint: take letters, digits, `-`, `_` and `.`, and no dot at the beginning
            exit 2
        "#]],
    );
}

/// A front of `toolbus serve` that shows a certificate of this folder, and its address.
fn served(certs: &str) -> (Config, Server, String) {
    let serve = format!("orchestra+quic://127.0.0.1:0?certs={certs}&id=tools");
    let config = Config::of(&format!("{BUILTIN}[front.hub]\nserve = \"{serve}\"\n"));
    let server = Server::start(&["serve", "-v", "--config", &config.path()], 1);
    let address = format!("{}?certs={certs}", server.url());
    (config, server, address)
}

fn renew_all(certs: &str) {
    let page = Page::of(&["certs", "renew", "--ca", "--certs-dir", certs]).run();
    assert_eq!(page.status.code(), Some(0), "{page}");
}

fn is_answered(address: &str) -> bool {
    let page = Page::of(&["call", "-q", address, "try.upper", "text=hello"]).run();
    page.stdout.contains("HELLO")
}

fn told_of_certificate(server: &Server) -> String {
    let mut lines = std::iter::repeat_with(|| server.hear());
    lines.find(|line| line.contains("certificate")).expect("it goes on until it is said")
}

#[test]
fn a_signal_has_the_certificate_of_a_front_read_again() {
    let scratch = Scratch::new();
    let certs = scratch.file("certs");
    let (_config, server, address) = served(&certs);
    renew_all(&certs);
    server.signal(Signal::HUP);
    let told = told_of_certificate(&server);
    assert!(told.starts_with("info: front.hub: new certificate, until 20"), "{told}");
    assert!(is_answered(&address));
    fs::write(scratch.file("certs/ca.crt"), "no certificate at all").unwrap();
    server.signal(Signal::HUP);
    assert_eq!(
        told_of_certificate(&server),
        format!(
            "warning: front.hub: the certificate in `{certs}/tools.crt` cannot be used; the old one stays"
        )
    );
    server.signal(Signal::TERM);
    assert!(server.end().ends_with("exit 0\n"));
}

#[test]
fn a_new_certificate_of_a_front_is_shown_without_a_signal() {
    let scratch = Scratch::new();
    let certs = scratch.file("certs");
    let (_config, _server, address) = served(&certs);
    assert!(is_answered(&address));
    renew_all(&certs);
    // Files are looked at once a second at most.
    eventually("the new one is shown", || is_answered(&address));
}
