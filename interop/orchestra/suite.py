"""toolbus against an independent Orchestra on aioquic and Google's Protobuf.

suite.py TOOLBUS FOLDER: says a line for each thing that held, and fails at the first that did not.
"""

import asyncio
import contextlib
import datetime
import ipaddress
import json
import os
import shutil
import signal
import sys
import time

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

import messages as m
import peer

TOOLBUS, FOLDER = sys.argv[1], os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
PLUGIN = "tools.python"
PATIENCE = 60


def held(what):
    print(f"orchestra: {what}", flush=True)


def fresh(name):
    folder = os.path.join(FOLDER, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


async def toolbus(*words):
    process = await asyncio.create_subprocess_exec(
        TOOLBUS, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode, out.decode(), error.decode()


class Program:
    """One run of toolbus. Its standard error is kept line by line."""

    def __init__(self, *words):
        self.words = words
        self.errors = []
        self.changed = asyncio.Event()

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            TOOLBUS, *self.words, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=32 << 20,
        )
        self.reading = asyncio.ensure_future(self._read())
        return self

    async def _read(self):
        async for line in self.process.stderr:
            self.errors.append(line.decode(errors="replace").rstrip("\n"))
            self.changed.set()

    async def said(self, begin, after=0):
        """The next line of its standard error that begins so."""
        async def found():
            while True:
                for line in self.errors[after:]:
                    if line.startswith(begin):
                        return line
                self.changed.clear()
                await self.changed.wait()
        try:
            return await asyncio.wait_for(found(), PATIENCE)
        except TimeoutError:
            raise AssertionError(f"did not say {begin!r} but {self.errors[-20:]}") from None

    async def end(self, number=None):
        if number is not None:
            self.process.send_signal(number)
        code = await asyncio.wait_for(self.process.wait(), PATIENCE)
        await asyncio.wait_for(self.reading, PATIENCE)
        return code

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self.reading.cancel()


class Hub(Program):
    def __init__(self, folder, *words, port=0, plugins=1):
        self.folder, self.certs = folder, os.path.join(folder, "certs")
        entries = [
            {"id": PLUGIN, "binary": sys.executable, "enabled": True,
             "args": [os.path.join(HERE, "plugin.py"), "--id", PLUGIN]},
        ][:plugins]
        config = {"listen_addr": f"127.0.0.1:{port}", "certs_dir": self.certs, "plugins": entries}
        path = os.path.join(folder, "plugins.yaml")
        with open(path, "w") as file:
            json.dump(config, file)  # JSON is YAML
        super().__init__("orchestrator", "--config", path, *words)

    async def __aenter__(self):
        await super().__aenter__()
        line = await self.said("orchestrator listening on ")
        self.address = line.removeprefix("orchestrator listening on ")
        await self.said("orchestrator ready: ")
        return self

    def plugin_pid(self):
        lines = [line for line in self.errors if line.startswith("started plugin ")]
        return int(lines[-1].split("pid=")[1].rstrip(")"))

    def dial(self, name="probe-client", **more):
        return peer.dial(self.address, self.certs, name, **more)


class Stdio(Program):
    def __init__(self, address, certs, *words):
        words = ("transport-stdio", "--orchestrator-addr", address, "--certs-dir", certs, *words)
        super().__init__(*words)

    async def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        await self.process.stdin.drain()

    async def hear(self):
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), PATIENCE))

    async def call(self, number, tool, **arguments):
        params = {"name": tool, "arguments": arguments}
        await self.say(json.dumps(
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        ))


def text(answer):
    return answer["result"]["content"][0]["text"]


async def make(certs, *names):
    code, _, error = await toolbus("certs", "renew", "--certs-dir", certs, *names)
    assert code == 0, error


async def ready(name):
    folder = fresh(name)
    await make(os.path.join(folder, "certs"), PLUGIN, f"{PLUGIN}-client", "probe-client")
    return folder


def foreign_ca(certs):
    """A CA that another library made, with a name of its own."""
    os.makedirs(certs, mode=0o700)
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Somebody else's CA")])
    now = datetime.datetime.now(datetime.timezone.utc)
    ca = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=90))
        .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, None)
    )
    write(os.path.join(certs, "ca"), ca, key)
    return ca, key


