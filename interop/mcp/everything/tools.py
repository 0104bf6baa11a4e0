"""Tools that answer by themselves, and such that ask what legacy clients are asked."""

from asking import answered, asked, form_of, question
from content import IMAGE, encoded, resource, text, wav
from mcp.types import AudioContent
from offered import strings, tool


@tool()
async def test_simple_text(call):
    """Answer with a text"""
    return [text("This is a simple text response for testing.")]


@tool()
async def test_image_content(call):
    """Answer with an image"""
    return [IMAGE]


@tool()
async def test_audio_content(call):
    """Answer with a sound"""
    return [AudioContent(type="audio", data=encoded(wav()), mime_type="audio/wav")]


@tool()
async def test_embedded_resource(call):
    """Answer with a resource"""
    return [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@tool()
async def test_multiple_content_types(call):
    """Answer with a text, an image and a resource"""
    mixed = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [text("Multiple content types test:"), IMAGE, mixed]


@tool()
async def test_error_handling(call):
    """Fail"""
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool()
async def test_tool_with_logging(call):
    """Tell the log three times on the way"""
    for words in ["Tool execution started", "Tool processing data", "Tool execution completed"]:
        await call.session.send_log_message("info", words, related_request_id=call.request_id)
    return [text("Three messages were logged")]


@tool()
async def test_logging_tool(call):
    """Tell the log, which hears it only if the request asked for it"""
    await call.session.send_log_message("info", "Logged on the way", related_request_id=call.request_id)
    return [text("A message was logged")]


@tool()
async def test_tool_with_progress(call):
    """Tell progress three times on the way"""
    for done in [0, 50, 100]:
        await call.session.report_progress(done, 100)
    return [text("Progress was told")]


@tool(strings("prompt"))
async def test_sampling(call, prompt):
    """Ask the client's model"""
    answers = answered(call, "answer")
    if not answers:
        return asked(answer=question(prompt))
    return [text(f"LLM response: {answers[0].content.text}")]


async def elicited(call, message, properties, required=()):
    answers = answered(call, "answer")
    if not answers:
        return asked(answer=form_of(message, properties, required))
    action, content = answers[0].action, answers[0].content
    return [text(f"Elicitation completed: action={action}, content={content}")]


@tool(strings("message"))
async def test_elicitation(call, message):
    """Ask the user for name and address"""
    asked = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await elicited(call, message, asked, asked)


@tool()
async def test_elicitation_sep1034_defaults(call):
    """Ask the user, with a default for every kind of value"""
    return await elicited(
        call,
        "Please review the values",
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    )


@tool()
async def test_elicitation_sep1330_enums(call):
    """Ask the user to choose, in every way a choice can be offered"""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    old = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    return await elicited(
        call,
        "Please choose",
        {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", **old},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    )


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(call, **arguments):
    """Take what a schema with every kind of keyword allows"""
    return [text("taken")]


@tool({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
async def test_custom_header(call, region=None):
    """Take an argument that is mirrored in a header"""
    return [text(f"region {region}")]
