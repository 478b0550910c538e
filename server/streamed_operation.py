"""One operation on a WebSocket or an event stream, as the messages it is answered with."""

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


class StreamedOperation:
    """What is asked, how far it is answered, and what that took.

    Args:
        operations: runs it.
        principal: who asks.
        request_id: for the log.
        payload: `query`, a string, and `variables` and `operationName` as they came.
        transport: for the log.
        with_cost: whether each answer says what the operation took so far.
    """

    def __init__(
        self,
        operations: Operations,
        principal: Principal | None,
        request_id: str,
        payload: dict[str, Any],
        *,
        transport: str,
        with_cost: bool = False,
    ) -> None:
        self._operations = operations
        self._principal = principal
        self._request_id = request_id
        self._payload = payload
        self._transport = transport
        self._with_cost = with_cost
        self._cost: Cost | None = None
        self._ask: Ask | None = None
        self._errors: list[ErrorBody] = []
        self._events = 0

    def begin(self) -> None:
        """Count from here on what it takes, in the task that runs it."""
        self._cost = Cost()

    @property
    def is_subscription(self) -> bool:
        """Whether it is answered many times; false before the first message, and where that is a refusal."""
        return self._ask is not None and self._ask.is_subscription

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
                    yield {"type": "next", "payload": self._encoded(answer)}
            yield {"type": "complete"}
        except Refused as refused:
            self._errors = refused.errors
            yield {"type": "error", "payload": refused.errors}
        except Exception as fault:
            self._errors = [internal_error(fault, self._request_id)]
            yield {"type": "error", "payload": self._errors}

    def _encoded(self, answer: Answer) -> orjson.Fragment:
        if not self._with_cost or self._cost is None:
            return orjson.Fragment(answer.encoded())
        return orjson.Fragment(orjson.dumps({**answer.body(), "extensions": {"cost": self._cost.extension()}}))

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
        assert self._cost is not None  # noqa: S101  # for mypy: it has begun
        log.info(
            "graphql",
            operation=self._ask.shown_name if self._ask else "",
            type=self._ask.operation.operation.value if self._ask else "",
            transport=self._transport,
            events=self._events,
            ms=round(self._cost.milliseconds(), 2),
            redis_round_trips=self._cost.redis_round_trips,
            graph_queries=self._cost.graph_queries,
            request_id=self._request_id,
            **({"codes": codes(self._errors)} if self._errors else {}),
        )


async def _once(operations: Operations, ask: Ask) -> AsyncGenerator[Answer, None]:
    yield await operations.run(ask)
