//! mediocre-rpc over HTTP: the heads around the bytes, by hand and between our own ends.

mod calling;
mod conversations;
mod drips;
mod serving;
mod strangers;

use std::rc::Rc;

use tokio::net::{TcpListener, TcpStream};
use toolbus::bus::Route;

use super::{Raw, at_doors};

/// A peer that writes and reads HTTP/1.1 byte by byte.
type Stranger = Raw<TcpStream>;

/// A server over HTTP, and a connection to it.
async fn stranger(route: Rc<dyn Route>) -> Stranger {
    let (_, urls) = at_doors(route, &["mediocre+http://127.0.0.1:0"]).await;
    visit(&urls[0]).await
}

async fn visit(url: &str) -> Stranger {
    let at = url.split('/').nth(2).unwrap();
    Raw { stream: TcpStream::connect(at).await.unwrap(), heard: Vec::new() }
}

/// A head as it came, and the body behind it.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    first: String,
    fields: Vec<String>,
    body: String,
}

impl Message {
    /// The value of a header field.
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|field| {
            let (found, value) = field.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Stranger {
    async fn head(&mut self) -> Message {
        let end = loop {
            if let Some(at) = self.heard.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            assert!(self.read().await, "no head: {}", String::from_utf8_lossy(&self.heard));
        };
        let head: Vec<u8> = self.heard.drain(..end + 4).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n").map(str::to_owned);
        let first = lines.next().unwrap();
        Message { first, fields: lines.collect(), body: String::new() }
    }

    async fn message(&mut self) -> Message {
        let mut message = self.head().await;
        let body = match message.field("content-length") {
            Some(len) => {
                let len = len.parse().unwrap();
                self.exactly(len).await
            }
            None => {
                assert_eq!(message.field("transfer-encoding"), Some("chunked"));
                let mut body = Vec::new();
                loop {
                    let chunk = self.chunk().await;
                    if chunk.is_empty() {
                        break body;
                    }
                    body.extend(chunk);
                }
            }
        };
        message.body = String::from_utf8(body).unwrap();
        message
    }

    /// One chunk of a body; the last is empty.
    async fn chunk(&mut self) -> Vec<u8> {
        let len = self.line().await;
        let len = usize::from_str_radix(len.trim_end(), 16).unwrap();
        let mut chunk = self.exactly(len + 2).await;
        chunk.truncate(len);
        chunk
    }

    async fn exactly(&mut self, len: usize) -> Vec<u8> {
        while self.heard.len() < len {
            assert!(self.read().await, "cut short: {}", String::from_utf8_lossy(&self.heard));
        }
        self.heard.drain(..len).collect()
    }

    /// Says a whole request.
    async fn post(&mut self, fields: &str, body: &str) -> Message {
        let len = body.len();
        let head = format!(
            "POST /rpc HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len}\r\n{fields}\r\n"
        );
        self.say(&format!("{head}{body}")).await;
        self.message().await
    }

    async fn say_chunk(&mut self, text: &str) {
        self.say(&format!("{:x}\r\n{text}\r\n", text.len())).await;
    }
}

/// A server that is played by hand, and its address.
async fn played() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("mediocre+http://{}", listener.local_addr().unwrap());
    (listener, address)
}

async fn accept(listener: &TcpListener) -> Stranger {
    Raw { stream: listener.accept().await.unwrap().0, heard: Vec::new() }
}
