"""Copy bytes and columns of selected frames, and summarise the record batches in them (numba).

A frame's row has the position of its bytes. The caller allocates the arrays and ensures that the bytes exist.
"""

from __future__ import annotations

from kafkaframes.capture import layout
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, MESSAGE_V0, MIN_STATED_BATCH_BYTES, OVERHEAD_BYTES
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, OUT_TABLE, TABLE, kernel, types
from kafkaframes.wire._kernels import copy_bytes, load_i32, load_u8

I64 = types.int64
SIZE_AT, MAGIC_AT, OLD_ATTRIBUTES_AT = (MESSAGE_V0.position_of(name) for name in ("size", "magic", "attributes"))
ATTRIBUTES_AT, COUNT_AT, V2_BYTES = BATCH_V2.position_of("attributes"), BATCH_V2.position_of("count"), BATCH_V2.size


@kernel(types.void(BYTES, TABLE, TABLE, INT64S, I64, INT64S, OUT_BYTES))
def gather_frames(buf, extents, frames, frame_rows, lead, starts, out):
    """Copy bytes of each selected frame to its part of ``out`` (``starts``), skipping the prefix and ``lead`` bytes.

    The caller ensures that the frame has enough captured bytes (F_HAVE).
    """
    for index in range(frame_rows.size):
        row = frame_rows[index]
        to = starts[index]
        size = starts[index + 1] - to
        if frames[row, layout.F_POSITION] >= 0:
            copy_bytes(out, to, buf, frames[row, layout.F_POSITION] + lead, size)
            continue
        extent = frames[row, layout.F_FIRST]
        begin = frames[row, layout.F_BEGIN]
        skip = 4 + lead  # the prefix may span several extents
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
def copy_frame_rows(frames, frame_rows, out):
    """Write the columns of the selected frames, each as a row of ``out``."""
    for index in range(frame_rows.size):
        row = frame_rows[index]
        for column in range(layout.FRAME_COLUMN_COUNT):
            if row >= 0:
                out[column, index] = frames[row, column]
            else:
                out[column, index] = 0 if column in (layout.F_FLAGS, layout.F_MISSING) else -1


@kernel(types.void(BYTES, TABLE, OUT_BYTES))
def copy_ranges(buf, ranges, out):
    """Copy byte ranges. Each row of ``ranges`` is (source position, size, target position)."""
    for row in range(ranges.shape[0]):
        copy_bytes(out, ranges[row, 2], buf, ranges[row, 0], ranges[row, 1])


@kernel(types.void(BYTES, INT64S, INT64S, INT64S, OUT_TABLE, OUT_INT64S))
def summarise_records(buf, starts, sizes, owners, counts, truncations):
    """Count the batches and messages in record sets for each owner, by format and codec, without decompression.

    A row of ``counts`` has batches, records and bytes for each format (0 to 2) and codec (0 to 7). A compressed message
    counts as one record. ``truncations`` counts the sets that end inside a batch or message, as in a Fetch response, if
    enough of it is present to read its format.
    """
    for index in range(starts.size):
        at = starts[index]
        end = at + sizes[index]
        owner = owners[index]
        while at < end:
            if end - at < BYTES_TO_MAGIC:  # Kafka also ignores remaining bytes that are too short for a batch
                break
            size = load_i32(buf, at + SIZE_AT) + OVERHEAD_BYTES
            magic = load_u8(buf, at + MAGIC_AT)
            if magic > 2 or size < MIN_STATED_BATCH_BYTES + OVERHEAD_BYTES or size > end - at:
                truncations[owner] += 1
                break
            codec = (load_u8(buf, at + OLD_ATTRIBUTES_AT) if magic < 2 else load_u8(buf, at + ATTRIBUTES_AT + 1)) & 7
            column = (magic * 8 + codec) * 3
            if magic == 2 and size < V2_BYTES:
                truncations[owner] += 1
                break
            counts[owner, column] += 1
            counts[owner, column + 1] += max(load_i32(buf, at + COUNT_AT), 0) if magic == 2 else 1
            counts[owner, column + 2] += size
            at += size


@kernel(types.void(BYTES, INT64S, INT64S, OUT_INT64S))
def measure_whole_batches(buf, starts, sizes, whole_sizes):
    """Write the number of bytes in whole batches or messages for each record set."""
    for index in range(starts.size):
        at = starts[index]
        end = at + sizes[index]
        while end - at >= BYTES_TO_MAGIC:
            size = load_i32(buf, at + SIZE_AT) + OVERHEAD_BYTES
            magic = load_u8(buf, at + MAGIC_AT)
            if (
                magic > 2
                or size < MIN_STATED_BATCH_BYTES + OVERHEAD_BYTES
                or size > end - at
                or (magic == 2 and size < V2_BYTES)
            ):
                break
            at += size
        whole_sizes[index] = at - starts[index]
