"""Keys as digests, shared out by buckets and judged (numba). Start reading at ``exchange.py``, not here.

A digest is two numbers: SipHash-1-3 with 128 bits under a key of the job, so that nobody can choose record keys that
fall together. The lowest bit of the first says whether the record counts; the highest of the second are its bucket.
Arrays and integers in, integers out. The plain twins are in ``tests/storage/cleaner/reference.py``; one test runs both.
"""

import numpy as np

from kafkaframes.wire._jit import BYTES, INT32S, INT64S, OUT_BYTES, OUT_INT64S, device, inlined, kernel, types
from kafkaframes.wire._kernels import _load_u64_le, address_of, load_u8

MOST_BUCKETS = 1 << 15
# In a ledger: a bucket, or one of these.
SUPERSEDED, KEYLESS = 0xFFFE, 0xFFFF
SHORTS = types.Array(types.uint16, 1, "C", readonly=True)
OUT_SHORTS = types.Array(types.uint16, 1, "C")
_SEEN_SHIFT = np.uint64(7)
_ONE = np.int64(1)


@inlined
def _rotated(value, left):
    return (value << np.uint64(left)) | (value >> np.uint64(64 - left))


@inlined
def _round(v0, v1, v2, v3):
    v0 = v0 + v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = v2 + v3
    v3 = _rotated(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _rotated(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@inlined
def _three_rounds(v0, v1, v2, v3):
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0, v1, v2, v3


@inlined
def _absorb(v0, v1, v2, v3, word):
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@device
def _siphash(address, start, size, key0, key1):
    v0 = key0 ^ np.uint64(0x736F6D6570736575)
    v1 = key1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    v2 = key0 ^ np.uint64(0x6C7967656E657261)
    v3 = key1 ^ np.uint64(0x7465646279746573)
    position, end = start, start + size
    while end - position >= 8:
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, _load_u64_le(address, position))
        position += 8
    last = np.uint64(size & 0xFF) << np.uint64(56)
    for byte in range(end - position):
        last |= np.uint64(load_u8(address, position + byte)) << np.uint64(8 * byte)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, last)
    v0, v1, v2, v3 = _three_rounds(v0, v1, v2 ^ np.uint64(0xEE), v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _three_rounds(v0, v1 ^ np.uint64(0xDD), v2, v3)
    return np.int64(low), np.int64(v0 ^ v1 ^ v2 ^ v3)


@kernel(types.void(BYTES, INT64S, INT32S, types.int64, types.int64, OUT_INT64S))
def digest_all(buf, positions, sizes, key0, key1, digests):
    """Digest every record's key into two numbers; null keys get none."""
    address = address_of(buf)
    for record in range(positions.size):
        size = np.int64(sizes[record])
        if size >= 0:
            low, high = _siphash(address, positions[record], size, np.uint64(key0), np.uint64(key1))
            digests[2 * record] = low
            digests[2 * record + 1] = high


@kernel(types.void(INT64S, INT32S, BYTES, types.int64, OUT_INT64S, OUT_SHORTS))
def fill_ledger(digests, sizes, selected, shift, seen, ledger):
    """Give each record its bucket, unless it has no key, or a later record of this call that counts replaces it.

    ``seen`` is zeros: a small cache with one place for a key, so what it forgets is only shared out in vain.
    """
    mask = np.uint64(seen.size // 2 - 1)
    for record in range(sizes.size - 1, -1, -1):
        if sizes[record] < 0:
            ledger[record] = KEYLESS
            continue
        low, high = digests[2 * record] | _ONE, digests[2 * record + 1]
        slot = 2 * np.int64((np.uint64(low) >> _SEEN_SHIFT) & mask)
        if seen[slot] == low and seen[slot + 1] == high:
            ledger[record] = SUPERSEDED
            continue
        ledger[record] = np.uint64(high) >> np.uint64(shift)
        if selected[record]:
            seen[slot] = low
            seen[slot + 1] = high


@kernel(
    types.UniTuple(types.int64, 2)(
        INT64S, BYTES, SHORTS, types.int64, types.int64, OUT_INT64S, OUT_INT64S
    )
)  # fmt: skip
def emit(digests, selected, ledger, first, used, entries, counts):
    """Append the records that have a bucket; return ``(record, used)``, where ``entries`` is full or all are there."""
    for record in range(first, ledger.size):
        bucket = np.int64(ledger[record])
        if bucket < MOST_BUCKETS:
            if 2 * used == entries.size:
                return record, used
            entries[2 * used] = (digests[2 * record] & ~_ONE) | np.int64(selected[record])
            entries[2 * used + 1] = digests[2 * record + 1]
            counts[bucket] += 1
            used += 1
    return ledger.size, used


@kernel(types.void(INT64S, types.int64, types.int64, OUT_INT64S, OUT_INT64S))
def scatter(entries, used, shift, positions, out):
    """Sort entries by bucket, keeping their order; ``positions`` are where each bucket begins, and move on."""
    for entry in range(used):
        high = entries[2 * entry + 1]
        bucket = np.int64(np.uint64(high) >> np.uint64(shift))
        position = positions[bucket]
        out[2 * position] = entries[2 * entry]
        out[2 * position + 1] = high
        positions[bucket] = position + 1


@kernel(types.void(INT64S, OUT_INT64S, OUT_BYTES))
def judge(entries, table, latest):
    """Say of each entry of a bucket whether no later entry that counts has its digest; ``table`` is zeros."""
    mask = np.uint64(table.size // 2 - 1)
    for entry in range(entries.size // 2 - 1, -1, -1):
        low, high = entries[2 * entry] | _ONE, entries[2 * entry + 1]
        slot = 2 * np.int64((np.uint64(low) >> _SEEN_SHIFT) & mask)
        while table[slot] != 0 and (table[slot] != low or table[slot + 1] != high):
            slot = 2 * np.int64((np.uint64(slot // 2) + np.uint64(1)) & mask)
        latest[entry] = table[slot] == 0
        if latest[entry] and entries[2 * entry] & _ONE:
            table[slot] = low
            table[slot + 1] = high


@kernel(
    types.UniTuple(types.int64, 2)(SHORTS, types.int64, types.int64, OUT_INT64S, BYTES, OUT_BYTES)
)  # fmt: skip
def answer(ledger, first, left, cursors, bits, latest):
    """Take each record's bit from where its bucket's cursor stands; return ``(record, left)``, at the end of a run."""
    for record in range(first, ledger.size):
        bucket = np.int64(ledger[record])
        latest[record] = 0
        if bucket < MOST_BUCKETS:
            if left == 0:
                return record, left
            position = cursors[bucket]
            latest[record] = (bits[position >> 3] >> (position & 7)) & 1
            cursors[bucket] = position + 1
            left -= 1
    return ledger.size, left
