"""The cleaner's kernels in plain Python: a dict of last offsets, SipHash, and the latest entries of a bucket."""

from __future__ import annotations

from typing import Any

ABSENT = -1


class PlainOffsetMap:
    """A dict with the interface of ``offset_map.OffsetMap``, which handles one record at a time."""

    def __init__(self) -> None:
        self.last_offsets: dict[bytes, int] = {}

    def put_all(self, buf: bytes, places: Any, sizes: Any, offsets: Any, is_wanted: Any) -> None:
        """Store the last offset of each selected record with a key."""
        for place, size, offset, is_selected in zip(places, sizes, offsets, is_wanted, strict=True):
            if size >= 0 and is_selected:
                self.last_offsets[bytes(buf[place : place + size])] = int(offset)

    def get_all(self, buf: bytes, places: Any, sizes: Any) -> list[int]:
        """Return the last offset of each record's key."""
        return [
            self.last_offsets.get(bytes(buf[place : place + size]), ABSENT) if size >= 0 else ABSENT
            for place, size in zip(places, sizes, strict=True)
        ]


_UINT64_MAX = 2**64 - 1


def siphash(key: bytes, *, key0: int, key1: int, rounds: tuple[int, int] = (1, 3)) -> tuple[int, int]:
    """Return the 128-bit SipHash as two 64-bit numbers. Hash tables of Python and Rust use the rounds (1, 3).

    >>> low, high = siphash(b"", key0=0x0706050403020100, key1=0x0F0E0D0C0B0A0908, rounds=(2, 4))
    >>> (low.to_bytes(8, "little") + high.to_bytes(8, "little")).hex()  # the authors' first vector
    'a3817f04ba25a8e66df67214c7550293'
    """
    v = [key0 ^ 0x736F6D6570736575, key1 ^ 0x646F72616E646F6D ^ 0xEE, key0 ^ 0x6C7967656E657261]
    v.append(key1 ^ 0x7465646279746573)
    padded_key = key + bytes(7 - len(key) % 8) + bytes((len(key) & 0xFF,))
    for place in range(0, len(padded_key), 8):
        word = int.from_bytes(padded_key[place : place + 8], "little")
        v[3] ^= word
        _apply_rounds(v, rounds[0])
        v[0] ^= word
    v[2] ^= 0xEE
    _apply_rounds(v, rounds[1])
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    _apply_rounds(v, rounds[1])
    return low, v[0] ^ v[1] ^ v[2] ^ v[3]


def _apply_rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = (v[0] + v[1]) & _UINT64_MAX
        v[2] = (v[2] + v[3]) & _UINT64_MAX
        v[1], v[3] = _rotate_left(v[1], 13) ^ v[0], _rotate_left(v[3], 16) ^ v[2]
        v[0] = (_rotate_left(v[0], 32) + v[3]) & _UINT64_MAX
        v[2] = (v[2] + v[1]) & _UINT64_MAX
        v[1], v[3] = _rotate_left(v[1], 17) ^ v[2], _rotate_left(v[3], 21) ^ v[0]
        v[2] = _rotate_left(v[2], 32)


def _rotate_left(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _UINT64_MAX


def find_latest_entries(entries: list[tuple[bytes, bool]]) -> list[bool]:
    """For each entry (key, is_counted), return whether no later counted entry has the same key."""
    is_latest: list[bool] = []
    counted_keys: set[bytes] = set()
    for key, counts in reversed(entries):
        is_latest.append(key not in counted_keys)
        if counts:
            counted_keys.add(key)
    return is_latest[::-1]
