"""Messages of clients on a WebSocket, and the code that closes it where one breaks the protocol."""

from __future__ import annotations

from typing import Any

import orjson


class ClosedError(Exception):
    """The socket must be closed for what the client sent.

    Args:
        code: the close code.
        reason: what the client is told.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def decode(message: Any, most_characters: int) -> dict[str, Any]:
    """A message of the protocol, with its `type`, out of one of ASGI.

    Raises:
        ClosedError: it is none, or too long.
    """
    text = message.get("text")
    if text is None:
        raise ClosedError(4400, "Messages must be text")
    if len(text) > most_characters:
        raise ClosedError(1009, "Message too big")
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ClosedError(4400, "Messages must be JSON") from None
    if not isinstance(decoded, dict) or not isinstance(decoded.get("type"), str):
        raise ClosedError(4400, "Messages must be objects with a type")
    return decoded


def operation_id_of(message: dict[str, Any]) -> str:
    """The id of the operation that a message is about. Raises ClosedError where it has none."""
    operation_id = message.get("id")
    if not isinstance(operation_id, str) or not operation_id:
        raise ClosedError(4400, "Messages about an operation must have its id")
    return operation_id
