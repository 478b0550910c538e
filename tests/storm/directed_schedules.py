"""Directed schedules of a Redis that forgets: each leads to the one moment that a rule is there for.

Random schedules seldom come to these. Each runs on the real parts, where every count is right at the end, and on those
that leave its rule out, where one is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from events.event import PARTITIONS
from tests.storm.directed import Directed
from tests.storm.redis_snapshot import RedisSnapshot

#: The hash tags of the event log.
STREAMS = {b"e%d" % number for number in range(PARTITIONS)}
NOTHING = RedisSnapshot({})


async def is_about_to_mend(world: Directed) -> RedisSnapshot:
    """A play was counted and is forgotten; the leader saw it and stops. Returns what Redis was before the play."""
    before = await world.remember()
    world.play()
    await world.tell()
    await world.work()
    await world.look()
    await world.forget(before, world.shard)
    await world.stop_before("unacknowledge_after", world.leader, world.leader.check())
    return before


async def dies_before_it_applies(world: Directed) -> None:
    world.play()
    await world.tell()
    await world.stop_before("apply", world.worker, world.consume(world.worker))
    await world.kill(world.worker)


async def dies_between_stamp_and_xack(world: Directed) -> None:
    before = await world.remember()
    world.play()
    await world.tell()
    await world.stop_before("acknowledge", world.worker, world.consume(world.worker))
    await world.pass_one()  # whichever of the two comes first
    await world.kill(world.worker)
    await world.forget(before, world.shard)


async def streams_of_another_truth_come_back(world: Directed) -> None:
    world.play()
    await world.tell()
    before = await world.remember()
    await world.work()
    world.replace_truth()
    await world.begin()
    await world.forget(before, STREAMS)
    await world.work()


async def dies_while_it_mends(world: Directed) -> None:
    await is_about_to_mend(world)
    await world.kill(world.leader)


async def what_was_told_again_is_lost_again_before_the_marker_moves(world: Directed) -> None:
    before = await is_about_to_mend(world)
    await world.pass_one()
    await world.tell(world.worker)
    await world.work()
    await world.forget(before, world.shard)
    await world.release()


async def is_rewound_further_before_the_marker_moves(world: Directed) -> None:
    first = await world.remember()
    world.truth.befriend(world.owner, world.viewer, False)  # a play would be caught up with at the next one
    await world.tell()
    await world.work()
    second = await world.remember()
    world.truth.befriend(world.owner, world.third, False)
    await world.tell()
    await world.work()
    await world.look()
    await world.forget(second, world.shard)
    await world.stop_before("move", world.leader, world.leader.check())
    await world.forget(first, world.shard)
    await world.release()


async def a_view_is_built_where_no_marker_is(world: Directed) -> None:
    await world.forget(NOTHING, world.shard)
    await world.read()
    before = await world.remember()
    world.play()
    await world.tell()
    await world.work()
    await world.forget(before, world.shard)


async def the_first_truth_builds_a_view_where_the_second_has_emptied(world: Directed) -> None:
    await world.schedule.real_views.evict([world.viewer])
    reads_the_first = world.schedule.read_page(world.viewer, world.schedule.web[0], world.schedule.graph)
    world.replace_truth()
    await world.stop_before("move", world.leader, world.leader.begin())
    world.troupe.start(reads_the_first)
    await world.go_on()
    await world.release()


async def is_rewound_while_it_is_emptied(world: Directed) -> None:
    world.replace_truth()
    await world.stop_before("move", world.leader, world.leader.begin())
    await world.pass_all()  # the shards are marked, and hold what they held
    before = await world.remember()
    await world.release(until="move")
    await world.forget(before)
    await world.release()


async def a_worker_of_the_first_truth_goes_on_in_the_second(world: Directed) -> None:
    worker = world.worker
    world.play()
    await world.tell()
    await world.stop_before("apply", worker, world.consume(worker))
    world.replace_truth()
    for process in world.log.processes:
        await world.finish(process, process.begin())
    world.truth.befriend(world.owner, world.viewer, True)
    world.play()
    await world.read()
    await world.pass_one()
    worker.die()


async def another_truth_finds_views(world: Directed) -> None:
    world.replace_truth()


async def redis_is_away_when_it_appends(world: Directed) -> None:
    world.truth.befriend(world.owner, world.viewer, False)
    await world.stop_before("append", world.leader, world.leader.publish())
    await world.fail_one()


async def the_stream_forgets_before_the_next_append(world: Directed) -> None:
    before = await world.remember()
    world.truth.befriend(world.owner, world.viewer, False)
    await world.tell()
    await world.forget(before, STREAMS)
    world.truth.befriend(world.owner, world.third, False)
    await world.tell()


async def another_relay_takes_over_between_an_append_and_its_mark(world: Directed) -> None:
    before = await world.remember()
    world.play()
    await world.stop_before("mark_published", world.leader, world.leader.publish())
    await world.forget(before, STREAMS)
    await world.stop_before("outbox", world.worker, world.worker.publish())
    await world.release()
    world.log.processes.reverse()  # the other one leads


async def a_loss_is_noticed_after_ten_minutes(world: Directed) -> None:
    before = await world.remember()
    world.play()
    await world.tell()
    await world.work()
    world.truth.now_ms += 601_000
    world.truth.befriend(world.owner, world.third, False)
    await world.tell()
    await world.work()
    await world.forget(before, world.shard)


async def a_view_that_was_found_absent_is_there_again(world: Directed) -> None:
    before = await world.remember()
    await world.schedule.real_views.evict([world.viewer])
    world.truth.befriend(world.owner, world.viewer, False)
    await world.tell()
    await world.stop_before("acknowledge", world.worker, world.consume(world.worker))
    await world.forget(before, world.shard)
    await world.release()


async def is_rewound_between_an_update_and_its_stamp(world: Directed) -> None:
    world.play()
    await world.tell()
    before = await world.remember()
    await world.stop_before("acknowledge", world.worker, world.consume(world.worker))
    await world.forget(before, world.shard)
    await world.release()


async def the_next_batch_is_in_and_this_one_is_not(world: Directed) -> None:
    await is_rewound_between_an_update_and_its_stamp(world)
    world.truth.befriend(world.owner, world.third, False)
    await world.tell()
    await world.work()


async def a_batch_of_the_first_truth_is_settled_in_the_second(world: Directed) -> None:
    worker = world.worker
    world.play()
    await world.tell()
    await world.stop_before("settle", worker, world.consume(worker))
    batch = await world.truth.acknowledged_batch()
    world.replace_truth()
    for process in world.log.processes:
        await world.finish(process, process.begin())
    await world.release()
    world.truth.befriend(world.owner, world.viewer, True)
    await world.read()
    while await world.truth.acknowledged_batch() < batch - 1:
        world.play()
        await world.tell()
        await world.work()
    await is_rewound_between_an_update_and_its_stamp(world)


#: The rules that these show, by the names in `mutants.py`.
DIRECTED: dict[str, Callable[[Directed], Awaitable[None]]] = {
    "apply before acknowledging": dies_before_it_applies,
    "stamp in the truth before XACK": dies_between_stamp_and_xack,
    "events of another truth are dropped": streams_of_another_truth_come_back,
    "take back in the truth before a marker moves": dies_while_it_mends,
    "a marker moves to what was last before the taking back":
        what_was_told_again_is_lost_again_before_the_marker_moves,
    "a marker moves by compare and set": is_rewound_further_before_the_marker_moves,
    "a shard that nobody can vouch for is emptied": a_view_is_built_where_no_marker_is,
    "a missing marker empties its shard": a_view_is_built_where_no_marker_is,
    "another truth's marker empties its shard": another_truth_finds_views,
    "a shard is marked before it is emptied": the_first_truth_builds_a_view_where_the_second_has_emptied,
    "emptying leaves a trace": is_rewound_while_it_is_emptied,
    "writers of another truth are kept out": a_worker_of_the_first_truth_goes_on_in_the_second,
    "an append passes only where the stream is what was left": the_stream_forgets_before_the_next_append,
    "append before marking as published": redis_is_away_when_it_appends,
    "taking back tells again what was never acknowledged": the_stream_forgets_before_the_next_append,
    "after marking, the relay sees that the append still stands":
        another_relay_takes_over_between_an_append_and_its_mark,
    "what was purged cannot be told again": a_loss_is_noticed_after_ten_minutes,
    "rows are kept after they are acknowledged": dies_while_it_mends,
    "what was only read leaves a trace too": a_view_that_was_found_absent_is_there_again,
    "a batch is settled only where its runs are": is_rewound_between_an_update_and_its_stamp,
    "a marker moves over no number that is not settled": the_next_batch_is_in_and_this_one_is_not,
    "only a marker of this truth is settled": a_batch_of_the_first_truth_is_settled_in_the_second,
    "the leader looks": is_rewound_between_an_update_and_its_stamp,
    "the leader looks at markers": is_rewound_between_an_update_and_its_stamp,
}  # fmt: skip
