"""A foreign mediocre-rpc server: server.py tcp|http, on a port of its own, which it prints.

Without an argument it serves its standard input and output.
"""

import http.server
import socketserver
import sys

import wire


class Bare(socketserver.BaseRequestHandler):
    def handle(self):
        wire.serve(wire.Reader(lambda: self.request.recv(4096)), self.request.sendall)


class OverHttp(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        wire.serve(wire.Reader(self.body()), self.chunk)
        self.wfile.write(b"0\r\n\r\n")

    def body(self):
        if self.headers["Transfer-Encoding"] == "chunked":
            return self.next_chunk
        left = [int(self.headers["Content-Length"])]

        def read():
            data = self.rfile.read(min(left[0], 7))
            left[0] -= len(data)
            return data

        return read

    def next_chunk(self):
        length = int(self.rfile.readline(), 16)
        data = self.rfile.read(length)
        self.rfile.readline()
        return data

    def chunk(self, data):
        # Borders mean nothing: each chunk is half of what was said.
        for part in (data[: len(data) // 2], data[len(data) // 2 :]):
            if part:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))


class Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True


def main():
    if len(sys.argv) == 1:
        out = sys.stdout.buffer
        wire.serve(wire.Reader(lambda: sys.stdin.buffer.read1(4096)), lambda b: (out.write(b), out.flush()))
        return
    handler = {"tcp": Bare, "http": OverHttp}[sys.argv[1]]
    with Threads(("127.0.0.1", 0), handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


main()
