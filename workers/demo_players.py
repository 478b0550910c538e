"""Simulated players: sessions that come, move between games and go, so that the demo world's live counts are alive."""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import time
from bisect import bisect_right
from collections.abc import Awaitable, Iterable
from itertools import accumulate, islice

import numpy as np
import structlog
from redis.exceptions import RedisError

from graph.social_graph import GraphError, SocialGraph
from signals.live_sessions import BEATS_IN_A_TTL, LiveSessions
from workers.demo_world import USERS, VIEWER_ID

log = structlog.get_logger(__name__)

SESSIONS = 6000
TICK_SECONDS = 0.5
#: How long a session stays in one game, on average; then it moves on or ends.
STAY_SECONDS = 90.0
MOVE_SHARE = 0.4
#: So many may come in one tick: a start fills the games within seconds and not at one blow.
MAX_ARRIVALS = 600
#: Each game's popularity goes up and down by this share, each with its own period and phase.
WAVE_SHARE = 0.4
WAVE_SECONDS = (180.0, 600.0)
WAVE_STEP_SECONDS = 5.0

#: Of the sessions, so many are of the demo world's own users; the others are of strangers, whom only live counts know.
KNOWN_SHARE = 0.2
FIRST_STRANGER_ID = 1_000_000_001

PLAY_SECONDS = 2.0
#: Of the new plays, so many are by friends of the user that the tour looks through.
VIEWERS_FRIENDS_SHARE = 0.5

_CALLS_AT_ONCE = 2000


class _Session:
    __slots__ = ("number", "over", "session_id", "user_id")

    def __init__(self, user_id: int, session_id: str, number: int) -> None:
        self.user_id = user_id
        self.session_id = session_id
        self.number = number
        self.over = False


