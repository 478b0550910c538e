"""Which answers of a server say "later", so that a start waits, and which say "no", so that it ends."""

from __future__ import annotations

import pytest
from neo4j.exceptions import Neo4jError

from graph.neo4j.failures import told_unavailable
from graph.social_graph import TruthUnavailableError, TruthUnreachableError

LATER = [
    "Neo.ClientError.Transaction.TransactionTimedOut",
    "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration",
    "Neo.ClientError.Cluster.NotALeader",
    "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase",
    "Neo.TransientError.General.DatabaseUnavailable",
]
NEVER = [
    "Neo.ClientError.Database.DatabaseNotFound",
    "Neo.ClientError.Security.Unauthorized",
    "Neo.DatabaseError.General.UnknownError",
]


def told(code: str) -> BaseException:
    """What the truth says of a server's answer."""
    error = Neo4jError._hydrate_neo4j(code=code, message="No.")  # as the driver makes it
    return told_unavailable("bolt://here", "neo4j", error)


@pytest.mark.parametrize("code", LATER)
def test_a_server_that_may_do_it_later(code: str) -> None:
    assert type(told(code)) is TruthUnreachableError


@pytest.mark.parametrize("code", NEVER)
def test_a_server_that_says_no(code: str) -> None:
    assert type(told(code)) is TruthUnavailableError
