from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from playwright.sync_api import Browser, Page, Request, Response, WebSocket, expect

from tests.browser.conftest import ROOT, SCREENSHOTS, Served, opened, serving

pytestmark = pytest.mark.browser


def open_graphiql(page: Page, served: Served, query: str = "") -> None:
    page.goto(f"{served.origin}/graphql{query}")
    await_editor(page)


def await_editor(page: Page) -> None:
    """The button is there before the editor is; a press that comes in between does nothing."""
    expect(page.get_by_role("button", name="Execute query")).to_be_visible()
    expect(page.locator(".graphiql-query-editor")).to_contain_text("query Page")


def run(page: Page, operation: str) -> Response:
    """Press play and wait for the answer to this operation."""

    def answers(response: Response) -> bool:
        sent = response.request.post_data_json if response.request.method == "POST" else None
        return isinstance(sent, dict) and sent.get("operationName") == operation

    with page.expect_response(answers) as waited:
        page.get_by_role("button", name="Execute query").click()
    return waited.value


def data(response: Response) -> dict[str, Any]:
    answer = response.json()
    assert "errors" not in answer, answer["errors"]
    result = answer["data"]
    assert isinstance(result, dict)
    return result


def subject(request: Request) -> str:
    """Who asked, by the token of a request; its signature is the server's business."""
    token = request.headers["authorization"].removeprefix("Bearer ")
    return str(jwt.decode(token, options={"verify_signature": False})["sub"])


def ask_as(page: Page, user: str) -> None:
    page.locator("input[name=viewer]").fill(user)
    page.get_by_role("button", name="Ask as this user").click()
    expect(page.get_by_role("status")).to_contain_text(f"Asking as user {user}.")


def await_true(page: Page, condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        page.wait_for_timeout(50)  # lets the browser's events come in


def keep_screenshot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    if chosen := os.environ.get("HEADCOUNT_SCREENSHOT"):
        path = ROOT / chosen
        path.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=path)


def test_the_page_query_shows_thirty_games_with_both_counts(page: Page, demo: Served) -> None:
    open_graphiql(page, demo)
    response = run(page, "Page")
    games = data(response)["games"]
    assert [game["id"] for game in games] == [str(number) for number in range(1, 31)]
    for game in games:
        assert game["name"]
        assert isinstance(game["friendsPlayed"], int)
        assert isinstance(game["livePlayers"], int)
        assert re.fullmatch(r"[0-9]+\+?", game["friendsPlayedLabel"])
        assert re.fullmatch(r"[0-9,]+", game["livePlayersLabel"])
    assert sum(game["friendsPlayed"] for game in games) > 0
    assert sum(game["livePlayers"] for game in games) > 0
    assert subject(response.request) == "1"
    assert set(response.json()["extensions"]["cost"]) == {"redisRoundTrips", "graphQueries"}

    shown = page.get_by_role("region", name="Operation Response").or_(page.locator(".graphiql-response"))
    expect(shown.first).to_contain_text(games[0]["name"])
    expect(shown.first).to_contain_text("friendsPlayedLabel")
    keep_screenshot(page, "graphiql")


def test_on_a_phone_the_answer_stands_below_the_question(page: Page, demo: Served) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_graphiql(page, demo)
    data(run(page, "Page"))
    asked = page.locator(".graphiql-query-editor").bounding_box()
    answered = page.locator(".graphiql-response").bounding_box()
    assert asked is not None
    assert answered is not None
    assert min(asked["width"], answered["width"]) > 300
    assert answered["y"] >= asked["y"] + asked["height"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_subscription_ticks(page: Page, demo: Served) -> None:
    sent: list[dict[str, Any]] = []
    received: list[dict[str, Any]] = []
    protocols: list[str] = []

    def listen(opened_socket: WebSocket) -> None:
        opened_socket.on("framesent", lambda frame: sent.append(json.loads(frame)))
        opened_socket.on("framereceived", lambda frame: received.append(json.loads(frame)))
        protocols.append(opened_socket.url)

    page.on("websocket", listen)
    open_graphiql(page, demo)
    page.get_by_role("tab", name="LivePlayers").click()
    page.get_by_role("button", name="Execute query").click()

    def ticks() -> list[Any]:
        return [message["payload"]["data"]["livePlayers"] for message in received if message["type"] == "next"]

    await_true(page, lambda: len(ticks()) >= 3, "a snapshot and two ticks")
    assert len(ticks()[0]) == 30
    assert sent[0]["type"] == "connection_init"
    assert sent[0]["payload"]["Authorization"].startswith("Bearer ")
    assert protocols == [demo.origin.replace("http", "ws") + "/graphql"]

    response = page.locator(".graphiql-response")
    expect(response).to_contain_text("livePlayers")
    before = response.inner_text()
    await_true(page, lambda: response.inner_text() != before, "the editor shows the next tick")

    page.get_by_role("button", name="Stop query").click()
    await_true(page, lambda: any(message["type"] == "complete" for message in sent), "the subscription is ended")


def test_the_viewer_picker_asks_as_another_user_in_every_tab(page: Page, demo: Served) -> None:
    open_graphiql(page, demo, "?viewer=42")
    page.get_by_role("tab", name="Viewer").click()
    response = run(page, "Viewer")
    assert subject(response.request) == "42"
    assert data(response)["viewer"]["user"]["id"] == "42"

    ask_as(page, "1042")
    assert page.url.endswith("?viewer=1042")
    assert data(run(page, "Viewer"))["viewer"]["user"]["id"] == "1042"
    page.get_by_role("tab", name="Page").click()
    assert subject(run(page, "Page").request) == "1042"

    page.reload()
    await_editor(page)
    response = run(page, "Page")
    assert subject(response.request) == "1042"
    assert len(data(response)["games"]) == 30


def test_a_friends_first_play_shows_on_the_viewers_page(page: Page, demo: Served) -> None:
    def played(answer: Response) -> int:
        count = next(game for game in data(answer)["games"] if game["id"] == "7")["friendsPlayed"]
        assert isinstance(count, int)
        return count

    open_graphiql(page, demo)
    before = played(run(page, "Page"))
    page.get_by_role("tab", name="Viewer").click()
    friends = [friend["id"] for friend in data(run(page, "Viewer"))["viewer"]["friends"]["nodes"]]
    page.get_by_role("tab", name="RecordPlay").click()
    for friend in friends:
        ask_as(page, friend)
        outcome = data(run(page, "RecordPlay"))["recordPlay"]
        assert outcome["recorded"]
        if outcome["first"]:
            break
    else:
        pytest.fail("every friend had played the game")

    ask_as(page, "1")
    page.get_by_role("tab", name="Page").click()
    await_true(page, lambda: played(run(page, "Page")) == before + 1, "one friend more")


def test_a_pasted_token_asks_where_the_server_hands_out_none(chromium: Browser, tmp_path: Path) -> None:
    with serving() as served, opened(chromium, served) as page:
        open_graphiql(page, served)
        assert page.locator("input[name=viewer]").count() == 0
        page.get_by_role("tab", name="Viewer").click()
        assert data(run(page, "Viewer")) == {"viewer": None}
        page.locator("input[name=token]").fill(served.token(7))
        page.get_by_role("button", name="Use in all tabs").click()
        assert subject(run(page, "Viewer").request) == "7"
        assert "Bearer" not in page.evaluate("JSON.stringify(localStorage)")
        page.screenshot(path=tmp_path / "token.png")
