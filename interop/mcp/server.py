"""An MCP server made with the official Python SDK: tools of every kind, a prompt, a resource.

server.py           on standard input and output
server.py http      at a free port, told in the first line of standard output
"""

import os
import sys
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel

from everything.listen import listen

server = MCPServer("foreign", version="1.2.3", log_level="ERROR")


class Answer(BaseModel):
    name: str


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
def fail() -> str:
    """Fail"""
    raise ValueError("no luck")


def who():
    return Elicit("Who are you?", Answer)


@server.tool()
def ask(answer: Annotated[Answer, Resolve(who)]) -> str:
    """Ask the user, as the era has it"""
    return f"hello {answer.name}"


@server.tool()
def die() -> str:
    """End in the middle of a call"""
    os._exit(7)


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}"


@server.resource("note://one")
def note() -> str:
    return "a note"


if sys.argv[1:] == ["http"]:
    listen(server.streamable_http_app())
else:
    server.run()
