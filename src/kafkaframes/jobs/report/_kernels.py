"""The compiled loop that hashes record keys (numba). Its only caller is ``histograms.py``.

The plain-Python twin is in ``tests/jobs/report/reference.py``.
"""

import numpy as np

from kafkaframes.wire._jit import BYTES, INT32S, INT64S, OUT_INT64S, device, kernel, types
from kafkaframes.wire._kernels import address_of, load_i64, load_u8

_HASH_SEED = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MULTIPLIER = np.uint64(0xFF51AFD7ED558CCD)
_SECOND_MULTIPLIER = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT_BITS = np.uint64(33)


@device
def _mix_bits(value):
    value = (value ^ (value >> _SHIFT_BITS)) * _FIRST_MULTIPLIER
    value = (value ^ (value >> _SHIFT_BITS)) * _SECOND_MULTIPLIER
    return value ^ (value >> _SHIFT_BITS)


@kernel(types.int64(BYTES, INT64S, INT32S, OUT_INT64S))
def hash_keys(buf, positions, sizes, hashes):
    """Write the hashes of all keys that are not null to ``hashes``, without gaps. A key with a negative size is null.

    Returns the number of hashes. Words of 8 bytes are big-endian. The last 1 to 7 bytes form a shorter word.
    """
    address = address_of(buf)
    count = 0
    for record in range(positions.size):
        size = np.int64(sizes[record])
        if size < 0:
            continue
        position, end = positions[record], positions[record] + size
        value = _mix_bits(_HASH_SEED + np.uint64(size))
        while end - position >= 8:
            value = _mix_bits(value ^ np.uint64(load_i64(address, position)))
            position += 8
        tail_word = np.uint64(0)
        while position < end:
            tail_word = (tail_word << np.uint64(8)) | np.uint64(load_u8(address, position))
            position += 1
        hashes[count] = np.int64(_mix_bits(value ^ tail_word))
        count += 1
    return count
