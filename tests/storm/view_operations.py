"""What happens in a schedule: operations, and in which proportions."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from events.event import Event
from tests.storm.model_graph import ModelGraph

Operation = tuple[str, int, int]  # what, and two free numbers that say to whom

#: Two in one bucket, two with one field, and the last there is.
NUMBERS = [1, 65, 64, 2, 3, 4, 5, 2**32 - 1]

#: Operations in about the proportions in which they do harm.
WEIGHTS = {
    "play": 34, "befriend": 14, "part": 10, "block": 4, "unblock": 3, "hide": 3, "show": 3, "read": 20, "import": 6,
    "evict": 3, "snapshot": 2, "rewind": 1, "lose": 1,
}  # fmt: skip
#: The same where views come and go.
RESTLESS = WEIGHTS | {"read": 40, "evict": 20, "lose": 0, "rewind": 0}
#: The same where a few pairs do nothing but befriend and part before views that come and go.
ON_AND_OFF = {"befriend": 20, "part": 20, "play": 10, "read": 30, "evict": 20}
#: The same where Redis forgets and processes die, and what workers do is a matter of its own. "later": time passes for
#: the truth; "replace": another truth takes its place.
FORGETFUL = {
    "play": 30, "befriend": 12, "part": 8, "block": 3, "hide": 3, "import": 4, "read": 16, "evict": 4,
    "snapshot": 12, "rewind": 9, "lose": 2, "kill": 2, "later": 6, "replace": 1,
}  # fmt: skip
FORGETFUL_OPERATIONS = [kind for kind, weight in FORGETFUL.items() for _ in range(weight)]
OPERATIONS = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]


def random_operations(random: Random, count: int, weights: Mapping[str, int] | None = None) -> list[Operation]:
    """Operations for a schedule, in these proportions or in those that `random` chooses."""
    weights = weights or random.choice((WEIGHTS, RESTLESS))
    kinds = random.choices(list(weights), list(weights.values()), k=count)
    return [(kind, random.randrange(5), random.randrange(32)) for kind in kinds]


#: The operations that change the truth.
CHANGES = frozenset({"play", "import", "befriend", "part", "block", "unblock", "hide", "show"})


def change_truth(graph: ModelGraph, what: str, user: int, other: int, free: int) -> list[Event]:
    """Do one of `CHANGES`; nothing where it makes no sense. Returns the events that tell of it."""
    if what == "play":
        return graph.play(user, NUMBERS[free % len(NUMBERS)])
    if what == "import":
        return graph.grow(user, [number for place, number in enumerate(NUMBERS) if free >> place & 1])
    if what in ("hide", "show"):
        return graph.hide(user, what == "hide")
    if user == other:
        return []
    if what in ("block", "unblock"):
        return graph.block(user, other, what == "block")
    return graph.befriend(user, other, what == "befriend")
