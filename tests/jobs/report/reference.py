"""The plain reference of the kernels."""

from __future__ import annotations

from typing import Any

_MASK = 2**64 - 1
_SEED = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53


def _mix(value: int) -> int:
    value = (value ^ (value >> 33)) * _FIRST & _MASK
    value = (value ^ (value >> 33)) * _SECOND & _MASK
    return value ^ (value >> 33)


def hash_keys(buf: bytes, places: Any, sizes: Any) -> list[int]:
    """Return the hash of each key that is not null, as an unsigned number."""
    hashes = []
    for place, size in zip(places, sizes, strict=True):
        if size < 0:
            continue
        value = _mix((_SEED + int(size)) & _MASK)
        whole = size // 8 * 8
        for step in range(0, whole, 8):
            value = _mix(value ^ int.from_bytes(buf[place + step : place + step + 8], "big"))
        hashes.append(_mix(value ^ int.from_bytes(buf[place + whole : place + size], "big")))
    return hashes
