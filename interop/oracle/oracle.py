"""A foreign oracle: answers the way oracles in the field do.

`ready` has id 0 and no params, whatever answers it; malformed lines are not answered; handlers
print to standard output; all traffic is echoed to standard error; a panic ends it with 101.
"""

import json
import os
import random
import sys

FUNCTIONS = ["echo", "noisy", "fail", "panic", "decimal", "pid"]


def say(message):
    line = json.dumps({"jsonrpc": "2.0", **message})
    print("-> " + line, file=sys.stderr, flush=True)
    print(line, flush=True)


def call(selector, calldata):
    if selector == "echo":
        return {"result": calldata}
    if selector == "noisy":
        print("a handler prints what it likes", flush=True)
        return {"result": ["0x1"]}
    if selector == "fail":
        return {"error": {"code": -32603, "message": "cannot do it\n\nCaused by:\n    no luck"}}
    if selector == "panic":
        print("thread 'main' panicked", file=sys.stderr, flush=True)
        sys.exit(101)
    if selector == "decimal":
        return {"result": ["10"]}
    if selector == "pid":
        return {"result": [hex(os.getpid())]}
    provided = ", ".join('"%s"' % name for name in random.sample(FUNCTIONS, len(FUNCTIONS)))
    message = 'unknown selector: "%s", this oracle provides: %s' % (selector, provided)
    return {"error": {"code": -32602, "message": message}}


say({"id": 0, "method": "ready"})
for line in sys.stdin:
    print("<- " + line, end="", file=sys.stderr, flush=True)
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if not isinstance(message, dict) or "method" not in message:
        continue
    if message["method"] == "shutdown" and "id" not in message:
        break
    if not isinstance(message.get("id"), (str, int)):
        continue
    if message["method"] != "invoke":
        error = {"code": -32601, "message": "unknown request method"}
        say({"id": message["id"], "error": error})
        continue
    params = message["params"]
    say({"id": message["id"], **call(params["selector"], params["calldata"])})
