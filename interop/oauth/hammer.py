"""Many processes share one sign-in, and some are ended in the middle: is a family of tokens lost?

hammer.py TOOLBUS PROCESSES ROUNDS [SEED]

In each round all tokens end, and that many processes call at once; a third of them is told to end,
by SIGTERM or SIGINT, at a moment that is chosen at random. The sign-in server takes a second use of a
refresh token for theft, and counts.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

here = os.path.dirname(os.path.abspath(__file__))
toolbus, processes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 7
chance = random.Random(seed)
print(f"oauth: seed {seed}", flush=True)

strict = subprocess.Popen([sys.executable, f"{here}/strict.py", "--slow", "0.02"],
                          stdout=subprocess.PIPE, text=True)
told = json.loads(strict.stdout.readline())
state = tempfile.mkdtemp()
surroundings = {**os.environ, "XDG_STATE_HOME": state}


def ask(path):
    with urllib.request.urlopen(told["issuer"] + path) as answer:
        return json.load(answer)


def one(after, how, ended):
    process = subprocess.Popen([toolbus, "call", "-q", "--json", told["url"], "hello"],
                               env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if how is not None:
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.send_signal(how)
    out, err = process.communicate()
    ended.append((process.returncode, how, out, err))


try:
    browser = f"{sys.executable} {here}/fetch.py"
    subprocess.run([toolbus, "login", told["url"], "--browser", browser],
                   env=surroundings, check=True, stderr=subprocess.DEVNULL)
    for at in range(rounds):
        ask("/expire")
        ended, threads = [], []
        for _ in range(processes):
            how = chance.choice([None, None, None, None, signal.SIGTERM, signal.SIGINT])
            words = (chance.random() * 0.3, how, ended)
            threads.append(threading.Thread(target=one, args=words))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wrong = [it for it in ended if it[1] is None and it[0] != 0]
        if wrong:
            raise SystemExit(f"oauth: a call failed in round {at}: {wrong[0]}")
    seen = ask("/seen")
    refreshes = sum(1 for it in seen["seen"] if it.get("token") == "refresh_token")
    if seen["reused"] or seen["dead"] or seen["families"] != 1:
        raise SystemExit(f"oauth: a family of tokens was lost: {seen['reused']} used twice")
    print(f"oauth: {processes} processes, {rounds} rounds, {refreshes} refreshes: no family lost")
finally:
    strict.kill()
