"""One operation on a WebSocket, as the messages it is answered with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import orjson
import structlog

from resolvers.errors import BadInput
from server.cost import Cost
from server.errors import ErrorBody, Refused, codes, internal_error
from server.operations import Answer, Ask, Operations
from server.tokens import Principal

log = structlog.get_logger(__name__)

Message: TypeAlias = dict[str, Any]  # of the protocol, still without the operation's id


class SocketOperation:
    """Made in the task that runs it, so that what it takes is counted for it."""

    def __init__(
        self, operations: Operations, principal: Principal | None, request_id: str, payload: dict[str, Any]
    ) -> None:
        self._operations = operations
        self._principal = principal
        self._request_id = request_id
        self._payload = payload
        self._cost = Cost()
        self._ask: Ask | None = None
        self._errors: list[ErrorBody] = []
        self._events = 0

    async def messages(self) -> AsyncGenerator[Message, None]:
        """`next` messages, then `complete` or `error`."""
        try:
            self._ask = ask = self._make_ask()
            answers = self._operations.watch(ask) if ask.is_subscription else _once(self._operations, ask)
            async with aclosing(answers):
                async for answer in answers:
                    self._errors = answer.errors or self._errors
                    if not answer.executed:
                        yield {"type": "error", "payload": answer.errors}
                        return
                    self._events += 1
                    yield {"type": "next", "payload": orjson.Fragment(answer.encoded())}
            yield {"type": "complete"}
        except Refused as refused:
            self._errors = refused.errors
            yield {"type": "error", "payload": refused.errors}
        except Exception as fault:
            self._errors = [internal_error(fault, self._request_id)]
            yield {"type": "error", "payload": self._errors}

    def _make_ask(self) -> Ask:
        variables, name = self._payload.get("variables"), self._payload.get("operationName")
        if variables is not None and not isinstance(variables, dict):
            raise Refused.because(BadInput("variables", "must be an object"))
        if name is not None and not isinstance(name, str):
            raise Refused.because(BadInput("operationName", "must be a string"))
        document = self._operations.documents.prepare(self._payload["query"])
        return Ask(document, document.operation(name or None), variables, self._principal, self._request_id)

    def log(self) -> None:
        """Write the operation's line."""
        log.info(
            "graphql",
            operation=self._ask.shown_name if self._ask else "",
            type=self._ask.operation.operation.value if self._ask else "",
            transport="websocket",
            events=self._events,
            ms=round(self._cost.milliseconds(), 2),
            redis_round_trips=self._cost.redis_round_trips,
            graph_queries=self._cost.graph_queries,
            request_id=self._request_id,
            **({"codes": codes(self._errors)} if self._errors else {}),
        )


async def _once(operations: Operations, ask: Ask) -> AsyncGenerator[Answer, None]:
    yield await operations.run(ask)
