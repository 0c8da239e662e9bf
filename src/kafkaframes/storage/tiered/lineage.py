"""Choose the uploaded segments that make up a log, by leader epochs, so that each offset occurs once. Pure functions.

After an unclean leader election the segments of the lost history stay in the store. A segment belongs to the log if the
offsets that it has under each of its leader epochs lie within those that the log has under that epoch; the log's first
entry counts from 0, because its offset is moved up with the log start offset (KIP-405, LeaderEpochFileCache).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kafkaframes.storage.files.checkpoints import Epochs, EpochStart
from kafkaframes.storage.tiered.manifest import SegmentMetadata

_NO_END = 2**63 - 1


@dataclass(slots=True)
class Chain:
    """The segments that make up a log.

    Attributes:
        segments: by start offset; each offset is in one of them, or in none.
        left_out: the reason why a segment was not chosen, by segment id.
        gaps: ranges of offsets that no segment has, both ends inclusive.
        overlaps: neighbours that have offsets in common; in one lineage these offsets hold the same records.
    """

    segments: list[SegmentMetadata] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    overlaps: list[tuple[SegmentMetadata, SegmentMetadata]] = field(default_factory=list)


def belongs(segment: SegmentMetadata, epochs: Epochs) -> bool:
    """Say whether a segment belongs to the history that the log's leader epochs describe.

    >>> from kafkaframes.storage.files.names import TopicPartition
    >>> def made(start, end, *epochs):
    ...     return SegmentMetadata(TopicPartition("t", 0), "", "", start, end, 0, 0, 0, epochs)
    >>> log = (EpochStart(0, 1117), EpochStart(2, 2000))
    >>> belongs(made(900, 1999, EpochStart(0, 900)), log), belongs(made(1500, 2000, EpochStart(0, 1500)), log)
    (True, False)
    """
    starts = [(one.leader_epoch, max(one.start_offset, 0) if index else 0) for index, one in enumerate(epochs)]
    ranges = {epoch: (start, following - 1) for (epoch, start), (_, following) in pairwise([*starts, (0, _NO_END)])}
    own = [*segment.leader_epochs, EpochStart(0, segment.end_offset + 1)]
    for entry, following in pairwise(own):
        if entry.start_offset >= following.start_offset:
            continue  # an epoch without a record
        first, last = ranges.get(entry.leader_epoch, (0, -1))
        if entry.start_offset < first or following.start_offset - 1 > last:
            return False
    return True


def newest(segments: Iterable[SegmentMetadata]) -> list[SegmentMetadata]:
    """Sort segments, the newest first: its leader epochs stand for the log's where no local copy is there."""

    def age(segment: SegmentMetadata) -> tuple[int, int, int, str]:
        last = segment.leader_epochs[-1].leader_epoch if segment.leader_epochs else -1
        return last, segment.end_offset, segment.event_timestamp_ms, segment.segment_id

    return sorted(segments, key=age, reverse=True)


def chain_of(segments: Sequence[SegmentMetadata], epochs: Epochs) -> Chain:
    """Return the log that segments make up.

    Args:
        segments: complete uploads.
        epochs: the log's leader epochs; if it has none (records older than format 2), every segment belongs to it.
    """
    chain = Chain()
    fitting = []
    for segment in segments:
        if not epochs or belongs(segment, epochs):
            fitting.append(segment)
        else:
            chain.left_out[segment.segment_id] = "its leader epochs are not those of the log: its records were lost"
    following = 0
    for segment in _once(fitting, chain):
        if chain.segments:
            before = chain.segments[-1]
            if segment.start_offset > following:
                chain.gaps.append((following, segment.start_offset - 1))
            elif segment.start_offset < following:
                chain.overlaps.append((before, segment))
        chain.segments.append(segment)
        following = segment.end_offset + 1
    return chain


def _once(segments: Iterable[SegmentMetadata], chain: Chain) -> list[SegmentMetadata]:
    """Leave out segments whose offsets another one has, too; of equal ones the latest upload is kept."""
    kept: list[SegmentMetadata] = []
    ordered = sorted(
        segments,
        key=lambda segment: (
            segment.start_offset,
            -segment.end_offset,
            -segment.event_timestamp_ms,
            segment.segment_id,
        ),
    )
    for segment in ordered:
        if kept and segment.end_offset <= kept[-1].end_offset:
            chain.left_out[segment.segment_id] = f"its offsets are in {kept[-1].segment_id}, too"
            continue
        while len(kept) > 1 and segment.start_offset <= kept[-2].end_offset + 1:
            gone = kept.pop()  # its neighbours reach each other without it
            chain.left_out[gone.segment_id] = f"its offsets are in {kept[-1].segment_id} and {segment.segment_id}, too"
        kept.append(segment)
    return kept
