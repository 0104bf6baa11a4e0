"""A client of the official Python SDK signs in to a front of ours: client.py URL

All that it knows is the URL. The user agrees at once.
"""

import asyncio
import sys
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

REDIRECT = "http://localhost:8125/callback"


class Kept:
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Stays(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def agreed(url):
    """Where the user is sent who agrees."""
    try:
        urllib.request.build_opener(Stays).open(url)
    except urllib.error.HTTPError as error:
        return parse_qs(urlsplit(error.headers["Location"]).query)
    sys.exit("oauth-front: the user was sent nowhere")


async def main(url):
    answers = []

    async def open_browser(url):
        answers.append(await asyncio.to_thread(agreed, url))

    async def come_back():
        answer = answers.pop()
        return AuthorizationCodeResult(
            code=answer["code"][0], state=answer["state"][0], iss=answer["iss"][0])

    metadata = OAuthClientMetadata(
        client_name="interop", redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"], response_types=["code"],
        token_endpoint_auth_method="none")
    kept = Kept()
    auth = OAuthClientProvider(url, metadata, kept, open_browser, come_back)
    async with httpx2.AsyncClient(auth=auth, follow_redirects=True) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                result = await session.call_tool("add", {"a": 1, "b": 2})
    if [block.text for block in result.content] != ["3"] or kept.tokens is None:
        sys.exit(f"oauth-front: got {result!r}")


asyncio.run(main(sys.argv[1]))