class DemoPlayers:
    """A few thousand sessions over the games of the catalogue, and a new play every two seconds.

    Args:
        live: where heartbeats and ends go.
        graph: the truth, which holds the demo world.
        seed: of the random choices; the same seed plays the same evening.
        ttl_seconds: the time to live of a session; three heartbeats fit into it.
        sessions: how many there are once everybody has come.
    """

    def __init__(
        self,
        live: LiveSessions,
        graph: SocialGraph,
        seed: int = 1,
        *,
        ttl_seconds: float = 60.0,
        sessions: int = SESSIONS,
    ) -> None:
        self._live = live
        self._graph = graph
        self._random = random.Random(seed)
        self._sessions = sessions
        self._launch = secrets.token_hex(4)  # session ids of an earlier run are over, and stay so for a time to live
        self._launched = 0
        self._ticks = 0
        slots = max(int(ttl_seconds / BEATS_IN_A_TTL / TICK_SECONDS), 1)
        self._slots: list[list[_Session]] = [[] for _ in range(slots)]
        self._playing: list[_Session] = []
        self._ids: list[int] = []
        self._numbers: list[int] = []
        self._popularity: list[float] = []
        self._waves: list[tuple[float, float]] = []
        self._cumulative: list[float] = []
        self._cumulative_at = -math.inf
        self._away = False

    async def run(self) -> None:
        """Play until cancelled, then end all sessions.

        Raises:
            TruthUnavailableError: the catalogue cannot be read.
        """
        await self.prepare()
        plays = asyncio.create_task(self._play_now_and_then(), name="demo-plays")
        try:
            while True:
                started = time.monotonic()
                await self.tick(started)
                await asyncio.sleep(max(TICK_SECONDS - (time.monotonic() - started), 0.0))
        finally:
            plays.cancel()
            await asyncio.gather(plays, return_exceptions=True)
            await self.leave()

    async def prepare(self) -> None:
        """Read the catalogue, and how popular its games are among the demo world's users.

        Raises:
            TruthUnavailableError: it cannot be read.
        """
        games = (await self._graph.catalogue()).changed
        logs = await self._graph.play_logs(range(1, USERS + 1))
        numbers = np.frombuffer(b"".join(logs.values()), dtype="<u4").astype(np.int64)
        players = np.bincount(numbers, minlength=max((game.number for game in games), default=0) + 1).tolist()
        games.sort(key=lambda game: (-players[game.number], game.id))
        self._ids = [game.id for game in games]
        self._numbers = [game.number for game in games]
        self._popularity = [1.0 / (rank + 0.5) ** 0.9 for rank in range(len(games))]
        self._waves = [
            (self._random.uniform(*WAVE_SECONDS), self._random.uniform(0, 2 * math.pi)) for _ in range(len(games))
        ]

    async def tick(self, now_seconds: float) -> None:
        """Half a second of the evening: some come, some move, some go, and a slot of the others sends heartbeats.

        Args:
            now_seconds: a clock that only rises; the games' popularity follows it.
        """
        if not self._numbers:
            return
        self._follow_waves(now_seconds)
        self._ticks += 1
        gone, moved = self._restless()
        moved.extend(self._arrivals())
        slot = self._ticks % len(self._slots)
        self._slots[slot] = [session for session in self._slots[slot] if not session.over]
        beats = {session.session_id: session for session in (*self._slots[slot], *moved)}
        await self._call(
            (self._live.end(session.user_id, session.session_id) for session in gone),
            (self._live.beat(session.user_id, session.session_id, session.number) for session in beats.values()),
        )

    async def leave(self) -> None:
        """End all sessions."""
        playing, self._playing = self._playing, []
        for session in playing:
            session.over = True
        await self._call(self._live.end(session.user_id, session.session_id) for session in playing)

    async def play(self) -> None:
        """Record one play of one of the demo world's users, often a friend of the tour's, by popularity."""
        user_id = 1 + int(self._random.random() * USERS)
        if self._random.random() < VIEWERS_FRIENDS_SHARE:
            friends = (await self._graph.friends([VIEWER_ID]))[VIEWER_ID]
            user_id = self._random.choice(friends) if friends else user_id
        if user_id != VIEWER_ID:  # whose own plays are theirs to make
            await self._graph.record_play(user_id, self._ids[self._pick()])

    def counts(self) -> dict[int, int]:
        """How many sessions play each game, by its number."""
        counts: dict[int, int] = {}
        for session in self._playing:
            counts[session.number] = counts.get(session.number, 0) + 1
        return counts

    def _follow_waves(self, now_seconds: float) -> None:
        if now_seconds - self._cumulative_at >= WAVE_STEP_SECONDS:
            self._cumulative_at = now_seconds
            self._cumulative = list(
                accumulate(
                    popularity * (1 + WAVE_SHARE * math.sin(2 * math.pi * now_seconds / period + phase))
                    for popularity, (period, phase) in zip(self._popularity, self._waves, strict=True)
                )
            )

    def _pick(self) -> int:
        """The place of a game, by popularity now."""
        at = self._random.random() * self._cumulative[-1]
        return min(bisect_right(self._cumulative, at), len(self._numbers) - 1)

    def _restless(self) -> tuple[list[_Session], list[_Session]]:
        """Those who go, and those who move to another game."""
        gone: list[_Session] = []
        moved: list[_Session] = []
        playing = self._playing
        for _ in range(self._rounded(len(playing) * TICK_SECONDS / STAY_SECONDS)):
            place = int(self._random.random() * len(playing))
            session = playing[place]
            if self._random.random() < MOVE_SHARE:
                session.number = self._numbers[self._pick()]
                moved.append(session)
            else:
                playing[place] = playing[-1]
                playing.pop()
                session.over = True
                gone.append(session)
        return gone, [session for session in moved if not session.over]

    def _arrivals(self) -> list[_Session]:
        missing = min(self._sessions - len(self._playing), MAX_ARRIVALS)
        arrived = [self._launch_session() for _ in range(missing)]
        self._playing.extend(arrived)
        for session in arrived:
            self._slots[int(self._random.random() * len(self._slots))].append(session)
        return arrived

    def _launch_session(self) -> _Session:
        self._launched += 1
        if self._random.random() < KNOWN_SHARE:
            user_id = 1 + int(self._random.random() * USERS)
        else:
            user_id = FIRST_STRANGER_ID + self._launched
        return _Session(user_id, f"demo-{self._launch}-{self._launched}", self._numbers[self._pick()])

    def _rounded(self, amount: float) -> int:
        """A whole number that is the amount on average."""
        return int(amount + self._random.random())

    async def _call(self, *calls: Iterable[Awaitable[object]]) -> None:
        """Make the calls, so many at once; a Redis that is away misses them, and its sessions die as they should."""
        waiting = (call for some in calls for call in some)
        while some := list(islice(waiting, _CALLS_AT_ONCE)):
            results = await asyncio.gather(*some, return_exceptions=True)
            failures = [result for result in results if isinstance(result, BaseException)]
            if any(not isinstance(failure, RedisError) for failure in failures):
                raise failures[0]
            if failures and not self._away:
                log.warning("demo_players_unheard", reason=str(failures[0]))
            self._away = bool(failures)

    async def _play_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(PLAY_SECONDS)
            try:
                if self._cumulative:
                    await self.play()
            except GraphError as error:
                log.warning("demo_play_failed", reason=str(error))
