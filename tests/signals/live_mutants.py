"""Live sessions with one rule left out: what the schedules must notice."""

from __future__ import annotations

from dataclasses import dataclass

from signals.hidden_users import HiddenUsers
from signals.live_sessions import BEAT
from signals.redis import SharedRedis
from signals.unique_players import TAKE
from tests.mutated_script import mutated


@dataclass(frozen=True)
class Mutant:
    """A script of which one line was changed. `attribute` is where `HiddenUsers` keeps it."""

    rule: str
    attribute: str
    line: str
    instead: str

    def __call__(self, redis: SharedRedis) -> HiddenUsers:
        """Hidden users without the rule."""
        hidden = HiddenUsers(redis)
        setattr(hidden, self.attribute, mutated(getattr(hidden, self.attribute), self.line, self.instead))
        return hidden


class TokenAfterTheTruth(HiddenUsers):
    """Tells by whatever token stands when it tells, not by the one from before the truth was read."""

    async def hide(self, user_id: int, token: str, version: int, *, hidden: bool) -> bool:
        return await super().hide(user_id, await self.token(user_id) or token, version, hidden=hidden)


MUTANTS = {
    mutant.rule: mutant
    for mutant in (
        Mutant(
            "older versions change nothing", "_hide",
            "if math.floor(packed / 2) > math.floor(before / 2) then", "if true then",
        ),
        Mutant(
            "another token is refused", "_hide",
            "if not held or string.sub(held, 3) ~= ARGV[1] then", "if not held then",
        ),
        Mutant(
            "a token is another one after a loss", "_claim",
            "local token = ARGV[1] .. ':' .. ARGV[2]", "local token = ARGV[1] .. ':'",
        ),
        Mutant(
            "a shard is ready once all were told", "_claim",
            "redis.call('HSET', lh, LOADED, 'L:' .. token)", "redis.call('HSET', lh, LOADED, 'R:' .. token)",
        ),
        Mutant("who shows again is counted again", "_hide", "packed % 2 == 1", "true"),
    )
} | {"the token is older than what was read": TokenAfterTheTruth}  # fmt: skip

#: Of the players of a day.
PLAYER_MUTANTS = {
    "who plays on after midnight is told again": mutated(
        BEAT, "local letter = string.char(97 + day % 26)", "local letter = 'a'"
    ),
    "who hides by now is dropped": mutated(TAKE, "if packed and tonumber(packed) % 2 == 1 then", "if false then"),
}

#: Of these, a worker that sleeps from before a loss until after it tells: random schedules seldom have one.
LOSS_MUTANTS = [
    "another token is refused",
    "a token is another one after a loss",
    "the token is older than what was read",
]
