"""What an append, or a conversion to an older format, came to."""

from __future__ import annotations

from typing import NamedTuple


class Appended(NamedTuple):
    """Records ready for the log.

    Attributes:
        records: their bytes.
        next_offset: the offset after the last.
        in_place: nothing was built anew.
        max_timestamp: the largest timestamp in milliseconds, -1 for none (always in format 0).
        converted: how many records were written anew.
        append_time_ms: the clock that was used.
        valid_bytes: the size of the whole batches that came in; what follows them was cut off.
        recompressed_bytes: bytes (uncompressed) that went through a compressor.
        kept_bytes: bytes of batches that were taken as they came, but for header fields.
    """

    records: bytes
    next_offset: int
    in_place: bool
    max_timestamp: int
    converted: int
    append_time_ms: int
    valid_bytes: int
    recompressed_bytes: int
    kept_bytes: int


class DownConverted(NamedTuple):
    """Records in an older format.

    Attributes:
        records: their bytes; batches that were old enough are as they were.
        converted: how many records were written anew.
        lost: what the older format cannot say -> how often it was there (of records or of batches).
    """

    records: bytes
    converted: int
    lost: dict[str, int]
