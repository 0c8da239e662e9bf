"""What one Fetch answer holds of one partition, as Arrow columns. Pure: bytes in, record batches out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import BrokerError, CorruptRecordError
from kafkaframes.records.chunks import Memory
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadOptions, RecordReader
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import FAILFAST
from kafkaframes.records.scan import Batches, as_array, scan_all
from kafkaframes.storage.log.transactions import TransactionState, transactions_of_fetched

_PART_BYTES: Final = 8 << 20  # of records, that one Arrow batch is made of: a fetch is kept as a whole


@dataclass(slots=True)
class Fetched:
    """One partition's part of a Fetch answer.

    Attributes:
        partition: which.
        fetch_offset: the offset asked for; batches may begin below it.
        data: batches; the last one may be cut off. A view of the memory that they were received in, which is used for
            later answers once nobody holds it; ``bytes(data)`` is a copy.
        high_watermark, last_stable_offset, log_start_offset: as the broker said; -1 where its version does not.
        aborted: of each aborted transaction among ``data`` producer id and first offset; None is all of it wanted.
    """

    partition: TopicPartition
    fetch_offset: int
    data: bytes | memoryview
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    _batches: Batches | None = field(default=None, repr=False)

    @property
    def batches(self) -> Batches:
        """The headers of the whole batches."""
        if self._batches is None:
            self._batches = scan_all(self.data)
        return self._batches

    @property
    def next_offset(self) -> int:
        """Where to go on; ``fetch_offset`` if there is no whole batch."""
        last = self.batches.column("last_offset")
        return max(int(last[-1]) + 1, self.fetch_offset) if len(last) else self.fetch_offset

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last batch, -1 where there is none."""
        epochs = self.batches.column("leader_epoch")
        return int(epochs[-1]) if len(epochs) else -1

    def check_formats(self, formats: Sequence[int]) -> None:
        """Raise for a record format that the consumer does not read, as old consumers do (KIP-31).

        Raises:
            CorruptRecordError: the batch's position, and its format.
        """
        magics = self.batches.column("magic").tolist()
        unread = set(magics).difference(formats)
        if unread:
            first = next(index for index, magic in enumerate(magics) if magic in unread)
            known = ", ".join(map(str, formats))
            raise CorruptRecordError(
                f"record format {magics[first]} of {self.partition}, this consumer reads {known}",
                position=int(self.batches.column("position")[first]),
            )

    def read(
        self,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        end_offset: int | None = None,
        verify_crc: bool = True,
        memory: Recycler | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Return the records from ``fetch_offset`` on, without control records and aborted ones.

        Args:
            columns: of ``kafkaframes.read_records``.
            end_offset: leave out this offset and what follows.
            verify_crc: whether a wrong CRC is an error.
            memory: for the arrays of many reads.

        Raises:
            CorruptRecordError: a batch is damaged; its position counts in ``data``.
        """
        batches = self.batches
        begins_before = bool(len(batches)) and not (
            batches.column("magic")[0] >= 2 and batches.column("base_offset")[0] >= self.fetch_offset
        )
        options = ReadOptions(
            columns=columns,
            mode=FAILFAST,
            verify_crc=verify_crc,
            control_records=not batches.is_control.any(),
            first_offset=self.fetch_offset if begins_before else None,
            end_offset=end_offset,
            chunk_bytes=_PART_BYTES,
            part_bytes=_PART_BYTES,
            unwanted=self.transactions.aborted_batches if self.aborted else None,
        )
        source = Memory(as_array(self.data), str(self.partition))
        return iter(RecordReader(source, options, memory=memory, scanned=batches))

    @property
    def transactions(self) -> TransactionState:
        """What ``read_committed`` leaves out of ``data``."""
        return transactions_of_fetched(self.data, self.batches, self.aborted or ())


def too_large(partition: TopicPartition, size: int) -> BrokerError:
    """Return what a consumer raises for a batch that no fetch of its size can bring (brokers before 0.10.1)."""
    return BrokerError(f"a batch of {partition} is larger than max_partition_fetch_bytes, {size}")
