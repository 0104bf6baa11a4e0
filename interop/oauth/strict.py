"""A strict sign-in server and an MCP server that wants its tokens, in one process.

The sign-in server registers clients (six members and no other), asks for PKCE with S256 and for
`resource`, rotates refresh tokens, revokes the whole family when one is used twice, and speaks of
devices. The MCP server is a small one of 2025-11-25 over streamable HTTP. Both are on loopback, on
two ports; everything that can be set is set by flags, and what was seen is told at /seen.
"""

import argparse
import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

MEMBERS = {
    "client_name", "redirect_uris", "grant_types", "response_types",
    "token_endpoint_auth_method", "application_type",
}
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


class World:
    """What both servers know."""

    def __init__(self, flags):
        self.flags = flags
        self.lock = threading.Lock()
        self.clients = {}
        self.codes = {}
        self.devices = {}
        self.access = {}
        self.refresh = {}
        self.dead = set()
        self.seen = []
        self.reused = 0
        self.families = 0

    def tell(self, what):
        self.seen.append(what)

    def tokens(self, client, scope, family=None, with_refresh=True):
        if family is None:
            self.families += 1
            family = self.families
        access, refresh = "at-" + secrets.token_urlsafe(24), "rt-" + secrets.token_urlsafe(24)
        until = time.time() + self.flags.life
        self.access[access] = {"until": until, "scope": scope, "family": family}
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": self.flags.life,
                  "scope": " ".join(scope)}
        if with_refresh:
            self.refresh[refresh] = {"client": client, "scope": scope, "family": family,
                                     "used": False}
            answer["refresh_token"] = refresh
        return answer


class Quiet(ThreadingHTTPServer):
    """A client that is gone is no news."""

    daemon_threads = True

    def handle_error(self, *_):
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world = None

    def log_message(self, *_):
        pass

    def answer(self, status, body=None, headers=()):
        data = b"" if body is None else (
            body.encode() if isinstance(body, str) else json.dumps(body).encode())
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Type" for name, _ in headers):
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def form(self):
        pairs = parse_qsl(self.body().decode(), keep_blank_values=True, strict_parsing=False)
        names = [name for name, _ in pairs]
        if len(names) != len(set(names)):
            return None
        return dict(pairs)


