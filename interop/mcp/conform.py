"""A client under test of the official conformance suite, by means of toolbus.

conform.py call|mcp TOOLBUS URL      the suite appends the URL, and names the scenario in the environment

`call` does what a scenario asks for with `toolbus call`, `tools`, `prompt` and `resource`, on a
terminal where a question is asked; `mcp` speaks MCP of the revision under test to `toolbus mcp`, which
stands before the suite's server. Nothing is done for a scenario by name beyond what its own
description asks of clients.
"""

import json
import os
import pty
import subprocess
import sys

how, toolbus, url = sys.argv[1:]
scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
META = "io.modelcontextprotocol/"
ECHO, RICH = "json_schema_echo", "json_schema_2020_12_tool"


class ByCommand:
    """Each thing is a command of its own."""

    def run(self, *words):
        done = subprocess.run([toolbus, *words], capture_output=True, text=True)
        sys.stderr.write(done.stderr)
        if done.returncode:
            raise SystemExit(f"{words}: {done.returncode}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def tools(self):
        listed = self.run("tools", "--json", url)
        return [(tool["name"], tool["input"]) for tool in listed]

    def call(self, name, arguments):
        if "elicit" in name or "mrtr" in name:
            return self.on_terminal("call", url, name, json.dumps(arguments))
        words = ["call", "--json", url, name]
        # Both ways in which arguments are left out, and given.
        self.run(*words, json.dumps(arguments)) if arguments else self.run(*words)

    def on_terminal(self, *words):
        """Whatever is asked is answered with the default: by Enter."""
        ours, theirs = pty.openpty()
        child = subprocess.Popen([toolbus, *words], stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown, answered = b"", 0
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break
            while (at := shown.find(b": ", answered)) >= 0 and shown.endswith(b": "):
                answered = len(shown)
                os.write(ours, b"\n")
        sys.stderr.buffer.write(shown)
        if child.wait():
            raise SystemExit(f"{words}: {child.returncode}")

    def rest(self):
        """What servers may have besides tools."""
        for prompt in self.run("prompt", "list", "--json", "--era", era(), url):
            self.run("prompt", "get", "--json", "--era", era(), url, prompt["name"])
        for resource in self.run("resource", "list", "--json", "--era", era(), url):
            if "uri" in resource:
                self.run("resource", "read", "--json", "--era", era(), url, resource["uri"])

    def close(self):
        pass


class ByFront:
    """One conversation with `toolbus mcp` on its pipes."""

    def __init__(self):
        words = [toolbus, "mcp", "-q", url]
        self.front = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.next = 0
        if era() == "legacy":
            capabilities = {"elicitation": {}, "roots": {}, "sampling": {}}
            client = {"name": "conform", "version": "1"}
            params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}
            self.ask("initialize", params)
            self.say({"method": "notifications/initialized"})
        else:
            self.ask("server/discover", {})

    def say(self, message):
        self.front.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.front.stdin.flush()

    def ask(self, method, params):
        if era() == "modern":
            meta = {
                META + "protocolVersion": revision,
                META + "clientCapabilities": {"elicitation": {"form": {}}, "roots": {}, "sampling": {}},
                META + "clientInfo": {"name": "conform", "version": "1"},
            }
            params = {**params, "_meta": meta}
        self.next += 1
        self.say({"id": self.next, "method": method, "params": params})
        for line in self.front.stdout:
            message = json.loads(line)
            if message.get("id") == self.next and "method" not in message:
                break
            if "method" in message and "id" in message:
                self.say({"id": message["id"], "result": answer(message["method"], message.get("params"))})
        else:
            raise SystemExit(f"{method}: no answer")
        if "error" in message:
            raise SystemExit(f"{method}: {message['error']}")
        result = message["result"]
        if result.get("resultType") != "input_required":
            return result
        asked = result.get("inputRequests", {})
        answers = {key: answer(one["method"], one.get("params")) for key, one in asked.items()}
        more = {"inputResponses": answers}
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        return self.ask(method, {**params, **more})

    def tools(self):
        return [(tool["name"], tool["inputSchema"]) for tool in self.ask("tools/list", {})["tools"]]

    def call(self, name, arguments):
        self.ask("tools/call", {"name": name, "arguments": arguments})

    def rest(self):
        for prompt in self.ask("prompts/list", {})["prompts"]:
            self.ask("prompts/get", {"name": prompt["name"]})
        for resource in self.ask("resources/list", {})["resources"]:
            self.ask("resources/read", {"uri": resource["uri"]})

    def close(self):
        self.front.stdin.close()
        self.front.wait()


def era():
    return "modern" if revision >= "2026" else "legacy"


def answer(method, params):
    """What a client without a user says to a question: defaults, and no folders."""
    if method == "roots/list":
        return {"roots": []}
    schema = (params or {}).get("requestedSchema", {}).get("properties", {})
    given = {name: of["default"] for name, of in schema.items() if "default" in of}
    return {"action": "accept", "content": given}


def sample(of):
    """Something that a schema takes."""
    kind = of.get("type")
    return {"string": "eu", "integer": 3, "number": 3, "boolean": True}.get(kind, {})


def arguments_for(schema):
    required = schema.get("required", [])
    return {name: sample(schema["properties"][name]) for name in required}


client = ByCommand() if how == "call" else ByFront()
tools = dict(client.tools())
if scenario == "json-schema-ref-no-deref":
    # The list is all there is to see; the tool is none that can be called.
    pass
elif "toolCalls" in context:
    for wanted in context["toolCalls"]:
        client.call(wanted["name"], wanted["arguments"])
elif ECHO in tools:
    client.call(ECHO, {"schema": tools[RICH]})
else:
    for name, schema in tools.items():
        client.call(name, arguments_for(schema))
if scenario == "http-standard-headers":
    client.rest()
client.close()
