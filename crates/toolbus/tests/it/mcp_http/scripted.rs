//! Our back before a server that does what the test says.

use std::cell::{Cell, RefCell};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toolbus::peer::settings::{Secret, WireSettings};
use toolbus::wire::mcp::settings::McpSettings;
use toolbus_engine::transport::http::{Exchange, Limits, Server};
use toolbus_proto::tool::FailureKind;

use super::calling::{Passing, back_at, call};
use super::*;

/// An older server, which has moved, keeps a session and offers no stream of its own.
#[test]
fn an_old_server_gets_what_it_needs() {
    run(async {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let (_server, address) = scripted(heard.clone(), |request| {
            let reply = |status: u16| Response::builder().status(status);
            if !request.path.ends_with('/') {
                let moved = reply(307).header("Location", format!("{}/", request.path));
                return moved.body(Bytes::new()).unwrap();
            }
            let json = || reply(200).header("Content-Type", "application/json");
            match &*request.method {
                "initialize" => json().header("Mcp-Session-Id", "s1").body(
                    r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#
                        .into(),
                ),
                "tools/call" => json().body(
                    r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"hi"}]}}"#
                        .into(),
                ),
                "notifications/initialized" => reply(202).body(Bytes::new()),
                "DELETE" => reply(204).body(Bytes::new()),
                "GET" => reply(405).body(Bytes::new()),
                _ => reply(400).body("what?".into()),
            }
            .unwrap()
        })
        .await;
        let headers = vec![("X-Key".to_owned(), Secret::new("k".to_owned()))];
        let mcp = McpSettings { headers, ..McpSettings::default() };
        let settings = Settings { wire: WireSettings::of(mcp), ..Settings::default() };
        let back = back_at(&format!("mcp+http://{address}/mcp"), &settings);
        let said = call(&*back, "say", "{}").await.unwrap();
        assert_eq!(said, Outcome::Text("hi".into()));
        back.shutdown().await;

        let heard = heard.borrow();
        let lines: Vec<_> = heard.iter().filter(|line| line.contains("/mcp/ ")).collect();
        // Where the request for a stream of its own comes among them is a matter of chance.
        for expected in [
            "/mcp/ server/discover session=- version=2026-07-28 key=k",
            "/mcp/ initialize session=- version=- key=k",
            "/mcp/ notifications/initialized session=s1 version=2025-06-18 key=k",
            "/mcp/ tools/call session=s1 version=2025-06-18 key=k",
            "/mcp/ DELETE session=s1 version=2025-06-18 key=k",
        ] {
            assert!(lines.iter().any(|line| **line == expected), "{expected}: {lines:#?}");
        }
    });
}

