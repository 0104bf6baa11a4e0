//! Both ends of the wire in the tour: the tool loop, whose model does what we say, and a program
//! that answers in place of a model.

use std::io;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolbus::bus::back::LocalFuture;
use toolbus_check::fixture::Probe;
use toolbus_engine::child::{Program, Running};
use toolbus_proto::json::Json;

use super::super::Ends;
use crate::exit::Exit;
use crate::failed::Failed;

pub(super) struct Tour;

/// No request of the tour is nearly as long.
const REQUEST_BYTES_MAX: usize = 1 << 20;

impl Ends for Tour {
    fn back(&self) -> (&'static str, &'static [&'static str]) {
        ("godex+stdio:", &["exec", "--mock", "--mock-mode", "text"])
    }

    fn hello(&self) -> Probe {
        Probe {
            tool: "ask",
            args: r#"{"prompt":"hi"}"#,
            answer: r#"{"text":"mock response text","usage":{"input_tokens":6,"output_tokens":3,"cached_tokens":0}}"#,
        }
    }

    fn call<'a>(
        &self,
        program: &'a str,
        address: &'a str,
        hello: Probe,
    ) -> LocalFuture<'a, Result<String, Failed>> {
        Box::pin(async move {
            let failed = |error: io::Error| {
                Failed::new(Exit::Failed, "cannot play a model").caused_by(&error)
            };
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
            let url = format!("http://{}", listener.local_addr().map_err(failed)?);
            let words = [program, "exec", "--tools-from", address, "--base-url", &url, "hi"];
            let mut loop_of_tools = Program::new(words.map(str::to_owned).to_vec());
            // Else it would look for the key of the user, who has nothing to do with this.
            let vars = [("OPENAI_API_KEY", "none"), ("NO_PROXY", "127.0.0.1")];
            loop_of_tools.vars.extend(vars.map(|(name, value)| (name.into(), value.into())));
            let running = Running::start(&loop_of_tools);
            let running = running
                .map_err(|error| Failed::new(Exit::Failed, "cannot start").caused_by(&error))?;
            let told = play(&listener, hello).await.map_err(failed)?;
            // What it says to people has no reader here; it is killed with what it has started.
            drop(running);
            Ok(Json::of(&told).as_str().to_owned())
        })
    }
}

/// Plays a model that calls one tool, and gives what it is told of that.
async fn play(listener: &TcpListener, hello: Probe) -> io::Result<String> {
    let arguments = Json::of(&hello.args);
    let call = format!(
        r#"{{"type":"response.output_item.done","item":{{"type":"function_call","id":"f","call_id":"c","name":"{}","arguments":{arguments}}}}}"#,
        hello.tool
    );
    let completed = r#"{"type":"response.completed"}"#;
    asked(listener, &[&call, completed]).await?;
    let told = asked(listener, &[completed]).await?;
    let told: serde_json::Value = serde_json::from_slice(&told)?;
    let items = told["input"].as_array().into_iter().flatten();
    let output = items.filter_map(|item| item["output"].as_str()).next();
    output.map(str::to_owned).ok_or_else(|| io::Error::other("the model was told no output"))
}

/// Awaits one request, answers it with these events, and gives its body.
async fn asked(listener: &TcpListener, events: &[&str]) -> io::Result<Vec<u8>> {
    let (mut stream, _) = listener.accept().await?;
    let body = body(&mut stream).await?;
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{events}",
        events.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(body)
}

async fn body(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        if let Some(head) = request.windows(4).position(|end| end == b"\r\n\r\n") {
            let fields = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
            let len = fields.lines().find_map(|line| line.strip_prefix("content-length:"));
            let len = len.and_then(|len| len.trim().parse().ok()).unwrap_or(0);
            if len <= request.len() - head - 4 {
                return Ok(request.split_off(head + 4));
            }
        }
        if stream.read_buf(&mut request).await? == 0 || REQUEST_BYTES_MAX < request.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
