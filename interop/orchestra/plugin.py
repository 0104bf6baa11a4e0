"""A plugin of any Orchestra hub, on aioquic and Google's Protobuf.

Like the existing ones it stays when it is told to shut down, and ends by SIGTERM.
"""

import argparse
import asyncio
import os
import signal
import sys

import messages as m
import peer

TOOLS = ["echo", "slow", "crash", "noise", "size", "count"]


def tool_call(call):
    arguments = m.plain(call.arguments)
    response = m.ToolResponse(success=True)
    match call.tool_name:
        case "echo":
            response.result.update(arguments)
        case "size":
            response.result.update({"size": len(arguments.get("text", ""))})
        case "crash":
            os._exit(3)
        case "noise":
            line = b"x" * 999 + b"\n"
            while (left := int(arguments["bytes"])) > 0:
                sys.stderr.buffer.write(line * min(1000, left // 1000 or 1))
                arguments["bytes"] = left - 1000 * 1000
            sys.stderr.buffer.flush()
            response.result.update({"text": "done"})
        case name:
            response.success = False
            response.error_code = "tool_not_found"
            response.error_message = f'tool "{name}" not found'
    return response


async def answer(request):
    response = m.PluginResponse(request_id=request.request_id)
    kind = request.WhichOneof("member")
    match kind:
        case "register":
            response.register.accepted = True
        case "boot":
            response.boot.ready = request.boot.config.get("refuse") != "yes"
            response.boot.error = "told to refuse" if not response.boot.ready else ""
        case "health":
            response.health.status = 1
            response.health.message = "ok"
        case "shutdown":
            response.shutdown.clean = True
        case "list_tools":
            for name in TOOLS:
                tool = response.list_tools.tools.add(name=name, description=f"does {name}")
                tool.input_schema.update({"type": "object"})
        case "list_prompts":
            response.list_prompts.prompts.add(name="greet", description="A greeting")
        case "prompt_get":
            message = response.prompt_get.messages.add(role="user")
            message.content.type, message.content.text = "text", "hello"
        case "storage_read":
            response.storage_read.content = f"content of {request.storage_read.path}".encode()
            response.storage_read.version = 7
        case "tool_call":
            if request.tool_call.tool_name == "slow":
                await asyncio.sleep(m.plain(request.tool_call.arguments)["seconds"])
                response.tool_call.success = True
                response.tool_call.result.update({"text": "slow"})
            else:
                response.tool_call.CopyFrom(tool_call(request.tool_call))
        case "stream_start":
            start = request.stream_start
            count = int(m.plain(start.arguments).get("n", 2))
            for number in range(count):
                chunk = m.PluginResponse(request_id=request.request_id)
                chunk.stream_chunk.stream_id = start.stream_id
                chunk.stream_chunk.data = f"chunk-{number};".encode()
                chunk.stream_chunk.content_type = "application/octet-stream"
                chunk.stream_chunk.sequence = number
                yield chunk
            response.stream_end.stream_id = start.stream_id
            response.stream_end.success = True
            response.stream_end.total_chunks = count
        case "publish":
            print("event", request.publish.topic, file=sys.stderr, flush=True)
        case "stream_cancel":
            return
        case _:
            response.tool_call.error_code = "unknown_request"
            response.tool_call.error_message = "unrecognized request type"
    yield response


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", default="tools.python")
    parser.add_argument("--orchestrator-addr")
    parser.add_argument("--listen-addr")
    parser.add_argument("--certs-dir")
    args = parser.parse_args()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server, port = await peer.listen(args.certs_dir, args.id, answer)
    print(f"READY 127.0.0.1:{port}", file=sys.stderr, flush=True)
    if args.orchestrator_addr:
        async with peer.dial(args.orchestrator_addr, args.certs_dir, f"{args.id}-client") as hub:
            request = m.PluginRequest(request_id="reg")
            request.register.id = args.id
            request.register.version = "1.0.0"
            request.register.language = "python"
            request.register.provides_tools.extend(TOOLS)
            request.register.provides_storage.append("markdown")
            request.register.needs_events.append("news")
            response = await hub.ask(request)
            if not response.register.accepted:
                sys.exit(1)
            await stop.wait()
    else:
        await stop.wait()
    server.close()


asyncio.run(main())
