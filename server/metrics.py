"""`/metrics`: what this process counted, and what the stores say when they are asked, for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import structlog
from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.types import Receive, Scope, Send

from resolvers.errors import BadInput
from server.errors import error_body
from server.replies import headers_of, send_json, send_reply

log = structlog.get_logger(__name__)

#: A store that does not answer in time is left out of a scrape, whose own deadline is 10 s by Prometheus's default.
STORE_SECONDS = 2.0

#: One value, or one by the value of the label. None: not known just now, and left out.
Value: TypeAlias = float | Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of this process. `name` without "headcount_"; a counter's comes out with "_total"."""

    kind: Literal["counter", "gauge"]
    name: str
    help: str
    read: Callable[[], Value]
    label: str | None = None


@dataclass(frozen=True, slots=True)
class StoreFigure:
    """A gauge that a store is asked for at each scrape."""

    name: str
    help: str
    read: Callable[[], Awaitable[Value]]
    label: str | None = None


class Metrics:
    """The endpoint, an ASGI application, with a registry of its own.

    Args:
        collectors: what counts by itself.
        figures: read at each scrape.
        store_figures: asked for at each scrape, all at once, each for at most two seconds.
    """

    def __init__(
        self, collectors: Sequence[Collector], figures: Sequence[Figure], store_figures: Sequence[StoreFigure]
    ) -> None:
        self._registry = CollectorRegistry()
        for collector in collectors:
            self._registry.register(collector)
        self._figures = figures
        self._store_figures = store_figures
        self._asked: asyncio.Task[list[Value]] | None = None
        self._store_values: list[Value] = []
        self._registry.register(_Figures(self._families))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method not in {"GET", "HEAD"}:
            refused = {"errors": [error_body(BadInput("method", "must be GET"))]}
            await send_json(send, 405, refused, [(b"allow", b"GET, HEAD")])
            return
        self._store_values = await self._ask_stores()
        accept = headers_of(scope).get(b"accept", b"").decode("latin-1")
        encode, content_type = choose_encoder(accept)
        body = encode(self._registry)
        await send_reply(
            send,
            200,
            body,
            content_type.encode(),
            [(b"cache-control", b"no-store")],
            without_body=method == "HEAD",
        )

    async def _ask_stores(self) -> list[Value]:
        """What the stores say now. Scrapes at one time ask once."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._read_stores(), name="metrics")
        return await asyncio.shield(self._asked)

    async def _read_stores(self) -> list[Value]:
        return list(await asyncio.gather(*map(_read, self._store_figures)))

    def _families(self) -> Iterator[Metric]:
        for figure in self._figures:
            value = figure.read()
            if value is not None:
                yield _family(figure.kind, figure.name, figure.help, figure.label, value)
        for store_figure, value in zip(self._store_figures, self._store_values, strict=False):
            if value is not None:
                yield _family("gauge", store_figure.name, store_figure.help, store_figure.label, value)


class _Figures(Collector):
    """A collector by a function."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


async def _read(figure: StoreFigure) -> Value:
    try:
        async with asyncio.timeout(STORE_SECONDS):
            return await figure.read()
    except Exception as error:  # a store that is away takes nothing else out of a scrape
        log.warning("figure_unknown", figure=figure.name, reason=repr(error))
        return None


def _family(
    kind: Literal["counter", "gauge"], name: str, help_: str, label: str | None, value: float | Mapping[str, float]
) -> Metric:
    family_class = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
    family = family_class(f"headcount_{name}", help_, labels=[label] if label is not None else [])
    values = value.items() if isinstance(value, Mapping) else [("", value)]
    for of_label, number in values:
        family.add_metric([of_label] if label is not None else [], number)
    return family


class NoMetrics:
    """Answers `/metrics` on a port that several web processes share, where each scrape would meet another process."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        body = (
            b"Several processes share this port, and each has figures of its own. Set HEADCOUNT_METRICS_PORT: the\n"
            b"workers then serve theirs on it, and the web processes on the ports that follow.\n"
        )
        await send_reply(send, 404, body, b"text/plain; charset=utf-8")
