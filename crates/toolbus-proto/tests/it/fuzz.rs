//! The targets of the fuzzer over their seeds, the golden conversations, and bytes by chance.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use toolbus_testkit::fuzz::edit;
use toolbus_testkit::fuzz::godex;
use toolbus_testkit::fuzz::lock;
use toolbus_testkit::fuzz::mcp::{client, endpoint, events, http_client, server, sse_client};
use toolbus_testkit::fuzz::mediocre::{connection, decoder};
use toolbus_testkit::fuzz::nats;
use toolbus_testkit::fuzz::oracle::{codec, executor, oracle, signatures};
use toolbus_testkit::fuzz::orchard;
use toolbus_testkit::fuzz::orchestra;
use toolbus_testkit::fuzz::registry;
use toolbus_testkit::fuzz::view;

type Body = fn(&[u8]);

const TARGETS: [(&str, Body); 31] = [
    ("oracle_signatures", signatures),
    ("oracle_codec", codec),
    ("oracle_executor", executor),
    ("oracle_oracle", oracle),
    ("orchard_types", orchard::types),
    ("orchard_schema", orchard::schema),
    ("orchard_host", orchard::host),
    ("orchard_provider", orchard::provider),
    ("mediocre_decoder", decoder),
    ("mediocre_connection", connection),
    ("nats_reader", nats::reader),
    ("nats_client", nats::client),
    ("nats_server", nats::server),
    ("mcp_client", client),
    ("mcp_server", server),
    ("mcp_endpoint", endpoint),
    ("mcp_http_client", http_client),
    ("mcp_sse_client", sse_client),
    ("sse_events", events),
    ("orchestra_codec", orchestra::codec),
    ("orchestra_client", orchestra::client),
    ("orchestra_server", orchestra::server),
    ("orchestra_stdio", orchestra::stdio),
    ("godex_run", godex::run),
    ("godex_ask", godex::ask),
    ("view_patterns", view::patterns),
    ("view_arguments", view::arguments),
    ("lock_file", lock::file),
    ("edit_jsonc", edit::jsonc),
    ("edit_tables", edit::tables),
    ("registry_document", registry::document),
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
        ("orchard/calling", orchard::host),
        ("orchard/serving", orchard::provider),
        ("godex/ask", godex::ask),
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
const MCP_PIECES: [&[u8]; 33] = [
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
    b"\xfeGET /sse\nOrigin:https://app.example\n\n ",
    b"\xfePOST /messages?session=s1\nContent-Type:application/json\n\n",
    b"\xfeOPTIONS /messages\nOrigin:https://app.example\n\n ",
    b"\xfe\x00\x21event: endpoint\ndata: /m?s=1\n\n",
    b"\xfe\x00\xa1data: ",
    b"\xfe\x01\x41",
    b"\xfe\x01\x46",
];

fn mcp() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(&MCP_PIECES[..]), 0..40);
    pieces.prop_map(|pieces| pieces.concat())
}

/// Events of a server and lines of a child.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&[u8]; 30] = [
        b"data: ",
        b"\n\n",
        b"\n",
        b"{\"type\":\"response.output_item.added\",",
        b"{\"type\":\"response.output_item.done\",",
        b"{\"type\":\"response.function_call_arguments.delta\",",
        b"{\"type\":\"response.function_call_arguments.done\",",
        b"{\"type\":\"response.output_text.delta\",",
        b"{\"type\":\"response.output_text.done\",",
        b"{\"type\":\"response.content_part.added\",",
        b"{\"type\":\"response.refusal.delta\",",
        b"{\"type\":\"response.completed\"}",
        b"{\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":null}}}",
        b"{\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"function_call\",\"call_id\":\"a\"}]}}",
        b"{\"type\":\"error\"}",
        b"\"item\":{\"type\":\"function_call\",\"id\":\"a\",\"arguments\":\"{}\"}}",
        b"\"item\":{\"type\":\"function_call\",\"call_id\":\"b\",\"arguments\":{}}}",
        b"\"item\":{\"type\":\"function_call\",\"name\":\"f\"}}",
        b"\"item\":{\"type\":\"message\",\"id\":1}}",
        b"\"output_index\":0,",
        b"\"output_index\":1,",
        b"\"item_id\":\"a\",",
        b"\"item_id\":\"item_b\",",
        b"\"delta\":\"{\"}",
        b"\"delta\":\"\\ud83d\"}",
        b"\"text\":\"t\"}",
        b"\"part\":{\"type\":\"output_text\"}}",
        b"\xfe",
        b"\xfe\xff\x00",
        b"\xfe\xff\x01",
    ];
    let pieces = prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60);
    let whole = prop::sample::select(&PIECES[3..11]);
    let rest = prop::sample::select(&PIECES[15..27]);
    let index = prop::sample::select(&PIECES[19..23]);
    let event = (whole, index, rest)
        .prop_map(|(kind, index, rest)| [b"data: ", kind, index, rest, b"\n\n"].concat());
    let events = prop::collection::vec(event, 0..12);
    prop_oneof![
        pieces.prop_map(|pieces| pieces.concat()),
        (events, any::<bool>()).prop_map(|(events, ends)| {
            let end: &[u8] = if ends { b"data: {\"type\":\"response.done\"}\n\n" } else { b"" };
            [&events.concat(), end].concat()
        }),
    ]
}

