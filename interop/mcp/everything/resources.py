"""The resources, and the template of more of them."""

from content import PNG
from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    BlobResourceContents,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

STATIC_TEXT = "test://static-text"
STATIC_BINARY = "test://static-binary"
WATCHED = "test://watched-resource"
TEMPLATE = "test://template/{id}/data"
RESOURCES = [
    Resource(uri=STATIC_TEXT, name="static-text", description="A text", mime_type="text/plain"),
    Resource(uri=STATIC_BINARY, name="static-binary", description="An image", mime_type="image/png"),
    Resource(uri=WATCHED, name="watched-resource", description="A text to watch", mime_type="text/plain"),
]
TEMPLATES = [
    ResourceTemplate(
        uri_template=TEMPLATE, name="template", description="Data of an id", mime_type="application/json"
    ),
]


def contents(uri):
    start, end = TEMPLATE.split("{id}")
    if uri in (STATIC_TEXT, WATCHED):
        return TextResourceContents(
            uri=uri, mime_type="text/plain", text="This is the content of the static text resource."
        )
    if uri == STATIC_BINARY:
        return BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    if uri.startswith(start) and uri.endswith(end):
        id = uri.removeprefix(start).removesuffix(end)
        words = f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'
        return TextResourceContents(uri=uri, mime_type="application/json", text=words)
    raise MCPError(INVALID_PARAMS, "resource not found", {"uri": uri})
