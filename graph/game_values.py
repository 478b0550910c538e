"""What a game's name and picture may be, whoever brings them."""

from __future__ import annotations

from urllib.parse import urlsplit

MAX_NAME_CHARACTERS = 200
MAX_URL_CHARACTERS = 2000


def is_storable(text: str) -> bool:
    """Whether the truth and all who show it can hold a text: SQLite and C programs end one at a NUL."""
    return "\0" not in text


def is_http_address(text: str) -> bool:
    """Whether a page may show a picture from here: http or https, with a host, nothing in it that an address cannot
    have as it stands.
    """
    if not text.startswith(("https://", "http://")) or not text.isprintable() or " " in text:
        return False
    try:
        return bool(urlsplit(text).hostname)
    except ValueError:  # brackets that hold no IPv6 address
        return False
