"""What the official conformance suite expects of a server, made with the official Python SDK.

Names and words are the suite's own. The same tools answer in both eras: what one of them asks,
a legacy client is asked in the middle of the call, and a modern one by its end.

    everything           on standard input and output
    everything http      at a free port, told in the first line of standard output
    everything old       likewise, in the legacy era only
"""

import sys
import warnings

import anyio
import prompts  # noqa: F401  prompts and tools offer themselves
import tools  # noqa: F401
from asking import asked_in_between, changes
from content import text
from listen import legacy_only, listen
from mcp import MCPDeprecationWarning, MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PromptMessage,
    ReadResourceResult,
)
from offered import PROMPTS, TOOLS
from resources import RESOURCES, TEMPLATES, contents

# What legacy clients rely on is deprecated, and is what is tried here.
warnings.simplefilter("ignore", MCPDeprecationWarning)


class Call:
    """What a tool or a prompt may see of its caller"""

    def __init__(self, context, params):
        self.session, self.request_id = context.session, context.request_id
        self.answers, self.state = params.input_responses, params.request_state


async def list_tools(context, params):
    return ListToolsResult(tools=[told for told, _ in TOOLS.values()])


async def call_tool(context, params):
    if params.name not in TOOLS:
        raise MCPError(INVALID_PARAMS, f"unknown tool: {params.name}")
    try:
        call = Call(context, params)
        run = lambda: TOOLS[params.name][1](call, **(params.arguments or {}))  # noqa: E731
        answer = await asked_in_between(context.session, call, run)
    except MCPError:
        raise
    except Exception as error:
        return CallToolResult(content=[text(str(error))], is_error=True)
    return answer if isinstance(answer, InputRequiredResult) else CallToolResult(content=answer)


async def list_prompts(context, params):
    return ListPromptsResult(prompts=[told for told, _ in PROMPTS.values()])


async def get_prompt(context, params):
    if params.name not in PROMPTS:
        raise MCPError(INVALID_PARAMS, f"unknown prompt: {params.name}")
    call = Call(context, params)

    async def run():
        return PROMPTS[params.name][1](call, **(params.arguments or {}))

    answer = await asked_in_between(context.session, call, run)
    if isinstance(answer, InputRequiredResult):
        return answer
    return GetPromptResult(messages=[PromptMessage(role="user", content=content) for content in answer])


async def list_resources(context, params):
    return ListResourcesResult(resources=RESOURCES)


async def list_templates(context, params):
    return ListResourceTemplatesResult(resource_templates=TEMPLATES)


async def read_resource(context, params):
    return ReadResourceResult(contents=[contents(str(params.uri))])


async def complete(context, params):
    return CompleteResult(
        completion=Completion(values=[f"{params.argument.value}ing"], total=1, has_more=False)
    )


async def nothing(context, params):
    return EmptyResult()


server = Server(
    "everything",
    version="1.0.0",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=nothing,
    on_unsubscribe_resource=nothing,
    on_subscriptions_listen=ListenHandler(changes),
    on_completion=complete,
    on_set_logging_level=nothing,
)
server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))


async def serve():
    changing = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options(changing))


if sys.argv[1:] == ["http"]:
    listen(server.streamable_http_app())
elif sys.argv[1:] == ["old"]:
    listen(legacy_only(server.streamable_http_app()))
else:
    anyio.run(serve)
