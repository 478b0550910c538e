"""Relay's connections: pages of a list, with cursors that stay good while the list changes."""

from __future__ import annotations

import strawberry

from schema.game import Game
from schema.user import User


@strawberry.type(description="Where a page stands in its list.")
class PageInfo:
    has_next_page: bool = strawberry.field(description="Whether more comes behind this page.")
    has_previous_page: bool = strawberry.field(description="Whether something stands before this page.")
    start_cursor: str | None = strawberry.field(description="Cursor of the first edge; null on an empty page.")
    end_cursor: str | None = strawberry.field(
        description="Cursor of the last edge: give it as `after` to go on. Null on an empty page."
    )


@strawberry.type(description="A game in a list, with its cursor.")
class GameEdge:
    cursor: str = strawberry.field(description="Opaque place of this game in the list.")
    node: Game = strawberry.field(description="The game.")


@strawberry.type(description="A page of games.")
class GameConnection:
    total_count: int = strawberry.field(description="How many games the whole list holds.")
    nodes: list[Game] = strawberry.field(description="The page's games, without cursors.")
    edges: list[GameEdge] = strawberry.field(description="The page's games with their cursors.")
    page_info: PageInfo = strawberry.field(description="Where this page stands in the list.")


@strawberry.type(description="A user in a list, with their cursor.")
class UserEdge:
    cursor: str = strawberry.field(description="Opaque place of this user in the list.")
    node: User = strawberry.field(description="The user.")


@strawberry.type(description="A page of users.")
class UserConnection:
    total_count: int = strawberry.field(description="How many users the whole list holds.")
    nodes: list[User] = strawberry.field(description="The page's users, without cursors.")
    edges: list[UserEdge] = strawberry.field(description="The page's users with their cursors.")
    page_info: PageInfo = strawberry.field(description="Where this page stands in the list.")