def foreign_leaf(certs, name, ca, ca_key):
    key = Ed25519PrivateKey.generate()
    now = datetime.datetime.now(datetime.timezone.utc)
    leaf = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(ca.subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=60))
        .add_extension(x509.SubjectAlternativeName([
            x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]), critical=False)
        .sign(ca_key, None)
    )
    write(os.path.join(certs, name), leaf, key)


def write(path, certificate, key):
    pem = serialization.Encoding.PEM
    for kind, data in (
        ("crt", certificate.public_bytes(pem)),
        ("key", key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )),
    ):
        with open(f"{path}.{kind}", "wb") as file:
            os.chmod(file.fileno(), 0o600)
            file.write(data)


async def refused(context, why):
    """The connection must come to nothing, at the handshake or right behind it."""
    try:
        async with context as caller:
            request = m.PluginRequest(request_id="h")
            request.health.SetInParent()
            answer = await caller.ask(request, timeout=10)
    except (ConnectionError, TimeoutError):
        return
    raise AssertionError(f"{why} was answered {answer}")


async def certificates():
    folder = await ready("certificates")
    async with Hub(folder) as hub:
        async with hub.dial() as caller:
            request = m.PluginRequest(request_id="h1")
            request.health.SetInParent()
            health = (await caller.ask(request)).health
            assert (health.status, health.message) == (1, "orchestrator ok"), health
            assert m.plain((await caller.call("echo", text="hi")).result) == {"text": "hi"}
        other = os.path.join(fresh("other"), "certs")
        await make(other, "probe-client")
        await refused(peer.dial(hub.address, other, "probe-client", ca=hub.certs), "another CA")
        await refused(hub.dial(name=None), "no certificate")
        await refused(hub.dial(alpn="h3"), "another ALPN")
        await refused(hub.dial(alpn=None), "no ALPN")
        code, out, error = await toolbus(
            "transport-stdio", "--orchestrator-addr", hub.address, "--certs-dir", other
        )
        assert (code, out) == (3, ""), (code, out, error)
        assert await hub.end(signal.SIGTERM) == 0
        for line in ("received signal terminated, shutting down", f'stopped plugin "{PLUGIN}"',
                     "orchestrator stopped"):
            assert line in hub.errors, hub.errors
    held("our certificates are theirs; another CA, another ALPN and no certificate are refused")

    folder = fresh("foreign-ca")
    ca, key = foreign_ca(os.path.join(folder, "certs"))
    for name in (PLUGIN, f"{PLUGIN}-client", "probe-client"):
        foreign_leaf(os.path.join(folder, "certs"), name, ca, key)
    async with Hub(folder, "--allow-anonymous") as hub:
        for name in ("probe-client", None):
            async with hub.dial(name=name) as caller:
                assert (await caller.call("echo", text="hi")).success
        other = os.path.join(fresh("other"), "certs")
        await make(other, "probe-client")
        await refused(peer.dial(hub.address, other, "probe-client", ca=hub.certs), "another CA")
    held("certificates and a CA that another library made are used as they are")


async def streams():
    async with Hub(await ready("streams")) as hub:
        async with hub.dial() as caller:
            async def late(number):
                answer = await caller.call("echo", late=0.02, text=str(number))
                assert m.plain(answer.result) == {"text": str(number)}
            for first in range(0, 300, 50):
                await asyncio.gather(*(late(number) for number in range(first, first + 50)))
            held("300 requests with a late FIN are answered on one connection")

            async def slow():
                assert (await caller.call("slow", seconds=0.5)).success
            began = time.monotonic()
            await asyncio.gather(*(slow() for _ in range(200)))
            assert time.monotonic() - began < 30
            held("200 calls at once, through the hub to a plugin and back")

            request = m.PluginRequest(request_id="st")
            request.stream_start.stream_id = "sid"
            request.stream_start.tool_name = "count"
            request.stream_start.arguments.update({"n": 3})
            _, queue = caller.open(request)
            kinds = [it.WhichOneof("member") async for it in caller.messages(queue)]
            assert kinds == ["stream_chunk"] * 3 + ["stream_end"], kinds
            request = m.PluginRequest(request_id="pg")
            request.prompt_get.prompt_name = "greet"
            assert (await caller.ask(request)).prompt_get.messages[0].content.text == "hello"
            request = m.PluginRequest(request_id="sr")
            request.storage_read.path = "a.md"
            assert (await caller.ask(request)).storage_read.content == b"content of a.md"
            held("streams, prompts and storage pass through")

            subscribe = m.PluginRequest(request_id="su")
            subscribe.subscribe.subscription_id, subscribe.subscribe.topic = "s1", "news"
            _, queue = caller.open(subscribe)
            events = caller.messages(queue)
            assert (await anext(events)).WhichOneof("member") is None
            publish = m.PluginRequest(request_id="pb")
            publish.publish.topic, publish.publish.event_type = "news", "made"
            publish.publish.payload.update({"id": "7"})
            assert (await caller.ask(publish)).WhichOneof("member") is None
            event = (await asyncio.wait_for(anext(events), PATIENCE)).event_delivery
            assert (event.topic, m.plain(event.payload)) == ("news", {"id": "7"}), event
            await hub.said(f"[{PLUGIN}] event news")
            words = ("--profile", "full", "--events", "news")
            async with Stdio(hub.address, hub.certs, *words) as stdio:
                await stdio.call(1, "echo", text="subscribed by now")
                assert text(await stdio.hear()) == "subscribed by now"
                await caller.ask(publish)
                event = await stdio.hear()
                assert event["method"] == "notifications/event", event
                assert event["params"]["payload"] == {"id": "7"}, event
            held("events reach a caller on its stream, a plugin that needs them, and an MCP client")


