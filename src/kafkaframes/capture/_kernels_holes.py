"""What is missing of one side of a connection: whether it will still come, and the gaps that are written (numba).

Bytes are missing where a packet was not captured, or only in part (the snap length of the capture).
"""

from __future__ import annotations

from kafkaframes.capture import layout
from kafkaframes.wire._jit import device


@device
def record_gap(rows, extents, gaps, cut, start, size, reason, extent):
    """Write a gap of the side; ``extent`` is what follows it."""
    row = cut[layout.C_GAP]
    gaps[row, layout.G_DIRECTION] = cut[layout.C_DIRECTION]
    gaps[row, layout.G_OFFSET] = start - cut[layout.C_START]
    gaps[row, layout.G_SIZE] = size
    gaps[row, layout.G_REASON] = reason
    gaps[row, layout.G_TIME] = rows[extents[extent, layout.E_ROW], layout.TIME] if extent < cut[layout.C_LAST] else -1
    gaps[row, layout.G_NUMBER] = (
        rows[extents[extent, layout.E_ROW], layout.NUMBER] if extent < cut[layout.C_LAST] else -1
    )
    gaps[row, layout.G_RESPONSE] = cut[layout.C_RESPONSE]
    cut[layout.C_GAP] += 1
    cut[layout.C_GAPS] += 1


@device
def is_snapped(rows, extents, extent, first, at):
    """Tell whether the packet before ``extent`` had the bytes at ``at``, and the file has not."""
    if extent == first:
        return False
    row = extents[extent - 1, layout.E_ROW]
    return rows[row, layout.OFFSET] + rows[row, layout.LENGTH] > at


@device
def is_final(rows, extents, settings, cut, extent, at):
    """Tell whether what is missing before ``extent`` will not come any more."""
    last = cut[layout.C_LAST]
    if settings[layout.S_FLUSH] or last - extent > settings[layout.S_PATIENCE_ROWS]:
        return True
    if extents[last - 1, layout.E_END] - extents[extent, layout.E_OFFSET] > settings[layout.S_PATIENCE_BYTES]:
        return True
    if is_snapped(rows, extents, extent, cut[layout.C_FIRST], at):
        return True
    return settings[layout.S_NOW] - rows[extents[extent, layout.E_ROW], layout.TIME] > settings[layout.S_PATIENCE_NS]


@device
def missing_reason(rows, extents, cut, extent, at):
    return layout.SNAPPED if is_snapped(rows, extents, extent, cut[layout.C_FIRST], at) else layout.LOST_BYTES


@device
def walk(rows, extents, settings, cut, end, walked):
    """See how much of the frame from here to ``end`` is there, and write it to ``walked``.

    Returns WHOLE, IN_PART where something is missing for good, or WAITS where it may still come.
    """
    start = at = cut[layout.C_AT]
    extent = cut[layout.C_EXTENT]
    last = cut[layout.C_LAST]
    missing = 0
    have = -1
    latest = rows[extents[extent, layout.E_ROW], layout.TIME]
    number = rows[extents[extent, layout.E_ROW], layout.NUMBER]
    while at < end:
        if extent == last:
            if not settings[layout.S_FLUSH]:
                return layout.WAITS
            have = at - start if have < 0 else have
            missing += end - at
            break
        begin = extents[extent, layout.E_OFFSET]
        if begin > at:
            begin = min(begin, end)
            if not is_final(rows, extents, settings, cut, extent, at):
                return layout.WAITS
            have = at - start if have < 0 else have
            missing += begin - at
            at = begin
            continue
        latest = max(latest, rows[extents[extent, layout.E_ROW], layout.TIME])
        number = max(number, rows[extents[extent, layout.E_ROW], layout.NUMBER])
        at = min(extents[extent, layout.E_END], end)
        if extents[extent, layout.E_END] <= end:
            extent += 1
    walked[layout.W_MISSING] = missing
    walked[layout.W_HAVE] = have if have >= 0 else end - start
    walked[layout.W_TIME] = latest
    walked[layout.W_LAST] = min(extent + 1, last)
    walked[layout.W_NUMBER] = number
    return layout.IN_PART if missing else layout.WHOLE
