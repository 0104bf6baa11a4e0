"""What is offered: a function is the tool or prompt of its name, and its first line what is told of it."""

import inspect

from mcp.types import Prompt, PromptArgument, Tool

TOOLS = {}
TAKES_NOTHING = {"type": "object", "properties": {}}


def tool(schema=TAKES_NOTHING):
    def taken(function):
        TOOLS[function.__name__] = (
            Tool(name=function.__name__, description=inspect.getdoc(function), input_schema=schema),
            function,
        )
        return function

    return taken


def strings(*names):
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }


PROMPTS = {}


def prompt(*arguments):
    def taken(function):
        takes = [PromptArgument(name=name, required=True) for name in arguments]
        told = Prompt(name=function.__name__, description=inspect.getdoc(function), arguments=takes)
        PROMPTS[function.__name__] = (told, function)
        return function

    return taken
