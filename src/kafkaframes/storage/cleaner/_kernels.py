"""The map from keys to their last record (numba). Start reading at ``latest.py``, not here.

Open addressing, ``PER_SLOT`` numbers a slot, two slots a cache line: where the key stands in ``arena`` (plus one; 0 for
an empty slot), its hash, the last offset, the number of the last record. Keys stand there in full behind their size, so
that two keys are the same only if their bytes are. A map of millions of keys is in no cache: slots and keys are fetched
some records ahead. Arrays and integers in, integers out; the caller grows the arrays. The plain twin is
``tests/storage/cleaner/reference.py``; one test runs both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkaframes.wire._jit import (
    BYTES,
    INT32S,
    INT64S,
    OUT_BYTES,
    OUT_INT64S,
    cgutils,
    device,
    inlined,
    intrinsic,
    ir,
    kernel,
    plain,
    types,
)
from kafkaframes.wire._kernels import address_of, copy_bytes, load_i64, load_u8

ABSENT = -1
PER_SLOT = 4
SIZE_BYTES = 4  # before each key
# The map grows when more than this number of each eight slots are in use.
FULLEST = 5
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
# Of 8 to 32 records ahead these were the best on 8 million keys (2026-11-21).
_SLOTS_AHEAD, _KEYS_AHEAD = 24, 12


@intrinsic(plain.nothing)
def prefetch(typingctx: Any, address: Any) -> Any:
    """Ask for the cache line at an address; a wrong address does no harm."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [builder.inttoptr(args[0], pointer), to_read, keep, data])
        return context.get_dummy_value()

    return types.none(types.int64), code


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
def _same(first, at, other, other_at, size):
    done = 0
    while size - done >= 8:
        if load_i64(first, at + done) != load_i64(other, other_at + done):
            return False
        done += 8
    while done < size:
        if load_u8(first, at + done) != load_u8(other, other_at + done):
            return False
        done += 1
    return True


@kernel(types.void(BYTES, INT64S, INT32S, OUT_INT64S))
def hash_all(buf, positions, sizes, hashes):
    """Hash every record's key; 0 for null."""
    address = address_of(buf)
    for record in range(positions.size):
        size = np.int64(sizes[record])
        hashes[record] = _hash(address, positions[record], size) if size >= 0 else 0


@inlined
def _fetch_ahead(record, hashes, slots, arena_address, mask):
    ahead = record + _SLOTS_AHEAD
    if ahead < hashes.size:
        prefetch(address_of(slots) + 8 * PER_SLOT * (hashes[ahead] & mask))
        near = slots[PER_SLOT * (hashes[record + _KEYS_AHEAD] & mask)]
        if near != 0:
            prefetch(arena_address + near - 1)


@inlined
def _find(address, start, size, hashed, slots, arena_address, mask):
    """Return the place in ``slots`` of a key: its own slot, or the empty one where it belongs."""
    slot = hashed & mask
    while slots[PER_SLOT * slot] != 0:
        if slots[PER_SLOT * slot + 1] == hashed:
            position = slots[PER_SLOT * slot] - 1
            if _size_of(arena_address, position) == size and _same(
                address, start, arena_address, position + SIZE_BYTES, size
            ):
                break
        slot = (slot + 1) & mask
    return PER_SLOT * slot


@inlined
def _size_of(arena_address, position):
    return (
        load_u8(arena_address, position)
        | load_u8(arena_address, position + 1) << 8
        | load_u8(arena_address, position + 2) << 16
        | load_u8(arena_address, position + 3) << 24
    )


@kernel(
    types.UniTuple(types.int64, 4)(
        BYTES, INT64S, INT32S, INT64S, BYTES, INT64S, types.int64, types.int64, types.int64, types.int64,
        OUT_INT64S, OUT_BYTES, OUT_BYTES,
    )
)  # fmt: skip
def put_all(buf, positions, sizes, offsets, selected, hashes, number, first, count, used, slots, arena, dead):
    """Note the records from ``first`` on that are ``selected`` and have a key; a later one replaces an earlier one.

    ``number`` is the first record's; the bit in ``dead`` of a record that is replaced is set. Returns ``(record,
    count, used, fell)``: where it stopped because an array is full, what is in use now, and how many records had an
    offset that is not above that of the record they replaced.
    """
    address, arena_address = address_of(buf), address_of(arena)
    slot_count = slots.size // PER_SLOT
    mask, most, fell = slot_count - 1, slot_count * FULLEST // 8, 0
    for record in range(first, positions.size):
        _fetch_ahead(record, hashes, slots, arena_address, mask)
        size = np.int64(sizes[record])
        if size < 0 or not selected[record]:
            continue
        slot = _find(address, positions[record], size, hashes[record], slots, arena_address, mask)
        if slots[slot] != 0:
            fell += offsets[record] <= slots[slot + 2]
            old = slots[slot + 3]
            dead[old >> 3] |= 1 << (old & 7)
        else:
            if count == most or used + SIZE_BYTES + size > arena.size:
                return record, count, used, fell
            slots[slot] = used + 1
            slots[slot + 1] = hashes[record]
            for byte in range(SIZE_BYTES):
                arena[used + byte] = (size >> (8 * byte)) & 0xFF
            copy_bytes(arena, used + SIZE_BYTES, buf, positions[record], size)
            count += 1
            used += SIZE_BYTES + size
        slots[slot + 2] = offsets[record]
        slots[slot + 3] = number + record
    return positions.size, count, used, fell


@kernel(types.void(BYTES, INT64S, INT32S, INT64S, INT64S, BYTES, OUT_INT64S))
def get_all(buf, positions, sizes, hashes, slots, arena, latest):
    """Look up the last offset of every record's key; ``ABSENT`` where it is not known or null."""
    address, arena_address = address_of(buf), address_of(arena)
    mask = slots.size // PER_SLOT - 1
    for record in range(positions.size):
        _fetch_ahead(record, hashes, slots, arena_address, mask)
        size = np.int64(sizes[record])
        latest[record] = ABSENT
        if size >= 0:
            slot = _find(address, positions[record], size, hashes[record], slots, arena_address, mask)
            if slots[slot] != 0:
                latest[record] = slots[slot + 2]


@kernel(types.void(INT64S, OUT_INT64S))
def rehash(old, slots):
    """Move the slots that are in use into new, empty ones."""
    mask = slots.size // PER_SLOT - 1
    for entry in range(0, old.size, PER_SLOT):
        if old[entry] != 0:
            slot = old[entry + 1] & mask
            while slots[PER_SLOT * slot] != 0:
                slot = (slot + 1) & mask
            for word in range(PER_SLOT):
                slots[PER_SLOT * slot + word] = old[entry + word]
