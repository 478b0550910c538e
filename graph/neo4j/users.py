"""Users: names, packed states, and the lock under which anything of them is looked at before it is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from graph.changes import UserChange
from graph.neo4j.database import Database
from graph.neo4j.transaction import Transaction
from graph.social_graph import ChangeKind, Deletions, User, UserDeletedError, UserRow
from graph.visibility import UserFlag, change_flags, is_deleted, version_of

# Setting a property to what it is writes nothing and takes the node's write lock (removing one that is not there takes
# none). The planner reads properties as early as it can, before the lock; so what is read under it is matched again, as
# another variable.
_LOCKED = """
    WITH collect(id) AS ids
    UNWIND ids AS id
    MATCH (u:HeadcountUser {id: id})
    RETURN collect([id, coalesce(u.state, 0), coalesce(u.friends, 0), COUNT { (u)-[:HEADCOUNT_EDGE]-() }])
"""
_LOCK = "UNWIND $ids AS id MATCH (locked:HeadcountUser {id: id}) SET locked.id = locked.id" + _LOCKED
_MAKE = "UNWIND $ids AS id MERGE (locked:HeadcountUser {id: id}) SET locked.id = locked.id" + _LOCKED
_WRITE_STATES = """
    UNWIND $rows AS row
    MATCH (u:HeadcountUser {id: row[0]})
    SET u.state = row[1]
    FOREACH (_ IN CASE WHEN row[2] THEN [1] ELSE [] END | SET u:HeadcountInvisible)
    FOREACH (_ IN CASE WHEN row[2] THEN [] ELSE [1] END | REMOVE u:HeadcountInvisible)
    FOREACH (_ IN CASE WHEN row[3] THEN [1] ELSE [] END | SET u:HeadcountPulled)
    FOREACH (_ IN CASE WHEN row[3] THEN [] ELSE [1] END | REMOVE u:HeadcountPulled)
"""
_WRITE_NAMES = """
    UNWIND $rows AS row
    MERGE (u:HeadcountUser {id: row[0]})
    FOREACH (name IN CASE WHEN row[1] IS NULL THEN [] ELSE [row[1]] END | SET u.name = name)
"""
_NUMBER_DELETIONS = """
    MATCH (locked:HeadcountCounter {name: "deletions"}) SET locked.name = locked.name
    WITH DISTINCT 1 AS locked
    MATCH (c:HeadcountCounter {name: "deletions"})
    WITH c, coalesce(c.last, 0) AS last
    SET c.last = last + size($ids)
    WITH last
    UNWIND range(0, size($ids) - 1) AS place
    MATCH (u:HeadcountUser {id: $ids[place]})
    SET u.deletion = last + 1 + place
"""
_READ = """
    UNWIND $ids AS id
    MATCH (u:HeadcountUser {id: id}) WHERE coalesce(u.state, 0) / 2 % 2 = 0
    RETURN collect([id, u.name])
"""
_READ_STATE = "OPTIONAL MATCH (u:HeadcountUser {id: $id}) RETURN coalesce(u.state, 0)"
_READ_INVISIBLE = "MATCH (u:HeadcountInvisible) RETURN collect([u.id, coalesce(u.state, 0)])"
_READ_LAST_DELETION = 'MATCH (c:HeadcountCounter {name: "deletions"}) RETURN c.last'
# Under the counter's lock: a commit that is not wholly written yet shows its number before its users.
_READ_DELETIONS = """
    MATCH (locked:HeadcountCounter {name: "deletions"}) SET locked.name = locked.name
    WITH DISTINCT 1 AS locked
    MATCH (c:HeadcountCounter {name: "deletions"})
    CALL () {
        MATCH (u:HeadcountUser) WHERE u.deletion > $since
        WITH u ORDER BY u.deletion
        RETURN collect(u.id) AS ids
    }
    RETURN c.last, ids
"""


class LockedUser(NamedTuple):
    """A user under the transaction's lock: packed state, how many friendships they have, and edges, also those off."""

    state: int
    friends: int
    edges: int


