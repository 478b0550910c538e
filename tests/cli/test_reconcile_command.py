"""`headcount reconcile`: beside a server and alone, for people and for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis

from signals import view_keys
from signals.embedded_redis import socket_path
from tests.cli.commands import Headcount, Server, served

VIEWER, FRIEND = 7, 8


@pytest.fixture
def world(headcount: Headcount, tmp_path: Path) -> Headcount:
    """Two friends; the second played games 11 and 12."""
    (tmp_path / "friends.tsv").write_text(f"user_id\tfriend_id\n{VIEWER}\t{FRIEND}\n")
    (tmp_path / "plays.tsv").write_text(f"user_id\tgame_id\n{FRIEND}\t11\n{FRIEND}\t12\n")
    done = headcount.run("import", "--friends", "friends.tsv", "--plays", "plays.tsv")
    assert done.returncode == 0, done.stderr
    return headcount


@pytest.fixture
def server(world: Headcount) -> Iterator[Server]:
    """A server whose workers have told everything and are gone: their audit would mend what a test plants."""
    with served(world) as first, resident(world, first):
        assert world.run("reconcile").stdout.splitlines() == ["users: 1", "pairs: 3", "drift: 0"]
    with served(world, "--no-workers") as server:
        yield server


def read_page(headcount: Headcount, server: Server) -> int:
    token = headcount.run("token", VIEWER).stdout.strip()
    query = '{ game(id: "11") { friendsPlayed } }'
    headers = {"Authorization": f"Bearer {token}"}
    reply = httpx.post(f"{server.address}/graphql", json={"query": query}, headers=headers, timeout=30)
    played: int = reply.json()["data"]["game"]["friendsPlayed"]
    return played


def resident(headcount: Headcount, server: Server) -> redis.Redis:
    """Read pages until the viewer has a view; a client of the server's Redis."""
    client = redis.Redis(unix_socket_path=str(socket_path(headcount.data_dir)))
    for _ in range(200):
        assert read_page(headcount, server) == 1
        token = client.get(f"st:{view_keys.tag(VIEWER)}")
        if isinstance(token, bytes) and token.startswith(b"R"):
            return client
    raise AssertionError("no view was built")


def plant(client: redis.Redis) -> None:
    number = next(number for number in (1, 2) if client.hget(f"fp:{view_keys.tag(VIEWER)}:{number}", "0"))
    client.hincrby(f"fp:{view_keys.tag(VIEWER)}:{number}", "0", 4)


def test_beside_a_server(world: Headcount, server: Server) -> None:
    with resident(world, server) as client:
        sound = world.run("reconcile")
        assert (sound.returncode, sound.stderr) == (0, ""), sound
        assert sound.stdout.splitlines() == ["users: 1", "pairs: 3", "drift: 0"]

        plant(client)
        found = world.run("reconcile")
        assert found.returncode == 1
        first, *sums = found.stdout.splitlines()
        assert re.fullmatch(r"user 7  game 1[12]  count  counted 5, its cursors say 1", first)
        assert sums == ["users: 1", "pairs: 3", "drift: 1", "views that drifted: 1"]
        of_another = world.run("reconcile", "--user", FRIEND, "--json")
        assert of_another.returncode == 0
        assert json.loads(of_another.stdout)["without_view"] == 1

        repaired = world.run("reconcile", "--user", VIEWER, "--repair", "--json")
        assert repaired.returncode == 1
        told = json.loads(repaired.stdout)
        (view,) = told.pop("views")
        assert told == {"users": 1, "pairs": 3, "drift": 1, "repaired": 1, "without_view": 0, "in_flight": []}
        assert (view["user_id"], view["drift"][0]["found"], view["drift"][0]["expected"]) == ("7", 5, 1)
        assert client.get(f"st:{view_keys.tag(VIEWER)}") is None
    assert read_page(world, server) == 1
    assert world.run("reconcile").returncode == 0


def test_alone(world: Headcount) -> None:
    with served(world) as server, resident(world, server):
        pass
    with served(world, "--no-workers") as server, resident(world, server) as client:
        plant(client)
    found = world.run("reconcile", "--json")
    assert (found.returncode, json.loads(found.stdout)["drift"]) == (1, 1)
    # What nobody handles just now is in flight, and it is not waited for: there is no worker.
    (world.folder / "more.tsv").write_text(f"user_id\tgame_id\n{FRIEND}\t13\n")
    assert world.run("reconcile", "--repair").returncode == 1
    with served(world) as server, resident(world, server):
        pass
    assert world.run("import", "--plays", "more.tsv").returncode == 0
    waiting = world.run("reconcile")
    assert waiting.returncode == 0
    assert "in flight: 1 views lack events that no worker has handled yet" in waiting.stdout


def test_without_a_truth(headcount: Headcount) -> None:
    assert "there is no truth yet" in headcount.fails("reconcile")
