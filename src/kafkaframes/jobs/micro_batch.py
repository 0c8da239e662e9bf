"""Identify the micro-batches of a streaming query, and check that each one continues the last one that a sink recorded.

The number of a micro-batch does not identify its rows. If a query's checkpoint was copied, deleted or restored from a
backup, the query plans other rows under numbers that the sink has already seen. A mark therefore also stores the
offsets of the sources, as in Spark's checkpoint: micro-batch N ends at ``offsets/N`` and begins at ``offsets/N-1``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkaframes.scan.ranges import flatten_topics
from kafkaframes.scan.stream_offsets import StreamOffsets

Offsets = dict[str, dict[str, int]]
Lines = tuple[str, ...]  # one line for each source, as JSON or in the source's own form
_LINES_BEFORE_SOURCES: Final = 2  # first lines of an offsets file: the version and the query's metadata
_MAX_OFFSET_CHARACTERS: Final = (
    1 << 18
)  # characters of offsets in a mark. Brokers accept messages of up to 1 MiB by default.
_DIGEST_PREFIX: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """The identity of a micro-batch, as planned by Spark or as stored by a sink.

    Attributes:
        query_id: id of the query, which is the same for all runs on one checkpoint.
        checkpoint: location of the checkpoint; "" if unknown.
        sink: name and destination of the sink; "" if the location of the mark identifies it.
        begins, ends: offsets of the sources; None if unknown.
    """

    query_id: str
    batch_id: int
    checkpoint: str = ""
    sink: str = ""
    begins: Lines | None = None
    ends: Lines | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the fields of a mark, except the query's id. Offsets above a size limit are stored as digests."""
        note: dict[str, Any] = {"batchId": self.batch_id, "checkpoint": self.checkpoint, "sink": self.sink}
        offsets = {"begins": self.begins, "ends": self.ends}
        size = sum(len(line) for lines in offsets.values() for line in lines or ())
        for name, lines in offsets.items():
            if lines is not None:
                note[name] = [_digest(line) for line in lines] if size > _MAX_OFFSET_CHARACTERS else list(lines)
        return note

    @classmethod
    def from_json(cls, query_id: str, note: Any) -> StreamBatch:
        """Parse a mark. A mark of version 0.1.0 is a number.

        >>> StreamBatch.from_json("q", 7) == StreamBatch.from_json("q", {"batchId": 7}) == StreamBatch("q", 7)
        True

        Raises:
            ValueError: the value is not a stored mark.
        """
        if isinstance(note, int):
            return cls(query_id, note)
        if not isinstance(note, dict) or not isinstance(note.get("batchId"), int):
            raise ValueError("the value is not the mark of a micro-batch")
        begins, ends = (_parse_lines(note.get(name)) for name in ("begins", "ends"))
        checkpoint, sink = (str(note.get(name, "")) for name in ("checkpoint", "sink"))
        return cls(query_id, note["batchId"], checkpoint, sink, begins, ends)


def _parse_lines(note: Any) -> Lines | None:
    if note is None:
        return None
    if not isinstance(note, list) or not all(isinstance(line, str) for line in note):
        raise ValueError("the value is not the mark of a micro-batch")
    return tuple(note)


def read_batch_offsets(read: Callable[[str], str | None], batch_id: int) -> tuple[Lines | None, Lines | None]:
    """Return the begin and end offsets of a micro-batch from its checkpoint.

    Args:
        read: function that returns the text of a checkpoint file, or None if the file does not exist.
        batch_id: number of the micro-batch. The checkpoint does not store the begin offsets of micro-batch 0.
    """
    previous_text = read(f"offsets/{batch_id - 1}") if batch_id else None
    return _parse_source_lines(previous_text), _parse_source_lines(read(f"offsets/{batch_id}"))


def _parse_source_lines(text: str | None) -> Lines | None:
    """Return the offsets of each source in an offsets file of a checkpoint; None if it has no sources."""
    lines = () if text is None else tuple(text.splitlines()[_LINES_BEFORE_SOURCES:])
    return tuple(map(_normalize_json, lines)) or None


def _normalize_json(line: str) -> str:
    """Return JSON offsets in a canonical form, so that equal offsets have equal text."""
    try:
        return json.dumps(json.loads(line), separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError):
        return line


def parse_offsets(line: str) -> Offsets | None:
    """Return topic offsets without topic ids, or None if the line has no topic offsets."""
    try:
        offsets = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(offsets, dict) or not offsets:
        return None
    for numbers in offsets.values():
        if not isinstance(numbers, dict):
            return None
        if not all(name.isdigit() and isinstance(offset, int) for name, offset in numbers.items()):
            return None
    return {topic: numbers for topic, numbers in offsets.items() if numbers} or None


