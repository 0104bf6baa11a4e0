//! The targets of the fuzzer over their seeds, the golden conversations, and bytes by chance.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use toolbus_testkit::fuzz::mcp::{client, endpoint, http_client, server};
use toolbus_testkit::fuzz::mediocre::{connection, decoder};
use toolbus_testkit::fuzz::oracle::{codec, executor, oracle, signatures};

type Body = fn(&[u8]);

const TARGETS: [(&str, Body); 10] = [
    ("oracle_signatures", signatures),
    ("oracle_codec", codec),
    ("oracle_executor", executor),
    ("oracle_oracle", oracle),
    ("mediocre_decoder", decoder),
    ("mediocre_connection", connection),
    ("mcp_client", client),
    ("mcp_server", server),
    ("mcp_endpoint", endpoint),
    ("mcp_http_client", http_client),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn seeds() {
    for (target, body) in TARGETS {
        let folder = root().join("fuzz/seeds").join(target);
        let seeds: Vec<_> = fs::read_dir(folder).expect("each target has seeds").collect();
        assert!(!seeds.is_empty(), "{target}");
        for seed in seeds {
            let seed = seed.expect("can be listed").path();
            let data = fs::read(&seed).expect("can be read");
            // Cut anywhere, it is another seed.
            (0..=data.len()).for_each(|end| body(&data[..end]));
        }
    }
}

#[test]
fn conversations() {
    for (folder, body) in [
        ("oracle/calling", executor as Body),
        ("oracle/serving", oracle),
        ("mcp/calling", client),
        ("mcp/serving", server),
    ] {
        let folder = root().join("transcripts").join(folder);
        for file in fs::read_dir(folder).expect("the transcripts are there") {
            let text = fs::read_to_string(file.expect("can be listed").path()).expect("is text");
            let heard = text.lines().filter_map(|line| line.strip_prefix("<< "));
            body(heard.collect::<Vec<_>>().join("\n").as_bytes());
        }
    }
}

/// Pieces of messages, put together by chance.
const PIECES: [&[u8]; 14] = [
    br#"{"jsonrpc":"2.0","id":0,"method":"ready"}"#,
    br#"{"jsonrpc":"2.0","#,
    br#""id":0,"#,
    br#""id":1}"#,
    br#""result":["0x1"]}"#,
    br#""error":{"code":-32000,"message":"no"}}"#,
    br#""method":"invoke","params":{"selector":"g","calldata":[]}}"#,
    br#""method":"shutdown"}"#,
    b"\n",
    b"\xfe",
    b"\xfe\xff\x01",
    b"\xfe\xff\x40",
    b"{",
    b"\xc3",
];

fn messages() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24);
    pieces.prop_map(|pieces| pieces.concat())
}

/// The same for MCP: lines, and requests and answers over HTTP.
const MCP_PIECES: [&[u8]; 26] = [
    br#"{"jsonrpc":"2.0","id":1,"#,
    br#"{"jsonrpc":"2.0","id":2,"#,
    br#"{"jsonrpc":"2.0","id":3,"#,
    br#"{"jsonrpc":"2.0","id":"q","#,
    br#"{"jsonrpc":"2.0","#,
    br#""result":{"protocolVersion":"2025-03-26","capabilities":{}}}"#,
    br#""result":{"supportedVersions":["2026-07-28"]}}"#,
    br#""result":{"tools":[{"name":"a"}],"nextCursor":"n"}}"#,
    br#""error":{"code":-32602,"message":"no"}}"#,
    br#""method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#,
    br#""method":"tools/call","params":{"name":"a","_meta":{"progressToken":"t"}}}"#,
    br#""method":"elicitation/create","params":{}}"#,
    br#""method":"notifications/cancelled","params":{"requestId":1}}"#,
    b"\n",
    b"\xfe",
    b"\xfe\xff\x01",
    b"\xfe\xff\x05",
    b"\xfe\xff\x40",
    b"\xfePOST\nContent-Type:application/json\nAccept:*/*\nMcp-Session-Id:s1\n\n",
    b"\xfePOST\nContent-Type:application/json\nMCP-Protocol-Version:2026-07-28\n\n",
    b"\xfeGET\nAccept:text/event-stream\nMcp-Session-Id:s1\n\n",
    b"\xfe\x00\x00",
    b"\xfe\x01\x21id: 1\ndata: ",
    b"\n\n",
    b"\xfe\x00\x42",
    b"\xfe\x00\x80",
];

fn mcp() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(&MCP_PIECES[..]), 0..40);
    pieces.prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn bytes_by_chance(data in prop::collection::vec(any::<u8>(), 0..200)) {
        TARGETS.iter().for_each(|(_, body)| body(&data));
    }

    #[test]
    fn messages_by_chance(data in messages()) {
        executor(&data);
        oracle(&data);
    }

    #[test]
    fn mcp_by_chance(data in mcp()) {
        client(&data);
        server(&data);
        endpoint(&data);
        http_client(&data);
    }

    #[test]
    fn signatures_by_chance(text in "(struct|enum|fn|f)[ (){}<>,:;a-c]{0,30}(u8|Option<u8>|->|Array)?[ (){}<>,:;]{0,8}") {
        signatures(text.as_bytes());
    }
}
