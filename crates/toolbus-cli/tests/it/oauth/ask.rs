//! A sign-in that is offered to an MCP client: `ask = true`.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::{FileWith as _, INTEROP, World, world};
use crate::listening::Server;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// An editor on a pipe.
struct Editor {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Editor {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Editor {
    fn start(world: &World) -> Editor {
        let mut child = world
            .command(&["mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Editor { stdin: child.stdin.take().unwrap(), lines, child }
    }

    /// One of the old era, who takes these questions.
    fn legacy(world: &World, elicitation: &Value) -> Editor {
        let mut editor = Editor::start(world);
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": elicitation},
            "clientInfo": {"name": "test", "version": "1"},
        });
        editor.ask(0, "initialize", params);
        editor.heard(0);
        editor.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        editor
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn call(&mut self, id: u64, tool: &str) {
        self.ask(id, "tools/call", json!({"name": tool, "arguments": {}}));
    }

    fn modern_call(&mut self, id: u64, tool: &str, more: &Value) {
        let mut params = json!({
            "name": tool, "arguments": {},
            "_meta": {VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {"url": {}}}},
        });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        self.ask(id, "tools/call", params);
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("it says more").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The next message that is `it`; what else is told by the way is passed over.
    fn until(&mut self, it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next();
            if it(&message) {
                return message;
            }
        }
    }

    /// The answer to this request.
    fn heard(&mut self, id: u64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none())
    }

    /// The next question.
    fn question(&mut self) -> Value {
        self.until(|message| message["method"] == "elicitation/create")
    }

