"""How a server of ours listens: at a free port, told in the first line of standard output."""

import json
import socket

import uvicorn


def legacy_only(app):
    """The same, but whoever speaks the modern era is refused"""

    async def asked(scope, receive, send):
        if dict(scope.get("headers", [])).get(b"mcp-protocol-version") != b"2026-07-28":
            return await app(scope, receive, send)
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "what era is this?"}}
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 400, "headers": head})
        await send({"type": "http.response.body", "body": json.dumps(error).encode()})

    return asked


def listen(app):
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
