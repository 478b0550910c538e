"""What a viewer sees of owners: versions, states, and the logs that are seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

import orjson

from graph.social_graph import SeenLog
from graph.sqlite.columns import as_json, columns, unpack_logs
from graph.visibility import FLAG_MASK, CursorState, EdgeFlag, UserFlag, Visibility, visibility

#: Owners whose logs one statement reads. Nearly every viewer has fewer friends: one statement, its own snapshot.
OWNERS_A_STATEMENT = 4_000

NOTHING = Visibility(0, CursorState.OFF)

# Friends from both sides of the edges, those who block or are blocked left out.
_SEEN_EDGES = f"""
    SELECT low AS owner_id, state FROM edges WHERE high = ?1 AND state & {FLAG_MASK} = {EdgeFlag.FRIENDS:d}
    UNION ALL
    SELECT high, state FROM edges WHERE low = ?1 AND state & {FLAG_MASK} = {EdgeFlag.FRIENDS:d}
"""  # noqa: S608  # constants of ours

_ASKED_OWNERS = """
    json_each(?2) AS asked CROSS JOIN users AS u ON u.id = asked.value
    LEFT JOIN edges AS e ON e.low = min(?1, asked.value) AND e.high = max(?1, asked.value)
"""

# The condition is that of `graph.visibility.visibility`: a log that nobody is shown is not read.
_SEEN_COLUMNS = f"""
    json_group_array(u.id), json_group_array(ifnull(e.state, 0)), json_group_array(u.state), json_group_array(u.plays),
    group_concat(
        CASE WHEN e.state & {FLAG_MASK} = {EdgeFlag.FRIENDS:d} AND NOT u.state & {UserFlag.HIDDEN | UserFlag.DELETED:d}
        THEN hex(substr(u.numbers, 1, 4 * u.plays)) END, ''
    )
"""


def read_visibilities(
    connection: sqlite3.Connection, viewer_id: int, owner_ids: Collection[int]
) -> dict[int, Visibility]:
    """How a viewer sees each owner; every id asked is a key."""
    ids, edges, owners = columns(
        connection,
        f"""
        SELECT json_group_array(u.id), json_group_array(ifnull(e.state, 0)), json_group_array(u.state)
        FROM {_ASKED_OWNERS}
        """,  # noqa: S608  # a constant of ours
        (viewer_id, as_json(owner_ids)),
    )
    seen = dict.fromkeys(owner_ids, NOTHING)
    for owner_id, edge, owner in zip(ids, edges, owners, strict=True):
        seen[owner_id] = visibility(edge, owner)
    return seen


def read_seen_logs(connection: sqlite3.Connection, viewer_id: int) -> dict[int, SeenLog]:
    """The logs of everybody whose plays a viewer sees, from one snapshot."""
    found = _seen_logs(
        connection.execute(
            f"""
            SELECT {_SEEN_COLUMNS}
            FROM (SELECT owner_id, state FROM ({_SEEN_EDGES}) LIMIT ?2) AS e CROSS JOIN users AS u ON u.id = e.owner_id
            """,  # noqa: S608  # constants of ours
            (viewer_id, OWNERS_A_STATEMENT),
        )
    )
    if len(found) == OWNERS_A_STATEMENT:
        found = _read_in_slices(connection, viewer_id)
    return {owner_id: seen for owner_id, seen in found.items() if seen.state is not CursorState.OFF}


def read_seen_logs_of(connection: sqlite3.Connection, viewer_id: int, owner_ids: Collection[int]) -> dict[int, SeenLog]:
    """What a viewer sees of these owners, from one snapshot; every id asked is a key."""
    asked = list(owner_ids)
    found = dict.fromkeys(asked, SeenLog(0, CursorState.OFF, b""))
    if len(asked) <= OWNERS_A_STATEMENT:
        return found | _seen_slice(connection, viewer_id, asked)
    connection.execute("BEGIN")
    try:
        for start in range(0, len(asked), OWNERS_A_STATEMENT):
            found |= _seen_slice(connection, viewer_id, asked[start : start + OWNERS_A_STATEMENT])
    finally:
        connection.execute("ROLLBACK")
    return found


def read_seen_owners(connection: sqlite3.Connection, viewer_id: int) -> dict[int, int]:
    """Everybody whose plays a viewer sees, and the length of their log."""
    ids, plays = columns(
        connection,
        f"""
        SELECT json_group_array(u.id), json_group_array(u.plays)
        FROM ({_SEEN_EDGES}) AS e CROSS JOIN users AS u ON u.id = e.owner_id
        WHERE NOT u.state & {UserFlag.HIDDEN | UserFlag.DELETED:d}
        """,  # noqa: S608  # constants of ours
        (viewer_id,),
    )
    return dict(zip(ids, plays, strict=True))


def _read_in_slices(connection: sqlite3.Connection, viewer_id: int) -> dict[int, SeenLog]:
    connection.execute("BEGIN")
    try:
        (owner_ids,) = columns(
            connection,
            f"SELECT json_group_array(owner_id) FROM ({_SEEN_EDGES})",  # noqa: S608  # a constant of ours
            (viewer_id,),
        )
        found: dict[int, SeenLog] = {}
        for start in range(0, len(owner_ids), OWNERS_A_STATEMENT):
            found |= _seen_slice(connection, viewer_id, owner_ids[start : start + OWNERS_A_STATEMENT])
        return found
    finally:
        connection.execute("ROLLBACK")


def _seen_slice(connection: sqlite3.Connection, viewer_id: int, owner_ids: list[int]) -> dict[int, SeenLog]:
    return _seen_logs(
        connection.execute(
            f"SELECT {_SEEN_COLUMNS} FROM {_ASKED_OWNERS}",  # noqa: S608  # constants of ours
            (viewer_id, as_json(owner_ids)),
        )
    )


def _seen_logs(cursor: sqlite3.Cursor) -> dict[int, SeenLog]:
    ids, edges, owners, plays, digits = cursor.fetchone()
    seen = [visibility(edge, owner) for edge, owner in zip(orjson.loads(edges), orjson.loads(owners), strict=True)]
    lengths = [
        0 if visible.state is CursorState.OFF else length
        for visible, length in zip(seen, orjson.loads(plays), strict=True)
    ]
    return {
        owner_id: SeenLog(visible.version, visible.state, log)
        for owner_id, visible, log in zip(orjson.loads(ids), seen, unpack_logs(digits, lengths), strict=True)
    }