async def lock_users(transaction: Transaction, user_ids: Iterable[int]) -> dict[int, LockedUser]:
    """Lock the users that are there, by ascending id. Others are not in the answer."""
    ((rows,),) = await transaction.run(_LOCK, ids=sorted(set(user_ids)))
    return {user_id: LockedUser(*user) for user_id, *user in rows}


async def make_users(transaction: Transaction, user_ids: Iterable[int]) -> dict[int, LockedUser]:
    """Lock the users by ascending id, and make those that are not there."""
    ((rows,),) = await transaction.run(_MAKE, ids=sorted(set(user_ids)))
    return {user_id: LockedUser(*user) for user_id, *user in rows}


async def write_states(transaction: Transaction, states: dict[int, int]) -> None:
    """Write the packed states of users that are locked."""
    if states:
        unseen, pull = UserFlag.HIDDEN | UserFlag.DELETED, UserFlag.PULL
        rows = [[user_id, state, bool(state & unseen), bool(state & pull)] for user_id, state in sorted(states.items())]
        await transaction.run(_WRITE_STATES, rows=rows)


async def change_users(transaction: Transaction, changes: Sequence[UserChange]) -> list[bool | Exception]:
    """Set or clear flags, in order; creates the users of whom something changes. Answers whether each changed anything.

    Only the deletion of a deleted user is let through (and changes nothing); anything else is UserDeletedError.
    """
    setting = {change.user_id for change in changes if change.on}
    locked = await lock_users(transaction, {change.user_id for change in changes})
    missing = setting - locked.keys()
    if missing:
        locked |= await make_users(transaction, missing)
    states = {user_id: user.state for user_id, user in locked.items()}
    answers: list[bool | Exception] = []
    changed: set[int] = set()
    deleted: list[int] = []
    for user_id, flag, on in changes:
        before = states.get(user_id, 0)
        if is_deleted(before) and not (on and flag == UserFlag.DELETED):
            answers.append(UserDeletedError(user_id))
            continue
        after = change_flags(before, set_flags=flag) if on else change_flags(before, clear_flags=flag)
        if after != before:
            states[user_id] = after
            changed.add(user_id)
            if flag == UserFlag.DELETED:
                deleted.append(user_id)
            transaction.tell(ChangeKind.USER, user_id)
        answers.append(after != before)
    await write_states(transaction, {user_id: states[user_id] for user_id in changed})
    if deleted:
        await transaction.run(_NUMBER_DELETIONS, ids=deleted)
    return answers


async def save_users(transaction: Transaction, rows: Sequence[UserRow]) -> None:
    """Create or name users. Raises UserDeletedError before anything is written."""
    locked = await lock_users(transaction, {row.id for row in rows})
    for row in rows:
        if row.id in locked and is_deleted(locked[row.id].state):
            raise UserDeletedError(row.id)
    await write_names(transaction, rows)


async def write_names(transaction: Transaction, rows: Sequence[UserRow]) -> None:
    """Create or name users that are known not to be deleted. Of two rows of a user the later name stays."""
    names: dict[int, str | None] = {}
    for user_id, name in rows:
        names[user_id] = names.get(user_id) if name is None else name
    if names:
        await transaction.run(_WRITE_NAMES, rows=[list(row) for row in sorted(names.items())])


async def read_users(database: Database, user_ids: Collection[int]) -> dict[int, User]:
    """Users by id, deleted and unknown ones left out."""
    ((rows,),) = await database.run(_READ, ids=list(user_ids))
    return {user_id: User(user_id, name) for user_id, name in rows}


async def read_state(database: Database, user_id: int) -> int:
    """The packed state, 0 for a user never written."""
    ((state,),) = await database.run(_READ_STATE, id=user_id)
    return int(state)


async def read_invisible_users(database: Database) -> dict[int, int]:
    """Everybody who is hidden or deleted, and the version of their state."""
    ((rows,),) = await database.run(_READ_INVISIBLE)
    return {user_id: version_of(state) for user_id, state in rows}


async def read_deletions(database: Database, since: int) -> Deletions:
    """Who was deleted after the deletion with this number."""
    if await database.run(_READ_LAST_DELETION) == [[since]]:
        return Deletions(since, [])
    ((last, user_ids),) = await database.run(_READ_DELETIONS, since=since)
    return Deletions(max(last, since), user_ids)
