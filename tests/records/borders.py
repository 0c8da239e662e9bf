"""Records with lengths, counts and deltas at the borders of zig-zag varint sizes, for readers and writers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# : One byte to two, two to three, three to four; and other borders of lengths and counts: 126 to 128, 255 and 256.
SIZES = (0, 1, 62, 63, 64, 65, 126, 127, 128, 255, 256, 8190, 8191, 8192, 16382, 16383, 16384, 1_048_575, 1_048_576)
# : Deltas to the first timestamp: both signs, up to the limit of a varlong in each of its sizes.
DELTAS = tuple(sign * (1 << bits) + more for bits in (6, 13, 20, 27, 34, 41) for sign in (1, -1) for more in (-1, 0))
FIRST = 1 << 42


def columns_at_borders(*, headers: bool) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Yield (what is at its border, columns for ``build_records``); the other fields are small."""
    for size in SIZES:
        yield f"key of {size}", rows(key=[b"k" * size])
        yield f"value of {size}", rows(value=[b"v" * size, b"w"])
        if 0 < size < 300 or size == 8192:  # offset deltas of one, two and three bytes
            yield f"{size + 1} records", rows(value=[b""] * (size + 1))
    for delta in DELTAS:
        yield f"timestamps {delta} apart", rows(value=[b"v"] * 2, timestamp=[FIRST, FIRST + delta])
    for size in SIZES if headers else ():
        if size < 20_000:
            yield f"header's name of {size}", rows(headers=[[("n" * size, b"x")]])
            yield f"header's value of {size}", rows(headers=[[("n", b"x" * size), ("m", None)]])
        if size < 300:
            yield f"{size} headers", rows(headers=[[("n", b"x")] * size])


def rows(**columns: list[Any]) -> dict[str, list[Any]]:
    """Return whole columns: keys, values and timestamps where none are given."""
    count = len(next(iter(columns.values())))
    whole: dict[str, list[Any]] = {"key": [b"k"] * count, "value": [b"v"] * count, "timestamp": [FIRST] * count}
    return whole | columns
