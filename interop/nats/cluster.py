"""A cluster of three servers and three nodes under 64 callers: a node is killed every two seconds and
started again, then the servers are killed in turn. Each call ends once, those fail that were at what
was killed and no others, and one who looks on learns by itself what is there.
cluster.py TOOLBUS SERVER FOLDER SECONDS [nodes|servers]

Nodes are killed for so many seconds, and so are the servers, or each of them once if that is longer."""

import atexit
import datetime
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

CALLERS, THREE = 64, 3
# What is awaited comes within it, however busy this machine is.
PATIENCE = 60
toolbus, server, folder, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
which = sys.argv[5] if 5 < len(sys.argv) else "both"
folder = os.path.join(os.path.abspath(folder), "cluster")
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
running: list[subprocess.Popen] = []


@atexit.register
def stop_all() -> None:
    for process in running:
        process.kill()
        process.wait()


def ports(count: int) -> list[int]:
    """Ports that nobody else is given meanwhile: a server that was killed comes back to its own, so
    none of those that the system gives to whoever connects somewhere."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = min(int(file.read().split()[0]), 32768)
    found = []
    for port in random.sample(range(10000, end), 1000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.append(port)
        if len(found) == count:
            return found
    raise SystemExit("nats: there are no ports")


def started(words: list[str], says: str) -> subprocess.Popen:
    """A program that has said that it is ready, and whose further words are kept in a file."""
    said = os.path.join(folder, f"said.{len(running)}")
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    running.append(process)
    for line in process.stderr:
        if says in line:
            process.line = line

            def keep() -> None:
                with open(said, "w", encoding="utf-8") as file:
                    shutil.copyfileobj(process.stderr, file)

            threading.Thread(target=keep, daemon=True).start()
            return process
    raise SystemExit(f"nats: {' '.join(words)} ended before it was ready")


def until(what: str, is_so):
    """Waits for something, and gives it."""
    end = time.monotonic() + PATIENCE
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < end, f"not within {PATIENCE} s: {what}"
        time.sleep(0.05)


taken = ports(2 * THREE)
clients, routes = taken[:THREE], taken[THREE:]
others = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
address = f"nats://{','.join(f'127.0.0.1:{port}' for port in clients)}/team"


def start_server(at: int) -> subprocess.Popen:
    words = [server, "-a", "127.0.0.1", "-p", str(clients[at]), "--cluster_name", "three"]
    words += ["--cluster", f"nats://127.0.0.1:{routes[at]}", "--routes", others]
    return started(words, "Server is ready")


ids: set[str] = set()
begun = 0


def start_node(at: int) -> subprocess.Popen:
    """A node with the tools of all, and one of its own by which one who looks on knows it."""
    global begun
    begun += 1
    turned = [f"127.0.0.1:{port}" for port in clients[at:] + clients[:at]]
    config = os.path.join(folder, f"node{at}.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'[back.all]\nconnect = "builtin:"\nallow = ["sleep"]\n')
        file.write(f'[back.own{begun}]\nconnect = "builtin:"\nallow = ["echo"]\n')
        file.write(f'[front.nodes]\nserve = "nats://{",".join(turned)}/team"\n')
    node = started([toolbus, "serve", "--config", config], "listening on")
    node.ready = time.monotonic()
    node.own = f"own{begun}.echo"

    def new() -> set[str]:
        words = [toolbus, "nats", "nodes", "--json", address]
        seen = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        return {json.loads(line)["id"] for line in seen.splitlines()} - ids

    (node.id,) = until("a new node is seen over the cluster", new)
    ids.add(node.id)
    return node


class Onlooker:
    """A client of MCP that calls nothing, and asks for the list when it is told that it has changed."""

    def __init__(self) -> None:
        words = [toolbus, "mcp", address]
        self.pipe = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        running.append(self.pipe)
        self.changed = threading.Condition()
        self.tools: set[str] = set()
        # Since when a tool has been there, and has not.
        self.came: dict[str, float] = {}
        self.went: dict[str, float] = {}
        client = {"protocolVersion": "2025-06-18", "capabilities": {}}
        client["clientInfo"] = {"name": "onlooker", "version": "1"}
        self.say({"id": 0, "method": "initialize", "params": client})
        threading.Thread(target=self.listen, daemon=True).start()

    def say(self, message: dict) -> None:
        self.pipe.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.pipe.stdin.flush()

    def listen(self) -> None:
        number = 0
        for line in self.pipe.stdout:
            message = json.loads(line)
            if message.get("id") == 0:
                self.say({"method": "notifications/initialized"})
            elif "tools" in message.get("result", {}):
                now = time.monotonic()
                tools = {tool["name"] for tool in message["result"]["tools"]}
                with self.changed:
                    self.came.update((name, now) for name in tools - self.tools)
                    self.went.update((name, now) for name in self.tools - tools)
                    self.tools = tools
                    self.changed.notify_all()
                continue
            elif message.get("method") != "notifications/tools/list_changed":
                continue
            number += 1
            self.say({"id": number, "method": "tools/list"})

    def sees(self, times: dict[str, float], tool: str, since: float) -> float:
        """How long after this it was seen that the tool came or went."""
        with self.changed:
            is_seen = self.changed.wait_for(lambda: tool in times, PATIENCE)
            assert is_seen, f"nobody was told of {tool} in {PATIENCE} s"
            return max(times[tool] - since, 0)


class Callers:
    """Sixty-four who call one after another, and what has become of their calls."""

    def __init__(self, name: str) -> None:
        self.journal = os.path.join(folder, f"{name}.jsonl")
        config = os.path.join(folder, f"{name}.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'[back.team]\nconnect = "{address}"\n')
            file.write('[front.rpc]\nserve = "mediocre+tcp://127.0.0.1:0"\n')
            file.write(f'[journal]\npath = "{self.journal}"\nbytes_max = "4GiB"\n')
        self.front = started([toolbus, "serve", "--config", config], "listening on")
        self.port = int(self.front.line.rsplit(":", 1)[1])
        self.lock, self.is_over = threading.Lock(), threading.Event()
        self.asked = self.answered = 0
        self.longest = 0.0
        self.failed: list[str] = []
        self.broken: list[str] = []
        self.threads = [threading.Thread(target=self.call_on) for _ in range(CALLERS)]
        for thread in self.threads:
            thread.start()

    def call_on(self) -> None:
        try:
            connection = socket.create_connection(("127.0.0.1", self.port))
            while not self.is_over.is_set():
                self.call_once(connection)
        except Exception as why:
            self.broken.append(repr(why))
            raise

    def call_once(self, connection: socket.socket) -> None:
        with self.lock:
            self.asked += 1
        begun = time.monotonic()
        connection.sendall(b'{"method":"team.all.sleep","args":{"ms":50}}')
        text = b""
        while True:
            more = connection.recv(65536)
            assert more, "the front closed a connection"
            text += more
            try:
                value = json.loads(text)
                break
            except ValueError:
                continue
        with self.lock:
            self.longest = max(self.longest, time.monotonic() - begun)
            if "err" in value:
                self.failed.append(value["err"]["msg"])
            else:
                self.answered += 1
        if "err" in value:
            time.sleep(0.01)

    def end(self) -> list[dict]:
        """The lines of the journal: as many as calls, and as many failed as callers were told."""
        self.is_over.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a call has not ended"
        self.front.terminate()
        assert self.front.wait(PATIENCE) == 0
        assert not self.broken, self.broken
        assert self.asked == self.answered + len(self.failed)
        with open(self.journal, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        for line in lines:
            ended = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp()
            # When it ended is told by the millisecond.
            line["from"], line["to"] = ended - line["duration"] / 1000, ended + 0.001
        failed = [line for line in lines if line["outcome"] != "ok"]
        assert len(lines) == self.asked, f"{self.asked} calls, {len(lines)} lines of the journal"
        assert len(failed) == len(self.failed), f"{len(failed)} lines of {len(self.failed)} failures"
        # What was killed is told within 8 seconds. How busy this machine is decides nothing: only a call
        # that hangs takes so long.
        assert self.longest < PATIENCE, f"a call took {self.longest:.1f} s"
        return lines


def counted(messages: list[str]) -> str:
    """How often each is there, without the names of nodes and servers."""
    kinds: dict[str, int] = {}
    for message in messages:
        words = ["…" if word in ids or "127.0.0.1" in word else word for word in message.split()]
        kind = " ".join(words)
        kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{count} × `{kind}`" for kind, count in sorted(kinds.items())) or "none"


def middle_and_most(times: list[float]) -> str:
    times = sorted(times)
    return f"{times[len(times) // 2]:.2f} s in the middle, {times[-1]:.2f} s at most"


def kill_nodes() -> None:
    nodes = [start_node(at) for at in range(THREE)]
    onlooker = Onlooker()
    for node in nodes:
        onlooker.sees(onlooker.came, node.own, node.ready)
    callers = Callers("nodes")
    until("every caller was answered", lambda: 2 * CALLERS <= callers.answered)
    killed: list[tuple[str, float]] = []
    gone_after, there_after = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        next_kill = time.monotonic() + 2
        at = len(killed) % THREE
        node = nodes[at]
        killed.append((node.id, time.time()))
        since = time.monotonic()
        node.send_signal(signal.SIGKILL)
        node.wait()
        gone = (node.own, since)
        time.sleep(max(next_kill - 1 - time.monotonic(), 0))
        nodes[at] = start_node(at)
        there_after.append(onlooker.sees(onlooker.came, nodes[at].own, nodes[at].ready))
        gone_after.append(onlooker.sees(onlooker.went, *gone))
        time.sleep(max(next_kill - time.monotonic(), 0))
    lines = callers.end()
    # Where a call was, and whether that was killed while it was on the way. Messages for a node that
    # was killed go to it until its server has noticed: nobody can say of them whether they have begun.
    moments = dict(killed)
    failed = [line for line in lines if line["outcome"] != "ok"]
    strange = [
        line
        for line in failed
        if line["outcome"] != "gone" or line["to"] < moments.get(line.get("node"), line["to"] + 1)
    ]
    assert not strange, strange[:5]
    late = [line for line in failed if moments[line["node"]] < line["from"]]
    noticed = max([line["from"] - moments[line["node"]] for line in late], default=0)
    of_kill: dict[str, int] = {}
    for line in failed:
        of_kill[line["node"]] = of_kill.get(line["node"], 0) + 1
    # The node with the fewest calls gets the next: each has a third of them, and half while one of the
    # three is away.
    assert len(failed) <= len(killed) * CALLERS // 2, f"{len(failed)} failed by {len(killed)} kills"
    there = [
        line for line in lines if line["from"] <= moments.get(line.get("node"), 0) <= line["to"]
    ]
    again = sum(1 for line in lines if 1 < line.get("tries", 1))
    print(f"nats: {len(lines)} calls, {len(killed)} nodes killed: {len(failed)} failed, all of them")
    print(f"      at a killed node, {max(of_kill.values(), default=0)} at most by one kill;")
    print(f"      {len(failed) - len(late)} of the {len(there)} that were there when it was killed, and")
    print(f"      {len(late)} sent to it within {1000 * noticed:.0f} ms, before its server had noticed")
    print(f"      {again} calls went to a second node, and none failed there")
    print(f"      a killed node was off the list after {middle_and_most(gone_after)}")
    print(f"      a new one was on it after {middle_and_most(there_after)}")
    print(f"      no call took longer than {callers.longest:.1f} s")
    for node in nodes:
        node.terminate()
        assert node.wait(PATIENCE) == 0


def kill_servers() -> None:
    nodes = [start_node(at) for at in range(THREE)]
    callers = Callers("servers")
    until("every caller was answered", lambda: 2 * CALLERS <= callers.answered)
    killed: list[float] = []
    answered_after = []
    end = time.monotonic() + seconds
    while len(killed) < THREE or time.monotonic() < end:
        at = len(killed) % THREE
        killed.append(time.time())
        since = time.monotonic()
        servers[at].send_signal(signal.SIGKILL)
        servers[at].wait()
        before = callers.answered
        until("calls behind a killed server", lambda: before + 2 * CALLERS <= callers.answered)
        answered_after.append(time.monotonic() - since)
        servers[at] = start_server(at)
        # All nodes are to be found again by one who asks anew, at the server that is back.
        there = {node.id for node in nodes}

        def all_there() -> bool:
            words = [toolbus, "nats", "nodes", "--json", f"nats://127.0.0.1:{clients[at]}/team"]
            seen = subprocess.run(words, capture_output=True, text=True, check=False).stdout
            return {json.loads(line)["id"] for line in seen.splitlines()} == there

        until("all nodes are seen at the server that is back", all_there)
        time.sleep(max(since + 5 - time.monotonic(), 0))
    lines = callers.end()
    failed = [line for line in lines if line["outcome"] != "ok"]
    # Each was under way when a server was killed, and ended soon after it.
    strange = [
        line
        for line in failed
        if not any(line["from"] <= moment <= line["to"] for moment in killed)
    ]
    kinds = {line["outcome"] for line in failed} - {"gone"}
    print(f"nats: {len(lines)} calls, {len(killed)} servers killed: {len(failed)} failed")
    print(f"      {len(strange)} of them were asked after it; of another kind: {kinds or 'none'}")
    print(f"      {counted(callers.failed)}")
    print(f"      all 64 were answered twice after {middle_and_most(answered_after)}")
    print(f"      no call took longer than {callers.longest:.1f} s")
    assert not strange, strange[:5]
    assert not kinds, kinds
    for node in nodes:
        node.terminate()
        assert node.wait(PATIENCE) == 0


servers = [start_server(at) for at in range(THREE)]
if which != "servers":
    kill_nodes()
if which != "nodes":
    kill_servers()
