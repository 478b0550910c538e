"""The source of truth, as a protocol: users, friendships, play logs, the game catalogue and the outbox.

Two adapters stand behind it, `graph.sqlite` and (served) Neo4j; one contract suite tests both. Ids are decimal 64-bit
integers, 1..2**63-1. A game's `number` is dense, 32 bits, given once and never used again; play logs hold numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from graph.errors import GraphError as GraphError
from graph.errors import TruthReplacedError as TruthReplacedError
from graph.errors import TruthUnavailableError as TruthUnavailableError
from graph.errors import TruthUnreachableError as TruthUnreachableError
from graph.errors import UnknownGameError as UnknownGameError
from graph.errors import UserDeletedError as UserDeletedError
from graph.visibility import CursorState, Visibility

MAX_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Game:
    """A game of the catalogue."""

    id: int
    number: int
    name: str
    image_url: str | None = None


@dataclass(frozen=True, slots=True)
class User:
    """A user. `name` is None where none was imported."""

    id: int
    name: str | None = None


class GameRow(NamedTuple):
    """A game to save. A None keeps what there is; the name of a new game is then "Game ID"."""

    id: int
    name: str | None
    image_url: str | None = None


class UserRow(NamedTuple):
    """A user to save. `name` None keeps the name there is."""

    id: int
    name: str | None


class FriendshipRow(NamedTuple):
    """A friendship to save, in either order."""

    user_id: int
    friend_id: int


class PlayRow(NamedTuple):
    """A play to save. `played_at_ms` is the time of the first play, Unix milliseconds; None is now."""

    user_id: int
    game_id: int
    played_at_ms: int | None = None


class RecordedPlay(NamedTuple):
    """The answer to a play: whether it is the user's first of that game, and its place in their log (1, 2, 3 …)."""

    first: bool
    ordinal: int


class PlayedGame(NamedTuple):
    """An entry of a user's play log: the game's number and the server's time of the first play, Unix milliseconds."""

    number: int
    played_at_ms: int


class Friendship(NamedTuple):
    """A friendship after a change. `version` grows with every change of the edge between the two."""

    friends: bool
    version: int


class SeenLog(NamedTuple):
    """What a viewer sees of one owner: version, state, and the whole play log (packed little-endian 32-bit numbers)."""

    version: int
    state: CursorState
    log: bytes


class Catalogue(NamedTuple):
    """Games changed since a version, and the version up to which the caller now knows the catalogue."""

    version: int
    changed: list[Game]


class UserPage(NamedTuple):
    """A page of users by ascending id."""

    users: list[User]
    total: int
    has_next: bool


class Deletions(NamedTuple):
    """Ids of deleted users, and the number of the last deletion that is among them (or was before)."""

    number: int
    user_ids: list[int]


class ChangeKind(StrEnum):
    """What an outbox row tells.

    PLAY: the entry `ordinal` of the log of `user_id` is game `number`. LOG: the log of `user_id` grew by any number of
    entries (an import). EDGE: the edge between `user_id` (the lower) and `other_id` changed. USER: the state of
    `user_id` (hidden, deleted, pull) changed.
    """

    PLAY = "play"
    LOG = "log"
    EDGE = "edge"
    USER = "user"


class OutboxRow(NamedTuple):
    """A change that stands in the truth and still has to be told. Fields that a kind does not use are 0."""

    id: int
    kind: ChangeKind
    user_id: int
    other_id: int
    ordinal: int
    number: int


class GraphTotals(NamedTuple):
    """How much the truth holds, for `headcount status`."""

    users: int
    games: int
    friendships: int
    plays: int
    outbox: int