/// Pieces of frames, each on some stream, with ends and other things between them.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&[u8]; 12] = [
        b"\0\0\0\x06\x0a\x02h1\x6a\x00",
        b"\0\0\0\x08\x0a\x01c\xa2\x01\x03\x0a\x01t",
        b"\0\0\0\x09\xc2\x02\x06\x0a\x01s\x12\x01t",
        b"\0\0\0\x06\xca\x02\x03\x0a\x01s",
        b"\0\0\0\x09\x92\x03\x06\x0a\x01i\x12\x01n",
        b"\0\0\0\x06\xa2\x03\x03\x0a\x01n",
        b"\0\0\0\x06\x9a\x03\x03\x0a\x01i",
        b"\0\0\0\x05\xa2\x01\x02\x08\x01",
        b"\0\0\0\x0c\xa2\x01\x09\x1a\x07unknown",
        b"\0\0\0\x02\x62\x00",
        b"\0\0\x00",
        b"\x01\0\0\x01",
    ];
    let piece = (0u8..6, prop::sample::select(&PIECES[..]))
        .prop_map(|(stream, piece)| [&[stream << 3, piece.len() as u8], piece].concat());
    let other = (0u8..6, 5u8..8, any::<u8>())
        .prop_map(|(stream, what, kind)| vec![stream << 3 | what, kind]);
    let steps = prop::collection::vec(prop_oneof![3 => piece, 1 => other], 0..24);
    steps.prop_map(|steps| steps.concat())
}

/// Pieces of Orchard's frames, put together by chance.
const FRAMES: [&[u8]; 18] = [
    br#"{"id":1,"result":{"schema":{"name":"e","protocol":"1","actions":{"a":{"attrs":{"x":{"type":"any"}}}}}}}"#,
    br#"{"id":2,"result":{}}"#,
    br#"{"id":3,"#,
    br#""result":{"outputs":{"a":1}}}"#,
    br#""result":null}"#,
    br#""error":{"code":"execute_failed","message":"no"}}"#,
    br#"{"id":4,"method":"execute","params":{"action":"b"}}"#,
    br#"{"id":5,"method":"execute","params":{"action":"a","attrs":{"n":1}}}"#,
    br#"{"id":6,"method":"shutdown"}"#,
    b"noise",
    b"\n",
    b"\r\n",
    b"\xfe",
    b"\xfe\xff\x01",
    b"\xfe\xff\x03",
    b"\xfe\xff\x3e",
    b"{",
    b"\xc3",
];

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(&FRAMES[..]), 0..24);
    pieces.prop_map(|pieces| pieces.concat())
}

/// The text of something like a type, and of a value behind it.
const TYPES: &str = "(list\\(|set\\(|map\\(|tuple\\(\\[|object\\(\\{a=)?(string|number|bool|any|optional\\(any,[1-9]\\)|object\\(\\{\\}\\))[\\])}]{0,3}\0(\\[?(\"a\"|1.50|1e2|null|true),?(\"1\"|2)?\\]?|\\{\"a\":[1-9]\\})";

/// Some arguments that are fixed, and some that are given, or a schema.
const ARGUMENTS: &str = "\\{(\"[a-c]\":(1|\"x\"))?(,\"[ab]\":\\[\\])?\\}\0(\\[\\]|null|\\{(\"[a-d]\" ?: ?1e400 ?,)?(\"properties\":\\{(\"\\\\u0061\":[1-9],)?\"b\":\\{\\}\\},)?(\"required\": ?\\[\"[a-d]\" ?(, ?\"[a-d]\")?\\],)? ?\"[a-d]\":\"\\\\u00e9\"\\})";

