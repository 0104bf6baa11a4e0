//! A sign-in server as far as a front asks it: what it says of itself, its keys, and what it says of
//! tokens.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use toolbus_testkit::tokens::{Signer, key_set};

/// What it says at a path: status, header fields, body.
type Page = (u16, String, String);

/// It answers until the test is over.
pub(super) struct Issuer {
    pub(super) url: String,
    pages: Arc<Mutex<Vec<(String, Page)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    /// One with these keys, by their names.
    pub(super) fn with(keys: &[(&Signer, &str)]) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let (pages, asked) =
            <(Arc<Mutex<Vec<(String, Page)>>>, Arc<Mutex<Vec<String>>>)>::default();
        let (said, heard) = (pages.clone(), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(&stream);
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut length = 0;
                let mut head = String::new();
                loop {
                    let mut field = String::new();
                    if reader.read_line(&mut field).is_err() || field.trim().is_empty() {
                        break;
                    }
                    let (name, value) = field.split_once(':').unwrap_or_default();
                    if name.eq_ignore_ascii_case("content-length") {
                        length = value.trim().parse().unwrap_or_default();
                    }
                    head.push_str(&field.to_ascii_lowercase());
                }
                let mut body = vec![0; length];
                let _ = reader.read_exact(&mut body);
                let body = String::from_utf8_lossy(&body).into_owned();
                let authorization = head.lines().find(|line| line.starts_with("authorization"));
                let authorization = authorization.unwrap_or_default();
                heard.lock().unwrap().push(format!("{path} {body}{authorization}"));
                let said = said.lock().unwrap();
                let page =
                    said.iter().rev().find(|(at, _)| *at == path).map(|(_, page)| page.clone());
                let (status, fields, body) = page.unwrap_or((404, String::new(), String::new()));
                let length = body.len();
                let _ = write!(
                    &stream,
                    "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
                );
            }
        });
        let issuer = Issuer { url, pages, asked };
        let metadata = json!({
            "issuer": issuer.url,
            "jwks_uri": format!("{}/keys", issuer.url),
            "introspection_endpoint": format!("{}/introspect", issuer.url),
        });
        issuer.says("/.well-known/oauth-authorization-server", &metadata.to_string());
        issuer.has_keys(keys);
        issuer
    }

    /// It has these keys from now on.
    pub(super) fn has_keys(&self, keys: &[(&Signer, &str)]) {
        let keys: Vec<_> = keys.iter().map(|(signer, id)| signer.jwk(id)).collect();
        self.says("/keys", &key_set(&keys));
    }

    pub(super) fn says(&self, path: &str, body: &str) {
        self.answers(path, 200, "", body);
    }

    pub(super) fn answers(&self, path: &str, status: u16, fields: &str, body: &str) {
        let page = (status, fields.to_owned(), body.to_owned());
        self.pages.lock().unwrap().push((path.to_owned(), page));
    }

    /// What it was asked at this path.
    pub(super) fn asked(&self, path: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|one| one.split(' ').next() == Some(path)).cloned().collect()
    }

    /// The claims of a good token of it, with these changed; null takes one out.
    pub(super) fn claims(&self, changed: &Value) -> String {
        claims(&self.url, changed)
    }
}

/// The same of any issuer, for the audience `tools`.
pub(super) fn claims(issuer: &str, changed: &Value) -> String {
    let mut claims = json!({
        "iss": issuer, "aud": "tools", "sub": "ann", "exp": now() + 600, "iat": now(),
        "client_id": "editor", "scope": "tools",
    });
    for (name, value) in changed.as_object().expect("an object") {
        let members = claims.as_object_mut().expect("it was made as one");
        match value {
            Value::Null => members.remove(name),
            value => members.insert(name.clone(), value.clone()),
        };
    }
    claims.to_string()
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}
