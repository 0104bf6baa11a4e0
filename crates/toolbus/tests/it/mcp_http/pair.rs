//! The old HTTP+SSE on real sockets: our back before our own front, and both with peers that know
//! only bytes.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toolbus_proto::tool::FailureKind;

use super::calling::{back_at, call};
use super::*;

async fn served() -> Served {
    let options = Options { sse: true, ..Options::default() };
    Served::with(options, builtin().await).await
}

/// By its own scheme, and found out behind a URL that would be streamable HTTP.
#[test]
fn our_back_calls_our_front() {
    run(async {
        let served = served().await;
        for scheme in ["mcp+sse", "mcp+http"] {
            let address = format!("{scheme}://{}/sse", served.address);
            let back = back_at(&address, &Settings::default());
            for text in ["hi", &"x".repeat(300_000)] {
                let said = call(&*back, "upper", &format!(r#"{{"text":"{text}"}}"#)).await.unwrap();
                assert_eq!(said, Outcome::Text(text.to_uppercase()), "{scheme}");
            }
            let failed = call(&*back, "no-such-tool", "{}").await.unwrap_err();
            assert_eq!(failed.kind, FailureKind::UnknownTool, "{failed}");
            back.shutdown().await;
        }
        served.stop().await;
    });
}

/// A client opens a stream and reads where to post.
async fn open(served: &Served) -> (Body, String) {
    let request = with(Request::get("/sse"), &[("Accept", "text/event-stream")]);
    let mut body = served.send(request).await.into_body();
    let first = read_until(&mut body, "\n\n").await;
    let path = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end().to_owned();
    let name = path.strip_prefix("/messages?session=").unwrap();
    assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    (body, path)
}

async fn post_to(served: &Served, path: &str, message: &str) -> Whole {
    let request = with(Request::post(path), &[("Content-Type", "application/json")]);
    whole(served.send(request.map(|_| Bytes::copy_from_slice(message.as_bytes()))).await).await
}

#[test]
fn what_is_posted_is_answered_on_the_stream() {
    run(async {
        let (puppet, mut strings) = puppet();
        let options = Options { sse: true, ..Options::default() };
        let served = Served::with(options, puppet).await;
        let (mut body, path) = open(&served).await;
        post_to(&served, &path, INITIALIZE).await.is(202, "");
        read_until(&mut body, r#""id":0,"result""#).await;
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}"#;
        post_to(&served, &path, call).await.is(202, "");
        let reply = strings.calls.recv().await.unwrap();
        let done = Down::Done(Ok(Outcome::Text("done".into())));
        let _ = reply.send(done);
        let said = read_until(&mut body, "\n\n").await;
        assert_eq!(
            said,
            "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}}\n\n"
        );
        // The session ends with its stream, and what it has under way is cancelled.
        post_to(&served, &path, call).await.is(202, "");
        let _reply = strings.calls.recv().await.unwrap();
        drop(body);
        strings.cancels.recv().await.unwrap();
        assert_eq!(post_to(&served, &path, call).await.status, 404);
        served.stop().await;
    });
}

/// What is under way when we are to stop may end, as on any other stream.
#[test]
fn a_front_that_stops_waits_for_the_last_answers() {
    run(async {
        let (puppet, mut strings) = puppet();
        let options = Options { sse: true, ..Options::default() };
        let served = Served::with(options, puppet).await;
        let (mut body, path) = open(&served).await;
        post_to(&served, &path, INITIALIZE).await.is(202, "");
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}"#;
        post_to(&served, &path, call).await.is(202, "");
        let reply = strings.calls.recv().await.unwrap();
        served.stop.send(()).unwrap();
        let answering = async {
            let _ = reply.send(Down::Done(Ok(Outcome::Text("done".into()))));
            read_until(&mut body, r#""text":"done""#).await;
            while body.next().await.unwrap().is_some() {}
        };
        tokio::join!(answering, async { served.task.await.unwrap() });
    });
}

/// A server of which the test writes every byte.
struct Scripted {
    listener: TcpListener,
}

impl Scripted {
    async fn new() -> (Scripted, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (Scripted { listener }, address)
    }

    /// The next request: its first line with the header fields that matter, and its body.
    async fn request(&self) -> (BufReader<TcpStream>, String, String) {
        let (socket, _) = self.listener.accept().await.unwrap();
        let mut socket = BufReader::new(socket);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).await.unwrap();
            let line = line.trim_end();
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            match &*name.to_ascii_lowercase() {
                "" => break,
                "content-length" => length = value.parse().unwrap(),
                "host" => {}
                _ => head.push_str(&format!("{line}\n")),
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.unwrap();
        (socket, head, String::from_utf8(body).unwrap())
    }

    async fn stream(&self) -> BufReader<TcpStream> {
        let (mut stream, head, _) = self.request().await;
        assert!(head.starts_with("GET /events?k=1 HTTP/1.1\n"), "{head}");
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(b"event: endpoint\r\ndata: post?s=7\r\n\r\n").await.unwrap();
        stream
    }

    /// Takes the next message, which is posted.
    async fn take(&self, status: &str) -> (String, String) {
        let (mut socket, head, body) = self.request().await;
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        socket.write_all(answer.as_bytes()).await.unwrap();
        (head, body)
    }

    async fn greet(&self, stream: &mut BufReader<TcpStream>) {
        let (_, body) = self.take("202 Accepted").await;
        assert!(body.contains(r#""id":1,"method":"initialize""#), "{body}");
        let greeting = r#"data: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}"#;
        stream.write_all(format!("{greeting}\n\n").as_bytes()).await.unwrap();
        let (_, body) = self.take("200 OK").await;
        assert_eq!(body, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }
}

/// The stream's end is the connection's, and the next call opens another.
#[test]
fn a_stream_that_ends_fails_its_calls_and_the_next_opens_another() {
    run(async {
        let (server, address) = Scripted::new().await;
        let back = back_at(&format!("mcp+sse://{address}/events?k=1"), &Settings::default());
        let serving = async {
            let mut stream = server.stream().await;
            server.greet(&mut stream).await;
            let (head, body) = server.take("202 Accepted").await;
            assert_eq!(head, "POST /post?s=7 HTTP/1.1\ncontent-type: application/json\n");
            assert!(body.contains("tools/call"), "{body}");
            drop(stream);
            let mut stream = server.stream().await;
            server.greet(&mut stream).await;
            server.take("202 Accepted").await;
            let answer = r#"data: {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"two"}]}}"#;
            stream.write_all(format!("{answer}\n\n").as_bytes()).await.unwrap();
            server.take("503 Busy").await;
            stream
        };
        let calling = async {
            let gone = call(&*back, "a", "{}").await.unwrap_err();
            assert_eq!(
                (gone.kind, &*gone.message),
                (FailureKind::Gone, "the server ended its stream of events",)
            );
            assert_eq!(call(&*back, "b", "{}").await.unwrap(), Outcome::Text("two".into()));
            let refused = call(&*back, "c", "{}").await.unwrap_err();
            assert_eq!(refused.message, "the server answered with HTTP status 503");
        };
        let (_stream, ()) = tokio::join!(serving, calling);
        back.shutdown().await;
    });
}

#[test]
fn no_message_goes_to_another_host() {
    run(async {
        let (server, address) = Scripted::new().await;
        let (evil, elsewhere) = Scripted::new().await;
        let back = back_at(&format!("mcp+sse://{address}/events"), &Settings::default());
        let serving = async {
            let (mut stream, ..) = server.request().await;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nevent: endpoint\ndata: http://{elsewhere}/m\n\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let (_stream, failed) = tokio::join!(serving, call(&*back, "a", "{}"));
        let failed = failed.unwrap_err();
        assert_eq!(failed.kind, FailureKind::BrokeProtocol, "{failed}");
        back.shutdown().await;
        let nothing = std::future::poll_fn(|context| evil.listener.poll_accept(context));
        tokio::select! {
            biased;
            _ = nothing => panic!("a message went to another host"),
            () = std::future::ready(()) => {}
        }
    });
}
