"""Logs: one line an event, JSON for machines, colours for a terminal, and never a token."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import Processor

# A JSON Web Token wherever it stands, and whatever follows "Bearer", also within a traceback or a library's message.
_SECRET = re.compile(r"eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){1,4}|(?:[Bb]earer|BEARER)\s+[A-Za-z0-9._~+/=-]{8,}")
_REMOVED = "[token]"


def without_tokens(text: str) -> str:
    """The text with all that looks like a token taken out."""
    if "eyJ" in text or "earer" in text or "EARER" in text:  # a line mostly has none, and this is quicker to see
        return _SECRET.sub(_REMOVED, text)
    return text


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Send the program's logs, and its libraries', to a stream.

    Args:
        level: the lowest level written ("INFO").
        stream: by default standard error; colours where it is a terminal.
    """
    target = sys.stderr if stream is None else stream
    render = _pretty() if target.isatty() else _json
    first: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    last: list[Processor] = [_finish(render)]
    if not target.isatty():
        last.insert(0, structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=target),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=first,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # It writes the addresses of WebSockets with their query strings, and a start that the program tells itself.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _finish(render: Processor) -> Processor:
    """Render, then take tokens out of the whole line, wherever they came in."""

    def finish(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        return without_tokens(str(render(logger, method, event)))

    return finish


def _pretty() -> Processor:
    return structlog.dev.ConsoleRenderer(timestamp_key="time")


def _json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
