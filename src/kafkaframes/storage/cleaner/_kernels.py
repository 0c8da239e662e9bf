"""The cleaner's map of keys, and digests of keys (numba). ``latest.py`` and ``exchange.py`` use the kernels.

The map (``latest.py``) uses open addressing, with ``INT64S_PER_SLOT`` numbers per slot and two slots per cache line. A
slot has the position of the key in ``arena`` plus one (0 for an empty slot), its hash, its last offset, and the number
of its last record. The arena has each key's size and bytes, so two keys are equal only if their bytes are equal. A map
with millions of keys does not fit the CPU caches, so slots and keys are prefetched some records ahead. The caller grows
the arrays of the map.

A digest (``exchange.py``) is two numbers: SipHash-1-3 with 128 bits. The secret is chosen for each job, so that record
keys cannot be constructed to collide. The lowest bit of the first number is set if the record may replace earlier
records. The highest bits of the second number are the bucket of the digest.

Inputs are arrays and integers, results are integers. The plain equivalents are in
``tests/storage/cleaner/reference.py``. A test compares the kernels with their plain equivalents.
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
    inline_device,
    intrinsic,
    ir,
    kernel,
    plain,
    types,
)
from kafkaframes.wire._kernels import _load_u64_le, address_of, copy_bytes, load_i64, load_u8

KEY_ABSENT = -1
INT64S_PER_SLOT = 4
KEY_SIZE_BYTES = 4  # size field before each key
MAX_USED_EIGHTHS = 5  # the map grows if more than 5/8 of its slots are in use
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(29)
# Prefetch distances in records. Among 8 to 32, these were the fastest with 8 million keys (2026-11-21).
_SLOTS_AHEAD, _KEYS_AHEAD = 24, 12


@intrinsic(plain.do_nothing)
def prefetch(typingctx: Any, address: Any) -> Any:
    """Prefetch the cache line at an address. An invalid address is harmless."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [builder.inttoptr(args[0], pointer), to_read, keep, data])
        return context.get_dummy_value()

    return types.none(types.int64), codegen


@device
def _mix_word(value, word):
    value = (value ^ word) * _HASH_MULTIPLIER
    return value ^ (value >> _HASH_SHIFT)


@device
def _hash_key(address, start, size):
    value = np.uint64(size) * _HASH_MULTIPLIER
    position, end = start, start + size
    while end - position >= 8:
        value = _mix_word(value, np.uint64(load_i64(address, position)))
        position += 8
    while position < end:
        value = _mix_word(value, np.uint64(load_u8(address, position)))
        position += 1
    return np.int64(_mix_word(value, np.uint64(0)) >> np.uint64(1))


@device
def _equal_bytes(address, start, other_address, other_start, size):
    compared_bytes = 0
    while size - compared_bytes >= 8:
        if load_i64(address, start + compared_bytes) != load_i64(other_address, other_start + compared_bytes):
            return False
        compared_bytes += 8
    while compared_bytes < size:
        if load_u8(address, start + compared_bytes) != load_u8(other_address, other_start + compared_bytes):
            return False
        compared_bytes += 1
    return True


@kernel(types.void(BYTES, INT64S, INT32S, OUT_INT64S))
def hash_keys(buf, positions, sizes, hashes):
    """Hash every record's key; the hash of a null key is 0."""
    address = address_of(buf)
    for record in range(positions.size):
        size = np.int64(sizes[record])
        hashes[record] = _hash_key(address, positions[record], size) if size >= 0 else 0


@inline_device
def _prefetch_slots(record, hashes, slots, arena_address, mask):
    ahead = record + _SLOTS_AHEAD
    if ahead < hashes.size:
        prefetch(address_of(slots) + 8 * INT64S_PER_SLOT * (hashes[ahead] & mask))
        near = slots[INT64S_PER_SLOT * (hashes[record + _KEYS_AHEAD] & mask)]
        if near != 0:
            prefetch(arena_address + near - 1)


