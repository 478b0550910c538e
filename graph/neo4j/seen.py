"""What a viewer sees of owners: versions, states, and the logs that are seen."""

from __future__ import annotations

from collections.abc import Collection

from graph.neo4j.database import Database, Values
from graph.neo4j.plays import pack
from graph.neo4j.whole import LOCK_FIRST, read_whole
from graph.social_graph import SeenLog
from graph.visibility import CursorState, Visibility, visibility

NOTHING = Visibility(0, CursorState.OFF)

# The condition is that of `graph.visibility.visibility`: a log that nobody is shown is not read.
_SEEN_LOG = "CASE WHEN e.state % 8 = 1 AND coalesce(o.state, 0) % 4 = 0 THEN o.plays END"
# All logs come as one record: with a record each, 300 friends cost the driver three times as much.
_READ_SEEN = f"""
    OPTIONAL MATCH (v:HeadcountUser {{id: $ids[0]}})
    CALL (v) {{
        MATCH (v)-[e:HEADCOUNT_EDGE]-(o:HeadcountUser) WHERE e.state % 2 = 1
        RETURN collect([o.id, e.state, coalesce(o.state, 0), {_SEEN_LOG}]) AS seen
    }}
    RETURN coalesce(v.friends, 0), seen
"""
_READ_SEEN_OWNERS = _READ_SEEN.replace(_SEEN_LOG, "size(coalesce(o.plays, []))")
_READ_OWNERS = """
    UNWIND $owners AS id
    MATCH (o:HeadcountUser {id: id})
    OPTIONAL MATCH (v:HeadcountUser {id: $viewer})
    OPTIONAL MATCH (v)-[e:HEADCOUNT_EDGE]-(o)
    RETURN collect([id, coalesce(e.state, 0), coalesce(o.state, 0), {log}])
"""
_READ_VISIBILITIES = _READ_OWNERS.replace("{log}", "null")
_READ_SEEN_OF = _READ_OWNERS.replace("{log}", _SEEN_LOG)
_READ_PULLED = "MATCH (u:HeadcountPulled) RETURN collect([u.id, size(coalesce(u.plays, []))])"


async def read_visibilities(database: Database, viewer_id: int, owner_ids: Collection[int]) -> dict[int, Visibility]:
    """How a viewer sees each owner; every id asked is a key."""
    ((rows,),) = await database.run(_READ_VISIBILITIES, viewer=viewer_id, owners=list(owner_ids))
    seen = dict.fromkeys(owner_ids, NOTHING)
    seen.update((owner_id, visibility(edge, owner)) for owner_id, edge, owner, _ in rows)
    return seen


async def read_seen_logs(database: Database, viewer_id: int) -> dict[int, SeenLog]:
    """The logs of everybody whose plays a viewer sees."""
    ((_, rows),) = await read_whole(database, _READ_SEEN, LOCK_FIRST + _READ_SEEN, _is_whole, ids=[viewer_id])
    return {owner_id: seen for owner_id, seen in _seen_logs(rows).items() if seen.state is not CursorState.OFF}


async def read_seen_owners(database: Database, viewer_id: int) -> dict[int, int]:
    """Everybody whose plays a viewer sees, and the length of their log."""
    text = _READ_SEEN_OWNERS
    ((_, rows),) = await read_whole(database, text, LOCK_FIRST + text, _is_whole, ids=[viewer_id])
    return {
        owner_id: length
        for owner_id, edge, owner, length in rows
        if visibility(edge, owner).state is not CursorState.OFF
    }


async def read_seen_logs_of(database: Database, viewer_id: int, owner_ids: Collection[int]) -> dict[int, SeenLog]:
    """What a viewer sees of these owners; every id asked is a key."""
    ((rows,),) = await database.run(_READ_SEEN_OF, viewer=viewer_id, owners=list(owner_ids))
    return dict.fromkeys(owner_ids, SeenLog(*NOTHING, b"")) | _seen_logs(rows)


async def read_pulled_logs(database: Database) -> dict[int, int]:
    """Everybody whose plays are pulled, and the length of their log."""
    ((rows,),) = await database.run(_READ_PULLED)
    return dict(rows)


def _is_whole(answer: list[Values]) -> bool:
    ((friends, seen),) = answer
    return bool(friends == len(seen))


def _seen_logs(rows: list[Values]) -> dict[int, SeenLog]:
    seen: dict[int, SeenLog] = {}
    for owner_id, edge, owner, numbers in rows:
        version, state = visibility(edge, owner)
        seen[owner_id] = SeenLog(version, state, b"" if state is CursorState.OFF else pack(numbers or ()))
    return seen
