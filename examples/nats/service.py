"""A micro service of one endpoint, which toolbus calls as a tool: python3 service.py URL"""

import asyncio
import json
import sys

import nats
import nats.micro

SCHEMA = '{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}'


async def add(request: nats.micro.Request) -> None:
    numbers = json.loads(request.data)
    if "a" not in numbers:
        return await request.respond_error("422", "there is no a")
    await request.respond(json.dumps({"sum": numbers["a"] + numbers["b"]}).encode())


async def main(url: str) -> None:
    client = await nats.connect(url)
    service = await nats.micro.add_service(client, name="sums", version="1.0.0", description="Sums")
    about = {"schema": SCHEMA, "description": "Add two numbers"}
    await service.add_endpoint(name="add", handler=add, metadata=about)
    await client.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
