"""What is missing of one side of a connection: whether it will still come, and the gaps that are written (numba).

Bytes are missing where a packet was not captured, or only in part (the snap length of the capture).
"""

from __future__ import annotations

from kafkaframes.capture.layout import (
    C_AT,
    C_DIRECTION,
    C_EXTENT,
    C_FIRST,
    C_GAP,
    C_GAPS,
    C_LAST,
    C_RESPONSE,
    C_START,
    E_END,
    E_OFFSET,
    E_ROW,
    G_DIRECTION,
    G_NUMBER,
    G_OFFSET,
    G_REASON,
    G_RESPONSE,
    G_SIZE,
    G_TIME,
    IN_PART,
    LENGTH,
    LOST_BYTES,
    NUMBER,
    OFFSET,
    S_FLUSH,
    S_NOW,
    S_PATIENCE_BYTES,
    S_PATIENCE_NS,
    S_PATIENCE_ROWS,
    SNAPPED,
    TIME,
    W_HAVE,
    W_LAST,
    W_MISSING,
    W_NUMBER,
    W_TIME,
    WAITS,
    WHOLE,
)
from kafkaframes.wire._jit import device


@device
def record_gap(rows, extents, gaps, cut, start, size, reason, extent):
    """Write a gap of the side; ``extent`` is what follows it."""
    row = cut[C_GAP]
    gaps[row, G_DIRECTION] = cut[C_DIRECTION]
    gaps[row, G_OFFSET] = start - cut[C_START]
    gaps[row, G_SIZE] = size
    gaps[row, G_REASON] = reason
    gaps[row, G_TIME] = rows[extents[extent, E_ROW], TIME] if extent < cut[C_LAST] else -1
    gaps[row, G_NUMBER] = rows[extents[extent, E_ROW], NUMBER] if extent < cut[C_LAST] else -1
    gaps[row, G_RESPONSE] = cut[C_RESPONSE]
    cut[C_GAP] += 1
    cut[C_GAPS] += 1


@device
def is_snapped(rows, extents, extent, first, at):
    """Tell whether the packet before ``extent`` had the bytes at ``at``, and the file has not."""
    if extent == first:
        return False
    row = extents[extent - 1, E_ROW]
    return rows[row, OFFSET] + rows[row, LENGTH] > at


@device
def is_final(rows, extents, settings, cut, extent, at):
    """Tell whether what is missing before ``extent`` will not come any more."""
    last = cut[C_LAST]
    if settings[S_FLUSH] or last - extent > settings[S_PATIENCE_ROWS]:
        return True
    if extents[last - 1, E_END] - extents[extent, E_OFFSET] > settings[S_PATIENCE_BYTES]:
        return True
    if is_snapped(rows, extents, extent, cut[C_FIRST], at):
        return True
    return settings[S_NOW] - rows[extents[extent, E_ROW], TIME] > settings[S_PATIENCE_NS]


@device
def missing_reason(rows, extents, cut, extent, at):
    return SNAPPED if is_snapped(rows, extents, extent, cut[C_FIRST], at) else LOST_BYTES


@device
def walk(rows, extents, settings, cut, end, walked):
    """See how much of the frame from here to ``end`` is there, and write it to ``walked``.

    Returns WHOLE, IN_PART where something is missing for good, or WAITS where it may still come.
    """
    start = at = cut[C_AT]
    extent = cut[C_EXTENT]
    last = cut[C_LAST]
    missing = 0
    have = -1
    latest = rows[extents[extent, E_ROW], TIME]
    number = rows[extents[extent, E_ROW], NUMBER]
    while at < end:
        if extent == last:
            if not settings[S_FLUSH]:
                return WAITS
            have = at - start if have < 0 else have
            missing += end - at
            break
        begin = extents[extent, E_OFFSET]
        if begin > at:
            begin = min(begin, end)
            if not is_final(rows, extents, settings, cut, extent, at):
                return WAITS
            have = at - start if have < 0 else have
            missing += begin - at
            at = begin
            continue
        latest = max(latest, rows[extents[extent, E_ROW], TIME])
        number = max(number, rows[extents[extent, E_ROW], NUMBER])
        at = min(extents[extent, E_END], end)
        if extents[extent, E_END] <= end:
            extent += 1
    walked[W_MISSING] = missing
    walked[W_HAVE] = have if have >= 0 else end - start
    walked[W_TIME] = latest
    walked[W_LAST] = min(extent + 1, last)
    walked[W_NUMBER] = number
    return IN_PART if missing else WHOLE
