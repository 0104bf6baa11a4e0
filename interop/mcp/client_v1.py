"""A client made with the first line of the official Python SDK, which speaks the legacy era only.

client_v1.py TOOL WANT WORD…     the words start the server, whose tool asks and then says so
client_v1.py TOOL WANT URL       the server listens there
"""

import asyncio
import sys
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent


async def elicited(context, params):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def sampled(context, params):
    said = TextContent(type="text", text="Hello")
    return CreateMessageResult(role="assistant", content=said, model="none")


async def rooted(context):
    return ListRootsResult(roots=[Root(uri="file:///home")])


async def main(tool, want, words):
    listens = words[0].startswith("http:")
    server = StdioServerParameters(command=words[0], args=words[1:])
    async with streamablehttp_client(words[0]) if listens else stdio_client(server) as streams:
        async with ClientSession(
            *streams[:2],
            read_timeout_seconds=timedelta(seconds=60),
            elicitation_callback=elicited,
            sampling_callback=sampled,
            list_roots_callback=rooted,
        ) as session:
            await session.initialize()
            await session.list_tools()
            result = await session.call_tool(tool, {})
            got = [block.text for block in result.content]
            if got != [want]:
                sys.exit(f"mcp: {tool}: got {got!r}, want {want!r}")


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
