//! Fronts that are searched: what they list, find and call, on each wire, in views and without.

use std::collections::BTreeMap;

use expect_test::expect;
use toolbus_testkit::patience::eventually;

use crate::lock::Folder;
use crate::page::{Page, ourselves};

const SMALL: &str = "[back.small]\nconnect = \"builtin:\"\n";

const VIEWS: &str = r#"
[back.small]
connect = "builtin:"

[back.dark]
connect = "builtin:"

[view.reader]
show = ["a.*", "small.add", "small.up*"]
search = true
always = ["*.alerts"]

[view.reader.tool."a.forecast"]
rename = "sky"
description = "What the sky will do"
fixed = { city = "Rome" }

[view.loud]
search = false
"#;

const LEGACY: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// What an MCP client is answered, one line for each request: a method, with the members of its
/// parameters.
fn mcp(folder: &Folder, words: &str, is_modern: bool, asked: &[(&str, &str)]) -> String {
    let mut said = if is_modern { String::new() } else { LEGACY.to_owned() };
    for (id, (method, members)) in (1..).zip(asked) {
        let meta = if is_modern { META } else { "" };
        let members: Vec<_> =
            [*members, meta].into_iter().filter(|part| !part.is_empty()).collect();
        let members = members.join(",");
        said += &format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{members}}}}}\n"
        );
    }
    let page = folder.page(words).stdin(said).run().to_string();
    let mut answers = BTreeMap::new();
    for line in page.lines() {
        let rest =
            line.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":").and_then(|rest| rest.split_once(','));
        if let Some((id, rest)) = rest
            && id != "0"
        {
            answers.insert(id.parse::<usize>().unwrap(), format!("{id} {rest}\n"));
        }
    }
    assert_eq!(answers.len(), asked.len(), "{page}");
    // The two tools are looked at by tests of their own.
    let list = answers.into_values().collect::<String>();
    let shorter = |list: String, name: &str| match list
        .split_once(&format!("{{\"name\":\"{name}\","))
    {
        Some((before, rest)) => {
            let (_, after) = rest.split_once("\"required\":[").unwrap();
            let (_, after) = after.split_once("]}").unwrap();
            let after = after
                .strip_prefix(",\"annotations\":{\"readOnlyHint\":true,\"idempotentHint\":true}")
                .unwrap_or(after);
            format!("{before}<{name}>{}", after.strip_prefix('}').unwrap())
        }
        None => list,
    };
    shorter(shorter(list, "toolbus_call"), "toolbus_search")
}

