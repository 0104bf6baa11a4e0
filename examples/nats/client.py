"""Calls a tool that a toolbus serves, and shows what a failure is: python3 client.py URL NAME"""

import asyncio
import json
import sys

import nats


async def main(url: str, name: str) -> None:
    client = await nats.connect(url)
    answer = await client.request(f"{name}.add", b'{"a":19,"b":23}', timeout=5)
    print(json.loads(answer.data))
    answer = await client.request(f"{name}.fail", b'{"message":"out of luck"}', timeout=5)
    error = answer.headers["Nats-Service-Error"]
    print(answer.headers["Nats-Service-Error-Code"], error)
    await client.close()


asyncio.run(main(*sys.argv[1:]))
