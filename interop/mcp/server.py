"""An MCP server made with the official Python SDK: tools of every kind, a prompt, a resource."""

import os

from pydantic import BaseModel

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

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


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the user"""
    asked = await ctx.elicit("Who are you?", Answer)
    return f"hello {asked.data.name}" if asked.action == "accept" else asked.action


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


server.run()
