//! Calls over HTTP by a token that is known, against a fixed token.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use toolbus_testkit::tokens::{Signer, key_set};

use crate::{Plan, median};

const ISSUER: &str = "https://id.example.com";
const FIXED: &str = "a-fixed-token";

pub(crate) fn measure(plan: &Plan) {
    let folder = std::env::temp_dir().join(format!("toolbus-bench-oauth-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("there is room for a folder");
    let signer = Signer::p256();
    fs::write(folder.join("keys.json"), key_set(&[signer.jwk("k")])).expect("it is ours");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
    let until = now + 24 * 60 * 60;
    let claims = format!(r#"{{"iss":"{ISSUER}","aud":"tools","sub":"ann","exp":{until}}}"#);
    let token = signer.token(r#"{"alg":"ES256","kid":"k"}"#, &claims);
    let table = format!(
        "[front.web.oauth]\nissuer = \"{ISSUER}\"\naudience = \"tools\"\njwks = \"keys.json\"\n"
    );
    let key = format!("token = \"{FIXED}\"\n");
    let mut fixed = Contender::start(plan, &folder.join("fixed.toml"), &key, "", FIXED);
    let mut known = Contender::start(plan, &folder.join("known.toml"), "", &table, &token);
    let (mut of_fixed, mut of_known) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        of_fixed.push(fixed.time(plan.count));
        of_known.push(known.time(plan.count));
    }
    drop((fixed, known));
    let _ = fs::remove_dir_all(&folder);
    let (fixed, known) = (median(of_fixed), median(of_known));
    let of_as_many = fixed.as_secs_f64() / known.as_secs_f64();
    println!("| a call by a fixed token | by a known token | of as many calls a second |");
    println!("|---|---|---|\n| {fixed:.1?} | {known:.1?} | {of_as_many:.3} |\n");
}

/// A server, and a client of it that keeps its connection.
struct Contender {
    server: Child,
    stream: BufReader<TcpStream>,
    request: String,
}

impl Contender {
    fn start(plan: &Plan, config: &PathBuf, key: &str, table: &str, token: &str) -> Contender {
        let text = format!(
            "[back.try]\nconnect = \"builtin:\"\n[front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n{key}{table}"
        );
        fs::write(config, text).expect("it is ours");
        let mut server = Command::new(&plan.toolbus)
            .args(["serve", "--config"])
            .arg(config)
            .stderr(Stdio::piped())
            .spawn()
            .expect("there is such a program");
        let mut said = BufReader::new(server.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says where it listens");
        let at = line.trim().strip_prefix("listening on http://").expect("it listens");
        let at = at.strip_suffix("/mcp").expect("that is its path");
        let stream = TcpStream::connect(at).expect("it listens");
        stream.set_nodelay(true).expect("it is a socket");
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"add","arguments":{"a":1,"b":2}}}"#;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nAccept: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: add\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Contender { server, stream: BufReader::new(stream), request }
    }

    /// How long one call takes.
    fn time(&mut self, count: usize) -> Duration {
        let begun = Instant::now();
        (0..count).for_each(|_| self.call());
        begun.elapsed() / u32::try_from(count).expect("they are few")
    }

    fn call(&mut self) {
        self.stream.get_mut().write_all(self.request.as_bytes()).expect("it reads");
        let (mut length, mut status) = (0, String::new());
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("it answers");
            if status.is_empty() {
                status.clone_from(&line);
            }
            match line.trim().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().expect("it is a number");
                }
                Some(_) => {}
                None if line.trim().is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("it answers to the end");
        assert!(status.contains(" 200 "), "{status}{}", String::from_utf8_lossy(&body));
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
