"""Reads a range of offsets of one partition, one fetch at a time. The tasks of a planned read use this module.

The log may have lost offsets since the read was planned. Each caller decides whether a loss is an error. Compaction may
have removed all records at the end of a range; this is not a loss, and the reader does not wait for them.
``fetch_sample`` fetches a few batches of a partition to estimate the size of the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.sync import Consumer
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError

_FETCH_TIMEOUT_MS: Final = 1_000
_RETRY_DELAY_S: Final = 0.1  # time before a retry after OFFSET_OUT_OF_RANGE for an offset that exists


@dataclass(slots=True)
class RangeReader:
    """Reads the records of one partition in a range of offsets.

    Attributes:
        consumer: consumer without a group and with ``auto_offset_reset="none"``. The reader replaces the consumer's
            assignment.
        target: partition to read.
        next_offset: offset at which the next read starts; initially the first offset of the range. Reading stops at
            ``end``.
        end: exclusive end of the range. The last result may extend beyond the end.
        on_loss: callback for offsets that the log does not have (any more), with a text about the partition ("has no
            offset 10 ..."). The callback raises an error, or returns to continue without these offsets.
        silence_ms: longest time without records, in milliseconds.
        silence_setting: name of the setting that sets ``silence_ms``, for messages; empty without a setting.
    """

    consumer: Consumer
    target: TopicPartition
    next_offset: int
    end: int
    _: KW_ONLY
    on_loss: Callable[[str], None]
    silence_ms: int
    silence_setting: str = ""

    def __post_init__(self) -> None:
        self.consumer.assign({self.target: self.next_offset}, ends={self.target: self.end})

    def read_next(self) -> FetchedBatches | None:
        """Return the next fetched records of the range; None after the last.

        Raises:
            BrokerError: the partition cannot be read.
            NetworkError: no records arrived for ``silence_ms`` although the log has more offsets.
        """
        deadline = time.monotonic() + self.silence_ms / 1000
        while self.next_offset < self.end:
            try:
                fetched_batches = self.consumer.fetch(_FETCH_TIMEOUT_MS)
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                self._recover_from_loss()
                if time.monotonic() < deadline:
                    continue
                raise
            if fetched_batches is not None:
                if (start := fetched_batches.log_start_offset) > self.next_offset:
                    self.on_loss(f"has lost offsets {self.next_offset} to {start - 1} while they were being read")
                self.next_offset = fetched_batches.next_offset
                return fetched_batches
            if self.consumer.skip_gap(self.target, self.end):  # the last batches were compacted away
                self.next_offset = self.end
            elif time.monotonic() > deadline:
                self._handle_missing_records()
        return None

    def _recover_from_loss(self) -> None:
        """Continue at the log start offset if the log does not have the next offset, or end the range."""
        first, last = self._look_up_log_bounds()
        if first <= self.next_offset < last:  # the offset exists: the leader has changed, or the topic was recreated
            time.sleep(_RETRY_DELAY_S)
        else:
            self.on_loss(f"has no offset {self.next_offset} (it has {first} to {last})")
            self.next_offset = self.end if self.next_offset >= first else min(first, self.end)
        self.consumer.seek(self.target, self.next_offset)

    def _handle_missing_records(self) -> None:
        """Raise an error for missing records; if the log is too short and ``on_loss`` accepts it, end the range."""
        last = self._look_up_log_bounds()[1]
        setting = f" ({self.silence_setting})" if self.silence_setting else ""
        silence = f"no records arrived from offset {self.next_offset} on for {self.silence_ms} ms{setting}"
        if self.next_offset < last:
            raise NetworkError(f"{self.target}: {silence}")
        self.on_loss(f"ends at offset {last}, but offsets up to {self.end} were expected: {silence}")
        self.next_offset = self.end
        self.consumer.seek(self.target, self.end)

    def _look_up_log_bounds(self) -> tuple[int, int]:
        """Return the log start offset and the log end offset."""
        consumer, target = self.consumer, self.target
        return consumer.beginning_offsets([target])[target], consumer.end_offsets([target])[target]


class PartitionSample(NamedTuple):
    """The sizes of the batches that one fetch has returned.

    Attributes:
        offsets: number of offsets from the requested one to the end of the batches; at least 1.
        records: number of records according to the batch headers. A message of format 0 or 1 counts as one.
        size_bytes: size of the batches at the broker, in bytes.
        first_timestamp: timestamp of the first batch, in milliseconds since 1970; negative if the batch has none.
    """

    offsets: int
    records: int
    size_bytes: int
    first_timestamp: int

    @property
    def bytes_per_offset(self) -> float:
        """The average size of an offset in bytes, including offsets without records."""
        return self.size_bytes / self.offsets


def fetch_sample(
    consumer: Consumer, target: TopicPartition, offset: int, *, wait_ms: int = 2_000
) -> PartitionSample | None:
    """Return the batches at an offset; None if none arrived in time.

    Args:
        consumer: consumer without a group. The function replaces the consumer's assignment. The setting
            ``max_partition_fetch_bytes`` is the approximate size of the sample.
        target: partition to read.
        offset: first offset.
        wait_ms: longest wait, in milliseconds.

    Raises:
        BrokerError: the partition cannot be read at the offset.
        NetworkError: the leader cannot be reached.
    """
    consumer.assign({target: offset})
    fetched_batches = consumer.fetch(wait_ms)
    if fetched_batches is None or fetched_batches.partition != target or fetched_batches.next_offset <= offset:
        return None
    batches, offsets = fetched_batches.batches, fetched_batches.next_offset - offset
    records = int(batches.column("count").clip(min=1).sum())
    size_bytes, first = int(batches.column("size").sum()), int(batches.column("base_timestamp")[0])
    return PartitionSample(offsets, min(records, offsets), size_bytes, first)
