"""Read a stretch of one partition, from an offset up to another, answer by answer: what tasks of a planned read do.

The plan was made a while ago, so the log may have lost some of it by now; each reader says what that means to it. A
stretch may end in offsets without records, which compaction took: no loss, and nothing to wait for.
A look at a few batches of a partition tells what the rest of it is like.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkaframes.client.fetched import Fetched
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.sync import Consumer
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError

_STEP_MS: Final = 1_000
_AGAIN_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Rules:
    """What a reader makes of what goes wrong.

    Attributes:
        lost: called where the log does not have offsets of the stretch (any more), with what is to be said of the
            partition ("has no offset 10 ..."): raises, or lets the read go on without them.
        silence_ms: how long nothing may come.
        silence_setting: the name of the setting that this is, for messages; empty for none.
    """

    lost: Callable[[str], None]
    silence_ms: int
    silence_setting: str = ""


def fetches(consumer: Consumer, target: TopicPartition, rules: Rules, *, first: int, end: int) -> Iterator[Fetched]:
    """Yield the answers that hold the records from ``first`` up to ``end`` (exclusive), in order.

    Args:
        consumer: of no group, that resets nothing by itself (``auto_offset_reset="none"``); it is assigned anew.
        target: the partition.
        rules: for what goes wrong.
        first, end: offsets; the last answer may go beyond the end.

    Raises:
        BrokerError: the partition cannot be read.
        NetworkError: nothing came for ``rules.silence_ms``, although the log goes on.
    """
    consumer.assign({target: first}, ends={target: end})
    reached = first
    deadline = time.monotonic() + rules.silence_ms / 1000
    while reached < end:
        try:
            fetched = consumer.fetch(_STEP_MS)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            reached = _after_loss(consumer, target, rules, reached, end)
            if time.monotonic() < deadline:
                continue
            raise
        if fetched is not None:
            if fetched.log_start_offset > reached:
                rules.lost(f"has lost offsets {reached} to {fetched.log_start_offset - 1} while they were read")
            deadline = time.monotonic() + rules.silence_ms / 1000
            reached = fetched.next_offset
            yield fetched
        elif consumer.skip_gap(target, end):  # the log's last batches were compacted away
            return
        elif time.monotonic() > deadline:
            _after_silence(consumer, target, rules, reached, end)
            return


def _after_loss(consumer: Consumer, target: TopicPartition, rules: Rules, reached: int, end: int) -> int:
    """Return where to go on after offsets that the log does not have: its start, or the stretch's end."""
    first, last = _bounds(consumer, target)
    if first <= reached < last:  # there after all: the partition has a new leader, or was made anew
        time.sleep(_AGAIN_SECONDS)
        consumer.seek(target, reached)
        return reached
    rules.lost(f"has no offset {reached} (it has {first} to {last})")
    if reached >= first:
        return end
    following = min(first, end)
    consumer.seek(target, following)
    return following


def _after_silence(consumer: Consumer, target: TopicPartition, rules: Rules, reached: int, end: int) -> None:
    """Say why nothing comes any more; return where the log ends before the stretch, and that is accepted."""
    last = _bounds(consumer, target)[1]
    setting = f" ({rules.silence_setting})" if rules.silence_setting else ""
    silence = f"nothing came from offset {reached} on for {rules.silence_ms} ms{setting}"
    if reached < last:
        raise NetworkError(f"{target}: {silence}")
    rules.lost(f"ends at {last}, and was to be read up to {end}: {silence}")


def _bounds(consumer: Consumer, target: TopicPartition) -> tuple[int, int]:
    """Return the log's first offset, and the one behind its last."""
    return consumer.beginning_offsets([target])[target], consumer.end_offsets([target])[target]


class Sample(NamedTuple):
    """The batches that one fetch has brought.

    Attributes:
        offsets: how many offsets they take, from the one on that was asked for; at least 1.
        records: how many records they hold, as their headers say it; a message of format 0 or 1 counts as one.
        size_bytes: as the broker holds them.
        first_timestamp: of the first batch, in milliseconds since 1970; negative where it has none.
    """

    offsets: int
    records: int
    size_bytes: int
    first_timestamp: int

    @property
    def bytes_per_offset(self) -> float:
        """How many bytes an offset takes; offsets without records count."""
        return self.size_bytes / self.offsets


def sample(consumer: Consumer, target: TopicPartition, offset: int, *, wait_ms: int = 2_000) -> Sample | None:
    """Return the batches at an offset; None where none came in time.

    Args:
        consumer: of no group; it is assigned anew. Its ``max_partition_fetch_bytes`` is about how much comes.
        target: the partition.
        offset: from which on.
        wait_ms: how long to wait.

    Raises:
        BrokerError: the partition cannot be read from there.
        NetworkError: its leader cannot be reached.
    """
    consumer.assign({target: offset})
    fetched = consumer.fetch(wait_ms)
    if fetched is None or fetched.partition != target or fetched.next_offset <= offset:
        return None
    batches, offsets = fetched.batches, fetched.next_offset - offset
    records = int(batches.column("count").clip(min=1).sum())
    size_bytes, first = int(batches.column("size").sum()), int(batches.column("base_timestamp")[0])
    return Sample(offsets, min(records, offsets), size_bytes, first)