@inline_device
def _find_slot(address, start, size, hash_value, slots, arena_address, mask):
    """Return a key's index in ``slots``: the slot that contains it, or the empty slot for it."""
    slot = hash_value & mask
    while slots[INT64S_PER_SLOT * slot] != 0:
        if slots[INT64S_PER_SLOT * slot + 1] == hash_value:
            position = slots[INT64S_PER_SLOT * slot] - 1
            if _read_key_size(arena_address, position) == size and _equal_bytes(
                address, start, arena_address, position + KEY_SIZE_BYTES, size
            ):
                break
        slot = (slot + 1) & mask
    return INT64S_PER_SLOT * slot


@inline_device
def _read_key_size(arena_address, position):
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
def put_keys(buf, positions, sizes, offsets, is_selected, hashes, number, first, count, used_bytes, slots, arena, dead):
    """Add the selected records that have a key, from ``first`` on. A later record replaces an earlier one of its key.

    Returns ``(record, count, used_bytes, descending_count)``: the record at which the call stopped because an array is
    full, the new ``count`` and ``used_bytes``, and the number of records with an offset that is not above that of the
    replaced record.

    Args:
        buf: uint8[]; contains the keys.
        positions: int64[records]; start of each key in ``buf``.
        sizes: int32[records]; size of each key in bytes, -1 for null.
        offsets: int64[records]; offset of each record.
        is_selected: uint8[records]; 0 for a record that is not added.
        hashes: int64[records]; hashes of the keys from ``hash_keys``.
        number: number of record 0, counted over all calls.
        first: record at which this call starts.
        count: number of keys in ``slots``.
        used_bytes: number of used bytes in ``arena``.
        slots: int64[INT64S_PER_SLOT * a power of 2]; the map.
        arena: uint8[]; the keys.
        dead: uint8[]; bits by record number, set for replaced records.
    """
    address, arena_address = address_of(buf), address_of(arena)
    slot_count = slots.size // INT64S_PER_SLOT
    mask, max_entries, descending_count = slot_count - 1, slot_count * MAX_USED_EIGHTHS // 8, 0
    for record in range(first, positions.size):
        _prefetch_slots(record, hashes, slots, arena_address, mask)
        size = np.int64(sizes[record])
        if size < 0 or not is_selected[record]:
            continue
        slot = _find_slot(address, positions[record], size, hashes[record], slots, arena_address, mask)
        if slots[slot] != 0:
            descending_count += offsets[record] <= slots[slot + 2]
            replaced_number = slots[slot + 3]
            dead[replaced_number >> 3] |= 1 << (replaced_number & 7)
        else:
            if count == max_entries or used_bytes + KEY_SIZE_BYTES + size > arena.size:
                return record, count, used_bytes, descending_count
            slots[slot] = used_bytes + 1
            slots[slot + 1] = hashes[record]
            for byte in range(KEY_SIZE_BYTES):
                arena[used_bytes + byte] = (size >> (8 * byte)) & 0xFF
            copy_bytes(arena, used_bytes + KEY_SIZE_BYTES, buf, positions[record], size)
            count += 1
            used_bytes += KEY_SIZE_BYTES + size
        slots[slot + 2] = offsets[record]
        slots[slot + 3] = number + record
    return positions.size, count, used_bytes, descending_count


@kernel(types.void(BYTES, INT64S, INT32S, INT64S, INT64S, BYTES, OUT_INT64S))
def get_latest_offsets(buf, positions, sizes, hashes, slots, arena, latest):
    """Look up the last offset of every record's key; ``KEY_ABSENT`` if the key is null or not in the map."""
    address, arena_address = address_of(buf), address_of(arena)
    mask = slots.size // INT64S_PER_SLOT - 1
    for record in range(positions.size):
        _prefetch_slots(record, hashes, slots, arena_address, mask)
        size = np.int64(sizes[record])
        latest[record] = KEY_ABSENT
        if size >= 0:
            slot = _find_slot(address, positions[record], size, hashes[record], slots, arena_address, mask)
            if slots[slot] != 0:
                latest[record] = slots[slot + 2]


