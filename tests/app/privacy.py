"""The mutations of visibility, as clients send them."""

from __future__ import annotations

from typing import Any

from tests.app.world import World

BLOCK = "mutation($u: ID!) { block(userId: $u) { blocked user { id name } } }"
UNBLOCK = "mutation($u: ID!) { unblock(userId: $u) { blocked user { id name } } }"
HIDE = "mutation($h: Boolean!) { setActivityHidden(hidden: $h) { activityHidden } }"
DELETE = "mutation($u: ID!) { deleteUser(userId: $u) { deleted } }"
LISTS = """{ viewer {
    activityHidden
    friends(first: 100) { totalCount nodes { id } }
    blocked(first: 100) { totalCount nodes { id } }
} }"""


async def block(headcount: World, user: int, other: int) -> None:
    """A user blocks another."""
    data = await headcount.ask(BLOCK, {"u": str(other)}, user=user)
    assert (data["block"]["blocked"], data["block"]["user"]["id"]) == (True, str(other))


async def unblock(headcount: World, user: int, other: int) -> None:
    """And takes it back."""
    data = await headcount.ask(UNBLOCK, {"u": str(other)}, user=user)
    assert (data["unblock"]["blocked"], data["unblock"]["user"]["id"]) == (False, str(other))


async def hide(headcount: World, user: int, hidden: bool = True) -> None:
    """A user hides their activity, or shows it again."""
    data = await headcount.ask(HIDE, {"h": hidden}, user=user)
    assert data["setActivityHidden"] == {"activityHidden": hidden}


async def delete(headcount: World, user: int) -> bool:
    """The platform deletes a user; whether this call did."""
    data = await headcount.ask(DELETE, {"u": str(user)}, user=1_000_000, scopes=["users:write"])
    deleted: bool = data["deleteUser"]["deleted"]
    return deleted


async def lists(headcount: World, user: int) -> dict[str, Any]:
    """What a user is shown of friends, of blocks and of themselves."""
    viewer: dict[str, Any] = (await headcount.ask(LISTS, user=user))["viewer"]
    for name in ("friends", "blocked"):
        ids = [int(node["id"]) for node in viewer[name]["nodes"]]
        assert viewer[name]["totalCount"] == len(ids)
        viewer[name] = ids
    return viewer
