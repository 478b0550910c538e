"""Edges between users: changed under the locks of both ends, and listed from either side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from graph.changes import EdgeAnswer, EdgeChange
from graph.neo4j.database import Database, Values
from graph.neo4j.transaction import Transaction
from graph.neo4j.users import LockedUser, lock_users, make_users, write_states
from graph.neo4j.whole import LOCK_FIRST, read_whole
from graph.social_graph import ChangeKind, User, UserDeletedError, UserPage
from graph.visibility import EdgeFlag, UserFlag, change_flags, is_deleted, is_pulled

# From one end of each edge, with what is asked at its other ends: two look-ups a pair, and an expansion between them,
# cost four times as much.
_READ_EDGES = """
    UNWIND $rows AS row
    MATCH (u:HeadcountUser {id: row[0]})-[e:HEADCOUNT_EDGE]-(o:HeadcountUser)
    WHERE o.id IN row[1]
    RETURN collect([row[0], o.id, e.state])
"""
_CREATE_EDGES = """
    UNWIND $rows AS row
    MATCH (low:HeadcountUser {id: row[0]})
    UNWIND row[1] AS edge
    MATCH (high:HeadcountUser {id: edge[0]})
    CREATE (low)-[:HEADCOUNT_EDGE {state: edge[1]}]->(high)
"""
_WRITE_EDGES = """
    UNWIND $rows AS row
    MATCH (low:HeadcountUser {id: row[0]})
    MATCH (high:HeadcountUser {id: row[1]})
    MATCH (low)-[e:HEADCOUNT_EDGE]-(high)
    SET e.state = row[2]
"""
_WRITE_DEGREES = "UNWIND $rows AS row MATCH (u:HeadcountUser {id: row[0]}) SET u.friends = row[1]"
_FIND_CONCERNED = """
    MATCH (u:HeadcountUser) WHERE u.friends > $most OR u:HeadcountPulled
    RETURN collect(u.id)
"""
_SET_LIMIT = "MATCH (t:HeadcountTruth {only: 1}) SET t.fanout_max_friends = $most"
_READ_FRIENDS = """
    UNWIND $ids AS id
    MATCH (u:HeadcountUser {id: id})
    CALL (u) {
        MATCH (u)-[e:HEADCOUNT_EDGE]-(o:HeadcountUser) WHERE e.state % 2 = 1
        RETURN collect(o.id) AS friends
    }
    RETURN collect([id, coalesce(u.friends, 0), friends])
"""
_READ_PAGE = """
    MATCH (u:HeadcountUser {{id: $id}})-[e:HEADCOUNT_EDGE]-(o:HeadcountUser)
    WHERE {condition} AND coalesce(u.state, 0) / 2 % 2 = 0 AND coalesce(o.state, 0) / 2 % 2 = 0
    WITH o ORDER BY o.id
    WITH collect(o) AS found
    RETURN size(found), [o IN [o IN found WHERE o.id > $after][..$limit] | [o.id, o.name]]