@kernel(types.void(INT64S, OUT_INT64S))
def copy_slots(old_slots, slots):
    """Copy the used slots into a new, empty array."""
    mask = slots.size // INT64S_PER_SLOT - 1
    for entry in range(0, old_slots.size, INT64S_PER_SLOT):
        if old_slots[entry] != 0:
            slot = old_slots[entry + 1] & mask
            while slots[INT64S_PER_SLOT * slot] != 0:
                slot = (slot + 1) & mask
            for word in range(INT64S_PER_SLOT):
                slots[INT64S_PER_SLOT * slot + word] = old_slots[entry + word]


MAX_BUCKETS = 1 << 15  # bucket numbers have 16 bits
# Instead of a bucket number: a later record of the call replaces this one, or the record has no key.
SUPERSEDED, KEYLESS = 0xFFFE, 0xFFFF
UINT16S = types.Array(types.uint16, 1, "C", readonly=True)
OUT_UINT16S = types.Array(types.uint16, 1, "C")
_SEEN_SLOT_SHIFT = np.uint64(7)
_LOWEST_BIT = np.int64(1)


@inline_device
def _rotate_left(value, bits):
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inline_device
def _siphash_round(v0, v1, v2, v3):
    v0 = v0 + v1
    v1 = _rotate_left(v1, 13) ^ v0
    v0 = _rotate_left(v0, 32)
    v2 = v2 + v3
    v3 = _rotate_left(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _rotate_left(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _rotate_left(v1, 17) ^ v2
    v2 = _rotate_left(v2, 32)
    return v0, v1, v2, v3


@inline_device
def _siphash_three_rounds(v0, v1, v2, v3):
    for _ in range(3):
        v0, v1, v2, v3 = _siphash_round(v0, v1, v2, v3)
    return v0, v1, v2, v3


@inline_device
def _siphash_word(v0, v1, v2, v3, word):
    v0, v1, v2, v3 = _siphash_round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@device
def _siphash_key(address, start, size, key0, key1):
    v0 = key0 ^ np.uint64(0x736F6D6570736575)
    v1 = key1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    v2 = key0 ^ np.uint64(0x6C7967656E657261)
    v3 = key1 ^ np.uint64(0x7465646279746573)
    position, end = start, start + size
    while end - position >= 8:
        v0, v1, v2, v3 = _siphash_word(v0, v1, v2, v3, _load_u64_le(address, position))
        position += 8
    last = np.uint64(size & 0xFF) << np.uint64(56)
    for byte in range(end - position):
        last |= np.uint64(load_u8(address, position + byte)) << np.uint64(8 * byte)
    v0, v1, v2, v3 = _siphash_word(v0, v1, v2, v3, last)
    v0, v1, v2, v3 = _siphash_three_rounds(v0, v1, v2 ^ np.uint64(0xEE), v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _siphash_three_rounds(v0, v1 ^ np.uint64(0xDD), v2, v3)
    return np.int64(low), np.int64(v0 ^ v1 ^ v2 ^ v3)


@kernel(types.void(BYTES, INT64S, INT32S, types.int64, types.int64, OUT_INT64S))
def digest_keys(buf, positions, sizes, key0, key1, digests):
    """Compute the digest of every record's key, two numbers each. Null keys are skipped."""
    address = address_of(buf)
    for record in range(positions.size):
        size = np.int64(sizes[record])
        if size >= 0:
            low, high = _siphash_key(address, positions[record], size, np.uint64(key0), np.uint64(key1))
            digests[2 * record] = low
            digests[2 * record + 1] = high


@kernel(types.void(INT64S, INT32S, BYTES, types.int64, OUT_INT64S, OUT_UINT16S))
def fill_record_buckets(digests, sizes, is_selected, shift, seen_digests, record_buckets):
    """Write the bucket number of each record's key, unless it is null or a later selected record of this call has it.

    ``seen_digests`` is a small cache, initialized with zeros. If this cache forgets a digest, the only cost is an
    unnecessary entry.
    """
    mask = np.uint64(seen_digests.size // 2 - 1)
    for record in range(sizes.size - 1, -1, -1):
        if sizes[record] < 0:
            record_buckets[record] = KEYLESS
            continue
        low, high = digests[2 * record] | _LOWEST_BIT, digests[2 * record + 1]
        slot = 2 * np.int64((np.uint64(low) >> _SEEN_SLOT_SHIFT) & mask)
        if seen_digests[slot] == low and seen_digests[slot + 1] == high:
            record_buckets[record] = SUPERSEDED
            continue
        record_buckets[record] = np.uint64(high) >> np.uint64(shift)
        if is_selected[record]:
            seen_digests[slot] = low
            seen_digests[slot + 1] = high


@kernel(
    types.UniTuple(types.int64, 2)(
        INT64S, BYTES, UINT16S, types.int64, types.int64, OUT_INT64S, OUT_INT64S
    )
)  # fmt: skip
def append_entries(digests, is_selected, record_buckets, first, used_entries, entries, counts):
    """Append the records that have a bucket; return ``(record, used)`` when ``entries`` is full or all are appended."""
    for record in range(first, record_buckets.size):
        bucket = np.int64(record_buckets[record])
        if bucket < MAX_BUCKETS:
            if 2 * used_entries == entries.size:
                return record, used_entries
            entries[2 * used_entries] = (digests[2 * record] & ~_LOWEST_BIT) | np.int64(is_selected[record])
            entries[2 * used_entries + 1] = digests[2 * record + 1]
            counts[bucket] += 1
            used_entries += 1
    return record_buckets.size, used_entries


@kernel(types.void(INT64S, types.int64, types.int64, OUT_INT64S, OUT_INT64S))
def sort_entries(entries, used_entries, shift, positions, out):
    """Sort entries by bucket, keeping their order. ``positions`` are the starts of the buckets and are advanced."""
    for entry in range(used_entries):
        high = entries[2 * entry + 1]
        bucket = np.int64(np.uint64(high) >> np.uint64(shift))
        position = positions[bucket]
        out[2 * position] = entries[2 * entry]
        out[2 * position + 1] = high
        positions[bucket] = position + 1


@kernel(types.void(INT64S, OUT_INT64S, OUT_BYTES))
def find_latest_entries(entries, table, latest):
    """Set for each entry of a bucket whether no later selected entry has its digest. ``table`` starts with zeros."""
    mask = np.uint64(table.size // 2 - 1)
    for entry in range(entries.size // 2 - 1, -1, -1):
        low, high = entries[2 * entry] | _LOWEST_BIT, entries[2 * entry + 1]
        slot = 2 * np.int64((np.uint64(low) >> _SEEN_SLOT_SHIFT) & mask)
        while table[slot] != 0 and (table[slot] != low or table[slot + 1] != high):
            slot = 2 * np.int64((np.uint64(slot // 2) + np.uint64(1)) & mask)
        latest[entry] = table[slot] == 0
        if latest[entry] and entries[2 * entry] & _LOWEST_BIT:
            table[slot] = low
            table[slot + 1] = high


@kernel(
    types.UniTuple(types.int64, 2)(UINT16S, types.int64, types.int64, OUT_INT64S, BYTES, OUT_BYTES)
)  # fmt: skip
def read_verdicts(record_buckets, first, remaining, cursors, bits, latest):
    """Read each record's bit at its bucket's cursor; return ``(next record, remaining)`` at the end of a run."""
    for record in range(first, record_buckets.size):
        bucket = np.int64(record_buckets[record])
        latest[record] = 0
        if bucket < MAX_BUCKETS:
            if remaining == 0:
                return record, remaining
            position = cursors[bucket]
            latest[record] = (bits[position >> 3] >> (position & 7)) & 1
            cursors[bucket] = position + 1
            remaining -= 1
    return record_buckets.size, remaining
