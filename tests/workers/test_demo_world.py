"""The demo world's rows: the same everywhere, and believable."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from workers.demo_world import DemoWorld, demo_rows

#: Of all rows. It changes only with the world itself: never with a Python, a platform or a library.
WORLD_SHA256 = "289e4aa5ab9128010b8cef37c9ca53e359d56bf14a40d58300d837d250ac107a"

#: Fragments that no invented name may hold, whatever parts it was put together from.
UNWANTED = re.compile(
    "anal|anus|arse|ass|bimbo|bitch|bomb|boob|butt|cock|coon|crap|cum|damn|dead|dick|die|dyke|evil|fag|fat|fuck|gay|hell|"
    "hitl|homo|idiot|jap|jew|kill|kkk|kock|loli|moron|murder|nazi|negr|nig|nude|paki|peni|penis|piss|pimp|poo|porn|puss|"
    "rape|retard|satan|scum|semen|sex|shit|slav|slut|spic|suck|tard|testi|tit|turd|twat|vagi|viag|wank|whore|wog",
)


@pytest.fixture(scope="module")
def world() -> DemoWorld:
    return demo_rows()


def test_the_world_is_the_same_everywhere(world: DemoWorld) -> None:
    digest = hashlib.sha256()
    for rows in world:
        for row in rows:
            digest.update(repr(tuple(row)).encode())
    assert digest.hexdigest() == WORLD_SHA256
    assert demo_rows() == world


def test_it_has_the_ids_that_it_says(world: DemoWorld) -> None:
    assert [game.id for game in world.games] == list(range(1, 301))
    assert [user.id for user in world.users] == list(range(1, 2001))
    assert all(1 <= low < high <= 2000 for low, high in world.friends)
    assert len(set(world.friends)) == len(world.friends)
    assert len({(play.user_id, play.game_id) for play in world.plays}) == len(world.plays)
    assert {play.user_id for play in world.plays} == set(range(1, 2001))
    assert {play.game_id for play in world.plays} == set(range(1, 301))


def test_plays_come_in_the_order_of_time(world: DemoWorld) -> None:
    times = [play.played_at_ms or 0 for play in world.plays]
    assert times == sorted(times)
    assert 1_735_689_600_000 <= times[0] < times[-1] < 1_793_491_200_000


def test_names_are_distinct_and_decent(world: DemoWorld) -> None:
    titles = [game.name or "" for game in world.games]
    names = [user.name or "" for user in world.users]
    assert len(set(titles)) == 300
    assert len(set(names)) == 2000
    assert all(re.fullmatch(r"[A-Z][a-z]{3,11}", name) for name in names)
    assert all(re.fullmatch(r"[A-Za-z0-9' -]{6,45}", title) for title in titles)
    assert [name for name in names if UNWANTED.search(name.lower())] == []
    # The words of titles are everyday words, written by hand: only whole ones can be unwanted.
    assert [title for title in titles if any(UNWANTED.fullmatch(word) for word in title.lower().split())] == []


def test_no_title_is_that_of_a_real_game(world: DemoWorld, lastfm: Path) -> None:
    lines = (lastfm.parent / "steam" / "games.tsv").read_text(encoding="utf-8").splitlines()[1:]
    real = {re.sub(r"\W", "", line.split("\t")[1].lower()) for line in lines}
    assert [game.name for game in world.games if re.sub(r"\W", "", (game.name or "").lower()) in real] == []


def test_friendships_are_a_small_world_with_a_heavy_tail(world: DemoWorld) -> None:
    friends: dict[int, set[int]] = {user.id: set() for user in world.users}
    for one, other in world.friends:
        friends[one].add(other)
        friends[other].add(one)
    degrees = sorted(len(of) for of in friends.values())
    assert 18 <= sum(degrees) / 2000 <= 22
    assert degrees[0] >= 1
    assert degrees[-3] >= 300
    assert degrees[1000] <= 16
    # A user's friends know each other ten times as often as strangers would.
    pairs = known = 0
    for of in friends.values():
        listed = sorted(of)[:30]
        pairs += len(listed) * (len(listed) - 1) // 2
        known += sum(other in friends[one] for place, one in enumerate(listed) for other in listed[place + 1 :])
    assert known / pairs > 5 * (sum(degrees) / 2000 / 2000)


def test_friends_play_alike_and_a_few_games_are_everywhere(world: DemoWorld) -> None:
    logs: dict[int, set[int]] = {user.id: set() for user in world.users}
    for play in world.plays:
        logs[play.user_id].add(play.game_id)
    players = Counter(play.game_id for play in world.plays)
    ranked = sorted(players.values(), reverse=True)
    assert ranked[0] > 1000
    assert ranked[10] > 2 * ranked[150] > 2 * ranked[299] > 0

    def alike(pairs: list[tuple[int, int]]) -> float:
        return sum(len(logs[one] & logs[other]) / len(logs[one] | logs[other]) for one, other in pairs) / len(pairs)

    strangers = [
        (user_id, (user_id * 811) % 2000 + 1) for user_id in range(1, 2001) if (user_id * 811) % 2000 + 1 != user_id
    ]
    assert alike([(one, other) for one, other in world.friends]) > 1.5 * alike(strangers)


def test_the_first_viewer_sees_small_and_large_numbers(world: DemoWorld) -> None:
    friends = {other for one, other in world.friends if one == 1} | {one for one, other in world.friends if other == 1}
    counts = Counter(play.game_id for play in world.plays if play.user_id in friends)
    ranked = sorted((counts[game] for game in range(1, 301)), reverse=True)
    assert ranked[0] > 50  # "50+"
    assert 10 <= ranked[40] < ranked[10]
    assert ranked[-1] <= 1