#[test]
fn a_view_says_what_is_found_and_called() {
    let folder = Folder::of(&["a"], VIEWS);
    let calls = [
        ("tools/list", ""),
        ("tools/call", r#""name":"toolbus_search","arguments":{"query":"what will the sky do"}"#),
        ("tools/call", r#""name":"toolbus_search","arguments":{"query":"forecast"}"#),
        ("tools/call", r#""name":"toolbus_search","arguments":{"query":"wait milliseconds"}"#),
        ("tools/call", r#""name":"toolbus_call","arguments":{"name":"a.sky"}"#),
        (
            "tools/call",
            r#""name":"toolbus_call","arguments":{"name":"a_sky","arguments":{"city":"Oslo"}}"#,
        ),
        ("tools/call", r#""name":"toolbus_call","arguments":{"name":"a.forecast"}"#),
        ("tools/call", r#""name":"toolbus_call","arguments":{"name":"small.echo"}"#),
        ("tools/call", r#""name":"toolbus_call","arguments":{"name":"toolbus_call"}"#),
        ("tools/call", r#""name":"small_upper","arguments":{"text":"hi"}"#),
        ("tools/call", r#""name":"toolbus_call","arguments":{"name":"dark.add"}"#),
        ("tools/call", r#""name":"toolbus_call","arguments":{"name":"nope.add"}"#),
    ];
    let expect = expect![[r#"
        1 "result":{"tools":[<toolbus_call>,<toolbus_search>,{"name": "a_alerts", "description": "Warnings of storms", "inputSchema": {"type": "object"}}]}}
        2 "result":{"content":[{"type":"text","text":"{\"tools\":[{\"name\":\"a_sky\",\"description\":\"What the sky will do\",\"inputSchema\":{\"type\":\"object\",\"properties\":{}}}],\"unmatched\":[],\"more\":0}"}],"structuredContent":{"tools":[{"name":"a_sky","description":"What the sky will do","inputSchema":{"type":"object","properties":{}}}],"unmatched":[],"more":0}}}
        3 "result":{"content":[{"type":"text","text":"{\"tools\":[],\"unmatched\":[\"forecast\"],\"more\":0,\"note\":\"no tool fits; searching again with other words for the same thing will rarely help\"}"}],"structuredContent":{"tools":[],"unmatched":["forecast"],"more":0,"note":"no tool fits; searching again with other words for the same thing will rarely help"}}}
        4 "result":{"content":[{"type":"text","text":"{\"tools\":[],\"unmatched\":[\"wait\",\"milliseconds\"],\"more\":0,\"note\":\"no tool fits; searching again with other words for the same thing will rarely help\"}"}],"structuredContent":{"tools":[],"unmatched":["wait","milliseconds"],"more":0,"note":"no tool fits; searching again with other words for the same thing will rarely help"}}}
        5 "result":{"content": [{"type": "text", "text": "did forecast"}]}}
        6 "result":{"content":[{"type":"text","text":"`a_sky` takes no argument `city`"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        7 "error":{"code":-32602,"message":"unknown tool: a_forecast"}}
        8 "error":{"code":-32602,"message":"unknown tool: small_echo"}}
        9 "error":{"code":-32602,"message":"unknown tool: toolbus_call"}}
        10 "result":{"content":[{"type":"text","text":"HI"}]}}
        11 "error":{"code":-32602,"message":"unknown tool: dark.add"}}
        12 "error":{"code":-32602,"message":"unknown tool: nope.add"}}
    "#]];
    expect.assert_eq(&mcp(&folder, "mcp --view reader", false, &calls));
    // A flag wins over the view, and a view may say nothing or no.
    let list = [("tools/list", "")];
    for words in ["mcp --view reader --search false", "mcp --view loud", "mcp"] {
        let listed = mcp(&folder, words, false, &list);
        assert!(!listed.contains("toolbus_search"), "{words}: {listed}");
    }
    let listed = mcp(&folder, "mcp --view loud --search true --always small.add", false, &list);
    expect![[r#"
        1 "result":{"tools":[<toolbus_call>,<toolbus_search>,{"name":"small_add","description":"Add two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}}]}}
    "#]].assert_eq(&listed);
    let listed = mcp(&folder, "mcp --view reader --always small.add --search auto", false, &list);
    assert!(!listed.contains("toolbus_search"), "{listed}");
}

#[test]
fn a_command_searches_what_a_view_shows() {
    let folder = Folder::of(&["a"], VIEWS);
    folder.check(
        "search --view reader sky",
        expect![[r#"
        stdout
        a.sky  What the sky will do
        exit 0
    "#]],
    );
    folder.check(
        "search --view reader --json rome sky",
        expect![[r#"
        stdout
        {"error":{"kind":"nothing_fits","message":"no tool fits `rome sky`","unmatched":["rome"]}}
        stderr
        note: no tool has the word `rome`
        error: no tool fits `rome sky`
        exit 1
    "#]],
    );
    folder.check(
        "search --view reader forecast",
        expect![[r#"
        stderr
        note: no tool has the word `forecast`
        error: no tool fits `forecast`
        exit 1
    "#]],
    );
    folder.check(
        "search --view reder sky",
        expect![[r#"
        stderr
        error: there is no view `reder`
        hint: did you mean `reader`?
        exit 2
    "#]],
    );
    folder.check(
        "search forecast --limit 1",
        expect![[r#"
        stdout
        a.forecast  Weather for the next days.
        exit 0
    "#]],
    );
    folder.check(
        "search",
        expect![[r#"
        stderr
        error: WORD is missing
        usage: toolbus search [OPTIONS] <WORD>...
        hint: say in a few words what the tool should do
        exit 2
    "#]],
    );
    folder.check(
        "search a --limit 0",
        expect![[r#"
        stderr
        error: `--limit`: it must be a whole number, 1 or more
        exit 2
    "#]],
    );
    folder.check(
        "mcp --search maybe",
        expect![[r#"
        stderr
        error: `--search`: it must be `auto`, `true` or `false`
        exit 2
    "#]],
    );
    folder.check(
        "mcp --always small",
        expect![[r#"
        stderr
        error: `--always`: it can match no tool; write `small.*` for all tools of a back
        exit 2
    "#]],
    );
    folder.check(
        "exec --search true hi",
        expect![[r#"
        stderr
        error: `--search` needs `--bus`
        exit 2
    "#]],
    );
    let config = folder.read("toolbus.toml");
    folder.write(
        "toolbus.toml",
        &format!("{config}\n[view.x]\nsearch = \"yes\"\nalways = [\"git\"]\n"),
    );
    folder.check(
        "tools",
        expect![[r#"
            stderr
            error: `toolbus.toml` line 24: `view.x.search` must be true, false or "auto"
            error: `toolbus.toml` line 25: `view.x.always`: `git` can match no tool
            hint: write `git.*` for all tools of a back
            exit 2
        "#]],
    );
}

#[test]
fn both_eras_of_mcp_search_and_call_alike() {
    let folder = Folder::of(&["a"], SMALL);
    let search = |arguments: &'static str| ("tools/call", arguments);
    let calls = [
        search(r#""name":"toolbus_search","arguments":{"query":"add numbers","limit":1}"#),
        search(r#""name":"toolbus_search","arguments":{"query":"order a pizza"}"#),
        search(r#""name":"toolbus_search","arguments":{"query":" "}"#),
        search(r#""name":"toolbus_search","arguments":{"query":1}"#),
        search(r#""name":"toolbus_search","arguments":{"query":"x","limit":0}"#),
        search(r#""name":"toolbus_search","arguments":{"query":"x","limit":51}"#),
        search(r#""name":"toolbus_search","arguments":{"query":"x","limit":1.5}"#),
        search(r#""name":"toolbus_search""#),
        search(
            r#""name":"toolbus_call","arguments":{"name":"a.forecast","arguments":{"city":1.50}}"#,
        ),
        search(r#""name":"a_forecast","arguments":{"city":1.50}"#),
        search(
            r#""name":"toolbus_call","arguments":{"name":"small_add","arguments":{"a":1,"b":2}}"#,
        ),
        search(r#""name":"small_add","arguments":{"a":1,"b":2}"#),
        search(
            r#""name":"toolbus_call","arguments":{"name":"small_fail","arguments":{"message":"no","code":7}}"#,
        ),
        search(r#""name":"small_fail","arguments":{"message":"no","code":7}"#),
        search(r#""name":"toolbus_call","arguments":{"name":"nope"}"#),
        search(r#""name":"toolbus_call","arguments":{"arguments":{}}"#),
        search(r#""name":"toolbus_call","arguments":{"name":"small_add","arguments":[1]}"#),
        search(r#""name":"toolbus_call","arguments":{"name":"small_early","arguments":null}"#),
    ];
    expect![[r#"
        1 "result":{"content":[{"type":"text","text":"{\"tools\":[{\"name\":\"small_add\",\"description\":\"Add two numbers\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"},\"b\":{\"type\":\"number\"}},\"required\":[\"a\",\"b\"]}}],\"unmatched\":[],\"more\":2}"}],"structuredContent":{"tools":[{"name":"small_add","description":"Add two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}}],"unmatched":[],"more":2}}}
        2 "result":{"content":[{"type":"text","text":"{\"tools\":[],\"unmatched\":[\"order\",\"pizza\"],\"more\":0,\"note\":\"no tool fits; searching again with other words for the same thing will rarely help\"}"}],"structuredContent":{"tools":[],"unmatched":["order","pizza"],"more":0,"note":"no tool fits; searching again with other words for the same thing will rarely help"}}}
        3 "result":{"content":[{"type":"text","text":"`query` must be a text of a few words, of 1,000 characters at most"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        4 "result":{"content":[{"type":"text","text":"`query` must be a text of a few words, of 1,000 characters at most"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        5 "result":{"content":[{"type":"text","text":"`limit` must be an integer from 1 to 50"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        6 "result":{"content":[{"type":"text","text":"`limit` must be an integer from 1 to 50"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        7 "result":{"content":[{"type":"text","text":"`limit` must be an integer from 1 to 50"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        8 "result":{"content":[{"type":"text","text":"`query` must be a text of a few words, of 1,000 characters at most"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        9 "result":{"content": [{"type": "text", "text": "did forecast"}]}}
        10 "result":{"content": [{"type": "text", "text": "did forecast"}]}}
        11 "result":{"content":[{"type":"text","text":"3"}]}}
        12 "result":{"content":[{"type":"text","text":"3"}]}}
        13 "result":{"content":[{"type":"text","text":"no"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"failed","code":7}}}}
        14 "result":{"content":[{"type":"text","text":"no"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"failed","code":7}}}}
        15 "error":{"code":-32602,"message":"unknown tool: nope"}}
        16 "result":{"content":[{"type":"text","text":"`name` must be a text: the name of a tool"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        17 "result":{"content":[{"type":"text","text":"`arguments` must be an object"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        18 "result":{"content":[{"type":"text","text":"{\"early\":true}"}],"structuredContent":{"early":true}}}
    "#]].assert_eq(&mcp(&folder, "mcp --search true", false, &calls));
    expect![[r#"
        1 "result":{"resultType":"complete","content":[{"type":"text","text":"{\"tools\":[{\"name\":\"small_add\",\"description\":\"Add two numbers\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"},\"b\":{\"type\":\"number\"}},\"required\":[\"a\",\"b\"]},\"outputSchema\":{\"type\":\"number\"}}],\"unmatched\":[],\"more\":2}"}],"structuredContent":{"tools":[{"name":"small_add","description":"Add two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},"outputSchema":{"type":"number"}}],"unmatched":[],"more":2},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
        2 "result":{"resultType":"complete","content":[{"type":"text","text":"{\"tools\":[],\"unmatched\":[\"order\",\"pizza\"],\"more\":0,\"note\":\"no tool fits; searching again with other words for the same thing will rarely help\"}"}],"structuredContent":{"tools":[],"unmatched":["order","pizza"],"more":0,"note":"no tool fits; searching again with other words for the same thing will rarely help"},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
        3 "result":{"resultType":"complete","content":[{"type":"text","text":"`query` must be a text of a few words, of 1,000 characters at most"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        4 "result":{"resultType":"complete","content":[{"type":"text","text":"`query` must be a text of a few words, of 1,000 characters at most"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        5 "result":{"resultType":"complete","content":[{"type":"text","text":"`limit` must be an integer from 1 to 50"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        6 "result":{"resultType":"complete","content":[{"type":"text","text":"`limit` must be an integer from 1 to 50"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        7 "result":{"resultType":"complete","content":[{"type":"text","text":"`limit` must be an integer from 1 to 50"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        8 "result":{"resultType":"complete","content":[{"type":"text","text":"`query` must be a text of a few words, of 1,000 characters at most"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        9 "result":{"resultType":"complete","content": [{"type": "text", "text": "did forecast"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name": "weather", "version": "1.4.2"}}}}
        10 "result":{"resultType":"complete","content": [{"type": "text", "text": "did forecast"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name": "weather", "version": "1.4.2"}}}}
        11 "result":{"resultType":"complete","content":[{"type":"text","text":"3"}],"structuredContent":3,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
        12 "result":{"resultType":"complete","content":[{"type":"text","text":"3"}],"structuredContent":3,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
        13 "result":{"resultType":"complete","content":[{"type":"text","text":"no"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"failed","code":7}}}}
        14 "result":{"resultType":"complete","content":[{"type":"text","text":"no"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"failed","code":7}}}}
        15 "error":{"code":-32602,"message":"unknown tool: nope"}}
        16 "result":{"resultType":"complete","content":[{"type":"text","text":"`name` must be a text: the name of a tool"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        17 "result":{"resultType":"complete","content":[{"type":"text","text":"`arguments` must be an object"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        18 "result":{"resultType":"complete","content":[{"type":"text","text":"{\"early\":true}"}],"structuredContent":{"early":true},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
    "#]].assert_eq(&mcp(&folder, "mcp --search true", true, &calls));
}

#[test]
fn a_server_that_stands_alone_stays_itself_but_for_its_list() {
    let folder = Folder::of(&["a"], "");
    let calls = [
        ("prompts/list", ""),
        ("tools/list", ""),
        ("tools/call", r#""name":"toolbus_call","arguments":{"name":"a.forecast"}"#),
        ("tools/call", r#""name":"forecast""#),
    ];
    let words = "mcp --search true --always a.al*";
    expect![[r#"
        1 "result":{"prompts": [{"name": "plan", "description": "Plan a day"}]}}
        2 "result":{"tools":[<toolbus_call>,<toolbus_search>,{"name": "alerts", "description": "Warnings of storms", "inputSchema": {"type": "object"}}]}}
        3 "result":{"content": [{"type": "text", "text": "did forecast"}]}}
        4 "result":{"content": [{"type": "text", "text": "did forecast"}]}}
    "#]].assert_eq(&mcp(&folder, words, false, &calls));
    let greeting = [("server/discover", ""), ("tools/list", "")];
    expect![[r#"
        1 "result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools": {"listChanged": true}, "prompts": {}, "logging": {}},"instructions":"Ask for a city first.","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name": "weather", "version": "1.4.2"}}}}
        2 "result":{"resultType":"complete","tools":[<toolbus_call>,<toolbus_search>,{"name": "alerts", "description": "Warnings of storms", "inputSchema": {"type": "object"}}],"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
    "#]].assert_eq(&mcp(&folder, words, true, &greeting));
}

#[test]
fn other_wires_search_and_call_alike() {
    let folder = Folder::of(&["a"], SMALL);
    let acknowledged = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
    folder
        .page("oracle serve --search true --always a.*")
        .stdin(format!("{acknowledged}\n"))
        .check(expect![[r#"
            stdout
            {"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["a.alerts(arguments: json) -> ByteArray","a.forecast(city: ByteArray) -> ByteArray","toolbus_call(name: ByteArray, arguments: Option<json>) -> ByteArray","toolbus_search(query: ByteArray, limit: Option<u128>) -> json"]}}
            exit 0
        "#]]);
    let at = &ourselves(&["--search", "true"]);
    let call = |words: &[&str]| {
        let page = Page::of(&[&["call"], words].concat()).folder(folder.0.path());
        page.run().to_string()
    };
    expect![[r#"
        stdout
        {"tools":[{"name":"small.add","description":"Add two numbers","input":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},"output":{"type":"number"}}],"unmatched":[],"more":2}
        exit 0
    "#]].assert_eq(&call(&[at, "toolbus_search", "query=add numbers", "limit=1"]));
    expect![[r#"
        stdout
        "3"
        exit 0
    "#]]
    .assert_eq(&call(&[
        at,
        "toolbus_call",
        "name=small.add",
        r#"arguments={"Some":{"a":1,"b":2}}"#,
    ]));
    let asked = [
        r#"{"id":1,"method":"configure","params":{"config":{}}}"#,
        r#"{"id":2,"method":"describe"}"#,
        r#"{"id":3,"method":"execute","params":{"action":"toolbus_search","attrs":{"query":"add numbers","limit":1}}}"#,
        r#"{"id":4,"method":"execute","params":{"action":"toolbus_call","attrs":{"name":"small_add","arguments":{"a":1,"b":2}}}}"#,
        r#"{"id":5,"method":"execute","params":{"action":"small_add","attrs":{"a":1,"b":2}}}"#,
        "",
    ];
    let page = folder.page("provider --search true").stdin(asked.join("\n")).run().to_string();
    let mut lines: Vec<_> = page.lines().filter(|line| line.starts_with("{\"id\"")).collect();
    lines.sort_unstable();
    expect![[r#"
        {"id":1,"result":{}}
        {"id":2,"result":{"schema":{"name":"toolbus","version":"0.1.0","protocol":"1","config":{},"actions":{"toolbus_call":{"description":"Call a tool that toolbus_search has found.","attrs":{"arguments":{"type":"any","required":false,"description":"Arguments by the tool's own schema"},"name":{"type":"string","required":true,"description":"Name of the tool, as toolbus_search gave it"}},"outputs":{"type":"any","required":false}},"toolbus_search":{"description":"Find tools by words. 11 tools of: a, small. Say in a few words what is to be done, or give a name; the best matches come with their schemas. Call one with toolbus_call.","attrs":{"limit":{"type":"number","required":false,"default":5,"description":"How many tools at most"},"query":{"type":"string","required":true,"description":"What the tool should do, in a few words"}},"outputs":{"type":"any","required":false}}},"extensions":["parallel"]}}}
        {"id":3,"result":{"outputs":{"tools":[{"name":"small_add","description":"Add two numbers","input":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},"output":{"type":"number"}}],"unmatched":[],"more":2}}}
        {"id":4,"result":{"outputs":{"result":3}}}
        {"id":5,"result":{"outputs":{"result":3}}}"#]].assert_eq(&lines.join("\n"));
    let words = "exec --bus --search true --allow small.add --dry-run hi";
    let asked = folder.page(words).run().stdout;
    assert!(asked.contains("Find tools by words. 1 tools of: small."), "{asked}");
    assert!(asked.contains("toolbus_call") && !asked.contains("small_"), "{asked}");
}

#[test]
fn a_front_tells_a_change_of_what_it_lists_alone() {
    let folder = Folder::of(
        &["a"],
        "[front.s]\nserve = \"mediocre+tcp://127.0.0.1:0\"\nsearch = true\nalways = [\"small.add\"]\n[back.small]\nconnect = \"builtin:\"\n",
    );
    let server = folder.serve(&[], 1);
    let url = server.urls[0].clone();
    let call = |words: &[&str]| Page::of(&[&["call", &url], words].concat()).run().to_string();
    eventually("it lists", || call(&["toolbus.tools"]).contains("11 tools of: a, small"));
    expect![[r#"
        stdout
        {"tools":[{"name":"small.add","description":"Add two numbers","input":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},"output":{"type":"number"}}],"unmatched":[],"more":2}
        exit 0
    "#]].assert_eq(&call(&["toolbus_search", "query=add numbers", "limit=1"]));
    expect![[r#"
        stdout
        3
        exit 0
    "#]]
    .assert_eq(&call(&["toolbus_call", "name=small.add", r#"arguments={"a":1,"b":2}"#]));
    expect![[r#"
        stderr
        error: no such method: `nope`
        hint: `toolbus tools` lists what can be called
        exit 1
    "#]]
    .assert_eq(&call(&["toolbus_call", "name=nope"]));
    expect![[r#"
        stdout
        "HI"
        exit 0
    "#]]
    .assert_eq(&call(&["small.upper", "text=hi"]));
    expect![[r#"
        stdout
        {"tools":[],"unmatched":["order","pizza"],"more":0,"note":"no tool fits; searching again with other words for the same thing will rarely help"}
        exit 0
    "#]].assert_eq(&call(&["toolbus_search", "query=order a pizza"]));
}
