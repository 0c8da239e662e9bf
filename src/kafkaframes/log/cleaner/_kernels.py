"""The map from keys to their last offset (numba). Start reading at ``offset_map.py``, not here.

Open addressing over ``slots`` (an entry's number plus one, 0 for empty); keys stand in full in ``arena``, so that two
keys are the same only if their bytes are. Arrays and integers in, integers out; the caller grows the arrays.
The plain twin is ``_reference.py``; one test runs both.
"""

import numpy as np
from numba import types

from kafkaframes.wire._jit import BYTES, INT32S, INT64S, OUT_BYTES, OUT_INT32S, OUT_INT64S, device, kernel
from kafkaframes.wire._kernels import copy_bytes, load_i64, load_u8

ABSENT = -1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@device
def _mix(value, word):
    value = (value ^ word) * _MULTIPLIER
    return value ^ (value >> _SHIFT)


@device
def _hash(buf, start, size):
    value = np.uint64(size) * _MULTIPLIER
    position, end = start, start + size
    while end - position >= 8:
        value = _mix(value, np.uint64(load_i64(buf, position)))
        position += 8
    while position < end:
        value = _mix(value, np.uint64(load_u8(buf, position)))
        position += 1
    return np.int64(_mix(value, np.uint64(0)) >> np.uint64(1))


@device
def _same(one, at, other, place, size):
    done = 0
    while size - done >= 8:
        if load_i64(one, at + done) != load_i64(other, place + done):
            return False
        done += 8
    while done < size:
        if one[at + done] != other[place + done]:
            return False
        done += 1
    return True


@device
def _find(buf, start, size, hashed, slots, hashes, key_at, key_size, arena):
    """Return the slot of a key: its own, or the empty one where it belongs."""
    mask = slots.size - 1
    slot = hashed & mask
    while slots[slot] != 0:
        entry = slots[slot] - 1
        if hashes[entry] == hashed and key_size[entry] == size and _same(buf, start, arena, key_at[entry], size):
            return slot
        slot = (slot + 1) & mask
    return slot


@kernel(
    types.UniTuple(types.int64, 3)(
        BYTES, INT64S, INT32S, INT64S, BYTES, types.int64, types.int64, types.int64,
        OUT_INT64S, OUT_INT64S, OUT_INT64S, OUT_INT32S, OUT_INT64S, OUT_BYTES,
    )
)  # fmt: skip
def put_all(
    buf, places, sizes, offsets, wanted, first, entries, used,
    slots, hashes, key_at, key_size, last_offsets, arena,
):  # fmt: skip
    """Note the records from ``first`` on that are ``wanted`` and have a key; a later one replaces an earlier one.

    Returns ``(record, entries, used)``: where it stopped because an array is full, and what is in use now.
    """
    for record in range(first, places.size):
        size = np.int64(sizes[record])
        if size < 0 or not wanted[record]:
            continue
        hashed = _hash(buf, places[record], size)
        slot = _find(buf, places[record], size, hashed, slots, hashes, key_at, key_size, arena)
        if slots[slot] != 0:
            last_offsets[slots[slot] - 1] = offsets[record]
            continue
        if entries == hashes.size or used + size > arena.size:
            return record, entries, used
        slots[slot] = entries + 1
        hashes[entries] = hashed
        key_at[entries] = used
        key_size[entries] = size
        last_offsets[entries] = offsets[record]
        copy_bytes(arena, used, buf, places[record], size)
        entries += 1
        used += size
    return places.size, entries, used


@kernel(types.void(BYTES, INT64S, INT32S, INT64S, INT64S, INT64S, INT32S, INT64S, BYTES, OUT_INT64S))
def get_all(buf, places, sizes, slots, hashes, key_at, key_size, last_offsets, arena, found):
    """Look up every record's key; ``ABSENT`` where it is not known or null."""
    for record in range(places.size):
        size = np.int64(sizes[record])
        found[record] = ABSENT
        if size >= 0:
            hashed = _hash(buf, places[record], size)
            slot = _find(buf, places[record], size, hashed, slots, hashes, key_at, key_size, arena)
            if slots[slot] != 0:
                found[record] = last_offsets[slots[slot] - 1]


@kernel(types.void(INT64S, types.int64, OUT_INT64S))
def rehash(hashes, entries, slots):
    """Fill new, empty slots with the entries that are there."""
    mask = slots.size - 1
    for entry in range(entries):
        slot = hashes[entry] & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = entry + 1
