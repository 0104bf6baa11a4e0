"""What answers are made of."""

import base64
import struct
import zlib

from mcp.types import EmbeddedResource, ImageContent, TextContent, TextResourceContents


def encoded(data):
    return base64.b64encode(data).decode()


def png():
    """One red pixel"""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def wav():
    """One sample of silence"""
    body = (
        b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
        + b"data"
        + struct.pack("<I", 1)
        + b"\x80\0"
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


PNG = encoded(png())
IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")


def text(words):
    return TextContent(type="text", text=words)


def resource(uri, mime_type, words):
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    )
