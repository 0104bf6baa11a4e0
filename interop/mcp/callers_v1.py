"""Two callers of one front, each known by its token, with clients made with the first line of the
official Python SDK.

callers_v1.py URL TOKEN TOOL TOKEN TOOL     each token is shown its tool, and no other
"""

import asyncio
import sys

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamablehttp_client

ARGUMENTS = {"a": 1, "b": 2, "text": "x"}


def same(what, got, want):
    if got != want:
        sys.exit(f"mcp: {what}: got {got!r}, want {want!r}")


def headers(token, **more):
    return {"Authorization": f"Bearer {token}", **more}


async def sees(session, tool, hidden):
    names = [listed.name for listed in (await session.list_tools()).tools]
    same("tools", names, [tool])
    await session.call_tool(tool, ARGUMENTS)
    try:
        await session.call_tool(hidden, ARGUMENTS)
        sys.exit("mcp: a hidden tool was called")
    except McpError as error:
        same("hidden", (error.error.code, error.error.message), (-32602, f"unknown tool: {hidden}"))


async def status(url, token, session):
    ping = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream", "Mcp-Session-Id": session}
    async with httpx.AsyncClient() as client:
        return (await client.post(url, json=ping, headers=headers(token, **accept))).status_code


async def main(url, one, one_tool, other, other_tool):
    async with (
        streamablehttp_client(url, headers=headers(one)) as (read, write, one_id),
        ClientSession(read, write) as first,
        streamablehttp_client(url, headers=headers(other)) as (read, write, other_id),
        ClientSession(read, write) as second,
    ):
        await first.initialize()
        await second.initialize()
        await sees(first, one_tool, other_tool)
        await sees(second, other_tool, one_tool)
        same("its own session", await status(url, one, one_id()), 200)
        same("a foreign session", await status(url, one, other_id()), 404)
        same("no credential", await status(url, "nobody", one_id()), 401)
        await sees(first, one_tool, other_tool)


asyncio.run(main(*sys.argv[1:]))
