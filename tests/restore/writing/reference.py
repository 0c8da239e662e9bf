"""The plain twin of the kernel: Kafka's default partitioner, key by key."""

from __future__ import annotations

_WORD = 2**32 - 1
_M = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """Return the hash of a key as a signed number, as ``org.apache.kafka.common.utils.Utils.murmur2`` does.

    >>> murmur2(b"21"), murmur2(b"foobar"), murmur2(b"abc")
    (-973932308, -790332482, 479470107)
    """
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for place in range(0, whole, 4):
        k = int.from_bytes(key[place : place + 4], "little") * _M & _WORD
        k = (k ^ k >> 24) * _M & _WORD
        h = (h * _M & _WORD) ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _WORD
    h = (h ^ h >> 13) * _M & _WORD
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def partition_of(key: bytes, count: int) -> int:
    """Return the partition of a key, of ``count``."""
    return (murmur2(key) & 0x7FFFFFFF) % count