    fn answer(&mut self, question: &Value, action: &str) {
        let result = json!({"action": action});
        self.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    }
}

fn asking() -> Option<World> {
    let world = world(&[])?;
    world.config("[back.x.oauth]\nask = true\n");
    Some(world)
}

/// The user agrees.
fn opened(url: &Value) {
    let mut browser = Command::new("python3");
    browser.arg(format!("{INTEROP}/fetch.py")).arg(url.as_str().unwrap());
    assert!(browser.status().unwrap().success());
}

const HELLO: &str = "hello";

fn text(answer: &Value) -> &Value {
    &answer["result"]["content"][0]["text"]
}

#[test]
fn a_client_that_can_open_a_page_is_offered_one() {
    let Some(world) = asking() else { return };
    let mut editor = Editor::legacy(&world, &json!({"form": {}, "url": {}}));
    editor.call(1, HELLO);
    let question = editor.question();
    let params = &question["params"];
    let url = params["url"].as_str().unwrap();
    assert!(url.starts_with(&format!("{}/authorize?from=metadata&", world.issuer)), "{url}");
    let message = format!("`x` needs a sign-in at {}", world.issuer);
    let expected = json!({"mode": "url", "message": message, "url": url, "elicitationId": "tb1"});
    assert_eq!(*params, expected);
    // Who comes later is shown the same, and waits for the same end.
    editor.call(2, HELLO);
    let second = editor.question();
    assert_eq!(second["params"]["url"], params["url"]);
    assert_eq!(second["params"]["elicitationId"], "tb2");
    editor.answer(&question, "accept");
    editor.answer(&second, "accept");
    opened(&params["url"]);
    let (mut completed, mut answered) = (Vec::new(), Vec::new());
    while completed.len() + answered.len() < 4 {
        let message = editor.next();
        match message["method"].as_str() {
            Some("notifications/elicitation/complete") => {
                completed.push(message["params"]["elicitationId"].clone());
            }
            Some(_) => {}
            None => {
                assert_eq!(*text(&message), HELLO, "{message}");
                answered.push(message["id"].clone());
            }
        }
    }
    completed.sort_by_key(Value::to_string);
    answered.sort_by_key(Value::to_string);
    assert_eq!((completed, answered), (vec![json!("tb1"), json!("tb2")], vec![json!(1), json!(2)]));
    assert_eq!(world.ask("/seen")["families"], 1);
    // What is kept is everybody's.
    assert_eq!(world.ends(0, &["call", "x.hello"]).stdout, "\"hello\"\n");
    // More scopes are asked for likewise.
    editor.call(3, "more");
    let question = editor.question();
    editor.answer(&question, "accept");
    opened(&question["params"]["url"]);
    assert_eq!(*text(&editor.heard(3)), HELLO);
    assert_eq!(world.kept()["asked"], json!(["tools", "offline_access", "more"]));
}

#[test]
fn a_user_who_declines_is_told_the_command() {
    let Some(world) = asking() else { return };
    let mut editor = Editor::legacy(&world, &json!({"url": {}}));
    for (id, action) in [(1, "decline"), (2, "cancel")] {
        editor.call(id, HELLO);
        let question = editor.question();
        editor.answer(&question, action);
        let error = &editor.heard(id)["error"];
        assert_eq!(error["message"], "`x` needs a sign-in: run `toolbus login x`");
        let expected =
            json!({"kind": "unavailable", "reason": "needs_sign_in", "login": "toolbus login x"});
        assert_eq!(error["data"], expected);
    }
    // One who is cancelled waits no more.
    editor.call(3, HELLO);
    editor.question();
    let params = json!({"requestId": 3});
    editor.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    editor.ask(4, "ping", json!({}));
    editor.heard(4);
}

#[test]
fn a_client_of_the_new_era_calls_again() {
    let Some(world) = asking() else { return };
    let mut editor = Editor::start(&world);
    editor.modern_call(1, HELLO, &json!({}));
    let result = editor.heard(1)["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let asked = &result["inputRequests"]["tb1"];
    assert_eq!(asked["method"], "elicitation/create");
    let url = &asked["params"]["url"];
    let message = format!("`x` needs a sign-in at {}", world.issuer);
    assert_eq!(asked["params"], json!({"mode": "url", "message": message, "url": url}));
    let with = |state: &Value, responses: Value| json!({"requestState": state, "inputResponses": responses});
    // What is no answer leaves the token good; a missing one is asked for once more.
    let state = &result["requestState"];
    editor.modern_call(2, HELLO, &with(state, json!([])));
    assert_eq!(editor.heard(2)["error"]["code"], -32602);
    editor.modern_call(3, HELLO, &with(state, json!({})));
    let again = editor.heard(3)["result"].clone();
    assert_eq!(again["inputRequests"], result["inputRequests"]);
    let state = &again["requestState"];
    opened(url);
    editor.modern_call(4, HELLO, &with(state, json!({"tb1": {"action": "accept"}})));
    assert_eq!(*text(&editor.heard(4)), HELLO);
    editor.modern_call(5, HELLO, &json!({}));
    assert_eq!(*text(&editor.heard(5)), HELLO);
}

#[test]
fn others_are_told_what_to_do() {
    let Some(world) = asking() else { return };
    // One who can only fill in forms.
    let mut editor = Editor::legacy(&world, &json!({}));
    editor.call(1, HELLO);
    assert_eq!(editor.heard(1)["error"]["data"]["reason"], "needs_sign_in");
    // A command is no client of ours.
    let failed = world.refused(&["x.hello"]);
    assert_eq!(failed["error"]["detail"]["reason"], "needs_sign_in");
    // One whose back does not say that it may be asked.
    world.config("");
    let mut editor = Editor::start(&world);
    editor.modern_call(1, HELLO, &json!({}));
    assert_eq!(editor.heard(1)["error"]["data"]["reason"], "needs_sign_in");
    assert!(!world.ask("/seen").to_string().contains("register"));
}

#[test]
fn a_front_on_this_machine_offers_it_too() {
    let Some(world) = world(&[]) else { return };
    let config = format!(
        "[back.x]\nconnect = \"{}\"\n[back.x.oauth]\nask = true\n[back.try]\nconnect = \"builtin:\"\n\
         [front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n",
        world.url
    );
    world.scratch.file_with("toolbus.toml", &config);
    let server = Server::run(world.command(&["serve"]), 1);
    let call = |more: &str| {
        let params = format!(
            r#"{{"name":"x_hello","arguments":{{}},"_meta":{{"{VERSION}":"2026-07-28","{CAPABILITIES}":{{"elicitation":{{"url":{{}}}}}}}}{more}}}"#
        );
        let fields =
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: x_hello\r\n";
        let body = crate::mcp::request(1, "tools/call", &params);
        let answer = crate::callers::ask(server.url(), "POST", "/mcp", "", fields, &body);
        // As an event, where it has taken long.
        let said = answer.lines().rfind(|line| line.contains("jsonrpc")).unwrap();
        let said = said.trim_start_matches("data: ");
        serde_json::from_str::<Value>(said).unwrap_or_else(|_| panic!("{answer}"))
    };
    let result = call("")["result"].clone();
    let url = &result["inputRequests"]["tb1"]["params"]["url"];
    opened(url);
    let responses = json!({"tb1": {"action": "accept"}});
    let more =
        format!(r#","requestState":{},"inputResponses":{responses}"#, result["requestState"]);
    assert_eq!(*text(&call(&more)), HELLO);
}
