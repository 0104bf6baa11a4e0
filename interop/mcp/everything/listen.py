"""How a server of ours listens: at a free port, told in the first line of standard output."""

import socket

import uvicorn


def listen(app):
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
