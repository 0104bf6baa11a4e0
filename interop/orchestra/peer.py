"""Both ends of an Orchestra connection on aioquic: a client, and a server for plugins and hubs."""

import asyncio
import os
import ssl

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived, StreamReset

import messages as m

ALPN = "orchestra-plugin"


def configuration(is_client, certs, name, alpn=ALPN, ca=None):
    """`name` is whose certificate is shown: none if it is None."""
    config = QuicConfiguration(
        is_client=is_client,
        alpn_protocols=[alpn] if alpn else None,
        idle_timeout=60.0,
        max_data=16 << 20,
        max_stream_data=8 << 20,
    )
    config.load_verify_locations(cafile=os.path.join(ca or certs, "ca.crt"))
    if name is not None:
        config.load_cert_chain(
            os.path.join(certs, f"{name}.crt"), os.path.join(certs, f"{name}.key")
        )
    if not is_client:
        config.verify_mode = ssl.CERT_REQUIRED
    return config


class Peer(QuicConnectionProtocol):
    """One connection. Streams that we open are asked on, others are answered by `answer`."""

    answer = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.streams = {}
        self.incoming = {}
        self.gone = None

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            queue = self.streams.get(event.stream_id)
            if queue is not None:
                queue.put_nowait((event.data, event.end_stream))
            elif event.stream_id not in self.incoming:
                self.incoming[event.stream_id] = asyncio.Queue()
                self.incoming[event.stream_id].put_nowait((event.data, event.end_stream))
                asyncio.ensure_future(self._serve(event.stream_id))
            else:
                self.incoming[event.stream_id].put_nowait((event.data, event.end_stream))
        elif isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams[event.stream_id].put_nowait((b"", True))
        elif isinstance(event, ConnectionTerminated):
            self.gone = event
            for queue in [*self.streams.values(), *self.incoming.values()]:
                queue.put_nowait((b"", True))

    async def _serve(self, stream_id):
        data = bytearray()
        queue = self.incoming[stream_id]
        # Read whole only once: a long request comes in thousands of pieces.
        while not m.is_whole(data):
            more, is_end = await queue.get()
            data += more
            if is_end:
                break
        found, _ = m.frames(m.PluginRequest, bytes(data))
        if found:
            async for response in self.answer(found[0]):
                if self.gone:
                    return
                self._quic.send_stream_data(stream_id, m.frame(response))
                self.transmit()
        self._quic.send_stream_data(stream_id, b"", end_stream=True)
        self.transmit()

    def open(self, request, fin=True):
        """Sends a request; its stream, and where its answer comes."""
        stream_id = self._quic.get_next_available_stream_id()
        queue = self.streams[stream_id] = asyncio.Queue()
        self._quic.send_stream_data(stream_id, m.frame(request), end_stream=fin)
        self.transmit()
        return stream_id, queue

    async def messages(self, queue):
        """What comes on a stream, to its end."""
        data = bytearray()
        while True:
            more, is_end = await queue.get()
            data += more
            if m.is_whole(data):
                found, rest = m.frames(m.PluginResponse, bytes(data))
                data = bytearray(rest)
                for message in found:
                    yield message
            if is_end:
                return

    async def ask(self, request, timeout=30, fin=True, late=None):
        stream_id, queue = self.open(request, fin and late is None)
        if late is not None:
            async def finish():
                await asyncio.sleep(late)
                self._quic.send_stream_data(stream_id, b"", end_stream=True)
                self.transmit()
            asyncio.ensure_future(finish())

        async def first():
            async for message in self.messages(queue):
                return message
            raise ConnectionError(f"no answer: {self.gone}")
        return await asyncio.wait_for(first(), timeout)

    async def call(self, tool, timeout=30, late=None, **arguments):
        request = m.PluginRequest(request_id=f"py-{tool}")
        request.tool_call.tool_name = tool
        request.tool_call.arguments.update(arguments)
        response = await self.ask(request, timeout, late=late)
        assert response.request_id == request.request_id, response
        return response.tool_call


def dial(address, certs, name, alpn=ALPN, ca=None, host=None):
    at, port = address.rsplit(":", 1)
    config = configuration(True, certs, name, alpn, ca)
    config.server_name = host or "localhost"
    return connect(at, int(port), configuration=config, create_protocol=Peer)


async def listen(certs, name, answer, host="127.0.0.1", port=0):
    """Serves; gives the server and its port."""
    def protocol(*args, **kwargs):
        peer = Peer(*args, **kwargs)
        peer.answer = answer
        return peer
    config = configuration(False, certs, name)
    server = await serve(host, port, configuration=config, create_protocol=protocol)
    return server, server._transport.get_extra_info("sockname")[1]