class SocialGraph(Protocol):
    """The truth. Every write is one transaction together with its outbox rows; every read sees committed writes."""

    @property
    def truth_id(self) -> str:
        """Random id of this truth, renewed by a restore. Known once open."""

    async def open(self) -> None:
        """Open the store, make or migrate its schema.

        Raises:
            TruthUnavailableError: one line that says what is wrong (cannot be written, schema newer than the program).
        """

    async def close(self) -> None:
        """Finish the writes that were accepted, then close."""

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the event loop after each commit of this process that wrote outbox rows."""

    # The catalogue

    async def save_games(self, rows: Sequence[GameRow]) -> list[Game]:
        """Create or rename games; new ones get the next numbers. Returns them in the order asked.

        Rows that say what is known already change nothing, the catalogue's version included.
        """

    async def catalogue(self, since: int = 0) -> Catalogue:
        """Games created or changed after version `since`; 0 is all of them. Cheap when nothing changed.

        Raises:
            TruthReplacedError: another truth stands where this process opened one.
        """

    # Users

    async def save_users(self, rows: Sequence[UserRow]) -> None:
        """Create or name users. Raises UserDeletedError, then nothing of the call is kept."""

    async def users(self, user_ids: Collection[int]) -> dict[int, User]:
        """Users by id, deleted and unknown ones left out."""

    async def user_state(self, user_id: int) -> int:
        """The packed state of a user (`graph.visibility.UserFlag`), 0 for one never written."""

    async def set_activity_hidden(self, user_id: int, hidden: bool) -> bool:
        """Hide a user's plays from everybody, or show them again; creates the user. Returns whether it changed.

        Raises:
            UserDeletedError, TruthUnavailableError.
        """

    async def delete_user(self, user_id: int) -> bool:
        """Delete a user for good, also one never written. Log and edges stay, for the views that must take them back.

        Returns:
            True where this call deleted them, False where they were deleted already.
        """

    async def deletions(self, since: int = 0) -> Deletions:
        """Who was deleted after the deletion numbered `since`; 0 is everybody. Cheap when nobody was.

        Deletions are numbered in the order of their commits (gaps may be), so that nobody who asks with the number of
        the last answer misses one.
        """

    # Plays

    async def record_play(self, user_id: int, game_id: int) -> RecordedPlay:
        """Append the game to the user's log unless it is there; creates the user. Durable when it returns.

        Raises:
            UnknownGameError, UserDeletedError, TruthUnavailableError.
        """

    async def play_logs(self, user_ids: Collection[int]) -> dict[int, bytes]:
        """Play logs as packed little-endian 32-bit game numbers, oldest first. Users without plays are left out.

        Those of hidden and deleted users too: a view that forgets them takes back what it counted.
        """

    async def played_games(self, user_id: int) -> list[PlayedGame]:
        """The user's log, oldest first; empty for a deleted user."""

    # Friendships and visibility

    async def set_friendship(self, user_id: int, friend_id: int, friends: bool) -> Friendship:
        """Befriend or part two users; creates them. A call that changes nothing writes nothing and keeps the version.

        Raises:
            UserDeletedError, TruthUnavailableError, ValueError (a user and themselves).
        """

    async def block(self, user_id: int, other_id: int, blocked: bool) -> bool:
        """Block another user, or no longer; creates both. A friendship stays, unseen. Returns whether it changed.

        Raises:
            UserDeletedError, TruthUnavailableError, ValueError (a user and themselves).
        """

    async def friends(self, user_ids: Collection[int]) -> dict[int, list[int]]:
        """Ascending ids of all each user has a friendship with, blocked and deleted too; every id asked is a key.

        This is whom fan-out may have to tell; what they see is `visibilities`.
        """

    async def blocked_page(self, user_id: int, first: int, after_id: int = 0) -> UserPage:
        """Whom the user blocks, deleted ones left out, ids greater than `after_id`."""

    async def friend_page(self, user_id: int, first: int, after_id: int = 0) -> UserPage:
        """Friends as the user sees them (blocked either way and deleted ones left out), ids greater than `after_id`."""

    async def visibilities(self, viewer_id: int, owner_ids: Collection[int]) -> dict[int, Visibility]:
        """How the viewer sees each owner; every id asked is a key. No edge: version of the owner's state, off."""

    async def seen_logs(self, viewer_id: int, owner_ids: Collection[int] | None = None) -> dict[int, SeenLog]:
        """Everybody whose plays the viewer sees, with version, state and whole log, in one query.

        Args:
            viewer_id: the user who looks.
            owner_ids: only these owners, and these whether they are seen or not (an off one has an empty log).
        """

    async def seen_owners(self, viewer_id: int) -> dict[int, int]:
        """Everybody whose plays the viewer sees, and the length of their log: `seen_logs` without the logs."""

    async def invisible_users(self) -> dict[int, int]:
        """Everybody who is hidden or deleted, and the version of their state."""

    async def pulled_logs(self) -> dict[int, int]:
        """Everybody with more friends than are pushed to (`UserFlag.PULL`), and the length of their log.

        The flag changes in the transaction that befriends or parts: set past `fanout_max_friends` friendships, cleared
        under nine tenths of it, each time with a USER row in the outbox.
        """

    # The outbox

    async def outbox(self, limit: int) -> list[OutboxRow]:
        """The oldest rows not yet published, in the order of their commits."""

    async def mark_published(self, row_ids: Collection[int]) -> None:
        """These rows were published; they will not be handed out again, unless `unacknowledge_after` says so.

        They are kept until they are acknowledged, and for ten minutes more.
        """

    async def acknowledge(self, row_ids: Collection[int]) -> int:
        """What followed from these rows is done. Returns the number of this batch, dense per truth (1, 2, 3 …).

        An empty batch has a number too, and unknown rows are left out. A row that has a batch keeps it. A number never
        comes again, also when `unacknowledge_after` has emptied its batch.
        """

    async def acknowledged_batch(self) -> int:
        """Number of the last batch, 0 before the first."""

    async def unacknowledge_after(self, batch: int) -> int | None:
        """Take back every batch later than `batch`: in one transaction their rows become unpublished again.

        So do rows that were published and never acknowledged: where they were published to may have forgotten them.
        Returns how many rows did, or None where a row of a later batch has been dropped already (ten minutes past
        acknowledgement): then nobody can tell what came after `batch`, and nothing was changed.
        """

    # Imports and figures

    async def import_rows(
        self,
        kind: Literal["games", "users", "friends", "plays"],
        rows: Sequence[GameRow] | Sequence[UserRow] | Sequence[FriendshipRow] | Sequence[PlayRow],
    ) -> Mapping[int, str]:
        """Write a batch of rows in one transaction, creating the users and games that they name.

        Rows that say what is known already change nothing. Returns the rows that cannot be imported (index in the
        batch to the rule they break, "user 7 was deleted"); when there are any, nothing of the batch is kept.
        """

    async def totals(self) -> GraphTotals:
        """How much the truth holds."""
