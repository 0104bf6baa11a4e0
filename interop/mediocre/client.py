"""A foreign mediocre-rpc client of ours: client.py TCP-PORT HTTP-PORT."""

import http.client
import json
import socket
import sys

import wire


def connect(port):
    client = socket.create_connection(("127.0.0.1", port))
    client.settimeout(60)
    return client, wire.Reader(lambda: client.recv(4096))


def same(what, got, want):
    if got != want:
        sys.exit(f"mediocre: {what}:\ngot  {got!r}\nwant {want!r}")


def over_tcp(port):
    client, reader = connect(port)
    call = {"method": "add", "args": {"a": 1, "b": 2}, "debug": {}, "streamStart": False, "el": None}
    # Pretty, with all zero values, and the next without a blank between them.
    client.sendall(json.dumps(call, indent=2).encode() + b'{"method":"nope","streamLen":0}')
    same("a call", reader.object(), {"res": 3})
    same("an unknown method", reader.object()["err"]["meta"]["code"], "method_not_found")

    # Both directions are open: each element is answered before the next is sent.
    client.sendall(wire.say(method="echo", args="h", streamStart=True, streamLen=0))
    same("the head", reader.object(), {"res": "h", "streamStart": True})
    elements = reader.elements()
    for kind, value in [("value", 1), ("blob", b"\x00some bytes\xff"), ("blob", b""), ("value", None)]:
        client.sendall(wire.element(kind, value, frame="one-frame-for-all"))
        same("an element", next(elements), (kind, value))
    client.sendall(wire.element("tail", {"t": 1}))
    same("the tail", next(elements), ("tail", {"t": 1}))

    # An answer may come before the stream has ended; then the connection goes on.
    client.sendall(wire.say(method="early", streamStart=True))
    same("an early answer", reader.object(), {"res": {"early": True}})
    client.sendall(wire.element("value", 1) + wire.element("tail", None) + wire.say(method="upper", args={"text": "hi"}))
    same("the call behind it", reader.object(), {"res": "HI"})

    client.sendall(wire.say(method="blob", args={"bytes": 100_000}))
    same("a stream", reader.object(), {"streamStart": True, "streamLen": 1})
    ((kind, blob), tail) = reader.elements()
    same("a long blob", (kind, len(blob), blob[:4], tail), ("blob", 100_000, b"\xaf\xcd\x1d\x7b", ("tail", None)))
    client.shutdown(socket.SHUT_WR)
    same("the end", reader.object(), None)


def over_http(port):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(body, **headers):
        client.request("POST", "/rpc", body, headers)
        response = client.getresponse()
        body = [response.read()]
        reader = wire.Reader(lambda: body.pop() if body else b"")
        return response.status, response.headers["Content-Type"], reader

    status, kind, reader = post(wire.say(method="add", args={"a": 1, "b": 2}))
    same("a call over HTTP", (status, kind, reader.object(), reader.object()), (200, "application/json", {"res": 3}, None))
    status, kind, reader = post(wire.say(method="count", args={"n": 3}))
    same("a stream over HTTP", (status, kind, reader.object()["streamLen"]), (200, "application/x-mediocre-rpc", 3))
    same("its elements", list(reader.elements()), [("value", 0), ("value", 1), ("value", 2), ("tail", None)])
    same("its end", reader.object(), None)
    # A generator goes out in chunks.
    parts = [wire.say(method="sink", args={"hash": False}, streamStart=True), wire.element("blob", b"abc"), wire.element("tail", None)]
    status, kind, reader = post(iter(parts))
    same("a stream call over HTTP", (status, reader.object(), reader.object()), (200, {"res": {"elements": 1, "bytes": 3}}, None))
    status, kind, reader = post(b"{}", **{"Content-Type": "application/json; charset=utf-8"})
    same("no method", (status, reader.object()["err"]["meta"]["reason"], reader.object()), (200, "method_missing", None))
    status, kind, reader = post(b"]")
    same("no call", (status, reader.object()["err"]["meta"]["reason"], reader.object()), (400, "not_an_object", None))


over_tcp(int(sys.argv[1]))
over_http(int(sys.argv[2]))
