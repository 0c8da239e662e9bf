"""Records whose lengths, counts and deltas are at the limits of zig-zag varint sizes, for readers and writers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Sizes around those where a varint needs one more byte (64, 8192, 1048576), and other limits (127, 255, 16384).
SIZES = (0, 1, 62, 63, 64, 65, 126, 127, 128, 255, 256, 8190, 8191, 8192, 16382, 16383, 16384, 1_048_575, 1_048_576)
# Deltas to the first timestamp, of both signs, around those where a varlong needs one more byte.
BORDER_DELTAS = tuple(
    sign * (1 << bits) + more for bits in (6, 13, 20, 27, 34, 41) for sign in (1, -1) for more in (-1, 0)
)
FIRST_TIMESTAMP = 1 << 42


def yield_border_columns(*, headers: bool) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Yield (field at a varint border, columns for ``build_records``). Fields that are not at a border are small."""
    for size in SIZES:
        yield f"key of {size}", fill_columns(key=[b"k" * size])
        yield f"value of {size}", fill_columns(value=[b"v" * size, b"w"])
        if 0 < size < 300 or size == 8192:  # offset deltas with varints of one, two and three bytes
            yield f"{size + 1} records", fill_columns(value=[b""] * (size + 1))
    for delta in BORDER_DELTAS:
        yield (
            f"timestamps {delta} apart",
            fill_columns(value=[b"v"] * 2, timestamp=[FIRST_TIMESTAMP, FIRST_TIMESTAMP + delta]),
        )
    for size in SIZES if headers else ():
        if size < 20_000:
            yield f"header's name of {size}", fill_columns(headers=[[("n" * size, b"x")]])
            yield f"header's value of {size}", fill_columns(headers=[[("n", b"x" * size), ("m", None)]])
        if size < 300:
            yield f"{size} headers", fill_columns(headers=[[("n", b"x")] * size])


def fill_columns(**columns: list[Any]) -> dict[str, list[Any]]:
    """Return columns, with default keys, values and timestamps if they are missing."""
    count = len(next(iter(columns.values())))
    whole: dict[str, list[Any]] = {
        "key": [b"k"] * count,
        "value": [b"v"] * count,
        "timestamp": [FIRST_TIMESTAMP] * count,
    }
    return whole | columns
