"""Callers at three nodes, of which one is killed and one is stopped: each call ends once, and at most
those fail that were at the dead node. load.py TOOLBUS ADDRESS KILLED STOPPED"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

CALLERS, SECONDS = 16, 12
toolbus, address, killed, stopped = sys.argv[1:]
front = subprocess.Popen(
    [toolbus, "rpc", "serve", "--listen", "tcp://127.0.0.1:0", address],
    stderr=subprocess.PIPE,
    text=True,
)
port = int(front.stderr.readline().rsplit(":", 1)[1])
answered, failed = [], []
until = time.monotonic() + SECONDS


def call_on() -> None:
    connection = socket.create_connection(("127.0.0.1", port))
    text = ""
    while time.monotonic() < until:
        connection.sendall(b'{"method":"sleep","args":{"ms":20}}')
        while True:
            try:
                value, end = json.JSONDecoder().raw_decode(text)
                text = text[end:].lstrip()
                break
            except ValueError:
                more = connection.recv(65536)
                assert more, "the front closed a connection"
                text = (text + more.decode()).lstrip()
        if "err" in value:
            failed.append(value["err"]["msg"])
        else:
            answered.append(value)


callers = [threading.Thread(target=call_on) for _ in range(CALLERS)]
for caller in callers:
    caller.start()
time.sleep(2)
os.kill(int(killed), signal.SIGKILL)
time.sleep(4)
os.kill(int(stopped), signal.SIGTERM)
for caller in callers:
    caller.join()
front.terminate()
front.wait()
others = [message for message in failed if not message.endswith("is gone")]
print(f"nats: {len(answered)} calls answered, {len(failed)} gone with a killed node, 0 with a stopped one")
assert answered and not others and len(failed) <= CALLERS, failed
