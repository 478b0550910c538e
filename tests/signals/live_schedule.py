"""One random schedule of live sessions with every fault, held against the model at each recount.

Who hides is in a plain dictionary that stands for the truth. An event of a change is handled before the next recount,
once or twice and in any order; workers and leaders that fell asleep with what they read go on much later. After a
rewind the events since that moment come again, as the outbox has them do; after a loss none does.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from redis.exceptions import RedisError

from signals.hidden_users import HiddenUsers
from signals.live_audit import LiveAudit
from signals.live_sessions import LiveSessions, beat_interval_ms
from signals.live_totals import LiveTotals
from signals.published_totals import Publication, PublishedTotals
from signals.redis import Script, SharedRedis
from signals.shards import shard_of
from tests.signals.faulty_redis import FaultyRedis
from tests.signals.live_model import LiveModel
from tests.signals.live_stage import STALE_MAX_SECONDS, TTL_SECONDS, LiveStage
from tests.signals.sleeper import Sleeper
from tests.storm.redis_snapshot import RedisSnapshot
from workers.live_visibility import LiveVisibility

Result = TypeVar("Result")

GAMES = (1, 2, 3, 2**32 - 1)
USERS = (1, 2, 64, 2**53 + 1, 2**63 - 2, 2**63 - 1)  # the large ones are one number to whoever rounds them
SHARDS = sorted({shard_of(user) for user in USERS})
SESSION_IDS = ("a", "b", "-_" * 32)
STEPS = 40
FAULT_RATE = 0.1
MIDNIGHT_MS = 1_800_057_600_000  # most schedules pass it, or go back over it


class LiveSchedule:
    """Writers, two leaders and two readers under a seed."""

    def __init__(
        self,
        redis: SharedRedis,
        seed: int,
        make_hidden: Callable[[SharedRedis], HiddenUsers] = HiddenUsers,
        *,
        visibility_faults: float = 1.0,
        steps: int = STEPS,
        mutants: Mapping[str, Script] | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.redis = redis
        self.faulty = faulty = FaultyRedis(redis, self.rng, FAULT_RATE, mutants)
        self.stage = LiveStage(redis)
        self.clock = self.stage.clock
        if self.rng.random() < 0.7:
            self.clock.step(MIDNIGHT_MS - self.rng.randrange(150_000) - self.clock.ms())
        self.writers = [LiveSessions(faulty, TTL_SECONDS, gather_seconds=0, clock_ms=self.clock.ms) for _ in range(2)]
        self.leaders = [self.stage.new_leader(faulty, shards=SHARDS) for _ in range(2)]
        self.readers = [self.stage.new_reader(faulty) for _ in range(2)]
        self.model = LiveModel()
        self.make_hidden = make_hidden
        self.steps = steps
        self.visibility_faults = visibility_faults  # how much more often than usual
        self.visibility = LiveVisibility(self.stage.users, make_hidden(faulty))
        self.untold: set[int] = set()  # users whose change has an event that no worker has handled
        self.told: set[int] = set()  # and those of all other events since the snapshot
        self.sleepers: list[Sleeper] = []
        self.kept: tuple[RedisSnapshot, LiveModel] | None = None
        self.leading = 0
        self.expected: dict[int, tuple[int, int]] = {}
        self.order: dict[tuple[str, int], int] = {}  # publications in the order in which they were made
        self.shown: dict[int, int] = {}  # reader -> the place in that order of what it showed last
        self.lost_until_ms = 0
        self.lost_players_on: int | None = None  # the day on which a loss was published
        self.loss_is_news = False
        self.counted_on = 0  # the day of the last recount
        self.players: dict[int, tuple[int, int]] = {}
        self.recounts = 0

    async def run(self) -> None:
        """Play it."""
        await self.redis.call("FLUSHALL")
        faults = (
            (0.15 * self.visibility_faults, self.hide),
            (0.10 * self.visibility_faults, self.fall_asleep),
            (0.08 * self.visibility_faults, self.wake),
            (0.06, self.change_leader),
            (0.05, self.zombie),
            (0.04, self.step_clock),
            (0.03 * self.visibility_faults, self.lose),
            (0.04, self.keep),
            (0.04, self.rewind),
        )
        for _ in range(self.steps):
            self.clock.advance(self.rng.choice((0, 1, 999, 3_000, 10_000, 25_000)))
            for rate, fault in faults:
                if self.rng.random() < rate:
                    await fault()
            for _ in range(self.rng.randrange(5)):
                await self.write()
            if self.rng.random() < 0.6:
                await self.recount()
        while self.sleepers:
            await self.wake()
        await self.recount()
        for shard in SHARDS:
            assert (await LiveAudit(self.redis).look(shard)).clean

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
            if beat.live:
                hides = user in self.stage.users.invisible
                # Before the first recount no shard was told of anybody, as after a loss.
                told = user not in self.untold and not self.loss_is_news and self.counted_on > 0
                self.model.players.beat(user, number, now_ms, hides=hides, told=told)
            assert beat.expires_at == ((now_ms + TTL_SECONDS * 1000) / 1000 if beat.live else None)

    async def hide(self) -> None:
        """A user hides, shows again, or is deleted."""
        user, users = self.rng.choice(USERS), self.stage.users
        if self.rng.random() < 0.03:
            users.delete(user)
        elif not users.change(user, hidden=self.rng.random() < 0.6):
            return
        self.untold.add(user)
        self.model.players.changes(user)
        if self.rng.random() < 0.5:
            await self.tell()

    async def tell(self) -> None:
        """Workers handle the events there are, some of them twice."""
        for user in self.rng.sample(sorted(self.untold), len(self.untold)):
            for _ in range(self.rng.choice((1, 1, 2))):
                await insist(lambda u=user: self.visibility.carry([u]))  # type: ignore[misc]  # mypy sees no default
        self.told |= self.untold
        self.untold.clear()

    async def fall_asleep(self) -> None:
        """A worker, or a leader that loads, stops between two of its steps."""
        sleeper = Sleeper(self.redis, self.stage.users, self.rng.randrange(1, 4), self.make_hidden)
        user = self.rng.choice(USERS)
        work = sleeper.visibility.carry([user]) if self.rng.random() < 0.5 else sleeper.visibility.load(SHARDS)
        await sleeper.start(work)
        self.sleepers.append(sleeper)

    async def wake(self) -> None:
        """It goes on."""
        if self.sleepers:
            await self.sleepers.pop(self.rng.randrange(len(self.sleepers))).wake()

    async def change_leader(self) -> None:
        """The leader dies, or goes on without knowing that its lease is over."""
        await self.stage.end_the_lease()
        self.leading = 1 - self.leading

    async def zombie(self) -> None:
        """The other one still believes that it leads: it reads shards, and may publish nothing."""
        stands, zombie = await self.stand(), self.leaders[1 - self.leading]
        self.faulty.fault_rate = 0.0  # it reads all shards or none
        if zombie._lease.held:
            self.model.counts(self.clock.ms(), self.stage.users.invisible)
            self.model.players.possible |= self.model.players.new_possible  # it counts in, by what shards know
        assert not await zombie.recount()
        self.faulty.fault_rate = FAULT_RATE
        assert await self.stand() == stands

    async def step_clock(self) -> None:
        """Somebody sets Redis's clock."""
        self.clock.step(self.rng.choice((-600_000, -20_000, -500, 500, 20_000, 600_000)))

    async def lose(self) -> None:
        """Redis loses everything, the event log too."""
        await self.redis.call("FLUSHALL")
        self.model = LiveModel()
        self.told |= self.untold
        self.untold.clear()
        self.lost_until_ms = self.clock.ms() + beat_interval_ms(TTL_SECONDS)
        self.loss_is_news = True

    async def keep(self) -> None:
        """What a replica that falls behind from now on holds."""
        self.kept = await RedisSnapshot.take(self.redis), self.model.copy()
        self.told = set(self.untold)

    async def rewind(self) -> None:
        """A failover to it."""
        if self.kept is None:
            return
        snapshot, model = self.kept
        lease, before = self.leaders[self.leading]._lease, await self.stand()
        await snapshot.restore(self.redis)
        if (await self.stand()).origin != before.origin:  # from before anything was published: a loss
            self.loss_is_news = True
        await self.stage.end_the_lease()
        self.model = model.copy()
        self.untold |= self.told
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
        self.check_players(await self.stage.published_players())
        await self.look(self.readers[0])
        if self.rng.random() < 0.2:
            await self.look(self.readers[1])

    async def count(self) -> None:
        """The leader publishes, however often it has to try."""
        await self.tell()
        leader = self.leaders[self.leading]
        while not (await insist(leader.lead) and await insist(leader.recount)) or leader._players.behind:
            pass
        self.expected = self.model.counts(self.clock.ms(), self.stage.users.invisible)
        self.counted_on = self.clock.ms() // 86_400_000
        if self.loss_is_news:
            self.lost_players_on, self.loss_is_news = self.counted_on, False
        self.model.players.count_in(self.stage.users.invisible)
        self.players = self.model.players.counts(self.clock.ms())
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
            self.check_players({number: reader.players_today(number) for number in GAMES})
            assert list(reader.ranked()) == sorted(self.expected, key=lambda n: (-self.expected[n][0], n))
        else:
            stale = self.clock.ms() - stands.as_of_ms > STALE_MAX_SECONDS * 1000
            assert stale or stands.as_of_ms < max(stands.known_from_ms, stands.settles_at_ms)

    def check_players(self, found: Mapping[int, int | None]) -> None:
        """Players of the day are as many as can be; unknown only until the end of a day on which Redis lost some (and
        on the day before, where the clock went back).
        """
        for number in found.keys() | self.players.keys():
            fewest, most = self.players.get(number, (0, 0))
            count = found.get(number, 0)
            if count is None:
                lost, today = self.lost_players_on, self.counted_on
                assert lost is not None, f"players of {number} are unknown"
                assert lost - 1 <= today <= lost, f"players of {number} are unknown"
            else:
                assert fewest <= count <= most, f"{count} players of {number}, not {fewest} to {most}"

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
