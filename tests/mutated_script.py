"""Scripts with one line changed: the faults that schedules must notice."""

from __future__ import annotations

import hashlib
from copy import copy

from signals.redis import Script


def mutated(original: Script, line: str, instead: str) -> Script:
    """A script of which one line is another."""
    assert original.source.count(line) == 1, f"{original.name}.lua has no such line any more: {line}"
    changed = copy(original)
    changed.source = original.source.replace(line, instead)
    changed.sha = hashlib.sha1(changed.source.encode(), usedforsecurity=False).hexdigest()
    return changed
