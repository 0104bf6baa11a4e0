#!/usr/bin/env python3
"""An Orchard provider: `echo` gives its text back, `noop` does nothing."""
import json
import sys

SCHEMA = {
    "name": "echo", "version": "0.1.0", "protocol": "1",
    "config": {"greeting": {"type": "string", "default": "", "description": "word put first"}},
    "actions": {
        "echo": {
            "description": "gives its text back",
            "attrs": {"text": {"type": "string", "required": True}, "times": {"type": "number", "default": 1}},
            "outputs": {"type": "object({text=string,times=number})"},
        },
        "noop": {"description": "does nothing"},
    },
}
config = {}

class Refused(Exception):
    """A code of the protocol, and a message."""

def execute(action, attrs):
    if action not in SCHEMA["actions"]:
        raise Refused("unknown_action", f"unknown action: {action}")
    if action == "noop":
        return {}
    if not isinstance(attrs.get("text"), str):
        raise Refused("validation_failed", "text must be a string")
    times = int(attrs.get("times", 1))
    words = [config.get("greeting"), *[attrs["text"]] * times]
    return {"text": " ".join(filter(None, words)), "times": times}

def answer(request):
    method, params = request.get("method"), request.get("params") or {}
    if method == "describe":
        return {"schema": SCHEMA}
    if method == "configure":
        config.update(params.get("config") or {})
    elif method == "execute":
        return {"outputs": execute(params.get("action"), params.get("attrs") or {})}
    elif method != "shutdown":
        raise Refused("unknown_method", f"unknown method: {method}")
    return {}

if sys.argv[1:] == ["schema"]:
    sys.exit(print(json.dumps(SCHEMA)))
for line in filter(str.strip, sys.stdin):
    request = json.loads(line)
    try:
        outcome = {"result": answer(request)}
    except Refused as refused:
        outcome = {"error": {"code": refused.args[0], "message": refused.args[1]}}
    print(json.dumps({"id": request["id"], **outcome}), flush=True)
    if request.get("method") == "shutdown":
        break
