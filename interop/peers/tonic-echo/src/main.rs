//! A tonic client and a tonic server that echoes, for `benches/mediocre`.
//!
//! `tonic-echo call TEXT ELEMENTS` starts the server, `tonic-echo serve`, and for each number
//! read on standard input makes so many calls, one after the other, and prints `done`. The
//! service is written by hand, as `tonic-build` would write it: that needs no `protoc`.

mod service;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use service::{Echo, Text};
use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// On one thread, as our own ends.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => serve().await,
        ["call", text, elements] => call(text, elements.parse()?).await,
        _ => Err("usage: tonic-echo serve | call TEXT ELEMENTS".into()),
    }
}

/// Prints its port and serves until it is killed.
async fn serve() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let arrivals = TcpListenerStream::new(listener).map(|stream| {
        let stream = stream?;
        stream.set_nodelay(true)?;
        Ok::<_, std::io::Error>(stream)
    });
    Ok(Server::builder().add_service(Echo).serve_with_incoming(arrivals).await?)
}

async fn call(text: &str, elements: usize) -> Outcome {
    let mut server =
        Command::new(std::env::current_exe()?).arg("serve").stdout(Stdio::piped()).spawn()?;
    let mut port = String::new();
    let stdout = server.stdout.take().ok_or("it is a pipe")?;
    BufReader::new(stdout).read_line(&mut port)?;
    let endpoint = Endpoint::try_from(format!("http://127.0.0.1:{}", port.trim()))?;
    let mut client = Grpc::new(endpoint.tcp_nodelay(true).connect().await?);
    // Nothing else runs here while we wait to be told.
    for line in std::io::stdin().lock().lines() {
        for _ in 0..line?.parse()? {
            match elements {
                0 => single(&mut client, text).await?,
                _ => stream(&mut client, text, elements).await?,
            }
        }
        println!("done");
        std::io::stdout().flush()?;
    }
    server.kill()?;
    server.wait()?;
    Ok(())
}

async fn single(client: &mut Grpc<Channel>, text: &str) -> Outcome {
    client.ready().await?;
    let request = Request::new(Text { text: text.to_owned() });
    let path = service::SINGLE.parse()?;
    let codec = ProstCodec::<Text, Text>::default();
    let answer = client.unary(request, path, codec).await?.into_inner();
    assert_eq!(answer.text, text);
    Ok(())
}

async fn stream(client: &mut Grpc<Channel>, text: &str, elements: usize) -> Outcome {
    client.ready().await?;
    let text = Text { text: text.to_owned() };
    let sent = tokio_stream::iter(std::iter::repeat_n(text.clone(), elements));
    let path = service::STREAM.parse()?;
    let codec = ProstCodec::<Text, Text>::default();
    let answer = client.streaming(Request::new(sent), path, codec).await?;
    let mut answer: Streaming<Text> = answer.into_inner();
    let mut received = 0;
    while let Some(element) = answer.message().await? {
        assert_eq!(element, text);
        received += 1;
    }
    assert_eq!(received, elements);
    Ok(())
}
