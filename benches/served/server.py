# An MCP server with one tool, which adds.
import json
import sys

SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        server = {"name": "adds", "version": "1"}
        answer["result"] = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "add", "inputSchema": SCHEMA}]}
    elif method == "tools/call":
        total = params["arguments"]["a"] + params["arguments"]["b"]
        answer["result"] = {"content": [{"type": "text", "text": str(total)}]}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
