"""Views with one rule left out: what the schedules must notice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from loaders.pulled_friends import PulledFriends
from signals.outcome import Outcome
from signals.redis import Script, SharedRedis
from signals.views import FriendViews


@dataclass(frozen=True)
class Mutant:
    """A script of which one line was changed. `attribute` is where `FriendViews` keeps it."""

    rule: str
    attribute: str
    line: str
    instead: str

    def make(self, redis: SharedRedis, **options: Any) -> FriendViews:
        """Views without the rule."""
        views = FriendViews(redis, **options)
        original: Script = getattr(views, self.attribute)
        assert original.source.count(self.line) == 1, f"{original.name}.lua has no such line any more: {self.line}"
        mutated = copy(original)
        mutated.source = original.source.replace(self.line, self.instead)
        mutated.sha = hashlib.sha1(mutated.source.encode(), usedforsecurity=False).hexdigest()
        setattr(views, self.attribute, mutated)
        return views


class NoCatchUpAfterOldVersion(FriendViews):
    """Says "old version" in a way after which a worker does not catch up."""

    async def edge(
        self, viewer_id: int, owner_id: int, token: str | None, version: int, state: int, log: bytes = b""
    ) -> Outcome:
        outcome = await super().edge(viewer_id, owner_id, token, version, state, log)
        return Outcome.NOT_RESIDENT if outcome is Outcome.OLD_VERSION else outcome


_MUTANTS = [
    Mutant("apply checks that the entry is not counted yet", "_apply", "if cursor >= ordinal then", "if false then"),
    Mutant("apply checks that no entry is left out", "_apply", "elseif cursor < ordinal - 1 then", "elseif false then"),
    Mutant(
        "apply marks dirty what is being built", "_apply",
        "call('SADD', keys[2 * n + i], ARGV[3 + 3 * byte(entries, update)])", "",
    ),
    Mutant("apply leaves alone what is off", "_apply", "if seen == 0 then", "if not row then"),
    Mutant("catch-up begins at the cursor", "_catch_up", "part, cursor - before + 1, size", "part, 1, size"),
    Mutant("catch-up marks dirty what is being built", "_catch_up", "redis.call('SADD', KEYS[3], owner)", ""),
    Mutant("edge ignores old versions", "_edge", "if version <= last then return 7 end", ""),
    Mutant("edge refuses another token", "_edge", "if state ~= token then return 8 end", ""),
    Mutant("edge marks dirty what is being built", "_edge", "redis.call('SADD', KEYS[4], owner)\n", ""),
    Mutant("edge takes back what is before the cursor", "_edge", "log, 1, cursor,", "log, 1, #log / 4,"),
    Mutant(
        "edge keeps the cursor from pull to push", "_edge",
        "if seen == 0 and was ~= 0 then", "if was == 2 then cursor = 0 elseif seen == 0 and was ~= 0 then",
    ),
    Mutant(
        "build refuses another token", "_build",
        "if state ~= token then return {2} end", "if not state or string.byte(state) ~= 66 then return {2} end",
    ),
    Mutant("build hands dirty marks back", "_build", "if #dirty > 0 then", "if false then"),
    Mutant(
        "a round with dirty marks ends in a new token", "_build",
        "redis.call('SET', KEYS[1], following)", "following = token",
    ),
    Mutant(
        "a repeated claim clears nothing", "_claim",
        "if builder == nonce then return state end",
        "if builder == nonce then redis.call('DEL', KEYS[2]) return state end",
    ),
    Mutant("eviction is whole", "_evict", "unpack(KEYS, first, first + 67)", "unpack(KEYS, first + 1, first + 67)"),
]  # fmt: skip

MUTANTS: dict[str, Callable[..., FriendViews]] = {
    **{mutant.rule: mutant.make for mutant in _MUTANTS},
    "catch up after an old version too": NoCatchUpAfterOldVersion,
}


class NoCatchUpOnRead(PulledFriends):
    """Takes every cursor for one that stands at its log's end."""

    async def age_seconds(self, viewer_id: int, cursors: Mapping[int, int]) -> float | None:  # noqa: ARG002  # as the original
        return 0.0


#: Rules of the pull side: what a schedule is made with where one is left out.
PULL_MUTANTS: dict[str, dict[str, Any]] = {
    "a page catches up with pulled friends": {"make_pulled_friends": NoCatchUpOnRead},
}
