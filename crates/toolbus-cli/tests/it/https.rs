//! MCP over HTTPS: who is believed at either end, what is wrong with files, and files that change.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::certificates::Certificates;
use toolbus_testkit::patience::{PATIENCE, eventually};
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::skipped::is_there;

use crate::listening::Server;
use crate::page::{Page, check_usage, command};
use crate::serve::{BUILTIN, Config};

const THREE: &str = "stdout\n3\nexit 0\n";

/// `?cert=…&key=…` of the server's files.
fn shown(files: &Certificates) -> String {
    format!("?cert={}&key={}", files.file("server.pem"), files.file("server.key"))
}

fn front(files: &Certificates, more: &str) -> String {
    let shown = shown(files);
    format!("{BUILTIN}[front.web]\nserve = \"mcp+https://127.0.0.1:0/mcp{shown}{more}\"\n")
}

/// `toolbus mcp --https` with the server's files.
fn listening(files: &Certificates, more: &[&str]) -> Server {
    let (cert, key) = (files.file("server.pem"), files.file("server.key"));
    let words = ["mcp", "--https", "127.0.0.1:0", "--cert", &cert, "--key", &key, "builtin:"];
    Server::start(&[&words[..], more].concat(), 1)
}

/// A call to it by one who believes this authority.
fn add(url: &str, ca: &str, more: &[&str]) -> String {
    let words = ["call", "-q", url, "add", "a=1", "b=2", "--ca", ca];
    Page::of(&[&words[..], more].concat()).run().to_string()
}

