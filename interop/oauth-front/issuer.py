"""A sign-in server made of Authlib, for a front of ours: codes with PKCE, clients that register
themselves, tokens by RFC 9068, refresh tokens that are good for one use, and RFC 9207.

It agrees for its user at once. The first line of standard input is the URL of the front, for which
all tokens are; /seen tells what was asked of it.
"""

import json
import logging
import os
import secrets
import sys
import threading
import time
from types import SimpleNamespace

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, grants
from authlib.oauth2.rfc6749 import list_to_scope, scope_to_list
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, jsonify, request
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import make_server

USER = SimpleNamespace(get_user_id=lambda: "ann")
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"}, private=True)
clients, codes, refreshes, seen = {}, {}, {}, []
world = SimpleNamespace(issuer=None, front=None)


class Client(ClientMixin):
    def __init__(self, identifier, metadata):
        self.identifier, self.metadata = identifier, metadata

    def get_client_id(self):
        return self.identifier

    def get_default_redirect_uri(self):
        return self.metadata["redirect_uris"][0]

    def get_allowed_scope(self, scope):
        return list_to_scope([word for word in scope_to_list(scope or "") if word == "tools"])

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri in self.metadata["redirect_uris"]

    def check_client_secret(self, _):
        return False

    def check_endpoint_auth_method(self, method, _):
        return method == "none"

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return grant_type in ("authorization_code", "refresh_token")

    @property
    def client_info(self):
        return {"client_id": self.identifier, "client_id_issued_at": int(time.time())}

    @property
    def client_metadata(self):
        return self.metadata


class Code(AuthorizationCodeMixin, SimpleNamespace):
    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope


class CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

    def save_authorization_code(self, code, request):
        payload = request.payload.data
        codes[code] = Code(
            client_id=request.client.get_client_id(), redirect_uri=payload.get("redirect_uri"),
            scope=request.payload.scope, code_challenge=payload.get("code_challenge"),
            code_challenge_method=payload.get("code_challenge_method"))

    def query_authorization_code(self, code, client):
        found = codes.get(code)
        return found if found and found.client_id == client.get_client_id() else None

    def delete_authorization_code(self, authorization_code):
        for code in [code for code, known in codes.items() if known is authorization_code]:
            del codes[code]

    def authenticate_user(self, _):
        return USER


class RefreshGrant(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token):
        return refreshes.get(refresh_token)

    def authenticate_user(self, _):
        return USER

    def revoke_old_credential(self, credential):
        refreshes.pop(credential.refresh_token, None)


class Tokens(JWTBearerTokenGenerator):
    def get_jwks(self):
        return KeySet([KEY])

    def get_audiences(self, *_):
        return [world.front]


class Registration(ClientRegistrationEndpoint):
    def authenticate_token(self, _):
        # All may register.
        return True

    def generate_client_info(self, *_):
        return {"client_id": "client-" + secrets.token_hex(6)}

    def get_server_metadata(self):
        return metadata()

    def save_client(self, client_info, client_metadata, _):
        identifier = client_info["client_id"]
        metadata = {**dict(client_metadata), "token_endpoint_auth_method": "none"}
        clients[identifier] = Client(identifier, metadata)
        return clients[identifier]


def save_token(token, request):
    if "refresh_token" in token:
        client = request.client
        refreshes[token["refresh_token"]] = SimpleNamespace(
            refresh_token=token["refresh_token"], check_client=lambda it: it is client,
            get_scope=lambda: token.get("scope", ""), get_client_id=client.get_client_id)


class Issuer(IssuerParameter):
    def get_issuer(self):
        return world.issuer


def metadata():
    return {
        "issuer": world.issuer,
        "authorization_endpoint": world.issuer + "/authorize",
        "token_endpoint": world.issuer + "/token",
        "registration_endpoint": world.issuer + "/register",
        "jwks_uri": world.issuer + "/keys",
        "scopes_supported": ["tools"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": True,
    }


app = Flask("issuer")
app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
server = AuthorizationServer(app, query_client=clients.get, save_token=save_token)
server.register_grant(CodeGrant, [CodeChallenge(required=True)])
server.register_grant(RefreshGrant)
server.register_extension(Issuer())
server.register_endpoint(Registration)


@app.before_request
def see():
    seen.append(request.path)
    # It is the front alone that tokens are for.
    asked = request.values.get("resource")
    if request.path in ("/authorize", "/token") and asked != world.front:
        return jsonify(error="invalid_target", error_description=f"for {asked}?"), 400


@app.get("/.well-known/oauth-authorization-server")
def published():
    return jsonify(metadata())


@app.get("/keys")
def keys():
    return jsonify(keys=[KEY.as_dict(private=False)])


@app.get("/seen")
def told():
    return jsonify(seen)


@app.post("/register")
def register():
    return server.create_endpoint_response("client_registration")


@app.post("/token")
def token():
    return server.create_token_response()


@app.get("/authorize")
def authorize():
    grant = server.get_consent_grant(end_user=USER)
    return server.create_authorization_response(grant_user=USER, grant=grant)


logging.getLogger("werkzeug").setLevel(logging.ERROR)
http = make_server("127.0.0.1", 0, app, threaded=True)
world.issuer = f"http://127.0.0.1:{http.server_port}"
# On loopback no TLS is needed, which Authlib has to be told.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
server.register_token_generator("default", Tokens(
    world.issuer, alg="RS256", refresh_token_generator=lambda **_: secrets.token_urlsafe(32)))
threading.Thread(target=http.serve_forever, daemon=True).start()
print("listening on " + world.issuer, flush=True)
world.front = sys.stdin.readline().strip()
threading.Event().wait()
