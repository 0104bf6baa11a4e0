"""Runs `toolbus exec` before a server that plays the transcripts, and holds what it prints with
`--events all` against the event types of the package `openai`.

The package itself reads the same streams, so that what the two make of them can be compared:
the text, the calls with their arguments, and whether the answer is complete.
"""

import json
import pathlib
import socket
import subprocess
import sys
import threading

import openai
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

toolbus, transcripts = sys.argv[1], pathlib.Path(sys.argv[2])
events_of_openai = TypeAdapter(ResponseStreamEvent)
# What the API itself always says and our transcripts leave out: only for the SDK's own types,
# which ask for it.
DEFAULTS = {
    "response": {
        "created_at": 0, "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "model": "m", "object": "response", "output": [], "id": "r",
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
        "top_p": 1.0,
    },
    "usage": {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0,
    },
    "part": {"annotations": []},
    "event": {"sequence_number": 0, "output_index": 0, "content_index": 0, "item_id": "i",
              "logprobs": []},
}


def serve(answers):
    """Gives each request the next answer, and the last one again and again."""
    listener = socket.create_server(("127.0.0.1", 0))

    def one(connection, body):
        with connection:
            reader = connection.makefile("rb")
            length = 0
            while (line := reader.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                if name.lower() == b"transfer-encoding":
                    length = -1
            if length < 0:
                while size := int(reader.readline(), 16):
                    reader.read(size + 2)
                reader.readline()
            else:
                reader.read(length)
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode() + body)

    def loop():
        number = 0
        while True:
            connection, _ = listener.accept()
            body = answers[min(number, len(answers) - 1)]
            number += 1
            threading.Thread(target=one, args=(connection, body), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


def run(url, *flags):
    command = [toolbus, "exec", "hi", "--json", "--retries", "0", "--base-url", url, *flags]
    done = subprocess.run(command, capture_output=True, timeout=60)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def filled(event):
    """The event with what the API always says."""
    event = {**DEFAULTS["event"], **event}
    if isinstance(event.get("response"), dict):
        response = {**DEFAULTS["response"], **event["response"]}
        if isinstance(response.get("usage"), dict):
            response["usage"] = {**DEFAULTS["usage"], **response["usage"]}
            details = {**DEFAULTS["usage"]["input_tokens_details"],
                       **response["usage"]["input_tokens_details"]}
            response["usage"]["input_tokens_details"] = details
        event["response"] = response
    if isinstance(event.get("part"), dict) and event["part"].get("type") == "output_text":
        event["part"] = {**DEFAULTS["part"], **event["part"]}
    item = event.get("item")
    if isinstance(item, dict):
        item = {"status": "completed", **item}
        if item.get("type") == "function_call":
            item.setdefault("arguments", "")
        if item.get("type") == "web_search_call":
            item.setdefault("action", {"type": "search", "query": ""})
        if item.get("type") == "message":
            content = [{**DEFAULTS["part"], **part} for part in item.get("content", [])]
            item["content"] = content
        event["item"] = item
    return event


def said(events):
    """What a consumer learns: text, calls, whether it is complete."""
    text = "".join(event["delta"] for event in events
                   if event["type"] == "response.output_text.delta")
    calls = [(event["item"]["call_id"], event["item"]["arguments"]) for event in events
             if event["type"] == "response.output_item.done"
             and event["item"].get("type") == "function_call"]
    completed = any(event["type"] == "response.completed" for event in events)
    return text, calls, completed


def said_by_sdk(url):
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    events = []
    try:
        for event in client.responses.create(model="m", input="hi", stream=True):
            events.append(event.to_dict())
    except openai.APIError:
        # An event of the type `error` is an exception there.
        pass
    return said(events)


# Streams that the SDK cannot read, or reads otherwise by its own rules, with the reason.
UNLIKE = {
    "data_that_is_not_an_object_is_skipped": "the SDK gives up at data that is no JSON",
    "object_arguments_become_text": "the SDK leaves an object as it is",
    "open_calls_are_closed_at_completed": "the SDK does not close them",
    "response_done_is_taken_as_completed": "the SDK knows no `response.done`",
}

validated = compared = 0
for file in sorted(transcripts.glob("stream/*.txt")):
    data = [line[3:] for line in file.read_text().splitlines() if line.startswith("<< ")]
    url = serve(["".join(f"data: {event}\n\n" for event in data).encode()])
    code, events = run(url, "--events", "all")
    kinds = [event["type"] for event in events]
    terminal = [kind for kind in kinds if kind in ("response.completed", "error")]
    assert len(terminal) == 1 and kinds[-1] == terminal[0], (file.name, kinds)
    assert (code == 0) == (terminal == ["response.completed"]), (file.name, code)
    for event in events:
        # Ours, and events of servers that are no part of the API.
        if event["type"].startswith(("toolbus.", "codex.", "error", "response.done")):
            continue
        model = events_of_openai.validate_python(filled(event))
        assert model.type == event["type"], (file.name, event)
        validated += 1
    if file.stem not in UNLIKE:
        ours, theirs = said(events), said_by_sdk(url)
        assert ours == theirs, (file.name, ours, theirs)
        compared += 1
print(f"godex: {validated} events are as the types of openai {openai.__version__} say")
print(f"godex: of {compared} streams the SDK learns the same")

# The tool loop, over real connections and with a real tool.
CALL = {"type": "response.output_item.done", "item": {
    "type": "function_call", "id": "fc", "call_id": "c", "name": "upper",
    "arguments": '{"text":"hi"}'}}
DONE = {"type": "response.completed", "response": {"id": "r"}}
DELTA = {"type": "response.output_text.delta", "delta": "done"}
answers = ["".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
           for events in ([CALL, DONE], [DELTA, DONE])]
code, events = run(serve(answers), "--tools-from", "builtin:", "--events", "all")
results = [event["output"] for event in events if event["type"] == "toolbus.tool_result"]
assert (code, results) == (0, ["HI"]), (code, events)
print("godex: the tool loop runs a tool and sends its output back")
