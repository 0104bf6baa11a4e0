"""mediocre-rpc as its document says it, written without a look at toolbus.

Messages are read from a function that gives bytes; they are written with every zero value, as
encoders of languages with zero values do.
"""

import json
import uuid

DECODER = json.JSONDecoder()
BLANK = b" \t\r\n"


class Broken(Exception):
    pass


class Reader:
    """Takes objects and blobs off the front of what `read` gives; b"" is the end."""

    def __init__(self, read):
        self.read = read
        self.buffer = b""

    def more(self):
        data = self.read()
        self.buffer += data
        return bool(data)

    def object(self):
        """The next object, or None at the end."""
        while True:
            self.buffer = self.buffer.lstrip(BLANK)
            if self.buffer and self.buffer[:1] != b"{":
                raise Broken("not an object")
            try:
                # A character a byte: behind the object may stand anything.
                _, end = DECODER.raw_decode(self.buffer.decode("latin-1"))
                found, self.buffer = self.buffer[:end], self.buffer[end:]
                return json.loads(found)
            except json.JSONDecodeError:
                if not self.more():
                    if self.buffer:
                        raise Broken("the bytes end inside an object")
                    return None

    def blob(self, frame, length):
        frame = frame.encode()
        while len(self.buffer.lstrip(BLANK)) < len(frame):
            if not self.more():
                raise Broken("the bytes end before a blob")
        self.buffer = self.buffer.lstrip(BLANK)
        if not self.buffer.startswith(frame):
            raise Broken("no frame")
        self.buffer = self.buffer[len(frame):]
        while True:
            at = length or self.buffer.find(frame)
            if at >= 0 and len(self.buffer) >= at + len(frame):
                blob, self.buffer = self.buffer[:at], self.buffer[at:]
                if not self.buffer.startswith(frame):
                    raise Broken("a blob is not as long as it was said to be")
                self.buffer = self.buffer[len(frame):]
                return blob
            if not self.more():
                raise Broken("the bytes end inside a blob")

    def elements(self):
        """The elements of a stream up to its tail, which is the last: ("tail", value)."""
        while True:
            element = self.object()
            if element is None:
                raise Broken("the bytes end before the tail")
            if element.get("streamEnd"):
                value = element.get("res")
                yield "tail", element.get("args") if value is None else value
                return
            if element.get("elBytesFrame"):
                yield "blob", self.blob(element["elBytesFrame"], element.get("elBytesLen") or 0)
            elif "el" in element:
                yield "value", element["el"]
            else:
                raise Broken("no element")


def say(**fields):
    return json.dumps(fields, indent=1).encode()


def single(res):
    return say(res=res, err=None, debug={}, streamStart=False, streamLen=0)


def failure(msg, **meta):
    return say(res=None, err={"msg": msg, "meta": meta or None}, debug={})


def head(res):
    return say(res=res, err={"msg": "", "meta": None}, streamStart=True, streamLen=0)


def element(kind, value, frame=None):
    if kind == "value":
        return say(el=value, elBytesFrame="", elBytesLen=0, streamEnd=False)
    if kind == "tail":
        return say(el=None, args=value, debug={}, streamEnd=True)
    frame = frame or str(uuid.uuid4())
    framed = frame.encode() + value + frame.encode()
    return say(elBytesFrame=frame, elBytesLen=0, el=None) + framed


def serve(reader, write):
    """Answers calls until there are no more; what cannot be read ends it after one error."""
    try:
        while (call := reader.object()) is not None:
            answer(call, reader, write)
    except Broken as broken:
        write(failure(str(broken), code="protocol"))


def answer(call, reader, write):
    method, args = call.get("method"), call.get("args")
    parts = reader.elements() if call.get("streamStart") else iter(())
    if method == "add":
        write(single(args["a"] + args["b"]))
    elif method == "fail":
        write(failure(args["message"], code="luck"))
    elif method == "echo" and call.get("streamStart"):
        write(head(args))
        for kind, value in parts:
            write(element(kind, value))
        return
    elif method == "echo":
        write(single(args))
    elif method == "count":
        write(head(None) + b"".join(element("value", n) for n in range(args["n"])))
        write(element("tail", None))
    elif method == "toolbus.tools":
        write(single([{"name": "add", "input": {}}, {"name": "count", "input": {}}]))
    else:
        write(failure(f"no such method: {method}", code="method_not_found"))
    for _ in parts:  # what is left of the call
        pass
