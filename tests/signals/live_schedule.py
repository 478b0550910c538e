"""One random schedule of live sessions with every fault, held against the model at each recount."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.exceptions import RedisError

from signals.live_sessions import LiveSessions, beat_interval_ms
from signals.live_totals import LiveTotals
from signals.published_totals import Publication, PublishedTotals
from signals.redis import SharedRedis
from signals.shards import shard_of
from tests.signals.faulty_redis import FaultyRedis
from tests.signals.live_model import LiveModel
from tests.signals.live_stage import STALE_MAX_SECONDS, TTL_SECONDS, LiveStage
from tests.storm.redis_snapshot import RedisSnapshot

Result = TypeVar("Result")

GAMES = (1, 2, 3, 2**32 - 1)
USERS = (1, 2, 64, 2**53 + 1, 2**63 - 2, 2**63 - 1)  # the large ones are one number to whoever rounds them
SESSION_IDS = ("a", "b", "-_" * 32)
STEPS = 40
FAULT_RATE = 0.1


class LiveSchedule:
    """Writers, two leaders and two readers under a seed."""

    def __init__(self, redis: SharedRedis, seed: int) -> None:
        self.rng = random.Random(seed)
        self.redis = redis
        self.faulty = faulty = FaultyRedis(redis, self.rng, FAULT_RATE)
        self.stage = LiveStage(redis)
        self.clock = self.stage.clock
        self.writers = [LiveSessions(faulty, TTL_SECONDS, gather_seconds=0, clock_ms=self.clock.ms) for _ in range(2)]
        self.leaders = [self.stage.new_leader(faulty, shards={shard_of(user) for user in USERS}) for _ in range(2)]
        self.readers = [self.stage.new_reader(faulty) for _ in range(2)]
        self.model = LiveModel()
        self.versions = dict.fromkeys(USERS, 0)
        self.kept: tuple[RedisSnapshot, LiveModel] | None = None
        self.leading = 0
        self.expected: dict[int, tuple[int, int]] = {}
        self.order: dict[tuple[str, int], int] = {}  # publications in the order in which they were made
        self.shown: dict[int, int] = {}  # reader -> the place in that order of what it showed last
        self.lost_until_ms = 0
        self.recounts = 0

    async def run(self) -> None:
        """Play it."""
        await self.redis.call("FLUSHALL")
        faults = (
            (0.10, self.hide),
            (0.06, self.change_leader),
            (0.05, self.zombie),
            (0.04, self.step_clock),
            (0.03, self.lose),
            (0.04, self.keep),
            (0.04, self.rewind),
        )
        for _ in range(STEPS):
            self.clock.advance(self.rng.choice((0, 1, 999, 3_000, 10_000, 25_000)))
            for rate, fault in faults:
                if self.rng.random() < rate:
                    await fault()
            for _ in range(self.rng.randrange(5)):
                await self.write()
            if self.rng.random() < 0.6:
                await self.recount()
        await self.recount()

    async def write(self) -> None:
        """A beat, a move or an end, sent again until its reply comes."""
        user, session_id = self.rng.choice(USERS), self.rng.choice(SESSION_IDS)
        writer, now_ms = self.rng.choice(self.writers), self.clock.ms()
        if self.rng.random() < 0.15:
            ended = await insist(lambda: writer.end(user, session_id))
            lived = self.model.end(user, session_id, now_ms)
            assert lived or not ended  # a repeated end says that nothing was live any more
        else:
            number = self.rng.choice(GAMES)
            beat = await insist(lambda: writer.beat(user, session_id, number))
            assert beat.live == self.model.beat(user, session_id, number, now_ms)
            assert beat.expires_at == ((now_ms + TTL_SECONDS * 1000) / 1000 if beat.live else None)

    async def hide(self) -> None:
        """A user hides or shows again; older versions come late."""
        user, hidden = self.rng.choice(USERS), self.rng.random() < 0.5
        self.versions[user] += self.rng.choice((0, 1, 1))
        version = max(0, self.versions[user] - self.rng.choice((0, 0, 1)))
        writer = self.rng.choice(self.writers)
        await insist(lambda: writer.hide(user, version, hidden=hidden))
        self.model.hide(user, version, hidden=hidden)

    async def change_leader(self) -> None:
        """The leader dies, or goes on without knowing that its lease is over."""
        await self.stage.end_the_lease()
        self.leading = 1 - self.leading

    async def zombie(self) -> None:
        """The other one still believes that it leads: it reads shards, and may publish nothing."""
        stands, zombie = await self.stand(), self.leaders[1 - self.leading]
        self.faulty.fault_rate = 0.0  # it reads all shards or none
        if zombie._lease.held:
            self.model.counts(self.clock.ms())
        assert not await zombie.recount()
        self.faulty.fault_rate = FAULT_RATE
        assert await self.stand() == stands

    async def step_clock(self) -> None:
        """Somebody sets Redis's clock."""
        self.clock.step(self.rng.choice((-600_000, -20_000, -500, 500, 20_000, 600_000)))

    async def lose(self) -> None:
        """Redis loses everything; who hides is loaded from the truth again."""
        await self.redis.call("FLUSHALL")
        self.model.sessions.clear()
        self.model.hidden.clear()
        await self.load_hidden()
        self.lost_until_ms = self.clock.ms() + beat_interval_ms(TTL_SECONDS)

    async def load_hidden(self) -> None:
        """What the truth says of every user, as a shard is told before it is used."""
        for user, version in self.versions.items():
            hidden = self.rng.random() < 0.2
            writer = self.rng.choice(self.writers)
            await insist(lambda w=writer, u=user, v=version + 1, h=hidden: w.hide(u, v, hidden=h))  # type: ignore[misc]
            self.versions[user] = version + 1
            self.model.hide(user, version + 1, hidden=hidden)

    async def keep(self) -> None:
        """What a replica that falls behind from now on holds."""
        self.kept = await RedisSnapshot.take(self.redis), self.model.copy()

    async def rewind(self) -> None:
        """A failover to it."""
        if self.kept is None:
            return
        snapshot, model = self.kept
        lease = self.leaders[self.leading]._lease
        await snapshot.restore(self.redis)
        await self.stage.end_the_lease()
        self.model = model.copy()
        if self.rng.random() < 0.5:
            self.leading = 1 - self.leading
        elif lease.token is not None:
            await self.redis.call("SET", lease.key, lease.claim)  # its leader notices nothing
        for reader in self.readers:  # they may look before any leader does
            await self.look(reader)

    async def recount(self) -> None:
        """The leader publishes, however often it has to try; then the counts are those of the model."""
        self.recounts += 1
        await self.count()
        assert await self.stage.published() == self.expected
        await self.look(self.readers[0])
        if self.rng.random() < 0.2:
            await self.look(self.readers[1])

    async def count(self) -> None:
        """The leader publishes, however often it has to try."""
        leader = self.leaders[self.leading]
        while not (await insist(leader.lead) and await insist(leader.recount)):
            pass
        self.expected = self.model.counts(self.clock.ms())
        stands = await self.stand()
        self.order.setdefault((stands.epoch, stands.sequence), len(self.order))

    async def look(self, reader: LiveTotals) -> None:
        """A reader refreshes: it never goes back to what it showed before, and shows what the leader published."""
        await insist(reader.refresh)
        self.check_order(reader)
        stands = await self.stand()
        if not stands.epoch or self.order[stands.epoch, stands.sequence] < len(self.order) - 1:
            return  # lost, or rewound and not yet counted again
        if showing(reader) != stands:
            # Another epoch, believed once it moves. A leader that does not know whether it published begins another.
            assert stands.epoch != showing(reader).epoch
            for _ in range(20):
                await self.count()
                await insist(reader.refresh)
                self.check_order(reader)
                stands = await self.stand()
                if showing(reader) == stands:
                    break
            else:
                raise AssertionError("an epoch that moves is not believed")
        if reader.known:
            assert {number: (reader.sessions(number), reader.people(number)) for number in reader.ranked()} == (
                self.expected
            )
            assert list(reader.ranked()) == sorted(self.expected, key=lambda n: (-self.expected[n][0], n))
        else:
            stale = self.clock.ms() - stands.as_of_ms > STALE_MAX_SECONDS * 1000
            assert stale or stands.as_of_ms < max(stands.known_from_ms, stands.settles_at_ms)

    def check_order(self, reader: LiveTotals) -> None:
        """A reader shows no older totals after newer ones."""
        shown = showing(reader)
        if shown.epoch:
            place = self.order[shown.epoch, shown.sequence]
            assert place >= self.shown.get(id(reader), 0)
            self.shown[id(reader)] = place

    async def stand(self) -> Publication:
        """The publication that stands."""
        read = await PublishedTotals(self.redis, clock_ms=self.clock.ms).read(Publication())
        return read.publication or Publication()


def showing(reader: LiveTotals) -> Publication:
    """The publication that a reader shows."""
    return reader._shown


async def insist(action: Callable[[], Awaitable[Result]]) -> Result:
    """Do it again until it is answered."""
    while True:
        try:
            return await action()
        except RedisError:
            pass