/// What somebody who is not ours gets, and how.
fn curl(words: &[&str]) -> String {
    let mut curl = Command::new("curl");
    let told = "\n%{http_version} %{http_code}\n";
    let ran = curl.args(["-sS", "--max-time", "60", "-w", told]).args(words).output();
    let ran = ran.expect("it was looked for");
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

#[test]
fn it_says_where_it_listens_and_answers_there() {
    let files = Certificates::new();
    let server = listening(&files, &[]);
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    assert!(server.url().ends_with("/mcp"), "{}", server.url());
    for url in [server.url().to_owned(), format!("mcp+{}", server.url())] {
        assert_eq!(add(&url, &files.file("ca.pem"), &[]), THREE);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn both_versions_of_http_are_spoken_inside() {
    if !is_there(&["curl", "--version"]) {
        return;
    }
    let files = Certificates::new();
    let server = listening(&files, &["--token-env", "HOME", "--origin", "https://app.example"]);
    let ca = files.file("ca.pem");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let token = format!("authorization: Bearer {}", std::env::var("HOME").unwrap_or_default());
    let json = "content-type: application/json";
    let asked = |version: &str, more: &[&str]| {
        let words = ["--cacert", &ca, version, "-H", json, "-d", ping, server.url()];
        curl(&[&words[..], more].concat())
    };
    for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let answer = asked(flag, &["-H", &token]);
        assert!(answer.contains("\"protocolVersion\":\"2025-11-25\""), "{answer}");
        assert!(answer.ends_with(&format!("\n{version} 200\n")), "{answer}");
        for (more, code) in [
            (&["-H", "authorization: Bearer wrong"][..], "401"),
            (&["-H", &token, "-H", "origin: https://evil.example"], "403"),
            (&["-H", &token, "-H", "host: evil.example"], "403"),
            (&["-H", &token, "-H", "origin: https://localhost"], "200"),
            (&["-H", &token, "-H", "origin: https://app.example"], "200"),
        ] {
            let answer = asked(flag, more);
            assert!(answer.ends_with(&format!("\n{version} {code}\n")), "{more:?}: {answer}");
        }
    }
    // More than 16 KiB of header fields, which HTTP/1.1 would bear.
    let long = format!("x-long: {}", "y".repeat(20 * 1024));
    let answer = asked("--http2", &["-H", &token, "-H", &long]);
    assert!(answer.contains("\n2 431\n"), "{answer}");
}

#[test]
fn in_clear_it_is_http_1_alone() {
    let server = Server::start(&["mcp", "--http", "127.0.0.1:0", "builtin:"], 1);
    let authority = server.url().trim_start_matches("http://").trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(authority).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it is there");
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    assert!(heard.is_empty() || heard.starts_with(b"HTTP/1.1 "), "{heard:?}");
}

#[test]
fn what_is_no_tls_is_closed() {
    let files = Certificates::new();
    let server = listening(&files, &[]);
    let authority = server.url().trim_start_matches("https://").trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(authority).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
    stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is there");
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    assert!(!heard.starts_with(b"HTTP"), "{heard:?}");
    assert_eq!(add(server.url(), &files.file("ca.pem"), &[]), THREE);
}

#[test]
fn a_certificate_that_is_not_believed_is_told_with_what_to_do() {
    let (files, others) = (Certificates::new(), Certificates::new());
    let server = listening(&files, &[]);
    let told = |words: &[&str]| {
        let words = [&["call", server.url(), "add", "a=1", "b=2"], words].concat();
        Page::of(&words).run().to_string().replace(server.url(), "URL")
    };
    let authority = server.url().trim_start_matches("https://").trim_end_matches("/mcp");
    let at = |page: &str| page.replace(authority, "HOST:PORT");
    expect![[r#"
        stderr
        error: no safe connection to HOST:PORT: the TLS handshake failed: invalid peer certificate: UnknownIssuer
        hint: name its authority by `ca` (`--ca FILE`)
        exit 3
    "#]]
    .assert_eq(&at(&told(&[])));
    let page = told(&["--ca", &others.file("ca.pem")]);
    assert!(page.contains("hint: name its authority by `ca` (`--ca FILE`)"), "{page}");
    assert!(page.ends_with("exit 3\n"), "{page}");
}

/// As `openssl req -x509` makes one: it is its own authority, and most people's first.
#[test]
fn a_certificate_that_is_its_own_authority_is_believed_where_it_is_named() {
    if !is_there(&["openssl", "version"]) {
        return;
    }
    let scratch = Scratch::new();
    let (cert, key) = (scratch.file("cert.pem"), scratch.file("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext"])
        .args(["subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", &cert, "-keyout", &key])
        .output()
        .expect("it was looked for");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let words = ["mcp", "--https", "0", "--cert", &cert, "--key", &key, "builtin:"];
    let server = Server::start(&words, 1);
    assert_eq!(add(server.url(), &cert, &[]), THREE);
    // It is believed for the hosts that it names, and for no other.
    let (_, port) = server.url().trim_end_matches("/mcp").rsplit_once(':').expect("a port");
    let other = add(&format!("https://127.0.0.2:{port}/mcp"), &cert, &[]);
    assert!(other.ends_with("exit 3\n"), "{other}");
    let unnamed = Page::of(&["call", "-q", server.url(), "add", "a=1", "b=2"]).run();
    assert!(unnamed.stderr.contains("hint: name its authority by `ca`"), "{unnamed}");
}

#[test]
fn clients_may_have_to_show_a_certificate() {
    let files = Certificates::new();
    let ca = files.file("ca.pem");
    let server = listening(&files, &["--client-ca", &ca]);
    let (cert, key) = (files.file("client.pem"), files.file("client.key"));
    let with = ["--client-cert", &cert, "--client-key", &key];
    assert_eq!(add(server.url(), &ca, &with), THREE);
    let without = add(server.url(), &ca, &[]);
    assert!(without.ends_with("exit 3\n"), "{without}");
    // The same by keys of the config, whose files are found beside it.
    let config = Config::of(&format!(
        "[back.far]\nconnect = \"mcp+{}\"\nca = \"{ca}\"\nclient_cert = \"{cert}\"\nclient_key = \"{key}\"\n",
        server.url()
    ));
    let words = ["call", "-q", "--config", &config.path(), "far.add", "a=1", "b=2"];
    assert_eq!(Page::of(&words).run().to_string(), THREE);
}

#[test]
fn certificates_count_where_other_machines_come_in() {
    let files = Certificates::new();
    let ca = files.file("ca.pem");
    let shown = shown(&files);
    let at = format!("{BUILTIN}[front.web]\nserve = \"mcp+https://0.0.0.0:0/mcp{shown}");
    let open = Config::of(&format!("{at}\"\n"));
    let page = Page::of(&["serve", "--config", &open.path()]).run();
    assert!(page.stderr.contains("will not listen on 0.0.0.0:0 without a token"), "{page}");
    assert!(page.to_string().ends_with("exit 2\n"), "{page}");
    let server = Config::of(&format!("{at}&client_ca={ca}\"\n")).serve(1);
    assert!(server.url().starts_with("https://0.0.0.0:"), "{}", server.url());
}

#[test]
fn callers_are_known_by_their_certificates() {
    let files = Certificates::new();
    let (ca, cert, key) =
        (files.file("ca.pem"), files.file("client.pem"), files.file("client.key"));
    let closed = format!("{}callers = [\"ann\"]\n", front(&files, &format!("&client_ca={ca}")));
    let caller =
        |name: &str, subject: &str| format!("[caller.{name}]\ncert_subject = \"{subject}\"\n");
    let ours = "cn = rcgen self signed cert";
    let config = Config::of(&format!("{closed}{}", caller("ann", ours)));
    let server = config.serve(1);
    let with = ["--client-cert", cert.as_str(), "--client-key", &key];
    assert_eq!(add(server.url(), &ca, &with), THREE);
    // It is another's from now on, who is no caller of this front.
    config.reload(&server, &format!("{closed}{}{}", caller("ann", "CN=ann"), caller("bob", ours)));
    let refused = add(server.url(), &ca, &with);
    assert!(refused.contains("status 403"), "{refused}");
    config.reload(&server, &format!("{closed}{}", caller("ann", "CN=ann")));
    let refused = add(server.url(), &ca, &with);
    assert!(refused.contains("needs a sign-in"), "{refused}");
}

#[test]
fn flags_that_do_not_go_together() {
    for (words, why) in [
        ("mcp --https 0 builtin:", "are missing"),
        ("mcp --https 0 --cert c.pem builtin:", "--key is missing"),
        ("mcp --https 0 --key k.pem builtin:", "--cert is missing"),
        ("mcp --https 0 --http 0 --cert c.pem --key k.pem builtin:", "do not go together"),
        ("mcp --http 0 --cert c.pem --key k.pem builtin:", "do not go together"),
        ("mcp --client-ca c.pem builtin:", "--https are missing"),
        ("mcp --token-env X builtin:", "--http is missing"),
        ("tools builtin: --client-cert c.pem", "--client-key is missing"),
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let page = Page::of(&words).inside().run();
        assert!(page.stderr.contains(why), "{words:?}: {page}");
        assert!(page.to_string().ends_with("exit 2\n"), "{page}");
    }
    check_usage(
        "mcp --https nowhere --cert c.pem --key k.pem builtin:",
        expect![[r#"
            stderr
            error: `nowhere` is no address to listen on
            hint: write `HOST:PORT`, `:PORT` or `PORT`, e.g. `127.0.0.1:8932` or `[::1]:8932`
            exit 2
        "#]],
    );
}

/// The same mistakes end `serve` with 2 and are found by `config check`.
#[test]
fn files_that_are_not_as_they_should_be() {
    let (files, others) = (Certificates::new(), Certificates::new());
    let (good, key) = (files.file("server.pem"), files.file("server.key"));
    fs::write(files.path("no.pem"), "this is no certificate\n").expect("the folder is ours");
    let (no_pem, absent) = (files.file("no.pem"), files.file("absent.pem"));
    let mut told = String::new();
    for query in [
        String::new(),
        format!("?cert={good}"),
        format!("?key={key}"),
        format!("?cert={absent}&key={key}"),
        format!("?cert={good}&key={absent}"),
        format!("?cert={no_pem}&key={key}"),
        format!("?cert={good}&key={no_pem}"),
        format!("?cert={good}&key={}", others.file("server.key")),
        format!("?cert={good}&key={key}&client_ca={absent}"),
        format!("?cert={good}&key={key}&client_ca="),
        format!("?cert={good}&key={key}&x=y"),
    ] {
        let front = format!("[front.web]\nserve = \"mcp+https://127.0.0.1:0/mcp{query}\"\n");
        let config = Config::of(&format!("{BUILTIN}{front}"));
        let serve = Page::of(&["serve", "--config", &config.path()]).run();
        let check = Page::of(&["config", "check", "--config", &config.path()]).run();
        assert!(serve.to_string().ends_with("exit 2\n"), "{serve}");
        assert!(check.to_string().ends_with("exit 2\n"), "{check}");
        let folder = |page: String, files: &Certificates| page.replace(&files.file(""), "");
        let said = folder(folder(serve.stderr, &files), &others);
        told.push_str(&said.replace(&config.path(), "tools.toml"));
        told.push('\n');
    }
    expect![[r#"
        error: cannot listen on `mcp+https://127.0.0.1:0/mcp`: it has no certificate
        hint: name the certificate and its key by `?cert=FILE&key=FILE`

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?cert=server.pem`: it has no certificate
        hint: name the certificate and its key by `?cert=FILE&key=FILE`

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?key=server.key`: it has no certificate
        hint: name the certificate and its key by `?cert=FILE&key=FILE`

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?cert=absent.pem&key=server.key`
          caused by: cannot read the certificate in `absent.pem`
          caused by: No such file or directory (os error 2)

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?cert=server.pem&key=absent.pem`
          caused by: cannot read the private key in `absent.pem`
          caused by: No such file or directory (os error 2)

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?cert=no.pem&key=server.key`
          caused by: there is no certificate in `no.pem`
        hint: certificates and keys are PEM files: `-----BEGIN …`

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?cert=server.pem&key=no.pem`
          caused by: there is no private key in `no.pem`
        hint: certificates and keys are PEM files: `-----BEGIN …`

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?cert=server.pem&key=server.key`
          caused by: the certificate in `server.pem` cannot be used
          caused by: keys may not be consistent: KeyMismatch

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?cert=server.pem&key=server.key&client_ca=absent.pem`
          caused by: cannot read the certificate in `absent.pem`
          caused by: No such file or directory (os error 2)

        error: cannot listen on `mcp+https://127.0.0.1:0/mcp?cert=server.pem&key=server.key&client_ca=`
          caused by: cannot read the certificate in ``
          caused by: Is a directory (os error 21)

        error: `tools.toml` line 4: `front.web.serve`: `mcp+https://127.0.0.1:0/mcp?cert=server.pem&key=server.key&x=y` is no address: there is no parameter `x`; it can be cert, key, client_ca

    "#]]
    .assert_eq(&told);
    let words = ["mcp", "--https", "0", "--cert", &good, "--key", &absent, "builtin:"];
    let page = Page::of(&words).run().to_string().replace(&files.file(""), "");
    expect![[r#"
        stderr
        error: cannot serve over HTTPS
          caused by: cannot read the private key in `absent.pem`
          caused by: No such file or directory (os error 2)
        exit 2
    "#]]
    .assert_eq(&page);
}

#[test]
fn files_are_found_beside_the_config() {
    let files = Certificates::new();
    let config = files.file("tools.toml");
    let serve = "mcp+https://127.0.0.1:0/mcp?cert=server.pem&key=server.key";
    fs::write(&config, format!("{BUILTIN}[front.web]\nserve = \"{serve}\"\n")).expect("it is ours");
    let server = Server::start(&["serve", "--config", &config], 1);
    assert_eq!(add(server.url(), &files.file("ca.pem"), &[]), THREE);
}

/// Puts the certificate and key of `from` where those of `to` are, as a renewal does: each is
/// renamed into its place.
fn renew(to: &Certificates, from: &Certificates) {
    for name in ["server.key", "server.pem"] {
        let beside = to.path("beside");
        fs::copy(from.path(name), &beside).expect("the folder is ours");
        fs::rename(&beside, to.path(name)).expect("the folder is ours");
    }
}

#[test]
fn a_new_certificate_is_shown_without_a_signal() {
    let (files, renewed) = (Certificates::new(), Certificates::new());
    let config = Config::of(&front(&files, ""));
    let server = Server::start(&["serve", "-v", "--config", &config.path()], 1);
    let (ca, new_ca) = (files.file("ca.pem"), renewed.file("ca.pem"));
    assert_eq!(add(server.url(), &ca, &[]), THREE);
    renew(&files, &renewed);
    // Files are looked at once a second at most.
    eventually("the new one is shown", || add(server.url(), &new_ca, &[]) == THREE);
    let told = std::iter::repeat_with(|| server.hear()).find(|line| line.contains("certificate"));
    let mut told = told.expect("it goes on until it is said");
    // Of two files that are renamed one is first.
    if told.starts_with("warning: ") {
        told = std::iter::repeat_with(|| server.hear())
            .find(|line| line.contains("new certificate"))
            .expect("it goes on until it is said");
    }
    assert_eq!(told, "info: front.web: new certificate, until 4096-01-01");
}

#[test]
fn what_cannot_be_used_leaves_the_old_in_force() {
    let files = Certificates::new();
    let ca = files.file("ca.pem");
    let text = front(&files, "");
    let config = Config::of(&text);
    let server = config.serve(1);
    let good = fs::read(files.path("server.pem")).expect("it is there");
    fs::write(files.path("server.pem"), "no certificate at all").expect("it is ours");
    let cannot = format!(
        "warning: front.web: the certificate in `{}` cannot be used; the old one stays",
        files.file("server.pem")
    );
    // A handshake finds it out, and so does a signal; but it is said once.
    eventually("it was looked at", || {
        assert_eq!(add(server.url(), &ca, &[]), THREE);
        server.heard().is_some_and(|line| {
            assert_eq!(line, cannot);
            true
        })
    });
    assert_eq!(config.reload(&server, &text), [""; 0]);
    assert_eq!(add(server.url(), &ca, &[]), THREE);
    fs::write(files.path("server.pem"), good).expect("it is ours");
    assert_eq!(config.reload(&server, &text), [""; 0]);
    assert_eq!(add(server.url(), &ca, &[]), THREE);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn a_signal_has_files_read_at_once() {
    let (files, renewed) = (Certificates::new(), Certificates::new());
    let text = front(&files, "");
    let config = Config::of(&text);
    let server = config.serve(1);
    renew(&files, &renewed);
    assert_eq!(config.reload(&server, &text), [""; 0]);
    assert_eq!(add(server.url(), &renewed.file("ca.pem"), &[]), THREE);
    // One that is no more leaves the new one in force.
    fs::remove_file(files.path("server.key")).expect("it is ours");
    let said = config.reload(&server, &text);
    assert!(said.len() == 1 && said[0].ends_with("cannot be used; the old one stays"), "{said:?}");
    assert_eq!(add(server.url(), &renewed.file("ca.pem"), &[]), THREE);
}

#[test]
fn a_session_goes_on_when_the_certificate_is_another() {
    if !is_there(&["curl", "--version"]) {
        return;
    }
    let (files, renewed) = (Certificates::new(), Certificates::new());
    let text = front(&files, "");
    let config = Config::of(&text);
    let server = config.serve(1);
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let json = "content-type: application/json";
    let began = curl(&["-k", "-D", "-", "-H", json, "-d", initialize, server.url()]);
    let session = began.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let session = format!("mcp-session-id: {}", session.expect("it has a name").trim());
    renew(&files, &renewed);
    config.reload(&server, &text);
    let ca = renewed.file("ca.pem");
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    let answer = curl(&["--cacert", &ca, "-H", json, "-H", &session, "-d", ping, server.url()]);
    assert!(answer.contains(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#), "{answer}");
}

#[test]
fn a_certificate_that_has_ended_is_told_of_at_the_start() {
    let made = |days: &str, scratch: &Scratch| {
        let (cert, key) = (scratch.file("cert.pem"), scratch.file("key.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", days])
            .args(["-subj", "/CN=localhost", "-out", &cert, "-keyout", &key])
            .output();
        made.is_ok_and(|made| made.status.success())
    };
    let scratch = Scratch::new();
    // Not each openssl makes what has ended.
    if !is_there(&["openssl", "version"]) || !made("-1", &scratch) {
        return;
    }
    let (cert, key) = (scratch.file("cert.pem"), scratch.file("key.pem"));
    let config = Config::of(&format!(
        "{BUILTIN}[front.web]\nserve = \"mcp+https://127.0.0.1:0/mcp?cert={cert}&key={key}\"\n"
    ));
    let server = config.serve(1);
    server.signal(Signal::TERM);
    let said = server.end();
    let expected = format!("warning: front.web: the certificate in `{cert}` ended on 20");
    assert!(said.starts_with(&expected), "{said}");
    // Who only checks the config is not disturbed.
    let mut check = command(&["config", "check", "--config", &config.path()]);
    assert!(check.output().expect("it runs").status.success());
}
