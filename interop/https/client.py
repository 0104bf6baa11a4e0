"""A client of MCP over HTTPS in nothing but Python: client.py URL CA

A session of the older era, by HTTP/1.1 on one connection that is kept, and its end.
"""

import http.client
import json
import ssl
import sys
import urllib.parse

url, ca = sys.argv[1:]
at = urllib.parse.urlsplit(url)
context = ssl.create_default_context(cafile=ca)
context.set_alpn_protocols(["http/1.1"])
connection = http.client.HTTPSConnection(at.hostname, at.port, context=context, timeout=60)
session = {}


def ask(method, message=None):
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **session,
    }
    connection.request(method, at.path, message and json.dumps(message), headers)
    answer = connection.getresponse()
    return answer, answer.read()


def request(number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    answer, body = ask("POST", message)
    assert answer.status == 200, (answer.status, body)
    return answer, json.loads(body)["result"]


answer, result = request(
    1,
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "python", "version": "1"},
)
assert connection.sock.selected_alpn_protocol() == "http/1.1"
assert result["protocolVersion"] == "2025-11-25", result
session = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
answer, body = ask("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})
assert answer.status == 202, (answer.status, body)
for number in range(2, 100):
    answer, result = request(number, "tools/call", name="add", arguments={"a": number, "b": 1})
    assert result["content"] == [{"type": "text", "text": str(number + 1)}], result
answer, body = ask("DELETE")
assert answer.status == 204, (answer.status, body)
answer, body = ask("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
assert answer.status == 404, (answer.status, body)
