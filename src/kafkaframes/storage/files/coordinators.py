"""Which partition of an internal topic holds a group or a transactional id."""

from __future__ import annotations

import struct


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the partition that holds a group or a transactional id: Java's ``String.hashCode`` modulo the count.

    >>> coordinator_partition("abc", 50), coordinator_partition("", 50)  # "abc".hashCode() is 96354
    (4, 0)
    """
    raw = key.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for unit in struct.unpack(f">{len(raw) // 2}H", raw):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed) % partitions
