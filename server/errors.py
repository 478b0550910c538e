"""GraphQL errors as they leave the server: each with a code, none with what is not meant for outside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import structlog
from graphql import GraphQLError, GraphQLSyntaxError, VariableDefinitionNode

from graph.social_graph import TruthReplacedError, TruthUnavailableError, UnknownGameError, UserDeletedError
from resolvers.errors import HeadcountError, NotFound, Unauthenticated, Unavailable

log = structlog.get_logger(__name__)

ErrorBody: TypeAlias = dict[str, Any]  # an entry of `errors`, ready for JSON

_SHOWN_CHARACTERS = 400
_LOGGED_TRACEBACKS = 3
_ARGUMENT = re.compile(r"Argument '(\w+)'")


class Refused(Exception):  # noqa: N818  # an answer, not a fault
    """A request that is answered with errors before it is executed."""

    def __init__(self, errors: Sequence[ErrorBody]) -> None:
        super().__init__(errors[0]["message"])
        self.errors = list(errors)

    @classmethod
    def because(cls, error: HeadcountError) -> Refused:
        """Refused for one reason."""
        return cls([error_body(error)])


def error_body(error: HeadcountError) -> ErrorBody:
    """An error that has no place in a document."""
    return {"message": error.message, "extensions": error.extensions}


def document_errors(errors: Iterable[GraphQLError]) -> list[ErrorBody]:
    """What parsing and validation found."""
    return [
        _placed(
            error,
            error.message,
            {"code": "GRAPHQL_PARSE_FAILED" if isinstance(error, GraphQLSyntaxError) else "GRAPHQL_VALIDATION_FAILED"},
        )
        for error in errors
    ]


def result_errors(errors: Iterable[GraphQLError], *, viewer_id: int | None, request_id: str) -> list[ErrorBody]:
    """What execution found, without repetitions.

    A store that is away fails every field that asks it: equal errors become one, with the first one's path. Only what
    does not exist is said at each path, since that tells the items of a list apart.

    Args:
        errors: as graphql-core gives them.
        viewer_id: the user of the token.
        request_id: under which the log has the details that the caller does not get.
    """
    bodies: dict[object, ErrorBody] = {}
    faults: dict[str, Exception] = {}
    for error in errors:
        if isinstance(error.nodes and error.nodes[0], VariableDefinitionNode) and error.path is None:
            return [_variable_error(error)]
        cause = _cause(error)
        known = _known(cause, viewer_id) if cause is not None else _argument_error(error)
        if known is None:
            fault = cause if cause is not None else error
            faults.setdefault(f"{type(fault).__name__}: {fault}", fault)
            message, extensions = "Internal error", {"code": "INTERNAL", "requestId": request_id}
        else:
            message, extensions = known
        place = tuple(error.path or ()) if extensions["code"] == "NOT_FOUND" else ()
        key = (message, place, *extensions.items())
        if key not in bodies:
            bodies[key] = _placed(error, message, extensions)
    for fault in list(faults.values())[:_LOGGED_TRACEBACKS]:
        log.error("internal_error", request_id=request_id, faults=len(faults), exc_info=fault)
    return list(bodies.values())


def internal_error(fault: Exception, request_id: str) -> ErrorBody:
    """A fault of ours outside of any field: the details go to the log."""
    log.error("internal_error", request_id=request_id, exc_info=fault)
    return {"message": "Internal error", "extensions": {"code": "INTERNAL", "requestId": request_id}}


def exception_body(error: Exception, *, viewer_id: int | None, request_id: str) -> ErrorBody:
    """An exception that ended a subscription."""
    return result_errors(
        [error if isinstance(error, GraphQLError) else GraphQLError(str(error), original_error=error)],
        viewer_id=viewer_id,
        request_id=request_id,
    )[0]


def codes(errors: Iterable[ErrorBody]) -> list[str]:
    """The codes of some errors, each once, for the log."""
    return list(dict.fromkeys(error["extensions"]["code"] for error in errors))


def _cause(error: GraphQLError) -> Exception | None:
    """The exception of ours behind an error; graphql-core may have wrapped its own around it."""
    cause = error.original_error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    return cause


def _known(cause: Exception, viewer_id: int | None) -> tuple[str, dict[str, Any]] | None:
    """What the caller is told of an exception; None where it is a fault of ours."""
    told: HeadcountError
    match cause:
        case HeadcountError():
            told = cause
        case UnknownGameError():
            told = NotFound("id", str(cause))
        case UserDeletedError() if cause.user_id == viewer_id:
            told = Unauthenticated("The user of this token was deleted.")
        case UserDeletedError():
            told = NotFound("userId", f"no user has the id {cause.user_id}")
        case TruthUnavailableError() | TruthReplacedError():
            # A full disk, say: the operator's to know, not the caller's.
            log.warning("truth_unavailable", reason=str(cause))
            told = Unavailable("truth")
        case _:
            return None
    return told.message, told.extensions


def _argument_error(error: GraphQLError) -> tuple[str, dict[str, Any]] | None:
    """graphql-core refuses some arguments only at execution: a null variable where null is not allowed."""
    named = _ARGUMENT.match(error.message)
    return (error.message, {"code": "BAD_INPUT", "argument": named[1]}) if named else None


def _variable_error(error: GraphQLError) -> ErrorBody:
    """A variable that cannot be coerced. The first one stands for all: one refusal is one error."""
    assert error.nodes  # noqa: S101  # its caller looked
    definition = error.nodes[0]
    assert isinstance(definition, VariableDefinitionNode)  # noqa: S101  # likewise
    return _placed(error, error.message, {"code": "BAD_INPUT", "argument": definition.variable.name.value})


def _placed(error: GraphQLError, message: str, extensions: dict[str, Any]) -> ErrorBody:
    """An error with its place in the document and in the reply."""
    if len(message) > _SHOWN_CHARACTERS:
        message = message[:_SHOWN_CHARACTERS] + "…"
    body: ErrorBody = {"message": message}
    if error.locations:
        body["locations"] = [location.formatted for location in error.locations]
    if error.path is not None:
        body["path"] = list(error.path)
    body["extensions"] = extensions
    return body
