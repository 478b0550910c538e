"""Runs operations of documents that passed, by POST and over WebSockets alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias, TypeGuard, cast

import orjson
import strawberry
from graphql import (
    ExecutionResult,
    Executor,
    GraphQLError,
    OperationDefinitionNode,
    OperationType,
    create_source_event_stream,
    execute,
    execute_subscription_event,
)
from strawberry.execution import optimized_is_awaitable

from resolvers.event import Event
from server.documents import Document, Documents
from server.errors import ErrorBody, exception_body, internal_error, result_errors
from server.limits import Limits
from server.shared_answers import SharedAnswers
from server.tokens import Principal

#: Makes what resolvers find as `info.context`: of the user of the token, if any, and the request's id.
MakeContext: TypeAlias = Callable[[Principal | None, str], Any]

_is_awaitable = cast("Callable[[Any], TypeGuard[Awaitable[Any]]]", optimized_is_awaitable)
#: After a recount all subscribers have an event due. All at once, each would cost many times what it costs alone, and
#: requests would wait for the last of them.
EVENTS_AT_ONCE = 16

_MAX_VARIABLE_ERRORS = 1
_SHOWN_NAME = 64


@dataclass(frozen=True, slots=True)
class Ask:
    """What a caller wants run."""

    document: Document
    operation: OperationDefinitionNode
    variables: dict[str, Any] | None
    principal: Principal | None
    request_id: str

    @property
    def is_subscription(self) -> bool:
        """Whether it is answered many times."""
        return self.operation.operation is OperationType.SUBSCRIPTION

    @property
    def viewer_id(self) -> int | None:
        """The user of the token."""
        return None if self.principal is None else self.principal.user_id

    @property
    def operation_name(self) -> str | None:
        """The operation's name in the document."""
        return self.operation.name.value if self.operation.name else None

    @property
    def shown_name(self) -> str:
        """The name for the log, which holds no more than GraphQL's letters, digits and underscores."""
        return (self.operation_name or "")[:_SHOWN_NAME]


@dataclass(slots=True)
class Answer:
    """The reply to an operation, or one of a subscription's; never changed, since many may be told the same one.

    `executed` is false where nothing ran (a variable was wrong); then there is no `data` in the reply at all.
    """

    data: dict[str, Any] | None
    errors: list[ErrorBody] = field(default_factory=list)
    executed: bool = True
    _encoded: bytes | None = None

    def body(self) -> dict[str, Any]:
        """The reply as GraphQL has it."""
        body: dict[str, Any] = {"data": self.data} if self.executed else {}
        if self.errors:
            body["errors"] = self.errors
        return body

    def encoded(self) -> bytes:
        """The reply as JSON, made once. Raises TypeError where JSON cannot have it."""
        if self._encoded is None:
            self._encoded = orjson.dumps(self.body())
        return self._encoded


class Operations:
    """Runs operations of one schema.

    Documents come parsed and validated, so this calls graphql-core directly: `strawberry.Schema.execute` around it
    costs 0.1 ms more for hooks that nothing here uses.
    """

    def __init__(
        self,
        schema: strawberry.Schema,
        make_context: MakeContext,
        limits: Limits,
        *,
        introspection: bool,
        suggestions: bool,
    ) -> None:
        self._schema = schema._schema
        self._executor_class = schema.execution_context_class
        self._make_context = make_context
        self._hide_suggestions = not suggestions
        self._shared: SharedAnswers[Answer] = SharedAnswers()
        self._turns = asyncio.Semaphore(EVENTS_AT_ONCE)
        self.documents = Documents(self._schema, limits, introspection=introspection, suggestions=suggestions)

    async def run(self, ask: Ask) -> Answer:
        """Run a query or a mutation."""
        try:
            result = execute(
                self._schema,
                ask.document.node,
                context_value=self._make_context(ask.principal, ask.request_id),
                variable_values=ask.variables,
                operation_name=ask.operation_name,
                max_coercion_errors=_MAX_VARIABLE_ERRORS,
                executor_class=self._executor_class,
                is_awaitable=_is_awaitable,
                hide_suggestions=self._hide_suggestions,
            )
            if isawaitable(result):
                result = await result
        except Exception as fault:
            return Answer(None, [internal_error(fault, ask.request_id)])
        return _answer(ask, result)

    async def watch(self, ask: Ask) -> AsyncGenerator[Answer, None]:
        """Run a subscription. What ends it by an error is its last answer, not executed."""
        try:
            executor = self._executor_class.build(
                self._schema,
                ask.document.node,
                context_value=self._make_context(ask.principal, ask.request_id),
                raw_variable_values=ask.variables,
                operation_name=ask.operation_name,
                max_coercion_errors=_MAX_VARIABLE_ERRORS,
                is_awaitable=_is_awaitable,
                hide_suggestions=self._hide_suggestions,
            )
            if isinstance(executor, list):
                yield _refusal(ask, executor)
                return
            events: Any = create_source_event_stream(executor)
            if isawaitable(events):
                events = await events
            if isinstance(events, ExecutionResult):
                yield _refusal(ask, events.errors or [])
                return

            shared_key = _shared_key(ask)
            async with aclosing(events):
                async for event in events:
                    share = event.share if isinstance(event, Event) else None
                    execute_event = partial(self._execute_event, ask, executor, event)
                    if share is None:
                        async with self._turns:
                            answer = await execute_event()
                        yield answer
                    else:
                        yield await self._shared.get((*shared_key, share), execute_event)
        except Exception as error:
            body = exception_body(error, viewer_id=ask.viewer_id, request_id=ask.request_id)
            yield Answer(None, [body], executed=False)

    async def _execute_event(self, ask: Ask, executor: Executor[Any], event: object) -> Answer:
        # A context, and so DataLoaders, of its own for each event: they hold on to what they loaded once.
        context = self._make_context(ask.principal, ask.request_id)
        payload = event
        if isinstance(event, Event):
            payload = event.rows()
            if event.friend_pages is not None:
                context.friend_pages = event.friend_pages
        execution = executor.build_per_event_executor(payload)
        execution.context_value = context
        result: Any = execute_subscription_event(execution)
        if isawaitable(result):
            result = await result
        return _answer(ask, result)


def _shared_key(ask: Ask) -> tuple[Document, str | None, bytes]:
    """Equal for those who ask the same."""
    return ask.document, ask.operation_name, orjson.dumps(ask.variables, option=orjson.OPT_SORT_KEYS)


def _answer(ask: Ask, result: ExecutionResult) -> Answer:
    if not result.errors:
        return Answer(result.data)
    executed = result.data is not None or any(error.path is not None for error in result.errors)
    errors = result_errors(result.errors, viewer_id=ask.viewer_id, request_id=ask.request_id)
    return Answer(result.data, errors, executed)


def _refusal(ask: Ask, errors: list[GraphQLError]) -> Answer:
    return Answer(None, result_errors(errors, viewer_id=ask.viewer_id, request_id=ask.request_id), executed=False)
