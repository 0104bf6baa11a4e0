"""The prompts."""

from asking import answered, asked, form
from content import IMAGE, resource, text
from offered import prompt


@prompt()
def test_simple_prompt(call):
    """Say something"""
    return [text("This is a simple prompt for testing.")]


@prompt("arg1", "arg2")
def test_prompt_with_arguments(call, arg1, arg2):
    """Say the arguments"""
    return [text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]


@prompt("resourceUri")
def test_prompt_with_embedded_resource(call, resourceUri):
    """Give a resource to work on"""
    given = resource(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [given, text("Please process the embedded resource above.")]


@prompt()
def test_prompt_with_image(call):
    """Give an image to work on"""
    return [IMAGE, text("Please analyze the image above.")]


@prompt()
def test_input_required_result_prompt(call):
    """Ask the user what the prompt is about"""
    answers = answered(call, "user_context")
    if not answers:
        return asked(user_context=form("What context should the prompt use?", context="string"))
    return [text(f"Use the context {answers[0].content}")]
