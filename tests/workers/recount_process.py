"""A process that runs the recount alone, to be killed: `python -m tests.workers.recount_process URL`."""

from __future__ import annotations

import asyncio
import sys

from signals.hidden_users import HiddenUsers
from signals.redis import SharedRedis, connect
from tests.signals.plain_users import PlainUsers
from workers.lease import Lease
from workers.live_visibility import LiveVisibility
from workers.recount import LEASE_NAME, LEASE_SECONDS, Recount


async def run(url: str) -> None:
    """Recount until killed."""
    redis = SharedRedis(connect(url, client_name="recount-process"))
    visibility = LiveVisibility(PlainUsers(), HiddenUsers(redis))
    await Recount(redis, 60, 100, Lease(redis, LEASE_NAME, LEASE_SECONDS), visibility).run()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
