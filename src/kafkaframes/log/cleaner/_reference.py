"""The plain twin of the kernels: a dict from keys to their last offset."""

from __future__ import annotations

from typing import Any

ABSENT = -1


class PlainOffsetMap:
    """As ``offset_map.OffsetMap``, record by record."""

    def __init__(self) -> None:
        self.last_offsets: dict[bytes, int] = {}

    def put_all(self, buf: bytes, places: Any, sizes: Any, offsets: Any, wanted: Any) -> None:
        """Note the records that are wanted and have a key."""
        for place, size, offset, is_wanted in zip(places, sizes, offsets, wanted, strict=True):
            if size >= 0 and is_wanted:
                self.last_offsets[bytes(buf[place : place + size])] = int(offset)

    def get_all(self, buf: bytes, places: Any, sizes: Any) -> list[int]:
        """Look up every record's key."""
        return [
            self.last_offsets.get(bytes(buf[place : place + size]), ABSENT) if size >= 0 else ABSENT
            for place, size in zip(places, sizes, strict=True)
        ]
