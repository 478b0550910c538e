"""What a page of a view is made of: scripts that do a part of what `page.lua` does, with the same keys and fields."""

from __future__ import annotations

from collections.abc import Sequence

from signals.redis import Argument
from signals.view_page import encode_page

CALLS = {
    "an empty script with the keys of a page": "return 1",
    "the same, taking the fields apart": "for field in string.gmatch(ARGV[1], '%d+') do end return 1",
    "the same and 30 commands on a key that is not there": """
        for field in string.gmatch(ARGV[1], '%d+') do redis.call('STRLEN', KEYS[2]) end return 1""",
    "the same and 30 HGETs": """
        local i = 3
        for field in string.gmatch(ARGV[1], '%d+') do i = i + 1 redis.call('HGET', KEYS[i], field) end return 1""",
}


def page_keys(viewer_id: int, numbers: Sequence[int]) -> list[Argument]:
    """The keys of a page of these games."""
    return encode_page(viewer_id, numbers)[0]
