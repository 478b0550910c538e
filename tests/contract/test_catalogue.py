"""The catalogue: dense numbers, given once, and a version that says what changed."""

from __future__ import annotations

import asyncio

from graph.social_graph import Game, GameRow, PlayRow, SocialGraph
from tests.contract.truths import Truth


async def test_numbers_are_dense_from_one_in_the_order_asked(graph: SocialGraph) -> None:
    saved = await graph.save_games([GameRow(50, "B"), GameRow(7, None), GameRow(50, "C", "https://x/c.png")])
    game = Game(50, 1, "C", "https://x/c.png")
    assert saved == [game, Game(7, 2, "Game 7"), game]
    assert (await graph.save_games([GameRow(9, "D")]))[0].number == 3
    assert (await graph.save_games([GameRow(50, "E")]))[0].number == 1


async def test_none_keeps_what_there_is(graph: SocialGraph) -> None:
    await graph.save_games([GameRow(1, "A", "https://x/a.png")])
    assert await graph.save_games([GameRow(1, None)]) == [Game(1, 1, "A", "https://x/a.png")]


async def test_a_reader_learns_what_changed_since_its_version(graph: SocialGraph) -> None:
    assert await graph.catalogue() == (0, [])
    await graph.save_games([GameRow(1, "A"), GameRow(2, "B")])
    version, games = await graph.catalogue()
    assert [game.id for game in games] == [1, 2]
    assert await graph.catalogue(version) == (version, [])
    await graph.save_games([GameRow(2, "B2"), GameRow(1, "A")])
    later, changed = await graph.catalogue(version)
    assert later > version
    assert changed == [Game(2, 2, "B2")]
    assert len((await graph.catalogue()).changed) == 2


async def test_saving_what_is_known_changes_no_version(graph: SocialGraph) -> None:
    await graph.save_games([GameRow(1, "A")])
    version = (await graph.catalogue()).version
    await graph.save_games([GameRow(1, "A")])
    await graph.import_rows("games", [GameRow(1, "A")])
    await graph.import_rows("plays", [PlayRow(5, 1)])
    assert (await graph.catalogue()).version == version


async def test_numbers_stay_dense_when_many_save_at_once(truth: Truth) -> None:
    graphs = [await truth.open(), await truth.open()]
    await asyncio.gather(
        *(graphs[n % 2].save_games([GameRow(n, f"{n}"), GameRow(100 + n % 7, "shared")]) for n in range(1, 41)),
        *(graphs[n % 2].import_rows("plays", [PlayRow(1, 200 + n)]) for n in range(10)),
    )
    games = (await graphs[0].catalogue()).changed
    assert sorted(game.number for game in games) == list(range(1, 58))
    assert len({game.id for game in games}) == 57


async def test_a_reader_that_follows_misses_no_game(truth: Truth) -> None:
    writers, reader = [await truth.open(), await truth.open()], await truth.open()
    known: dict[int, Game] = {}
    version = 0

    async def follow() -> None:
        nonlocal version
        version, changed = await reader.catalogue(version)
        known.update({game.id: game for game in changed})

    async def write(n: int) -> None:
        for game_id in range(1, 30):
            await writers[n].save_games([GameRow(game_id, f"{game_id} by {n}")])
            await follow()

    await asyncio.gather(write(0), write(1))
    await follow()
    assert list(known.values()) != []
    assert known == {game.id: game for game in (await writers[0].catalogue()).changed}


async def test_names_keep_every_character(graph: SocialGraph) -> None:
    name = "Ünï \"quoted\" 'x'\t\n\\ 💎 {rows} %s ?"
    await graph.save_games([GameRow(1, name, "")])
    assert (await graph.catalogue()).changed == [Game(1, 1, name, "")]