async def lines():
    async with Hub(await ready("lines")) as hub:
        async with Stdio(hub.address, hub.certs) as stdio:
            await stdio.call(1, "size", text="x" * 9_000_000)
            assert json.loads(text(await stdio.hear())) == {"size": 9_000_000}
            await stdio.call(2, "size", text="x" * 11_000_000)
            answer = await stdio.hear()
            assert answer["error"]["code"] == -32600 and answer["id"] is None, answer
            await stdio.call(3, "echo", text="still here")
            assert text(await stdio.hear()) == "still here"
            held("a line of 9 MB passes, one of 11 MB is refused, and the next is read")
            for number in range(200):
                await stdio.call(number, "slow", seconds=0.5)
            answers = [await stdio.hear() for _ in range(200)]
            assert {answer["id"] for answer in answers} == set(range(200))
            assert all(text(answer) == "slow" for answer in answers)
            held("200 calls at once through transport-stdio")
            stdio.process.stdin.close()
            assert await stdio.end() == 0


async def plugin_dies():
    async with Hub(await ready("plugin")) as hub:
        async with hub.dial() as caller:
            before = len(hub.errors)
            slow = asyncio.ensure_future(caller.call("slow", seconds=50))
            await asyncio.sleep(0.2)
            crashed = await caller.call("crash", timeout=10)
            assert crashed.error_code == "routing_error", crashed
            assert (await asyncio.wait_for(slow, 10)).error_code == "routing_error"
            await hub.said(f'plugin "{PLUGIN}" exited with status 3; restarting in 0.5s', before)
            away = await caller.call("echo", timeout=10)
            assert away.error_message.endswith("plugin is not running"), away
            await hub.said(f'plugin "{PLUGIN}" registered and booted', before)
            assert (await caller.call("echo", text="back")).success
            held("a plugin that crashes fails its calls at once, and is back")
            noise = await caller.call("noise", timeout=50, bytes=10_000_000)
            assert noise.success and (await caller.call("echo", text="hi")).success
            await hub.said(f"[{PLUGIN}] xxx")
            held("10 MB of a plugin's standard error stop nobody")


