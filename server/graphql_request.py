"""The body of a GraphQL request by POST."""

from __future__ import annotations

from typing import Any

import orjson

from resolvers.errors import BadInput
from server.replies import HTTPRefusal


def parse_request(body: bytes) -> dict[str, Any]:
    """The `query`, `variables` and `operationName` of a body.

    Raises:
        HTTPRefusal: 400, it is not what "GraphQL over HTTP" asks for.
    """
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HTTPRefusal(400, BadInput("body", f"must be JSON: {error.msg} at byte {error.pos}")) from None
    if isinstance(given, list):
        raise HTTPRefusal(
            400, BadInput("body", "must be one operation, not a list: it may ask for many things, with aliases")
        )
    if not isinstance(given, dict):
        raise HTTPRefusal(400, BadInput("body", "must be a JSON object"))
    query, variables, name = given.get("query"), given.get("variables"), given.get("operationName")
    if not isinstance(query, str) or not query.strip():
        raise HTTPRefusal(400, BadInput("query", "must be a string that holds an operation"))
    if variables is not None and not isinstance(variables, dict):
        raise HTTPRefusal(400, BadInput("variables", "must be an object"))
    if name is not None and not isinstance(name, str):
        raise HTTPRefusal(400, BadInput("operationName", "must be a string"))
    if not isinstance(given.get("extensions"), dict | None):
        raise HTTPRefusal(400, BadInput("extensions", "must be an object"))
    return {"query": query, "variables": variables, "operationName": name or None}
