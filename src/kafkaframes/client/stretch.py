"""Read a stretch of one partition, from an offset up to another, answer by answer: what tasks of a planned read do.

The plan was made a while ago, so the log may have lost some of it by now; each reader says what that means to it. A
stretch may end in offsets without records, which compaction took: no loss, and nothing to wait for.
A look at a few batches of a partition tells what the rest of it is like.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from kafkaframes.client.fetched import Fetched
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.sync import Consumer
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError

_STEP_MS: Final = 1_000
_AGAIN_SECONDS: Final = 0.1


@dataclass(slots=True)
class Stretch:
    """Some offsets of a partition, while they are read.

    Attributes:
        consumer: of no group, that resets nothing by itself (``auto_offset_reset="none"``); it is assigned anew.
        target: the partition.
        reached: the first offset, and then where to go on; from ``end`` on nothing more is asked for.
        end: exclusive; the last answer may go beyond it.
        lost: called where the log does not have offsets of it (any more), with what is to be said of the partition
            ("has no offset 10 ..."): raises, or lets the read go on without them.
        silence_ms: how long nothing may come.
        silence_setting: the name of the setting that this is, for messages; empty for none.
    """

    consumer: Consumer
    target: TopicPartition
    reached: int
    end: int
    _: KW_ONLY
    lost: Callable[[str], None]
    silence_ms: int
    silence_setting: str = ""

    def __post_init__(self) -> None:
        self.consumer.assign({self.target: self.reached}, ends={self.target: self.end})

    def next(self) -> Fetched | None:
        """Return the next answer that holds records of the stretch, None where none is left.

        Raises:
            BrokerError: the partition cannot be read.
            NetworkError: nothing came for ``silence_ms``, although the log goes on.
        """
        deadline = time.monotonic() + self.silence_ms / 1000
        while self.reached < self.end:
            try:
                fetched = self.consumer.fetch(_STEP_MS)
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                self._after_loss()
                if time.monotonic() < deadline:
                    continue
                raise
            if fetched is not None:
                if (start := fetched.log_start_offset) > self.reached:
                    self.lost(f"has lost offsets {self.reached} to {start - 1} while they were read")
                self.reached = fetched.next_offset
                return fetched
            if self.consumer.skip_gap(self.target, self.end):  # the log's last batches were compacted away
                self.reached = self.end
            elif time.monotonic() > deadline:
                self._after_silence()
        return None

    def _after_loss(self) -> None:
        """Go on after offsets that the log does not have: from its start, or nowhere."""
        first, last = self._bounds()
        if first <= self.reached < last:  # there after all: the partition has a new leader, or was made anew
            time.sleep(_AGAIN_SECONDS)
        else:
            self.lost(f"has no offset {self.reached} (it has {first} to {last})")
            self.reached = self.end if self.reached >= first else min(first, self.end)
        self.consumer.seek(self.target, self.reached)

    def _after_silence(self) -> None:
        """Say why nothing comes any more; the stretch is over where the log ends before it, and that is accepted."""
        last = self._bounds()[1]
        setting = f" ({self.silence_setting})" if self.silence_setting else ""
        silence = f"nothing came from offset {self.reached} on for {self.silence_ms} ms{setting}"
        if self.reached < last:
            raise NetworkError(f"{self.target}: {silence}")
        self.lost(f"ends at {last}, and was to be read up to {self.end}: {silence}")
        self.reached = self.end
        self.consumer.seek(self.target, self.end)

    def _bounds(self) -> tuple[int, int]:
        """Return the log's first offset, and the one behind its last."""
        consumer, target = self.consumer, self.target
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
