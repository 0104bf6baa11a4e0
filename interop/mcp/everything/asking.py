"""Tools that ask: they end with questions, and are called again with the answers.

That is how the modern era has it. In a legacy session `asked_in_between` stands between such a
tool and its client: it asks the client, and calls the tool again itself.
"""

from content import text
from mcp import MCPError
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
)
from offered import tool


def form(message, **properties):
    return form_of(message, {name: {"type": kind} for name, kind in properties.items()}, properties)


def form_of(message, properties, required):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def question(words, max_tokens=100):
    messages = [SamplingMessage(role="user", content=text(words))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=messages, max_tokens=max_tokens))


def asked(state=None, **requests):
    return InputRequiredResult(input_requests=requests, request_state=state)


async def asked_in_between(session, call, run):
    """Runs the tool `run` until it asks no more"""
    answer = await run()
    while session.protocol_version != "2026-07-28" and isinstance(answer, InputRequiredResult):
        call.answers, call.state = {}, answer.request_state
        for key, request in (answer.input_requests or {}).items():
            call.answers[key] = await asked_one(session, call.request_id, request)
        answer = await run()
    return answer


async def asked_one(session, request_id, request):
    match request:
        case ElicitRequest(params=params):
            message, schema = params.message, params.requested_schema
            return await session.elicit_form(message, schema, related_request_id=request_id)
        case CreateMessageRequest(params=params):
            messages, most = params.messages, params.max_tokens
            return await session.create_message(messages, max_tokens=most, related_request_id=request_id)
    # As `list_roots`, but on the stream of the call.
    related = ServerMessageMetadata(related_request_id=request_id)
    return await session.send_request(request, ListRootsResult, metadata=related)


def answered(call, *keys):
    """The answers to all of these questions, or nothing"""
    answers = call.answers or {}
    return [answers[key] for key in keys] if all(key in answers for key in keys) else None


NAME = form("What is your name?", name="string")


@tool()
async def test_input_required_result_elicitation(call):
    """Ask the user for a name"""
    answers = answered(call, "user_name")
    if not answers:
        return asked(user_name=NAME)
    if not isinstance(answers[0], ElicitResult):
        raise MCPError(INVALID_PARAMS, "the answer to user_name is none to a form")
    return [text(f"Hello, {answers[0].content['name']}!")]


@tool()
async def test_input_required_result_sampling(call):
    """Ask the client's model"""
    answers = answered(call, "capital_question")
    if not answers:
        return asked(capital_question=question("What is the capital of France?"))
    return [text(answers[0].content.text)]


@tool()
async def test_input_required_result_list_roots(call):
    """Ask for the client's folders"""
    answers = answered(call, "client_roots")
    if not answers:
        return asked(client_roots=ListRootsRequest())
    return [text(" ".join(str(root.uri) for root in answers[0].roots))]


@tool()
async def test_input_required_result_request_state(call):
    """Ask, and know again what was asked"""
    if call.state != "asked" or not answered(call, "confirm"):
        return asked("asked", confirm=form("Please confirm", ok="boolean"))
    return [text("state-ok")]


@tool()
async def test_input_required_result_tampered_state(call):
    """Ask, and take no other state back than was given"""
    return await test_input_required_result_request_state(call)


@tool()
async def test_input_required_result_multiple_inputs(call):
    """Ask the user, the model and for folders at once"""
    if call.state != "asked" or not answered(call, "user_name", "greeting", "client_roots"):
        return asked(
            "asked",
            user_name=NAME,
            greeting=question("Generate a greeting", 50),
            client_roots=ListRootsRequest(),
        )
    return [text("all three were answered")]


@tool()
async def test_input_required_result_multi_round(call):
    """Ask twice"""
    if call.state == "second" and answered(call, "step2"):
        return [text("both were answered")]
    if call.state == "first" and answered(call, "step1"):
        return asked("second", step2=form("Step 2: What is your favorite color?", color="string"))
    return asked("first", step1=form("Step 1: What is your name?", name="string"))


@tool()
async def test_input_required_result_capabilities(call):
    """Ask only what the client can answer"""
    able = call.session.client_capabilities
    requests = {}
    if able and able.elicitation:
        requests["user_name"] = NAME
    if able and able.sampling:
        requests["greeting"] = question("Generate a greeting")
    return asked(**requests)


@tool()
async def test_streaming_elicitation(call):
    """Tell progress, then ask the user"""
    await call.session.report_progress(1, 2)
    return asked(user_name=NAME)


@tool()
async def test_missing_capability(call):
    """Refuse a client that has no model to ask"""
    able = call.session.client_capabilities
    if not able or not able.sampling:
        required = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool asks the client's model", required)
    return [text("the client has a model")]


changes = InMemorySubscriptionBus()


@tool()
async def test_trigger_tool_change(call):
    """Tell that the tools have changed"""
    await changes.publish(ToolsListChanged())
    return [text("told")]


@tool()
async def test_trigger_prompt_change(call):
    """Tell that the prompts have changed"""
    await changes.publish(PromptsListChanged())
    return [text("told")]
