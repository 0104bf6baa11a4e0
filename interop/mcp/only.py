"""A server on standard streams, kept to one era: what would tell it of the other is refused here.

only.py legacy|modern WORD…     the words start the server
"""

import json
import subprocess
import sys
import threading

FIRST = {"legacy": "initialize", "modern": "server/discover"}
era, words = sys.argv[1], sys.argv[2:]
refused = next(method for other, method in FIRST.items() if other != era)
server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
lock = threading.Lock()


def say(line):
    with lock:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def listen():
    for line in server.stdout:
        say(line)


listener = threading.Thread(target=listen)
listener.start()
for line in sys.stdin.buffer:
    message = json.loads(line)
    if message.get("method") == refused:
        error = {"code": -32601, "message": f"{refused} is not of this era"}
        said = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        say(json.dumps(said).encode() + b"\n")
    else:
        server.stdin.write(line)
        server.stdin.flush()
server.stdin.close()
listener.join()
sys.exit(server.wait())
