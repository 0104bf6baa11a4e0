"""A foreign executor: calls an oracle the way executors in the field do.

Params have calldata before selector, a body and its line end are two writes, every line is
taken for the answer, and the oracle is killed right after it was told to shut down.
"""

import json
import os
import signal
import subprocess


class Executor:
    def __init__(self, command, env=None):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env={**os.environ, **(env or {})},
        )
        self.next_id = 0
        assert self.process.stdout.read(1) == b"{", "the first byte must be {"
        ready = json.loads(b"{" + self.process.stdout.readline())
        assert ready["jsonrpc"] == "2.0" and ready["method"] == "ready", ready
        # Objects in the params are passed over; arrays break executors.
        assert isinstance(ready.get("params", {}), dict), ready
        assert isinstance(ready["id"], int), ready
        self.say({"jsonrpc": "2.0", "id": ready["id"], "result": {}})

    def say(self, message):
        os.write(self.process.stdin.fileno(), json.dumps(message, separators=(",", ":")).encode())
        os.write(self.process.stdin.fileno(), b"\n")

    def invoke(self, selector, *calldata):
        request = {
            "jsonrpc": "2.0", "id": self.next_id, "method": "invoke",
            "params": {"calldata": list(calldata), "selector": selector},
        }
        self.next_id += 1
        self.say(request)
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == request["id"], answer
        if answer.get("error") is not None:
            # All that the Cairo program will see.
            return "error: " + answer["error"]["message"]
        return answer["result"]

    def leave(self):
        self.say({"jsonrpc": "2.0", "method": "shutdown"})
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