class SignIn(Handler):
    """The sign-in server."""

    def issuer(self):
        return self.world.issuer

    def do_GET(self):
        world, url = self.world, urlsplit(self.path)
        issuer = self.issuer()
        if url.path == "/.well-known/oauth-authorization-server":
            document = {
                "issuer": issuer,
                "authorization_endpoint": issuer + "/authorize?from=metadata",
                "token_endpoint": issuer + "/token",
                "revocation_endpoint": issuer + "/revoke",
                "device_authorization_endpoint": issuer + "/device",
                "registration_endpoint": issuer + "/register",
                "scopes_supported": ["tools", "more", "offline_access"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
                "authorization_response_iss_parameter_supported": True,
            }
            if world.flags.no_registration:
                del document["registration_endpoint"]
            return self.answer(200, document)
        if url.path == "/authorize":
            return self.authorize(url)
        if url.path == "/seen":
            with world.lock:
                return self.answer(200, {"seen": world.seen, "reused": world.reused,
                                         "families": world.families, "dead": len(world.dead)})
        if url.path == "/approve":
            with world.lock:
                for device in world.devices.values():
                    device["agreed"] = True
            return self.answer(200, {})
        if url.path == "/expire":
            with world.lock:
                for token in world.access.values():
                    token["until"] = 0
            return self.answer(200, {})
        return self.answer(404, {"error": "not_found"})

    def authorize(self, url):
        world = self.world
        query = parse_qs(url.query, keep_blank_values=True)
        one = lambda name: query.get(name, [""])[0]
        with world.lock:
            world.tell({"authorize": sorted(query)})
            client = world.clients.get(one("client_id"))
            redirect = one("redirect_uri")
            if client is None or not self.fits(client, redirect):
                return self.answer(400, {"error": "invalid_request"})
            wrong = None
            if one("from") != "metadata":
                wrong = "the query of the endpoint is lost"
            elif one("response_type") != "code" or one("code_challenge_method") != "S256":
                wrong = "code and S256 are wanted"
            elif len(one("code_challenge")) != 43 or len(one("state")) < 32:
                wrong = "challenge or state is too short"
            elif one("resource") != world.resource:
                wrong = "for whom?"
            answer = {"state": one("state"), "iss": self.issuer()}
            if wrong or world.flags.deny:
                answer.update(error="access_denied", error_description=wrong or "the user says no")
            else:
                code = secrets.token_urlsafe(16)
                world.codes[code] = {
                    "client": one("client_id"), "redirect": redirect,
                    "challenge": one("code_challenge"), "scope": one("scope").split(),
                    "resource": one("resource"),
                }
                answer["code"] = code
        self.answer(302, "", [("Location", redirect + "?" + urlencode(answer))])

    @staticmethod
    def fits(client, redirect):
        if redirect in client["redirect_uris"]:
            return True
        # A port of this machine may be any, where none was registered.
        parts = urlsplit(redirect)
        return client.get("any_port") and parts.hostname in ("localhost", "127.0.0.1")

    def do_POST(self):
        world = self.world
        path = urlsplit(self.path).path
        if path == "/register":
            asked = json.loads(self.body())
            with world.lock:
                world.tell({"register": sorted(asked)})
                if set(asked) != MEMBERS or asked["application_type"] != "native":
                    return self.answer(400, {"error": "invalid_client_metadata"})
                identifier = "client-" + secrets.token_hex(4)
                world.clients[identifier] = asked
            return self.answer(201, {"client_id": identifier, **asked})
        form = self.form()
        if form is None:
            return self.answer(400, {"error": "invalid_request"})
        if self.headers.get("Accept") != "application/json":
            return self.answer(406, {"error": "invalid_request"})
        with world.lock:
            client = self.client(form)
            if client is None:
                return self.answer(401, {"error": "invalid_client"})
            if path == "/token":
                status, body = self.token(client, form)
            elif path == "/device":
                device, user = secrets.token_urlsafe(16), secrets.token_hex(3).upper()
                world.devices[device] = {"client": client, "agreed": False,
                                         "scope": form.get("scope", "").split()}
                status, body = 200, {
                    "device_code": device, "user_code": user, "interval": 1, "expires_in": 60,
                    "verification_uri": self.issuer() + "/enter",
                    "verification_uri_complete": self.issuer() + "/enter?code=" + user,
                }
            elif path == "/revoke":
                family = (world.refresh.get(form.get("token"))
                          or world.access.get(form.get("token")) or {}).get("family")
                world.tell({"revoke": form.get("token_type_hint")})
                world.dead.add(family)
                status, body = 200, {}
            else:
                status, body = 404, {"error": "not_found"}
        if path == "/token" and world.flags.slow:
            time.sleep(world.flags.slow)
        self.answer(status, body)

    def client(self, form):
        world = self.world
        identifier, secret = form.get("client_id"), None
        basic = self.headers.get("Authorization", "")
        if basic.startswith("Basic "):
            pair = base64.b64decode(basic[6:]).decode().split(":", 1)
            identifier, secret = [dict(parse_qsl("x=" + part))["x"] for part in pair]
        client = world.clients.get(identifier)
        if client is None or client.get("secret") != secret:
            return None
        return identifier

    def token(self, client, form):
        world = self.world
        grant = form.get("grant_type")
        world.tell({"token": grant, "has": sorted(form)})
        if form.get("resource") != world.resource:
            return 400, {"error": "invalid_target"}
        if grant == "authorization_code":
            code = world.codes.pop(form.get("code"), None)
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if (code is None or code["client"] != client or code["challenge"] != challenge
                    or code["redirect"] != form.get("redirect_uri")):
                return 400, {"error": "invalid_grant"}
            return 200, world.tokens(client, code["scope"])
        if grant == "refresh_token":
            if "scope" in form:
                return 400, {"error": "invalid_scope"}
            kept = world.refresh.get(form.get("refresh_token"))
            if kept is None or kept["client"] != client or kept["family"] in world.dead:
                return 400, {"error": "invalid_grant", "error_description": "the family is dead"}
            if kept["used"]:
                # A second use is a theft.
                world.reused += 1
                world.dead.add(kept["family"])
                return 400, {"error": "invalid_grant", "error_description": "used twice"}
            kept["used"] = True
            return 200, world.tokens(client, kept["scope"], kept["family"])
        if grant == DEVICE:
            device = world.devices.get(form.get("device_code"))
            if device is None or device["client"] != client:
                return 400, {"error": "invalid_grant"}
            if not device["agreed"]:
                return 400, {"error": "authorization_pending"}
            return 200, world.tokens(client, device["scope"])
        if grant == "client_credentials":
            return 200, world.tokens(client, form.get("scope", "").split(), with_refresh=False)
        return 400, {"error": "unsupported_grant_type"}


class Server(Handler):
    """The MCP server."""

    def challenge(self, error=None, scope=None):
        place = self.world.server + "/.well-known/oauth-protected-resource/mcp"
        words = ['resource_metadata="%s"' % place]
        if error:
            words.append('error="%s"' % error)
        if scope or self.world.flags.scope:
            words.append('scope="%s"' % (scope or self.world.flags.scope))
        return [("WWW-Authenticate", 'Basic realm="a, b", Bearer ' + ", ".join(words))]

    def do_GET(self):
        world = self.world
        if urlsplit(self.path).path.startswith("/.well-known/oauth-protected-resource"):
            return self.answer(200, {
                "resource": world.resource, "authorization_servers": [world.issuer],
                "scopes_supported": ["tools"]})
        if urlsplit(self.path).path == "/mcp" and self.admitted() is None:
            return None
        return self.answer(405, {"error": "no stream"})

    def do_DELETE(self):
        if self.admitted() is not None:
            self.answer(200, {})

    def admitted(self):
        world = self.world
        token = self.headers.get("Authorization", "")
        kept = world.access.get(token.removeprefix("Bearer "))
        if kept is None or kept["until"] < time.time() or kept["family"] in world.dead:
            error = "invalid_token" if token else None
            # A body that looks like an answer must not count as one.
            body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no token"}}
            self.answer(401, body, self.challenge(error))
            return None
        return kept

    def do_POST(self):
        world = self.world
        body = self.body()
        kept = self.admitted()
        if kept is None:
            return None
        message = json.loads(body)
        method = message.get("method")
        if "id" not in message:
            return self.answer(202)
        if method == "tools/call" and message["params"]["name"] == "more":
            if "more" not in kept["scope"]:
                return self.answer(403, {}, self.challenge("insufficient_scope", "tools more"))
        results = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "strict", "version": "1"}},
            "tools/list": {"tools": [
                {"name": name, "inputSchema": {"type": "object"}} for name in ("hello", "more")]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        }
        if method not in results:
            error = {"code": -32601, "message": "no such method"}
            return self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        return self.answer(
            200, {"jsonrpc": "2.0", "id": message["id"], "result": results[method]})


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--life", type=int, default=3600)
    flags.add_argument("--scope", default="")
    flags.add_argument("--slow", type=float, default=0)
    flags.add_argument("--deny", action="store_true")
    flags.add_argument("--no-registration", action="store_true")
    world = World(flags.parse_args())
    servers = []
    for kind in (SignIn, Server):
        handler = type(kind.__name__, (kind,), {"world": world})
        server = Quiet(("127.0.0.1", 0), handler)
        servers.append(server)
    world.issuer = "http://127.0.0.1:%d" % servers[0].server_port
    world.server = "http://127.0.0.1:%d" % servers[1].server_port
    world.resource = world.server + "/mcp"
    world.clients["robot"] = {"redirect_uris": [], "secret": "s3cret-of-robot", "any_port": True}
    world.clients["known"] = {"redirect_uris": [], "any_port": True}
    print(json.dumps({"issuer": world.issuer, "url": world.resource}), flush=True)
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
