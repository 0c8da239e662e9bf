"""What one Fetch answer holds of one partition, as Arrow columns. Pure: bytes in, record batches out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import BrokerError, CorruptRecordError
from kafkaframes.log.transactions import TransactionState, transactions_of_fetched
from kafkaframes.records.chunks import Memory
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadOptions, RecordReader
from kafkaframes.records.memory import Recycler
from kafkaframes.records.modes import FAILFAST
from kafkaframes.records.scan import Batches, as_array, scan_all


@dataclass(slots=True)
class Fetched:
    """One partition's part of a Fetch answer.

    Attributes:
        partition: which.
        fetch_offset: the offset asked for; batches may begin below it.
        data: batches; the last one may be cut off.
        high_watermark, last_stable_offset, log_start_offset: as the broker said; -1 where its version does not.
        aborted: of each aborted transaction among ``data`` producer id and first offset; None is all of it wanted.
    """

    partition: TopicPartition
    fetch_offset: int
    data: bytes
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
        for position, magic in zip(
            self.batches.column("position").tolist(), self.batches.column("magic").tolist(), strict=True
        ):
            if magic not in formats:
                known = ", ".join(map(str, formats))
                raise CorruptRecordError(
                    f"record format {magic} of {self.partition}, this consumer reads {known}", position=position
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
        options = ReadOptions(
            columns=columns,
            mode=FAILFAST,
            verify_crc=verify_crc,
            control_records=False,
            first_offset=self.fetch_offset,
            end_offset=end_offset,
            unwanted=self.transactions.aborted_batches if self.aborted else None,
        )
        return iter(RecordReader(Memory(as_array(self.data), str(self.partition)), options, memory=memory))

    @property
    def transactions(self) -> TransactionState:
        """What ``read_committed`` leaves out of ``data``."""
        return transactions_of_fetched(self.data, self.batches, self.aborted or ())


def too_large(partition: TopicPartition, size: int) -> BrokerError:
    """Return what a consumer raises for a batch that no fetch of its size can bring (brokers before 0.10.1)."""
    return BrokerError(f"a batch of {partition} is larger than max_partition_fetch_bytes, {size}")