/// Members of server documents, put together by chance.
fn documents() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&str; 16] = [
        r#""packages":[{"registryType":"npm","identifier":"@x/y","version":"1","transport":{"type":"stdio"}}]"#,
        r#""packages":[{"registryType":"oci","identifier":"h/x:1@s","runtimeHint":"podman","transport":{"type":"stdio"},"environmentVariables":[{"name":"A","isRequired":true}]}]"#,
        r#""packages":[{"registryType":"pypi","identifier":"x","runtimeHint":"sh","transport":{"type":"stdio"},"packageArguments":[{"type":"positional","valueHint":"path","value":"{a}{b","variables":{"a":{"default":"\u00e9"}}}]}]"#,
        r#""packages":[{"registryType":"npm","identifier":"x","transport":{"type":"stdio"},"packageArguments":[{"name":"--\n"}]}]"#,
        r#""packages":null"#,
        r#""remotes":[{"type":"sse","url":"https://h/{t}","variables":{"t":{"default":"\n"}}}]"#,
        r#""remotes":[{"type":"streamable-http","url":"{t}://h/","variables":{"t":{"default":"http"}}}]"#,
        r#""remotes":[{"type":"streamable-http","url":"http://localhost/","headers":[{"name":"A","value":"{x}"}]}]"#,
        r#""description":"a\u0000\u001b\nb""#,
        r#""version":"1\n""#,
        r#""_meta":{"io.modelcontextprotocol.registry/official":{"status":"deleted"}}"#,
        r#""mcpServers":{"toolbus":{},}"#,
        r#""mcpServers":{"a":[1,{}] // }"#,
        r#""mcpServers":{/* { */}"#,
        r#""servers":[{"name":"a.b/c"}]"#,
        r#""x":{"y":[]}"#,
    ];
    let pieces = prop::collection::vec(prop::sample::select(&PIECES[..]), 0..5);
    let gap = prop::sample::select(vec!["", " ", "\n  ", "\r\n\t", "/*,*/", "//{\n"]);
    (pieces, gap.clone(), gap, any::<bool>()).prop_map(|(pieces, before, behind, has_comma)| {
        let mut text = format!("{before}{{\"name\":\"a.b/c\"");
        for piece in pieces {
            text += &format!(",{before}{piece}{behind}");
        }
        text += if has_comma { "," } else { "" };
        (text + behind + "}").into_bytes()
    })
}

proptest! {
    #[test]
    fn streams_by_chance(data in streams(), role in 0u8..2) {
        orchestra::client(&data);
        orchestra::server(&[&[role], &data[..]].concat());
    }

    #[test]
    fn answers_by_chance(data in answers(), choice in 0u8..16) {
        godex::run(&[&[choice], &data[..]].concat());
        godex::ask(&data);
        let lines = String::from_utf8_lossy(&data).replace("data: ", "").into_bytes();
        godex::ask(&lines);
    }

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
        sse_client(&data);
        events(&data);
    }

    #[test]
    fn signatures_by_chance(text in "(struct|enum|fn|f)[ (){}<>,:;a-c]{0,30}(u8|Option<u8>|->|Array)?[ (){}<>,:;]{0,8}") {
        signatures(text.as_bytes());
    }

    #[test]
    fn frames_by_chance(data in frames()) {
        orchard::host(&data);
        orchard::provider(&data);
    }

    #[test]
    fn patterns_by_chance(text in "[*?a.ß]{0,10}\0[a.ßé]{0,12}") {
        view::patterns(text.as_bytes());
    }

    #[test]
    fn documents_by_chance(data in documents()) {
        registry::document(&data);
        edit::jsonc(&data);
    }

    #[test]
    fn arguments_by_chance(text in ARGUMENTS) {
        view::arguments(text.as_bytes());
    }

    #[test]
    fn types_by_chance(text in TYPES) {
        orchard::types(text.as_bytes());
    }
}

/// Messages of a NATS server, with events between them: the seeds cut into operations and mixed.
fn operations() -> impl Strategy<Value = Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for target in ["nats_client", "nats_server"] {
        let folder = root().join("fuzz/seeds").join(target);
        for seed in fs::read_dir(folder).expect("each target has seeds") {
            let data = fs::read(seed.expect("can be listed").path()).expect("can be read");
            let starts = |at: &usize| {
                let rest = &data[*at..];
                [&b"MSG"[..], b"HMSG", b"PONG", b"-ERR", b"\xff"]
                    .iter()
                    .any(|it| rest.starts_with(it))
            };
            let mut cuts: Vec<usize> = (0..data.len()).filter(starts).collect();
            cuts.dedup();
            cuts.push(data.len());
            pieces.extend(cuts.windows(2).map(|cut| [b"\xfe", &data[cut[0]..cut[1]]].concat()));
        }
    }
    pieces.sort();
    let pieces = prop::collection::vec(prop::sample::select(pieces), 0..24);
    // Behind what lets both ends begin.
    pieces.prop_map(|pieces| [&b"PONG\r\n"[..], &pieces.concat()].concat())
}

proptest! {
    #[test]
    fn nats_by_chance(data in operations()) {
        nats::reader(&data);
        nats::client(&data);
        nats::server(&data);
    }
}
