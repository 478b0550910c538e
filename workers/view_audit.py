"""The background audit: by lease, one process compares resident views with the truth, a few a second, round and round.

What drifted is evicted and told to the log and the metrics. None is expected: it is the proof that runs along, and the
net below whatever nobody thought of.
"""

from __future__ import annotations

import asyncio

import structlog

from signals.shards import SHARDS
from signals.views import FriendViews
from workers.lease import Lease
from workers.outage import is_outage, pause_seconds
from workers.reconcile import Reconcile, Report

log = structlog.get_logger(__name__)

LEASE_NAME = "view-audit"
#: Longer than a batch takes that waits for events in flight.
LEASE_SECONDS = 60.0
VIEWS_A_BATCH = 8
#: How many of a view's wrong pairs the log names.
NAMED_PAIRS = 5


class ViewAudit:
    """Audits resident views.

    Args:
        views: what there is to audit.
        reconcile: compares them, and repairs.
        lease: of the audit that works; its time must outlast a batch.
        views_a_second: the pace.
    """

    def __init__(self, views: FriendViews, reconcile: Reconcile, lease: Lease, *, views_a_second: float = 4.0) -> None:
        self._views = views
        self._reconcile = reconcile
        self._lease = lease
        self._pause_seconds = VIEWS_A_BATCH / views_a_second
        self._failures = 0
        self.views_audited = 0
        self.drift_pairs = 0

    async def run(self) -> None:
        """Audit until cancelled. Holds while a store is away."""
        try:
            while True:
                try:
                    if await self._lease.acquire() is not None:
                        await self.round()
                    self._failures = 0
                except Exception as error:
                    if not is_outage(error):
                        raise
                    self._failures += 1
                    if self._failures == 1:
                        log.warning("view_audit_held", reason=str(error))
                    await asyncio.sleep(pause_seconds(self._failures))
                await asyncio.sleep(self._pause_seconds)
        finally:
            try:
                await self._lease.release()
            except Exception as error:
                if not is_outage(error):
                    raise
                log.info("view_audit_lease_left", reason=str(error))  # it runs out by itself

    async def round(self) -> None:
        """Audit every view that is resident, at the pace, for as long as the lease is held."""
        for shard in range(SHARDS):
            residents = await self._views.residents(shard)
            for start in range(0, len(residents), VIEWS_A_BATCH):
                part = residents[start : start + VIEWS_A_BATCH]
                if not await self._lease.renew():
                    return
                self._take(await self._reconcile.views(part))
                await asyncio.sleep(self._pause_seconds * len(part) / VIEWS_A_BATCH)

    def _take(self, report: Report) -> None:
        self.views_audited += report.users
        self.drift_pairs += report.drift_pairs
        for viewer_id, drift in report.drift.items():
            log.error(
                "view_drifted",
                viewer_id=viewer_id,
                pairs=len(drift),
                first=[one._asdict() for one in drift[:NAMED_PAIRS]],
                evicted=report.repaired > 0,
            )
