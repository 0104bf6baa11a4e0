"""An MCP server with one tool, so that a small model has little to read before it calls it."""

import json
import sys

TOOL = {
    "name": "upper",
    "description": "Put a text in upper case",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "upper", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"].upper()}]}
    return None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    said = {"jsonrpc": "2.0", "id": asked["id"]}
    result = answer(asked["method"], asked.get("params", {}))
    if result is None:
        said["error"] = {"code": -32601, "message": "no such method"}
    else:
        said["result"] = result
    print(json.dumps(said), flush=True)
