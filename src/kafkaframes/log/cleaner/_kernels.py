"""The map from keys to their last offset (numba). Start reading at ``offset_map.py``, not here.

Open addressing: ``slots`` has two numbers a slot (an entry's number plus one, 0 for empty; the key's hash), ``entries``
three an entry (where its key starts in ``arena``, its size, the last offset): one cache line each. Keys stand there in
full, so that two keys are the same only if their bytes are. Arrays and integers in, integers out; the caller grows the
arrays. The plain twin is ``_reference.py``; one test runs both.
"""

import numpy as np
from numba import types

from kafkaframes.wire._jit import BYTES, INT32S, INT64S, OUT_BYTES, OUT_INT64S, device, inlined, kernel
from kafkaframes.wire._kernels import address_of, copy_bytes, load_i64, load_u8

ABSENT = -1
PER_SLOT, PER_ENTRY = 2, 3
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@device
def _mix(value, word):
    value = (value ^ word) * _MULTIPLIER
    return value ^ (value >> _SHIFT)


@device
def _hash(address, start, size):
    value = np.uint64(size) * _MULTIPLIER
    position, end = start, start + size
    while end - position >= 8:
        value = _mix(value, np.uint64(load_i64(address, position)))
        position += 8
    while position < end:
        value = _mix(value, np.uint64(load_u8(address, position)))
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
        if load_u8(one, at + done) != load_u8(other, place + done):
            return False
        done += 1
    return True


@inlined
def _find(address, start, size, hashed, slots, entries, arena_address):
    """Return the place in ``slots`` of a key: its own slot, or the empty one where it belongs."""
    mask = slots.size // 2 - 1
    slot = hashed & mask
    while slots[2 * slot] != 0:
        if slots[2 * slot + 1] == hashed:
            entry = 3 * (slots[2 * slot] - 1)
            if entries[entry + 1] == size and _same(address, start, arena_address, entries[entry], size):
                break
        slot = (slot + 1) & mask
    return 2 * slot


@kernel(
    types.UniTuple(types.int64, 3)(
        BYTES, INT64S, INT32S, INT64S, BYTES, types.int64, types.int64, types.int64,
        OUT_INT64S, OUT_INT64S, OUT_BYTES,
    )
)  # fmt: skip
def put_all(buf, places, sizes, offsets, wanted, first, count, used, slots, entries, arena):
    """Note the records from ``first`` on that are ``wanted`` and have a key; a later one replaces an earlier one.

    Returns ``(record, count, used)``: where it stopped because an array is full, and what is in use now.
    """
    address, arena_address = address_of(buf), address_of(arena)
    for record in range(first, places.size):
        size = np.int64(sizes[record])
        if size < 0 or not wanted[record]:
            continue
        hashed = _hash(address, places[record], size)
        slot = _find(address, places[record], size, hashed, slots, entries, arena_address)
        if slots[slot] != 0:
            entries[3 * (slots[slot] - 1) + 2] = offsets[record]
            continue
        if 3 * count == entries.size or used + size > arena.size:
            return record, count, used
        slots[slot] = count + 1
        slots[slot + 1] = hashed
        entries[3 * count] = used
        entries[3 * count + 1] = size
        entries[3 * count + 2] = offsets[record]
        copy_bytes(arena, used, buf, places[record], size)
        count += 1
        used += size
    return places.size, count, used


@kernel(types.void(BYTES, INT64S, INT32S, INT64S, INT64S, BYTES, OUT_INT64S))
def get_all(buf, places, sizes, slots, entries, arena, found):
    """Look up every record's key; ``ABSENT`` where it is not known or null."""
    address, arena_address = address_of(buf), address_of(arena)
    for record in range(places.size):
        size = np.int64(sizes[record])
        found[record] = ABSENT
        if size >= 0:
            hashed = _hash(address, places[record], size)
            slot = _find(address, places[record], size, hashed, slots, entries, arena_address)
            if slots[slot] != 0:
                found[record] = entries[3 * (slots[slot] - 1) + 2]


@kernel(types.void(INT64S, OUT_INT64S))
def rehash(old, slots):
    """Move the slots that are in use into new, empty ones."""
    mask = slots.size // 2 - 1
    for place in range(0, old.size, 2):
        if old[place] != 0:
            slot = old[place + 1] & mask
            while slots[2 * slot] != 0:
                slot = (slot + 1) & mask
            slots[2 * slot] = old[place]
            slots[2 * slot + 1] = old[place + 1]