/// The client asks us for the list, and knows the headers by it. So do we.
#[test]
fn arguments_are_repeated_in_headers_as_the_list_says() {
    run(async {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let (_server, address) = scripted(heard.clone(), |request| {
            let result = match &*request.method {
                "server/discover" => r#""supportedVersions":["2026-07-28"],"capabilities":{}"#,
                "tools/list" => {
                    r#""tools":[{"name":"where","inputSchema":{"type":"object","properties":{"key":{"type":"string","x-mcp-header":"Key"}}}}]"#
                }
                _ => r#""content":[]"#,
            };
            let id = &request.id;
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete",{result}}}}}"#);
            let json = Response::builder().header("Content-Type", "application/json");
            json.body(body.into()).unwrap()
        })
        .await;
        let back = back_at(&format!("mcp+http://{address}/mcp"), &Settings::default());
        let near = Served::with_server(Rc::new(Passing(back))).await;
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
        assert_eq!(near.post(&headers, list).await.status, 200);
        let (headers, call) = modern("where", r#""arguments":{"key":"k"},"#);
        let headers = [&headers[..], &[("Mcp-Param-Key", "k")]].concat();
        let answer = near.post(&headers, &call).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let last = heard.borrow().last().cloned().unwrap();
        assert_eq!(last, "/mcp tools/call session=- version=2026-07-28 key=k");
        near.stop().await;
    });
}

#[test]
fn whoever_watches_hears_that_tools_have_changed() {
    run(async {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let (_server, address) = scripted(heard, |request| {
            let id = &request.id;
            let result =
                |result: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            let reply = Response::builder();
            let json = "application/json";
            match &*request.method {
                "initialize" => reply
                    .header("Content-Type", json)
                    .body(result(r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#).into()),
                "tools/call" => {
                    let changed =
                        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
                    let done = result(r#"{"content":[]}"#);
                    let body = format!("data: {changed}\n\ndata: {done}\n\n");
                    reply.header("Content-Type", "text/event-stream").body(body.into())
                }
                _ => reply.status(405).body(Bytes::new()),
            }
            .unwrap()
        })
        .await;
        let back = back_at(&format!("mcp+http://{address}/mcp"), &Settings::default());
        let changes = Rc::new(Cell::new(0));
        let counted = changes.clone();
        back.watch(Rc::new(move || counted.set(counted.get() + 1)));
        call(&*back, "say", "{}").await.unwrap();
        assert_eq!(changes.get(), 1);
        back.shutdown().await;
    });
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    run(async {
        let listener = Listener::tcp("127.0.0.1", 0).await.unwrap();
        let Whereabouts::Tcp(address) = listener.whereabouts().unwrap() else { panic!("no TCP") };
        let kept = RefCell::new(Vec::new());
        let server =
            Server::start(listener, Limits::default(), move |asked| kept.borrow_mut().push(asked));
        let start_timeout = Some(Duration::from_millis(200));
        let settings = Settings { start_timeout, ..Settings::default() };
        let back = back_at(&format!("mcp+http://{address}/mcp"), &settings);
        let failure = call(&*back, "say", "{}").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(failure.message, "the server did not introduce itself within 200ms");
        drop(server);
    });
}

/// It had the request, so it is gone, not unavailable.
#[test]
fn a_server_that_dies_in_the_middle_of_a_call_is_gone() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let dies = spawn_local(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            skip_request(&mut stream).await;
            let body = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}"#;
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            // The call.
            skip_request(&mut stream).await;
        });
        let back = back_at(&format!("mcp+http://{address}/mcp"), &Settings::default());
        let failure = call(&*back, "say", "{}").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Gone, "{failure}");
        dies.await.unwrap();
    });
}

async fn skip_request(stream: &mut BufReader<TcpStream>) {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length]).await.unwrap();
}

/// What a server heard.
struct Heard {
    path: String,
    /// The method of the message, or of the request if it has none.
    method: String,
    /// The id of the message, as it was written.
    id: String,
}

async fn scripted(
    heard: Rc<RefCell<Vec<String>>>,
    answer: impl Fn(&Heard) -> Response<Bytes> + 'static,
) -> (Server, SocketAddr) {
    let listener = Listener::tcp("127.0.0.1", 0).await.unwrap();
    let Whereabouts::Tcp(address) = listener.whereabouts().unwrap() else { panic!("no TCP") };
    let answer = Rc::new(answer);
    let server = Server::start(listener, Limits::default(), move |exchange| {
        let (heard, answer) = (heard.clone(), answer.clone());
        spawn_local(async move {
            let Exchange { head, mut body, responder, .. } = exchange;
            let body = body.collect(1 << 20, PATIENCE).await.unwrap();
            let message: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
            let method = message.as_ref().and_then(|message| message["method"].as_str());
            let method = method.unwrap_or(head.method.as_str()).to_owned();
            let header = |name| head.headers.get(name).map_or("-", |value| value.to_str().unwrap());
            let path = head.uri.path().to_owned();
            let id = message.as_ref().map(|message| message["id"].to_string()).unwrap_or_default();
            let key = head.headers.contains_key("X-Key").then_some("X-Key");
            heard.borrow_mut().push(format!(
                "{path} {method} session={} version={} key={}",
                header("Mcp-Session-Id"),
                header("MCP-Protocol-Version"),
                header(key.unwrap_or("Mcp-Param-Key")),
            ));
            responder.respond_whole(answer(&Heard { path, method, id }));
        });
    });
    (server, address)
}
