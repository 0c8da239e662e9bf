"""Kafka's hash of keys (numba). Start reading at ``partitioner.py``.

Arguments and results are arrays. The plain Python twin is ``partitioner.murmur2``; one test runs both.
"""

import numpy as np

from kafkaframes.wire._jit import BYTES, INT64S, OUT_INT64S, device, kernel, types
from kafkaframes.wire._kernels import address_of, load_u8

_MURMUR_SEED = np.uint32(0x9747B28C)
_MURMUR_MULTIPLIER = np.uint32(0x5BD1E995)


@device
def _murmur2(address, start, size):
    """Hash a key like ``Utils.murmur2``, with a cleared sign bit (``toPositive``)."""
    h = _MURMUR_SEED ^ np.uint32(size)
    position, end = start, start + size
    while end - position >= 4:
        word = (
            load_u8(address, position)
            | load_u8(address, position + 1) << 8
            | load_u8(address, position + 2) << 16
            | load_u8(address, position + 3) << 24
        )
        k = np.uint32(np.uint32(word) * _MURMUR_MULTIPLIER)
        k = np.uint32(k ^ (k >> np.uint32(24)))
        h = np.uint32(np.uint32(h * _MURMUR_MULTIPLIER) ^ np.uint32(k * _MURMUR_MULTIPLIER))
        position += 4
    remaining_bytes = end - position
    if remaining_bytes:
        for byte in range(remaining_bytes):
            h = np.uint32(h ^ (np.uint32(load_u8(address, position + byte)) << np.uint32(8 * byte)))
        h = np.uint32(h * _MURMUR_MULTIPLIER)
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * _MURMUR_MULTIPLIER)
    return np.int64(np.uint32(h ^ (h >> np.uint32(15))) & np.uint32(0x7FFFFFFF))


@kernel(types.void(BYTES, INT64S, INT64S, INT64S, OUT_INT64S))
def partition_keys(buf, starts, lengths, counts, partitions):
    """Choose the partition of each row that has a key but no partition yet (-1).

    ``counts`` are the numbers of partitions.
    """
    address = address_of(buf)
    for row in range(partitions.size):
        if partitions[row] < 0 and lengths[row] >= 0:
            partitions[row] = _murmur2(address, starts[row], lengths[row]) % counts[row]
