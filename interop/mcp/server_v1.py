"""An MCP server made with the first line of the official Python SDK: legacy era only.

server_v1.py           on standard input and output
server_v1.py http      at a free port, told in the first line of standard output
"""

import sys

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

from everything.listen import listen

server = FastMCP("foreign", log_level="ERROR")


class Answer(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers"""
    return a + b


@server.tool()
async def curious(ctx: Context) -> str:
    """Ask the user, the model and for folders, one after the other"""
    answer = await ctx.elicit("Who are you?", Answer)
    words = SamplingMessage(role="user", content=TextContent(type="text", text="Greet"))
    greeting = await ctx.session.create_message([words], max_tokens=50)
    roots = await ctx.session.list_roots()
    await ctx.report_progress(1, 1)
    return f"{greeting.content.text} {answer.data.name} of {roots.roots[0].uri}"


if sys.argv[1:] == ["http"]:
    listen(server.streamable_http_app())
else:
    server.run()
