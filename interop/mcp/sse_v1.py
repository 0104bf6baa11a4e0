"""The old HTTP+SSE with the official Python SDK of the first line.

sse_v1.py server            a server at a free port, told in the first line of standard output
sse_v1.py builtin URL       a client that calls builtin tools
sse_v1.py foreign URL       a client that calls the tools of that server
"""

import asyncio
import os
import sys

from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import ElicitResult
from pydantic import BaseModel


class Answer(BaseModel):
    name: str


def serve():
    import socket

    import uvicorn

    server = FastMCP("old", log_level="ERROR")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers"""
        return a + b

    @server.tool()
    async def steps(count: int, ctx: Context) -> str:
        """Tell progress on the way"""
        for step in range(count):
            await ctx.report_progress(step + 1, count)
        return f"{count} steps"

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask the user"""
        answer = await ctx.elicit("Who are you?", Answer)
        return f"hello {answer.data.name}"

    @server.tool()
    def fail() -> str:
        """Fail"""
        raise ValueError("no luck")

    @server.tool()
    async def slow() -> str:
        """Wait until cancelled"""
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            print("cancelled", flush=True)
            raise
        return "slow"

    @server.tool()
    def die() -> str:
        """End in the middle of a call"""
        os._exit(7)

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    print(f"listening on http://127.0.0.1:{port}/sse", flush=True)
    config = uvicorn.Config(server.sse_app(), log_level="critical")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


def same(what, got, want):
    if got != want:
        sys.exit(f"mcp: {what}: got {got!r}, want {want!r}")


def text(result):
    return [block.text for block in result.content]


async def builtin(client):
    names = [tool.name for tool in (await client.list_tools()).tools]
    same("tools", {"add", "upper", "fail", "sleep"} <= set(names), True)
    same("upper", text(await client.call_tool("upper", {"text": "hé"})), ["HÉ"])
    large = "x" * 1_000_000
    same("large", text(await client.call_tool("upper", {"text": large})), [large.upper()])
    failed = await client.call_tool("fail", {"message": "oops"})
    same("fail", (failed.isError, text(failed)), (True, ["oops"]))
    many = [client.call_tool("add", {"a": n, "b": n}) for n in range(100)]
    same("a hundred", [text(r)[0] for r in await asyncio.gather(*many)], [str(2 * n) for n in range(100)])


async def foreign(client):
    same("add", text(await client.call_tool("add", {"a": 1, "b": 2})), ["3"])
    told = []

    async def progress(done, total, message):
        told.append((done, total))

    steps = await client.call_tool("steps", {"count": 3}, progress_callback=progress)
    same("steps", (text(steps), told), (["3 steps"], [(1, 3), (2, 3), (3, 3)]))
    same("ask", text(await client.call_tool("ask", {})), ["hello Ada"])


async def elicited(context, params):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def call(what, url):
    talk = {"builtin": builtin, "foreign": foreign}[what]
    async with sse_client(url) as (read, write):
        async with ClientSession(read, write, elicitation_callback=elicited) as client:
            await client.initialize()
            await client.send_ping()
            await talk(client)


if sys.argv[1] == "server":
    serve()
else:
    asyncio.run(call(*sys.argv[1:]))
