"""Random writes through two openings of a truth, against plain sets and lists."""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.social_graph import FriendshipRow, PlayRow, SocialGraph, UnknownGameError, UserDeletedError
from graph.visibility import CursorState
from tests.contract.truths import ADAPTERS, add_games, make_truth, unpack

USERS = range(1, 6)
GAMES = range(1, 6)

user = st.sampled_from(USERS)
game = st.sampled_from([*GAMES, 99])
pair = st.tuples(user, user).filter(lambda ids: ids[0] != ids[1])
write = st.one_of(
    st.tuples(st.just("play"), user, game),
    st.tuples(st.just("play"), user, game),
    st.tuples(st.just("friends"), pair, st.booleans()),
    st.tuples(st.just("friends"), pair, st.just(True)),
    st.tuples(st.just("block"), pair, st.booleans()),
    st.tuples(st.just("hide"), user, st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from([4, 5]), st.none()),
    st.tuples(st.just("import plays"), st.lists(st.tuples(user, st.sampled_from(GAMES)), max_size=6), st.none()),
    st.tuples(st.just("import friends"), st.lists(pair, max_size=4), st.none()),
)


@dataclass
class Model:
    """What the truth should hold."""

    logs: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    edges: set[frozenset[int]] = field(default_factory=set)
    blocks: set[tuple[int, int]] = field(default_factory=set)
    hidden: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    edge_changes: dict[frozenset[int], int] = field(default_factory=lambda: defaultdict(int))
    user_changes: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def change(self, where: set[object], what: object, on: bool) -> bool:
        if (what in where) == on:
            return False
        (where.add if on else where.discard)(what)
        return True

    def sees(self, viewer: int, owner: int) -> bool:
        return (
            frozenset((viewer, owner)) in self.edges
            and (viewer, owner) not in self.blocks
            and (owner, viewer) not in self.blocks
            and owner not in self.hidden
            and owner not in self.deleted
        )

    def version(self, viewer: int, owner: int) -> int:
        return self.edge_changes[frozenset((viewer, owner))] + self.user_changes[owner]


async def apply(graph: SocialGraph, model: Model, step: tuple[str, object, object]) -> None:
    """Write to both and compare the answers."""
    match step:
        case "play", int(who), int(played):
            if who in model.deleted or played not in GAMES:
                with pytest.raises((UserDeletedError, UnknownGameError)):
                    await graph.record_play(who, played)
                return
            log = model.logs[who]
            first = played not in log
            if first:
                log.append(played)
            assert await graph.record_play(who, played) == (first, log.index(played) + 1)
        case "friends" | "block" as kind, (int(a), int(b)), bool(on):
            call = graph.set_friendship(a, b, on) if kind == "friends" else graph.block(a, b, on)
            if model.deleted & {a, b}:
                with pytest.raises(UserDeletedError):
                    await call
                return
            edge = frozenset((a, b))
            if kind == "friends":
                model.edge_changes[edge] += model.change(model.edges, edge, on)  # type: ignore[arg-type]  # any set
                assert await call == (on, model.edge_changes[edge])
            else:
                changed = model.change(model.blocks, (a, b), on)  # type: ignore[arg-type]  # any set
                model.edge_changes[edge] += changed
                assert await call == changed
        case "hide", int(who), bool(on):
            if who in model.deleted:
                with pytest.raises(UserDeletedError):
                    await graph.set_activity_hidden(who, on)
                return
            changed = model.change(model.hidden, who, on)  # type: ignore[arg-type]  # any set
            model.user_changes[who] += changed
            assert await graph.set_activity_hidden(who, on) == changed
        case "delete", int(who), _:
            changed = model.change(model.deleted, who, True)  # type: ignore[arg-type]  # any set
            model.user_changes[who] += changed
            assert await graph.delete_user(who) == changed
        case "import plays", list(rows), _:
            bad = await graph.import_rows("plays", [PlayRow(*row) for row in rows])
            assert set(bad) == {index for index, row in enumerate(rows) if row[0] in model.deleted}
            for who, played in [] if bad else rows:
                if played not in model.logs[who]:
                    model.logs[who].append(played)
        case "import friends", list(rows), _:
            bad = await graph.import_rows("friends", [FriendshipRow(*row) for row in rows])
            assert set(bad) == {index for index, row in enumerate(rows) if model.deleted & set(row)}
            for row in [] if bad else rows:
                edge = frozenset(row)
                model.edge_changes[edge] += model.change(model.edges, edge, True)  # type: ignore[arg-type]  # any set
        case _:
            raise AssertionError(step)


async def compare(graph: SocialGraph, model: Model) -> None:
    """Everything that can be read is as the model has it."""
    logs = {who: unpack(log) for who, log in (await graph.play_logs(USERS)).items()}
    assert logs == {who: log for who, log in model.logs.items() if log}
    assert await graph.friends(USERS) == {
        who: sorted(other for other in USERS if frozenset((who, other)) in model.edges) for who in USERS
    }
    for viewer in USERS:
        others = [other for other in USERS if other != viewer]
        seen = await graph.seen_logs(viewer)
        assert {owner: unpack(log.log) for owner, log in seen.items()} == {
            owner: model.logs[owner] for owner in others if model.sees(viewer, owner)
        }
        asked = await graph.seen_logs(viewer, others)
        visible = await graph.visibilities(viewer, others)
        for owner in others:
            state = CursorState.PUSH if model.sees(viewer, owner) else CursorState.OFF
            assert visible[owner] == (model.version(viewer, owner), state)
            assert asked[owner][:2] == visible[owner]
            assert unpack(asked[owner].log) == (model.logs[owner] if state else [])


@pytest.mark.parametrize("adapter", ADAPTERS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.booleans(), write), max_size=40))
def test_writes_against_plain_sets(
    request: pytest.FixtureRequest, adapter: str, steps: list[tuple[bool, tuple[str, object, object]]]
) -> None:
    async def run(folder: Path) -> None:
        truth = make_truth(adapter, folder, request)
        graphs = [await truth.open(), await truth.open()]
        try:
            await add_games(graphs[0], len(GAMES))
            model = Model()
            for other, step in steps:
                await apply(graphs[other], model, step)
            await compare(graphs[0], model)
        finally:
            await truth.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
