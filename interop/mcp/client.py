"""A client made with the official Python SDK, in both eras.

client.py builtin|foreign|old|curious WORD…     the words start the server
client.py builtin|foreign|old|curious URL       the server listens there
"""

import asyncio
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent


def same(what, got, want):
    if got != want:
        sys.exit(f"mcp: {what}: got {got!r}, want {want!r}")


def text(result):
    return [block.text for block in result.content]


async def builtin(client, mode):
    names = [tool.name for tool in (await client.list_tools()).tools]
    same("tools", {"add", "upper", "fail", "sleep"} <= set(names), True)
    same("add", text(await client.call_tool("add", {"a": 1, "b": 2})), ["3"])
    same("upper", text(await client.call_tool("upper", {"text": "hé"})), ["HÉ"])
    same("count", text(await client.call_tool("count", {"n": 3})), ["0", "1", "2"])
    failed = await client.call_tool("fail", {"message": "oops"})
    same("fail", (failed.is_error, text(failed)), (True, ["oops"]))
    try:
        await client.call_tool("nope", {})
        sys.exit("mcp: an unknown tool was called")
    except MCPError as error:
        same("unknown tool", (error.error.code, error.error.message), (-32602, "unknown tool: nope"))
    many = [client.call_tool("add", {"a": n, "b": n}) for n in range(100)]
    same("a hundred", [text(r)[0] for r in await asyncio.gather(*many)], [str(2 * n) for n in range(100)])


async def foreign(client, mode):
    same("who", (client.server_info.name, client.server_info.version), ("foreign", "1.2.3"))
    same("add", (await client.call_tool("add", {"a": 1, "b": 2})).structured_content, {"result": 3})
    told = []

    async def progress(done, total, message):
        told.append((done, total))

    steps = await client.call_tool("steps", {"count": 3}, progress_callback=progress)
    same("steps", (text(steps), told), (["3 steps"], [(1, 3), (2, 3), (3, 3)]))
    same("fail", (await client.call_tool("fail", {})).is_error, True)
    prompt = await client.get_prompt("greet", {"name": "Ada"})
    same("prompt", prompt.messages[0].content.text, "Greet Ada")
    note = await client.read_resource("note://one")
    same("resource", note.contents[0].text, "a note")
    same("ask", text(await client.call_tool("ask", {})), ["hello Ada"])


async def old(client, mode):
    """A server of the legacy era"""
    same("add", text(await client.call_tool("add", {"a": 1, "b": 2})), ["3"])


async def curious(client, mode):
    """One that asks in the middle of a call"""
    await old(client, mode)
    told = text(await client.call_tool("curious", {}))
    same("curious", told, ["Hello Ada of file:///home"])


async def elicited(context, params):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def sampled(context, params):
    said = TextContent(type="text", text="Hello")
    return CreateMessageResult(role="assistant", content=said, model="none")


async def rooted(context):
    return ListRootsResult(roots=[Root(uri="file:///home")])


async def main(what, words):
    talk = {"builtin": builtin, "foreign": foreign, "old": old, "curious": curious}[what]
    listens = words[0].startswith("http:")
    server = words[0] if listens else StdioServerParameters(command=words[0], args=words[1:])
    for mode in ["legacy", "auto"]:
        async with Client(
            server,
            mode=mode,
            read_timeout_seconds=60,
            elicitation_callback=elicited,
            sampling_callback=sampled,
            list_roots_callback=rooted,
        ) as client:
            version = "2025-11-25" if mode == "legacy" else "2026-07-28"
            same("version", client.protocol_version, version)
            await talk(client, mode)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