def parse_all_offsets(line: str) -> Offsets | None:
    """Return topic offsets as ``parse_offsets`` does, including those of partitions that brokers did not list."""
    if parse_offsets(line) is None and "@" not in line:
        return None
    try:
        return StreamOffsets.from_json(json.loads(line)).to_json_without_ids() or None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def find_mark(batch: StreamBatch, marks: Mapping[str, StreamBatch]) -> StreamBatch | None:
    """Return the mark that a micro-batch must continue: the newest one of its query, otherwise of its checkpoint."""
    own_mark = marks.get(batch.query_id)
    if own_mark is not None or not batch.checkpoint:
        return own_mark
    checkpoint_marks = (
        mark for mark in marks.values() if (mark.checkpoint, mark.sink) == (batch.checkpoint, batch.sink)
    )
    return max(checkpoint_marks, key=lambda mark: mark.batch_id, default=None)


def explain_conflict(mark: StreamBatch, batch: StreamBatch) -> str | None:
    """Return why a micro-batch neither follows a mark nor equals the marked micro-batch; None if it does either."""
    if mark.query_id != batch.query_id:
        return (
            f"query {mark.query_id} has written micro-batch {mark.batch_id} from the same checkpoint, but this is "
            f"query {batch.query_id}: the checkpoint was deleted, or another query uses its path now"
        )
    if batch.batch_id < mark.batch_id:
        return (
            f"micro-batch {mark.batch_id} was written after it: the checkpoint was restored from an "
            "older copy, or two queries use copies of it"
        )
    if batch.batch_id > mark.batch_id:
        return _describe_rewind(mark, batch)
    if mark.ends is None:
        return "its offsets were not stored: kafkaframes 0.1.0 wrote the mark, or the checkpoint could not be read"
    if batch.ends is None:
        return "its offsets are unknown, because the checkpoint cannot be read from this machine"
    if mark.sink != batch.sink:
        return (
            f"that micro-batch was written to {mark.sink}, but this one is for {batch.sink}: the checkpoint was copied"
        )
    return _describe_difference(mark, batch)


def _describe_difference(mark: StreamBatch, batch: StreamBatch) -> str | None:
    """Return how the offsets of a micro-batch differ from those in a mark; None if they are equal."""
    assert mark.ends is not None
    assert batch.ends is not None
    for name, mark_lines, batch_lines in (("ends", mark.ends, batch.ends), ("begins", mark.begins, batch.begins)):
        if (
            mark_lines is None
            or batch_lines is None
            or (len(mark_lines) == len(batch_lines) and all(map(_is_same, mark_lines, batch_lines)))
        ):
            continue
        difference = next(
            (
                _describe_offset_difference(*pair)
                for pair in zip(mark_lines, batch_lines, strict=False)
                if not _is_same(*pair)
            ),
            "",
        )
        return (
            f"the written micro-batch {name} at other offsets{difference}: the checkpoint was restored "
            "from an older copy, or two queries use copies of it"
        )
    return None


def _is_same(mark_line: str, batch_line: str) -> bool:
    return mark_line in (batch_line, _digest(batch_line))


def _describe_offset_difference(mark_line: str, batch_line: str) -> str:
    """Return the first topic partition whose offsets differ, as text; "" if none differs."""
    mark_offsets, batch_offsets = (flatten_topics(parse_offsets(line) or {}) for line in (mark_line, batch_line))
    for name in sorted(mark_offsets.keys() | batch_offsets.keys()):
        marked_offset, planned_offset = mark_offsets.get(name), batch_offsets.get(name)
        if marked_offset != planned_offset:
            texts = ("none" if offset is None else offset for offset in (marked_offset, planned_offset))
            return " ({}-{}: offset {}, but {} in this run)".format(*name, *texts)
    return ""


def _describe_rewind(mark: StreamBatch, batch: StreamBatch) -> str | None:
    """Return the place at which a micro-batch begins below a mark's end offset; None if there is none."""
    for mark_line, batch_line in zip(mark.ends or (), batch.begins or (), strict=False):
        end, begin = flatten_topics(parse_offsets(mark_line) or {}), flatten_topics(parse_offsets(batch_line) or {})
        for topic, partition in sorted(end.keys() & begin.keys()):
            if begin[topic, partition] < end[topic, partition]:
                return (
                    f"it begins at offset {begin[topic, partition]} of {topic}-{partition}, but micro-batch "
                    f"{mark.batch_id} was written up to offset {end[topic, partition]}: the checkpoint was copied"
                )
    return None


def list_starting_offsets(mark: StreamBatch) -> Iterator[str]:
    """Yield the end offsets of a mark's micro-batch as values of ``startingOffsets``, one for each source that has any.

    Topic ids and fingerprints are omitted.
    """
    return (
        _normalize_json(json.dumps(offsets)) for line in mark.ends or () if (offsets := parse_offsets(line)) is not None
    )


def _digest(line: str) -> str:
    return _DIGEST_PREFIX + hashlib.sha256(line.encode()).hexdigest()
