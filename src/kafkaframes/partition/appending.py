"""How checked batches get into a log: producers, rolling, epochs, the segment, transactions (UnifiedLog.append).

Everything that can refuse an append comes before its first effect, so that a refusal leaves no trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaframes.errors import AppendRefusedError, OptionError
from kafkaframes.files.headers import BatchHeader
from kafkaframes.partition.append_info import LogAppendInfo, seen_of
from kafkaframes.partition.flushing import flush, roll
from kafkaframes.partition.segment import LogSegment
from kafkaframes.partition.settings import LARGEST_INT32
from kafkaframes.partition.state import LogState

NO_TIME = -1
NO_EPOCH = -1


def append(
    state: LogState, data: bytes, headers: Sequence[BatchHeader], *, first_offset: int, now_ms: int, origin: str
) -> LogAppendInfo:
    """Append batches that have their offsets.

    Raises:
        AppendRefusedError: too large, or a producer's epoch, sequence or transaction is wrong.
        OptionError: the log is closed.
        StorageError: the disk fails.
    """
    if state.is_closed:
        raise OptionError(f"the log of {state.topic_partition} is closed")
    if not headers:
        return _info(state, first_offset, first_offset - 1, (), valid_bytes=len(data))
    if len(data) > state.settings.segment_bytes:
        reason = f"{len(data)} bytes do not fit into a segment of {state.settings.segment_bytes}"
        raise AppendRefusedError("RecordBatchTooLargeException", reason)
    prepared = state.producers.prepare(seen_of(data, headers), origin=origin)
    if prepared.duplicate is not None:
        one = prepared.duplicate
        info = _info(state, one.first_offset, one.last_offset, (), valid_bytes=len(data))
        return info._replace(is_duplicate=True, append_time_ms=one.timestamp)
    last_offset = headers[-1].last_offset
    segment, rolled = _segment_for(state, data, headers, first_offset, now_ms)
    _assign_epochs(state, headers)
    segment.append(data, headers, state.settings)
    state.log_end_offset = last_offset + 1
    for aborted in state.producers.commit(prepared):
        segment.add_aborted(aborted)
    if state.log_end_offset - state.recovery_point >= state.settings.flush_messages:
        flush(state, now_ms=now_ms)
    return _info(state, first_offset, last_offset, headers, valid_bytes=len(data), rolled=rolled)


def _info(
    state: LogState,
    first_offset: int,
    last_offset: int,
    headers: Sequence[BatchHeader],
    *,
    valid_bytes: int,
    rolled: bool = False,
) -> LogAppendInfo:
    return LogAppendInfo(
        first_offset,
        last_offset,
        headers[-1].leader_epoch if headers else NO_EPOCH,
        max([header.max_timestamp for header in headers], default=NO_TIME),
        NO_TIME,
        state.log_start_offset,
        state.log_end_offset,
        valid_bytes,
        rolled=rolled,
    )


def _segment_for(
    state: LogState, data: bytes, headers: Sequence[BatchHeader], first_offset: int, now_ms: int
) -> tuple[LogSegment, bool]:
    """Return the active segment, a new one if the append does not belong into it (UnifiedLog.maybeRoll)."""
    active, last_offset = state.segments.active, headers[-1].last_offset
    is_due = active.should_roll(
        state.settings,
        size_bytes=len(data),
        max_timestamp=max([header.max_timestamp for header in headers]),
        last_offset=last_offset,
        now_ms=now_ms,
    )
    if not is_due:
        return active, False
    is_known = headers[0].magic >= 2  # else the first offset is in a compressed set, and surely not below this one
    expected = first_offset if is_known else last_offset - LARGEST_INT32
    base = max(expected, state.log_end_offset)
    if last_offset - base > LARGEST_INT32:
        raise AppendRefusedError("LogSegmentOffsetOverflowException", f"offset {last_offset} is too far from {base}")
    roll(state, expected, now_ms=now_ms)
    return state.segments.active, True


def _assign_epochs(state: LogState, headers: Sequence[BatchHeader]) -> None:
    epochs = state.epochs
    for header in headers:
        if header.magic < 2:
            if epochs.entries:  # an old leader takes part: what was known of epochs is of no use
                epochs.clear()
        elif header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)
