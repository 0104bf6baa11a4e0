# An MCP server of the old era that has some of everything. What it is told besides requests it
# writes to the file that is its argument.
import json, os, sys, time

TOOLS = [
    {"name": "greet", "description": "Say hello", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    {"name": "refuse", "inputSchema": {"type": "object"}},
    {"name": "die", "inputSchema": {"type": "object"}},
    {"name": "wait", "inputSchema": {"type": "object"}},
    {"name": "ask", "inputSchema": {"type": "object"}},
    {"name": "numbers", "inputSchema": {"type": "object"}},
]
PROMPTS = [{"name": "hello", "description": "A greeting", "arguments": [{"name": "name", "required": True}]}]
RESOURCES = [{"uri": "note://1", "name": "one", "mimeType": "text/plain"}, {"uri": "note://2", "name": "two"}]
FORM = {"message": "Which city?", "requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(text):
    with open(sys.argv[1], "a") as file:
        file.write(text + "\n")


def called(id, params):
    name, args = params["name"], params.get("arguments") or {}
    text = lambda text, **more: say({"id": id, "result": {"content": [{"type": "text", "text": text}], **more}})
    if name == "greet":
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2}})
        text("hello " + args["name"])
    elif name == "refuse":
        text("not today", isError=True)
    elif name == "die":
        sys.stderr.write("the last words\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "ask":
        say({"id": "q%s" % id, "method": "elicitation/create", "params": FORM})
        answer = json.loads(sys.stdin.readline())
        text(json.dumps(answer.get("result", answer.get("error"))))
    elif name == "numbers":
        say({"id": id, "result": {"content": [{"type": "text", "text": "many"}], "structuredContent": {"big": 1e300, "list": list(range(20000))}}})
    elif name == "wait":
        note("waits")
    else:
        say({"id": id, "error": {"code": -32602, "message": "Unknown tool: " + name}})


for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if id is None:
        note(method)
    elif method == "initialize":
        abilities = {"tools": {}, "prompts": {}, "resources": {}}
        say({"id": id, "result": {"protocolVersion": params["protocolVersion"], "capabilities": abilities, "serverInfo": {"name": "s", "version": "1"}}})
    elif method == "tools/list":
        say({"id": id, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        called(id, params)
    elif method == "prompts/list":
        say({"id": id, "result": {"prompts": PROMPTS}})
    elif method == "prompts/get" and params["name"] == "hello":
        said = "Say hello to " + params.get("arguments", {}).get("name", "all")
        say({"id": id, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}})
    elif method == "resources/list":
        say({"id": id, "result": {"resources": RESOURCES}})
    elif method == "resources/read" and params["uri"] == "note://1":
        say({"id": id, "result": {"contents": [{"uri": "note://1", "text": "milk\nmint\n"}]}})
    elif method == "resources/read" and params["uri"] == "note://2":
        say({"id": id, "result": {"contents": [{"uri": "note://2", "blob": "AP8="}]}})
    elif method in ("prompts/get", "resources/read"):
        say({"id": id, "error": {"code": -32602, "message": "not found"}})
    elif method == "ping":
        say({"id": id, "result": {}})
    else:
        say({"id": id, "error": {"code": -32601, "message": "Method not found"}})
