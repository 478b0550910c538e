"""What Neo4j and its driver report, in the words of the truth."""

from __future__ import annotations

from neo4j.exceptions import (
    AuthError,
    ClientError,
    ConstraintError,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
)

from graph.social_graph import TruthUnavailableError, TruthUnreachableError

#: What the driver raises for a server that is away, for a statement that failed, and where it stopped waiting itself.
STORE_ERRORS = (DriverError, Neo4jError, OSError, TimeoutError)

_NOT_THE_LEADER = {
    "Neo.ClientError.Cluster.NotALeader",
    "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase",
}
#: The server ended what took longer than QUERY_SECONDS: one that has just started, or has too much to do.
_TOOK_TOO_LONG = "Neo.ClientError.Transaction.TransactionTimedOut"
_OF_THE_STORE = (
    "Neo.ClientError.Security.",
    "Neo.ClientError.Database.",
    "Neo.ClientError.Transaction.",
    "Neo.ClientError.General.",
    "Neo.ClientError.Cluster.",
    "Neo.DatabaseError.",
    "Neo.TransientError.",
)


def passes(error: BaseException) -> bool:
    """Whether the same call may well succeed soon: a deadlock, a leader that moved, a lost connection."""
    if isinstance(error, ServiceUnavailable | SessionExpired | OSError | TimeoutError):
        return True
    if isinstance(error, Neo4jError):
        code = error.code or ""
        # Of a unique id that two made at once: the next try finds it, or takes another.
        return code.startswith("Neo.TransientError.") or code in _NOT_THE_LEADER or isinstance(error, ConstraintError)
    return False


def is_away(error: BaseException) -> bool:
    """Whether nobody answered at all, as against an answer that says no."""
    return isinstance(error, ServiceUnavailable | SessionExpired | OSError | TimeoutError)


def told_unavailable(uri: str, database: str, error: BaseException) -> BaseException:
    """The error to raise: one line of the truth's where the store failed; the same where the statement is at fault."""
    if isinstance(error, Neo4jError):
        code = error.code or ""
        if isinstance(error, AuthError) or code.startswith("Neo.ClientError.Security."):
            return TruthUnavailableError(f"Neo4j at {uri}: refuses the user or password ({_line(error.message)})")
        if code == "Neo.ClientError.Database.DatabaseNotFound":
            return TruthUnavailableError(f"Neo4j at {uri}: has no database {database}")
        if code.startswith(("Neo.TransientError.", _TOOK_TOO_LONG)) or code in _NOT_THE_LEADER:
            return TruthUnreachableError(f"Neo4j at {uri}: {_line(error.message or code)}")
        if code.startswith(_OF_THE_STORE) or not code or not isinstance(error, ClientError):
            return TruthUnavailableError(f"Neo4j at {uri}: {_line(error.message or code)}")
        return error
    if isinstance(error, TimeoutError):
        return TruthUnreachableError(f"Neo4j at {uri}: does not answer in time")
    if isinstance(error, ServiceUnavailable | SessionExpired | OSError):
        return TruthUnreachableError(f"Neo4j at {uri}: cannot be reached ({_line(error)})")
    if isinstance(error, DriverError):
        return TruthUnavailableError(f"Neo4j at {uri}: {_line(error)}")
    return error


def _line(error: object) -> str:
    """The first line of a text that may have many."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(":.")[:200] if lines else type(error).__name__
