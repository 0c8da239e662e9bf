"""Copy the bytes and columns of chosen frames, and see what batches of records lie in them (numba).

A frame's row says where its bytes are; who calls has seen that they are there, and made the arrays.
"""

from __future__ import annotations

from kafkaframes.capture import layout
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, MESSAGE_V0, MIN_SIZE, OVERHEAD_BYTES
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, OUT_TABLE, TABLE, kernel, types
from kafkaframes.wire._kernels import copy_bytes, load_i32, load_u8

I64 = types.int64
SIZE_AT, MAGIC_AT, OLD_ATTRIBUTES_AT = (MESSAGE_V0.position_of(name) for name in ("size", "magic", "attributes"))
ATTRIBUTES_AT, COUNT_AT, V2_BYTES = BATCH_V2.position_of("attributes"), BATCH_V2.position_of("count"), BATCH_V2.size


@kernel(types.void(BYTES, TABLE, TABLE, INT64S, I64, INT64S, OUT_BYTES))
def gather(buf, extents, frames, chosen, lead, starts, out):
    """Copy bytes of each chosen frame to its part of ``out`` (``starts``), from ``lead`` bytes after its prefix on.

    Who calls has seen that so many bytes are there (F_HAVE).
    """
    for index in range(chosen.size):
        row = chosen[index]
        to = starts[index]
        size = starts[index + 1] - to
        if frames[row, layout.F_POSITION] >= 0:
            copy_bytes(out, to, buf, frames[row, layout.F_POSITION] + lead, size)
            continue
        extent = frames[row, layout.F_FIRST]
        begin = frames[row, layout.F_BEGIN]
        skip = 4 + lead  # the prefix may lie in more than one extent
        while size > 0:
            there = (
                extents[extent, layout.E_POSITION]
                + extents[extent, layout.E_END]
                - extents[extent, layout.E_OFFSET]
                - begin
            )
            step = min(skip, there)
            skip -= step
            take = min(there - step, size)
            copy_bytes(out, to, buf, begin + step, take)
            to += take
            size -= take
            extent += 1
            begin = extents[extent, layout.E_POSITION] if extent < extents.shape[0] else 0


@kernel(types.void(TABLE, INT64S, OUT_TABLE))
def take_frames(frames, chosen, out):
    """Write the columns of the chosen frames, each in a row of ``out``."""
    for index in range(chosen.size):
        row = chosen[index]
        for column in range(layout.FRAME_COLUMNS):
            if row >= 0:
                out[column, index] = frames[row, column]
            else:
                out[column, index] = 0 if column in (layout.F_FLAGS, layout.F_MISSING) else -1


@kernel(types.void(BYTES, TABLE, OUT_BYTES))
def copy_stretches(buf, stretches, out):
    """Copy bytes: a row of ``stretches`` is where from, how many, where to."""
    for row in range(stretches.shape[0]):
        copy_bytes(out, stretches[row, 2], buf, stretches[row, 0], stretches[row, 1])


@kernel(types.void(BYTES, INT64S, INT64S, INT64S, OUT_TABLE, OUT_INT64S))
def summarise_records(buf, starts, sizes, owners, counts, cut):
    """Count the batches and messages of sets of records by format and codec, for each owner; nothing is decompressed.

    A row of ``counts`` has for each format (0 to 2) and codec (0 to 7) batches, records and bytes; messages inside a
    compressed one are not counted. ``cut``: sets that end inside a batch or message, as a Fetch may cut them, with
    enough of it to tell its format.
    """
    for index in range(starts.size):
        at = starts[index]
        end = at + sizes[index]
        owner = owners[index]
        while at < end:
            if end - at < BYTES_TO_MAGIC:  # Kafka does not look at so little either
                break
            size = load_i32(buf, at + SIZE_AT) + OVERHEAD_BYTES
            magic = load_u8(buf, at + MAGIC_AT)
            if magic > 2 or size < MIN_SIZE + OVERHEAD_BYTES or size > end - at:
                cut[owner] += 1
                break
            codec = (load_u8(buf, at + OLD_ATTRIBUTES_AT) if magic < 2 else load_u8(buf, at + ATTRIBUTES_AT + 1)) & 7
            column = (magic * 8 + codec) * 3
            if magic == 2 and size < V2_BYTES:
                cut[owner] += 1
                break
            counts[owner, column] += 1
            counts[owner, column + 1] += max(load_i32(buf, at + COUNT_AT), 0) if magic == 2 else 1
            counts[owner, column + 2] += size
            at += size


@kernel(types.void(BYTES, INT64S, INT64S, OUT_INT64S))
def whole_batches(buf, starts, sizes, wholes):
    """Tell for each set of records how many of its bytes are whole batches or messages."""
    for index in range(starts.size):
        at = starts[index]
        end = at + sizes[index]
        while end - at >= BYTES_TO_MAGIC:
            size = load_i32(buf, at + SIZE_AT) + OVERHEAD_BYTES
            magic = load_u8(buf, at + MAGIC_AT)
            if magic > 2 or size < MIN_SIZE + OVERHEAD_BYTES or size > end - at or (magic == 2 and size < V2_BYTES):
                break
            at += size
        wholes[index] = at - starts[index]
