"""An append-only file that is cut by hand, as a machine that lost power leaves it."""

from __future__ import annotations

from pathlib import Path


def newest_part(folder: Path) -> Path:
    """The part that a server in this folder appends to."""
    return max((folder / "appendonlydir").glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3]))


def boundaries(path: Path) -> list[int]:
    """Where commands end, in bytes. What a script or a transaction wrote stands between MULTI and EXEC and is one."""
    data = path.read_bytes()
    ends = [0]
    position, inside = 0, False
    while position < len(data):
        if data[position : position + 1] == b"#":  # a comment, such as the time
            position = data.index(b"\r\n", position) + 2
        else:
            words: list[bytes] = []
            count, position = _number(data, position)
            for _ in range(count):
                length, position = _number(data, position)
                words.append(data[position : position + length])
                position += length + 2
            inside = words[0].upper() == b"MULTI" or (inside and words[0].upper() != b"EXEC")
        if not inside:
            ends.append(position)
    return ends


def cut(path: Path, size: int) -> int:
    """Cut at the last boundary up to a size; returns how many bytes went."""
    keep = max(end for end in boundaries(path) if end <= size)
    lost = path.stat().st_size - keep
    with path.open("r+b") as file:
        file.truncate(keep)
    return lost


def _number(data: bytes, position: int) -> tuple[int, int]:
    end = data.index(b"\r\n", position)
    return int(data[position + 1 : end]), end + 2
