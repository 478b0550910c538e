"""A worker that falls asleep between two of its steps and goes on long after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from signals.hidden_users import HiddenUsers
from signals.redis import Argument, Reply, Script, SharedRedis
from tests.signals.over_redis import OverRedis
from tests.signals.plain_users import PlainUsers
from workers.live_visibility import LiveVisibility


class Sleeper:
    """Carries or loads who is hidden; asleep from its n-th step until it is woken."""

    def __init__(
        self,
        redis: SharedRedis,
        users: PlainUsers,
        steps: int,
        make_hidden: Callable[[SharedRedis], HiddenUsers] = HiddenUsers,
    ) -> None:
        self._steps = steps
        self._asleep = asyncio.Event()
        self._awake = asyncio.Event()
        self._task: asyncio.Future[object] | None = None
        self.visibility = LiveVisibility(
            _SleepingUsers(users, self._step), make_hidden(_SleepingRedis(redis, self._step))
        )

    async def start(self, work: Awaitable[object]) -> None:
        """Work until asleep, or done."""
        self._task = asyncio.ensure_future(work)
        asleep = asyncio.ensure_future(self._asleep.wait())
        await asyncio.wait([self._task, asleep], return_when=asyncio.FIRST_COMPLETED)
        asleep.cancel()

    async def wake(self) -> None:
        """Go on to the end."""
        assert self._task is not None
        self._awake.set()
        await self._task

    async def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            self._asleep.set()
            await self._awake.wait()


class _SleepingUsers(PlainUsers):
    """Falls asleep before it reads, or with what it read in its hands."""

    def __init__(self, users: PlainUsers, step: Callable[[], Awaitable[None]]) -> None:
        super().__init__(users.truth_id)
        self.states = users.states
        self._step = step

    async def user_state(self, user_id: int) -> int:
        """As of before the sleep."""
        await self._step()
        state = await super().user_state(user_id)
        await self._step()
        return state

    async def invisible_users(self) -> dict[int, int]:
        """As of before the sleep."""
        await self._step()
        versions = await super().invisible_users()
        await self._step()
        return versions


class _SleepingRedis(OverRedis):
    """Falls asleep before a call."""

    def __init__(self, below: SharedRedis, step: Callable[[], Awaitable[None]]) -> None:
        super().__init__(below)
        self._step = step

    async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
        """Run a script, some time."""
        await self._step()
        return await super().run(script, keys, args)