def is_alive(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    return False


async def hub_dies():
    folder = await ready("killed")
    async with Hub(folder) as hub, Stdio(hub.address, hub.certs, "--idle-timeout", "2") as stdio:
        plugin = hub.plugin_pid()
        for number in range(50):
            await stdio.call(number, "slow", seconds=30)
        await asyncio.sleep(0.5)
        await hub.end(signal.SIGKILL)
        answers = [await stdio.hear() for _ in range(50)]
        assert all("connection lost" in answer["error"]["message"] for answer in answers), answers[0]
        await stdio.call(100, "echo", text="nobody there")
        answer = await stdio.hear()
        assert "not connected to orchestrator" in answer["error"]["message"], answer
        for _ in range(100):
            if not is_alive(plugin):
                break
            await asyncio.sleep(0.1)
        assert not is_alive(plugin), "the hub's guard leaves no plugin behind"
        port = hub.address.rsplit(":", 1)[1]
        before = len(stdio.errors)
        async with Hub(folder, port=port) as again:
            await stdio.said("transport.stdio: connected to orchestrator", before)
            await stdio.call(101, "echo", text="back")
            assert text(await stdio.hear()) == "back"
            assert again.address == hub.address
    held("a hub that is killed under load fails its calls, leaves no plugin, and is found again")


async def answer_as_hub(request):
    response = m.PluginResponse(request_id=request.request_id)
    match request.WhichOneof("member"):
        case "list_tools":
            response.list_tools.tools.add(name="echo")
        case "tool_call" if request.tool_call.tool_name == "echo":
            assert request.tool_call.caller_plugin == "transport.stdio"
            response.tool_call.success = True
            response.tool_call.result.CopyFrom(request.tool_call.arguments)
        case "tool_call":
            response.tool_call.error_code = "validation_error"
        case _:
            response.tool_call.error_code = "unknown_request"
    yield response


async def their_hub():
    certs = os.path.join(fresh("theirs"), "certs")
    await make(certs, "orchestrator")
    server, port = await peer.listen(certs, "orchestrator", answer_as_hub)
    async with Stdio(f"127.0.0.1:{port}", certs) as stdio:
        await stdio.say('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        tools = (await stdio.hear())["result"]["tools"]
        assert tools == [{"name": "echo", "inputSchema": {"type": "object"}}], tools
        await stdio.call(2, "echo", text="hi")
        assert text(await stdio.hear()) == "hi"
        await stdio.call(3, "other")
        answer = (await stdio.hear())["result"]
        want = {"content": [{"type": "text", "text": "tool error: validation_error"}],
                "isError": True}
        assert answer == want, answer
        # It knows no streams: the tool is asked again, plainly.
        await stdio.say('{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo",'
                        '"arguments":{"text":"plain"},"_meta":{"progressToken":1}}}')
        assert text(await stdio.hear()) == "plain"
        assert await stdio.end(signal.SIGTERM) == 0
        assert "transport.stdio: shutting down" in stdio.errors
    server.close()
    held("our transport-stdio talks to a foreign hub")


async def our_plugin():
    certs = os.path.join(fresh("our-plugin"), "certs")
    await make(certs, "orchestrator", "orchestrator-to-tools.bus")
    manifests = asyncio.Queue()

    async def register(request):
        manifests.put_nowait(request.register)
        response = m.PluginResponse(request_id=request.request_id)
        response.register.accepted = True
        yield response

    server, port = await peer.listen(certs, "orchestrator", register)
    words = ("plugin", "--id", "tools.bus", "builtin:", f"--orchestrator-addr=127.0.0.1:{port}",
             "--listen-addr=localhost:0", f"--certs-dir={certs}")
    async with Program(*words) as plugin:
        address = (await plugin.said("READY ")).removeprefix("READY ")
        manifest = await asyncio.wait_for(manifests.get(), PATIENCE)
        assert manifest.id == "tools.bus" and "add" in manifest.provides_tools, manifest
        async with peer.dial(address, certs, "orchestrator-to-tools.bus") as hub:
            request = m.PluginRequest(request_id="b")
            request.boot.SetInParent()
            assert (await hub.ask(request)).boot.ready
            answer = await hub.call("add", a=1, b=2)
            assert m.plain(answer.result) == {"text": "3", "value": 3}, answer
            request = m.PluginRequest(request_id="st")
            request.stream_start.stream_id = "sid"
            request.stream_start.tool_name = "count"
            request.stream_start.arguments.update({"n": 1000, "ms": 1000})
            _, queue = hub.open(request)
            chunks = hub.messages(queue)
            assert (await anext(chunks)).WhichOneof("member") == "stream_chunk"
            cancel = m.PluginRequest(request_id="sc")
            cancel.stream_cancel.stream_id = "sid"
            _, cancelled = hub.open(cancel)
            assert [it async for it in hub.messages(cancelled)] == []
            last = [it async for it in chunks][-1].stream_end
            assert not last.success, last
            request = m.PluginRequest(request_id="sd")
            request.shutdown.timeout_seconds = 5
            assert (await hub.ask(request)).shutdown.clean
        assert await plugin.end() == 0
    server.close()
    held("our plugin runs under a foreign hub")


async def main():
    await certificates()
    await streams()
    await lines()
    await plugin_dies()
    await hub_dies()
    await their_hub()
    await our_plugin()


asyncio.run(main())
