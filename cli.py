"""The command line."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import structlog

from graph.data_folder import DataFolder, DataFolderError
from graph.social_graph import MAX_ID, GraphError
from settings import Settings, SettingsError, load_settings

# What only some commands need is imported in them: `headcount --help` should not wait for a GraphQL schema.
if TYPE_CHECKING:
    from events.dead_letters import DeadLetter, DeadLetters
    from graph.imports.importer import OnError
    from graph.imports.kinds import KindName

Result = TypeVar("Result")

SCOPES = ("friendships:write", "users:write", "catalog:write", "runs:write", "admin")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FULL_OR_FORBIDDEN = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}


class OneLineErrors(click.Group):
    """Says what a person can mend in one line on stderr, with exit code 1, and shows a traceback for the rest."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """The commands in the order in which they are written here: what runs the server first."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (SettingsError, DataFolderError, GraphError) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.errno not in _FULL_OR_FORBIDDEN:
                raise
            raise click.ClickException(f"{error.filename or 'the disk'}: {error.strerror}") from error


class UserId(click.ParamType[int]):
    """A user's id."""

    name = "user"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The id as a number."""
        if isinstance(value, int):
            return value
        if not re.fullmatch(r"[1-9][0-9]{0,18}", value) or int(value) > MAX_ID:
            self.fail(f"{value[:40]!r} is not an id, which is a decimal from 1 to {MAX_ID}", param, ctx)
        return int(value)


class Duration(click.ParamType[int]):
    """A time span: a number and s, m, h or d."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The time span in seconds."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", value)
        if found is None:
            self.fail(f"{value[:40]!r} is not a time span such as 90s, 15m, 1h or 30d", param, ctx)
        return int(found[1]) * _UNIT_SECONDS[found[2]]


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="headcount", prog_name="headcount")
def main() -> None:
    """Friends who played, and players right now: a GraphQL server for the two numbers under every game.

    Settings come from HEADCOUNT_... variables and a .env file. Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
    # What is worth a log line in a command goes beside its output, not into it; `serve` and `work` set up their own.
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
    )


@main.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=8000, type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.")
@click.option("--processes", default=1, type=click.IntRange(1, 256), help="Web processes that share the port.")
@click.option("--no-workers", is_flag=True, help="Serve only; `headcount work` runs the workers in another process.")
@click.option("--dev", is_flag=True, help="Token picker, introspection and field suggestions; on loopback only.")
@click.option("--demo", is_flag=True, help="Fill an empty data folder with an invented world and simulate players.")
def serve(host: str, port: int, processes: int, no_workers: bool, dev: bool, demo: bool) -> None:
    """Serve GraphQL and its editor, and run the workers.

    An embedded Redis and the SQLite truth are in the data folder, HEADCOUNT_DATA_DIR. Ctrl-C stops it in order.
    """
    import app
    from server.process import StartError

    try:
        code = app.serve(load_settings(), host, port, processes, workers=not no_workers, dev=dev or demo, demo=demo)
    except StartError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


@main.command(short_help="Run the workers alone, beside a server.")
def work() -> None:
    """Run the workers alone, beside a `headcount serve --no-workers` on this data folder or Redis."""
    import app
    from server.process import StartError

    try:
        code = app.work(load_settings())
    except StartError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


_FILE = click.Path(path_type=Path)


@main.command("import", short_help="Import TSV or CSV files.")
@click.option("--games", type=_FILE, help="Columns game_id, name, and image_url if there is one.")
@click.option("--users", type=_FILE, help="Columns user_id, and name if there is one.")
@click.option("--friends", type=_FILE, help="Columns user_id, friend_id.")
@click.option(
    "--plays", type=_FILE, help="Columns user_id, game_id, and played_at (RFC 3339 or Unix seconds) if there is one."
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    help="At a bad row: stop there, or write it to FILE.rejects and go on.",
)
def import_files(
    games: Path | None, users: Path | None, friends: Path | None, plays: Path | None, on_error: OnError
) -> None:
    """Import users, games, friendships and plays from TSV or CSV files with a header, plain or gzip.

    Importing again changes nothing. A server may run meanwhile.
    """
    given: dict[KindName, Path | None] = {"games": games, "users": users, "friends": friends, "plays": plays}
    files = {kind: path for kind, path in given.items() if path is not None}
    if not files:
        raise click.UsageError("nothing to import: give --games, --users, --friends or --plays")
    asyncio.run(_import(load_settings(), files, on_error))


async def _import(settings: Settings, files: dict[KindName, Path], on_error: OnError) -> None:
    from rich.console import Console

    from graph.imports.importer import Importer, ImportStoppedError
    from graph.imports.progress import Bars, Lines
    from graph.imports.tables import TableError
    from workers.command_stores import command_graph

    folder = DataFolder(settings.data_dir)
    folder.prepare()
    console = Console(stderr=True)
    progress = Bars(console) if console.is_terminal else Lines(sys.stderr)
    async with command_graph(settings, folder, create=True) as graph:
        importer = Importer(graph, files, on_error=on_error, progress=progress)
        _once_signalled(importer.stop)
        try:
            await importer.run()
        except (ImportStoppedError, TableError) as error:
            raise click.ClickException(str(error)) from None
        finally:
            for report in importer.reports:
                if report.finished:
                    click.echo(report.position())
                if report.rejected:
                    click.echo(f"{report.path}: {_count(report.rejected, 'row')} rejected, to {report.rejects_path}")


def _once_signalled(stop: Callable[[], None]) -> None:
    """Call `stop` at the first SIGINT or SIGTERM; the second one ends the program where it stands."""
    loop = asyncio.get_running_loop()

    def stop_once(number: int) -> None:
        loop.remove_signal_handler(number)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_once, number)


@main.command(short_help="Print a token for a user.")
@click.argument("user", type=UserId())
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="What the token allows; repeat it.")
@click.option("--expires", "expires_seconds", default="1h", type=Duration(), help="How long it is good: 90s, 15m, 30d.")
def token(user: int, scopes: tuple[str, ...], expires_seconds: int) -> None:
    """Print a token for USER (an id), signed with the server's secret.

    The secret is HEADCOUNT_JWT_SECRET, else the one in the data folder, made at the first start.
    """
    from server.tokens import make_tokens

    settings = load_settings()
    DataFolder(settings.data_dir).prepare()
    try:
        click.echo(make_tokens(settings, loopback=True).sign(user, scopes, expires_seconds))
    except ValueError as error:
        raise click.ClickException(str(error)) from None


@main.command(short_help="Tell how much there is, and how far behind the workers are.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(as_json: bool) -> None:
    """Tell how much there is, how far behind the workers are, and who does what."""
    from rich.console import Console
    from rich.table import Table

    from workers.status import read_status

    found = asyncio.run(read_status(load_settings()))
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for row in found.as_rows():
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


@main.command(short_help="Compare the views in Redis with the truth.")
@click.option("--user", type=UserId(), help="Only this user's view.")
@click.option("--repair", is_flag=True, help="Evict the views that drifted; the next read builds them again.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def reconcile(user: int | None, repair: bool, as_json: bool) -> None:
    """Compare every view in Redis with the truth, while the system runs.

    Events in flight are not drift: what a view lacks counts once the events of then were handled. Exit code 1 says that
    there is drift, also where it was repaired.
    """
    from redis.exceptions import RedisError

    from signals.embedded_redis import EmbeddedRedisError
    from workers.command_stores import RedisUnreachableError
    from workers.reconcile_command import reconcile_views
    from workers.reconcile_report import SHOWN_ROWS, drift_rows, print_tables, totals
    from workers.reconcile_report import as_json as json_of

    try:
        report, game_ids = asyncio.run(reconcile_views(load_settings(), user, repair=repair))
    except (RedisUnreachableError, EmbeddedRedisError, RedisError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(json_of(report, game_ids), indent=2))
    elif sys.stdout.isatty():
        print_tables(report, game_ids)
    else:
        for row in islice(drift_rows(report, game_ids), SHOWN_ROWS):
            click.echo("  ".join(row))
        for name, value in totals(report):
            click.echo(f"{name}: {value}")
    sys.exit(1 if report.drift else 0)


@main.group("dead-letters", short_help="Look at events that were set aside, and replay them.")
def dead_letters() -> None:
    """Look at events that were set aside, and replay them.

    An event is set aside after its handling failed five times. Before that the views that it concerns are evicted, so
    that no count is wrong.
    """


@dead_letters.command("list")
@click.option("--limit", default=100, type=click.IntRange(1, 100_000), help="Show at most so many, oldest first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")
def list_dead_letters(limit: int, as_json: bool) -> None:
    """Show the dead letters: id, when, attempts, event, error."""
    letters, count = asyncio.run(_dead_letters(load_settings(), lambda found: _listed(found, limit)))
    for letter in letters:
        at = datetime.fromtimestamp(letter.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        event = letter.event.encode() if letter.event is not None else letter.data
        if as_json:
            fields = {"id": letter.id, "at": at, "attempts": letter.attempts, "partition": letter.partition}
            click.echo(json.dumps({**fields, "event": event.decode(errors="replace"), "error": letter.error}))
        else:
            error = " ".join(letter.error.split())
            click.echo(f"{letter.id}  {at}  {letter.attempts} attempts  {event.decode(errors='replace')}  {error}")
    click.echo(f"{len(letters):,} of {_count(count, 'dead letter')}", err=True)


@dead_letters.command("replay")
@click.argument("ids", nargs=-1)
def replay_dead_letters(ids: tuple[str, ...]) -> None:
    """Put dead letters back into the event log.

    Those with these IDS, or all there are. What fails again comes back.
    """
    replayed = asyncio.run(_dead_letters(load_settings(), lambda found: found.replay(ids or None)))
    click.echo(f"{_count(replayed, 'dead letter')} replayed")


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


async def _listed(found: DeadLetters, limit: int) -> tuple[Sequence[DeadLetter], int]:
    return await found.list(limit), await found.count()


async def _dead_letters(settings: Settings, ask: Callable[[DeadLetters], Awaitable[Result]]) -> Result:
    from redis.exceptions import RedisError

    from events.dead_letters import DeadLetters
    from signals.embedded_redis import EmbeddedRedisError
    from workers.command_stores import RedisUnreachableError, command_redis

    folder = DataFolder(settings.data_dir)
    if settings.redis_url is None and not folder.truth_path.exists():
        raise click.ClickException(f"there is no truth yet in the data folder {folder.path}")
    try:
        async with command_redis(settings, folder, "dead-letters") as client:
            return await ask(DeadLetters(client))
    except (RedisUnreachableError, EmbeddedRedisError, RedisError, ValueError) as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
