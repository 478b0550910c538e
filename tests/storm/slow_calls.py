"""Which calls of a schedule are slow: where all are as likely to be next, the odd moments seldom come."""

from __future__ import annotations

from tests.storm.stage import Gate
from tests.storm.troupe import Troupe

#: What may be slow; more often what stands between a read of the truth and what is made of it.
SLOW_CALLS = ["build", "build", "build", "seen_logs", "edge", "edge", "catch_up", "apply", "play_logs", "visibilities"]
#: The same of processes.
SLOW_CALLS_OF_WORKERS = ["settle", "move", "unacknowledge_after", "mark_published", "acknowledge", "read", "append"]


class SlowCalls:
    """A kind of call that is far slower than the rest, and single calls that hang.

    Args:
        troupe: whose calls.
        kind: the name of the slow kind, "" for none.
    """

    def __init__(self, troupe: Troupe, kind: str) -> None:
        self._troupe = troupe
        self._random = troupe.random
        self._kind = kind
        self._hang = self._random.choice((0.0, 0.1))
        self._hanging: dict[Gate, int] = {}

    def quick_gates(self, *, waiting: bool) -> list[Gate]:
        """The calls to choose from: mostly neither those that hang nor those of the slow kind.

        Args:
            waiting: whether something else may be done, so that there need not be any.
        """
        gates, now = self._troupe.stage.gates, self._troupe.clock
        if gates and self._random.random() < self._hang:
            self._hanging[self._random.choice(gates)] = now + self._random.randrange(20, 200)
        quick = [gate for gate in gates if gate.name != self._kind and self._hanging.get(gate, 0) < now]
        return quick if (quick or waiting) and self._random.random() < 0.97 else gates
