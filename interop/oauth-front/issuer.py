"""The strict sign-in server of the suite `oauth`, for a front of ours.

Its tokens are opaque: the front asks about each (RFC 7662). Clients are registered with whatever they
say of themselves, since these are others' and not ours. The first line of standard input is the URL of
the front, for which all tokens are.
"""

import json
import os
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import urlsplit

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oauth"))
from strict import SignIn, World  # noqa: E402


class Issuer(SignIn):
    def answer(self, status, body=None, headers=()):
        if status == 200 and isinstance(body, dict) and "authorization_endpoint" in body:
            body = {**body, "introspection_endpoint": self.issuer() + "/introspect",
                    "authorization_endpoint": self.issuer() + "/authorize",
                    "response_types_supported": ["code"]}
        super().answer(status, body, headers)

    def do_GET(self):
        # Not all clients keep the query of an endpoint, which is asked of ours alone.
        if self.path.startswith("/authorize?"):
            self.path += "&from=metadata"
        super().do_GET()

    def do_POST(self):
        world, path = self.world, urlsplit(self.path).path
        if path == "/register":
            asked = json.loads(self.body())
            with world.lock:
                identifier = "client-%d" % len(world.clients)
                world.clients[identifier] = {**asked, "any_port": True}
            told = {**asked, "client_id": identifier, "token_endpoint_auth_method": "none"}
            return self.answer(201, told)
        if path == "/introspect":
            return self.introspect()
        # They take any media type.
        del self.headers["Accept"]
        self.headers["Accept"] = "application/json"
        return super().do_POST()

    def introspect(self):
        form = self.form()
        if self.headers.get("Authorization") != "Basic ZnJvbnQ6YS1zZWNyZXQtb2Ytb3Vycw==":
            return self.answer(401, {"error": "invalid_client"})
        with self.world.lock:
            kept = self.world.access.get(form["token"])
        if kept is None or kept["until"] < time.time() or kept["family"] in self.world.dead:
            return self.answer(200, {"active": False})
        return self.answer(200, {
            "active": True, "iss": self.issuer(), "aud": [self.world.resource],
            "sub": "family-%d" % kept["family"], "exp": kept["until"],
            "scope": " ".join(kept["scope"]), "client_id": "interop",
        })


world = World(SimpleNamespace(life=3600, scope="", slow=0, deny=False, no_registration=False))
server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Issuer,), {"world": world}))
server.daemon_threads = True
world.issuer = "http://127.0.0.1:%d" % server.server_port
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listening on " + world.issuer, flush=True)
world.resource = sys.stdin.readline().strip()
threading.Event().wait()
