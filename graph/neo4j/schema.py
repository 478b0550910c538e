"""Constraints and indexes, made and migrated at start, and which truth stands there."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

from graph.neo4j.database import Database
from graph.social_graph import TruthUnavailableError

MIGRATIONS = Path(__file__).parents[1] / "migrations" / "neo4j"

_READ = "OPTIONAL MATCH (t:HeadcountTruth {only: 1}) RETURN t.id, coalesce(t.schema, 0)"
_STAMP = """
    MATCH (t:HeadcountTruth {only: 1})
    SET t.schema = CASE WHEN coalesce(t.schema, 0) < $version THEN $version ELSE t.schema END
"""


async def open_truth(database: Database) -> str:
    """Bring the schema up to date. Returns the id of the truth.

    Raises:
        TruthUnavailableError: the schema is newer than this program.
    """
    scripts = migration_scripts()
    truth_id, version = await _read(database)
    if version > len(scripts):
        raise TruthUnavailableError(
            f"Neo4j at {database.uri}: has schema version {version}, newer than this program's {len(scripts)}"
        )
    for number, script in enumerate(scripts[version:], start=version + 1):
        for statement in statements(script.read_text(encoding="utf-8")):
            await database.run(statement, **({"truth": uuid.uuid4().hex} if "$truth" in statement else {}))
        await database.run(_STAMP, version=number)  # last: a start that dies before it does the script again
    if truth_id is None:
        truth_id, _ = await _read(database)
    if not isinstance(truth_id, str):
        raise TruthUnavailableError(f"Neo4j at {database.uri}: holds no id of its truth")
    return truth_id


async def _read(database: Database) -> tuple[str | None, int]:
    ((truth_id, version),) = await database.run(_READ)
    return truth_id, version


def migration_scripts() -> list[Path]:
    """The migrations, oldest first; the n-th makes schema version n."""
    return sorted(path for path in MIGRATIONS.iterdir() if re.fullmatch(r"\d{4}_\w+\.cypher", path.name))


def statements(script: str) -> Iterator[str]:
    """The statements of a script, each ended by a semicolon at the end of a line."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("//")]
    for statement in re.split(r";\s*$", "\n".join(lines), flags=re.MULTILINE):
        if statement.strip():
            yield statement.strip()