"""
_READ_FRIEND_PAGE = _READ_PAGE.format(condition="e.state % 8 = 1")
_READ_BLOCKED_PAGE = _READ_PAGE.format(
    condition="CASE WHEN startNode(e) = u THEN e.state / 2 % 2 ELSE e.state / 4 % 2 END = 1"
)


# As a plain integer: arithmetic on an IntFlag makes an enum member each time, and this runs for each user of an import.
_PULL = int(UserFlag.PULL)


async def change_edges(transaction: Transaction, changes: Sequence[EdgeChange]) -> list[EdgeAnswer | Exception]:
    """Set or clear flags, in order; creates the users of the edges that change."""
    return await write_edge_changes(transaction, changes, await lock_users(transaction, ends_of(changes)))


def ends_of(changes: Iterable[EdgeChange]) -> set[int]:
    """Everybody at either end."""
    return {user_id for low, high, _, _ in changes for user_id in (low, high)}


async def write_edge_changes(
    transaction: Transaction, changes: Sequence[EdgeChange], locked: dict[int, LockedUser]
) -> list[EdgeAnswer | Exception]:
    """As `change_edges`, by whom the users that are there were locked already."""
    deleted = {user_id for user_id, user in locked.items() if is_deleted(user.state)}
    setting = [change for change in changes if change.on and not deleted & {change.low, change.high}]
    missing = ends_of(setting) - locked.keys()
    if missing:
        # Another process may have made some of them meanwhile, with edges between them.
        locked = locked | await make_users(transaction, missing)
        deleted = {user_id for user_id, user in locked.items() if is_deleted(user.state)}
    edges = await _read_edges(transaction, {(change.low, change.high) for change in changes}, locked)
    stood = set(edges)
    answers: list[EdgeAnswer | Exception] = []
    changed: dict[tuple[int, int], int] = {}
    degrees: Counter[int] = Counter()
    for low, high, flag, on in changes:
        if low in deleted or high in deleted:
            answers.append(UserDeletedError(low if low in deleted else high))
            continue
        before = edges.get((low, high), 0)
        after = change_flags(before, set_flags=flag) if on else change_flags(before, clear_flags=flag)
        if after != before:
            edges[low, high] = changed[low, high] = after
            transaction.tell(ChangeKind.EDGE, low, other_id=high)
            if flag == EdgeFlag.FRIENDS:
                degrees[low] += 1 if on else -1
                degrees[high] += 1 if on else -1
        answers.append(EdgeAnswer(after, after != before))
    new: dict[int, list[tuple[int, int]]] = {}
    for (low, high), state in sorted(changed.items()):
        if (low, high) not in stood:
            new.setdefault(low, []).append((high, state))
    if new:
        await transaction.run(_CREATE_EDGES, rows=[list(row) for row in new.items()])
    old = [[low, high, state] for (low, high), state in sorted(changed.items()) if (low, high) in stood]
    if old:
        await transaction.run(_WRITE_EDGES, rows=old)
    await _change_degrees(transaction, degrees, locked)
    return answers


async def _read_edges(
    transaction: Transaction, pairs: Collection[tuple[int, int]], locked: Mapping[int, LockedUser]
) -> dict[tuple[int, int], int]:
    """The packed states of those pairs that have an edge, whose ends are both locked."""
    asked: dict[int, list[int]] = {}
    for low, high in pairs:
        if low in locked and high in locked:
            fewer, more = (low, high) if locked[low].edges <= locked[high].edges else (high, low)
            if locked[fewer].edges:
                asked.setdefault(fewer, []).append(more)
    if not asked:
        return {}
    ((rows,),) = await transaction.run(_READ_EDGES, rows=[list(row) for row in sorted(asked.items())])
    return {(a, b) if a < b else (b, a): state for a, b, state in rows}


async def _change_degrees(transaction: Transaction, degrees: Counter[int], locked: dict[int, LockedUser]) -> None:
    """Write how many friendships users have now, and set or clear the PULL flag of those who cross the limit."""
    after = {user_id: locked[user_id].friends + change for user_id, change in sorted(degrees.items()) if change}
    if after:
        await transaction.run(_WRITE_DEGREES, rows=[list(row) for row in after.items()])
        states = {user_id: (locked[user_id].state, friends) for user_id, friends in after.items()}
        await _set_pull_flags(transaction, transaction.fanout_max_friends, states)


async def _set_pull_flags(transaction: Transaction, most: int, users: dict[int, tuple[int, int]]) -> None:
    moved: dict[int, int] = {}
    for user_id, (state, friends) in users.items():
        if friends <= most and not state & _PULL:
            continue  # nearly everybody
        pulled = is_pulled(friends, most, before=bool(state & _PULL))
        flags = {"set_flags": UserFlag.PULL} if pulled else {"clear_flags": UserFlag.PULL}
        after = change_flags(state, **flags)
        if after != state:
            moved[user_id] = after
            transaction.tell(ChangeKind.USER, user_id)
    await write_states(transaction, moved)


async def set_limit(transaction: Transaction, most: int) -> None:
    """Pull the plays of users with more friendships than this from now on; changes nothing where that is so already.

    The limit stands in the truth, so that all processes that write to it go by the same.
    """
    if transaction.fanout_max_friends == most:
        return
    await transaction.run(_SET_LIMIT, most=most)
    ((user_ids,),) = await transaction.run(_FIND_CONCERNED, most=most)
    users = await lock_users(transaction, user_ids)
    await _set_pull_flags(transaction, most, {user_id: (user.state, user.friends) for user_id, user in users.items()})


async def read_friends(database: Database, user_ids: Collection[int]) -> dict[int, list[int]]:
    """Ascending ids of everybody each user has a friendship with, blocked or deleted too; every id asked is a key."""

    def whole(answer: list[Values]) -> bool:
        ((rows,),) = answer
        return all(count == len(friends) for _, count, friends in rows)

    ids = list(dict.fromkeys(user_ids))
    ((rows,),) = await read_whole(database, _READ_FRIENDS, LOCK_FIRST + _READ_FRIENDS, whole, ids=ids)
    found: dict[int, list[int]] = {user_id: [] for user_id in ids}
    found.update((user_id, sorted(friends)) for user_id, _, friends in rows)
    return found


async def read_friend_page(database: Database, user_id: int, first: int, after_id: int) -> UserPage:
    """Friends of a user by ascending id: neither blocks the other, and the friend is not deleted; nor is the user."""
    return await _read_page(database, _READ_FRIEND_PAGE, user_id, first, after_id)


async def read_blocked_page(database: Database, user_id: int, first: int, after_id: int) -> UserPage:
    """Whom a user blocks, by ascending id, deleted ones left out; nobody for a deleted user."""
    return await _read_page(database, _READ_BLOCKED_PAGE, user_id, first, after_id)


async def _read_page(database: Database, text: str, user_id: int, first: int, after_id: int) -> UserPage:
    ((total, rows),) = await database.run(text, id=user_id, after=after_id, limit=first + 1)
    users = [User(found_id, name) for found_id, name in rows]
    return UserPage(users[:first], total, len(users) > first)
