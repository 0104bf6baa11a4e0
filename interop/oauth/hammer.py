"""Many processes share one sign-in, and some are ended in the middle: is a family of tokens lost?

hammer.py TOOLBUS PROCESSES REFRESHES [SEED]

So many `toolbus mcp` run beside each other. In each round the token ends and all of them call at
once; the token is refreshed by one, and no other may use the refresh token before it. Some are told
to end, by SIGTERM or SIGINT, at a moment that is chosen at random, and others take their places. The
sign-in server takes a second use of a refresh token for theft, and counts.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

here = os.path.dirname(os.path.abspath(__file__))
toolbus, processes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 7
chance = random.Random(seed)
print(f"oauth: seed {seed}", flush=True)

strict = subprocess.Popen([sys.executable, "-B", f"{here}/strict.py", "--slow", "0.01"],
                          stdout=subprocess.PIPE, text=True)
told = json.loads(strict.stdout.readline())
state = tempfile.TemporaryDirectory()
surroundings = {**os.environ, "XDG_STATE_HOME": state.name}


def ask(path):
    with urllib.request.urlopen(told["issuer"] + path) as answer:
        return json.load(answer)


class Editor:
    """One process that calls for as long as it is not ended."""

    def __init__(self):
        self.ids = 0
        self.process = subprocess.Popen(
            [toolbus, "mcp", "-q", told["url"]], env=surroundings, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def begin(self):
        self.answer("initialize", protocolVersion="2025-11-25", capabilities={},
                    clientInfo={"name": "hammer", "version": "1"})
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def say(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def answer(self, method, **params):
        """The answer to a request; `None` if the process has ended before it."""
        self.ids += 1
        try:
            self.say({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params})
            for line in self.process.stdout:
                message = json.loads(line)
                if message.get("id") == self.ids:
                    return message
        except BrokenPipeError:
            pass
        return None

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait(60)


def one(editor, after, how):
    """A call, which is ended after so long if it is not over by then."""
    if how is None:
        return editor.answer("tools/call", name="hello", arguments={}), None
    with ThreadPoolExecutor(1) as beside:
        call = beside.submit(editor.answer, "tools/call", name="hello", arguments={})
        time.sleep(after)
        editor.process.send_signal(how)
        answer = call.result()
    editor.end()
    return answer, how


def fresh(_=None):
    editor = Editor()
    editor.begin()
    return editor


editors, ended = [], 0
try:
    subprocess.run([toolbus, "login", told["url"], "--browser", f"{sys.executable} {here}/fetch.py"],
                   env=surroundings, check=True, stderr=subprocess.DEVNULL)
    with ThreadPoolExecutor(processes) as crowd:
        editors = list(crowd.map(fresh, range(processes)))
        for at in range(rounds):
            ask("/expire")
            # A tenth of them, at moments from before the refresh to behind it.
            hows = [chance.choice([signal.SIGTERM, signal.SIGINT]) if chance.random() < 0.1 else None
                    for _ in editors]
            afters = [chance.random() * 0.06 for _ in editors]
            for index, (answer, how) in enumerate(crowd.map(one, editors, afters, hows)):
                if how is not None:
                    ended += 1
                    editors[index] = None
                elif answer is None or answer.get("result", {}).get("content") != [
                        {"type": "text", "text": "hello"}]:
                    raise SystemExit(f"oauth: a call failed in round {at}: {answer}")
            gone = [index for index, editor in enumerate(editors) if editor is None]
            for index, editor in zip(gone, crowd.map(fresh, gone)):
                editors[index] = editor
    seen = ask("/seen")
    refreshes = sum(1 for it in seen["seen"] if it.get("token") == "refresh_token")
    if seen["reused"] or seen["dead"] or seen["families"] != 1 or refreshes < rounds:
        raise SystemExit(f"oauth: a family of tokens was lost: {seen['reused']} used twice, "
                         f"{seen['dead']} dead, {refreshes} refreshes in {rounds} rounds")
    print(f"oauth: {processes} processes, {refreshes} refreshes, {ended} ended in the middle: "
          "no family lost", flush=True)
finally:
    for editor in editors:
        if editor is not None:
            editor.process.kill()
            editor.process.wait()
    strict.kill()
    state.cleanup()
