"""``.snapshot`` (producers) and ``.txnindex`` (aborted transactions) as text, in the form of kafka-dump-log."""

from __future__ import annotations

from collections.abc import Iterator

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.dump.findings import Findings
from kafkaframes.jobs.dump.styles import Style
from kafkaframes.storage.files.producer_snapshot import ProducerEntry, read_producer_snapshot
from kafkaframes.storage.files.txn_index import read_txn_index

NO_SEQUENCE = -1
NO_OFFSET = -1
_MOST_SEQUENCE = 2**31 - 1


def producer_lines(raw: bytes, style: Style, findings: Findings) -> Iterator[str]:
    """Yield a line for each producer of a snapshot; a corrupt one is a note and no line."""
    try:
        producers = read_producer_snapshot(raw, file=findings.file)
    except LogDirError as error:
        findings.notes.append(f"Snapshot is corrupt: {error}")
        return
    for producer in producers:
        yield _producer_line(producer, style)


def _producer_line(producer: ProducerEntry, style: Style) -> str:
    first = producer.current_txn_first_offset
    transaction = style.absent if first == NO_OFFSET else style.present.format(first)
    line = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch} "
        f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: {transaction}"
    )
    if style.producer_timestamp:
        line += f" lastTimestamp: {producer.timestamp}"
    if producer.last_offset == NO_OFFSET:  # it has no data batch
        return line + (" " if style.trailing_space else "")
    return line + (
        f" firstSequence: {_first_sequence(producer)} lastSequence: {producer.last_sequence} "
        f"lastOffset: {producer.last_offset} offsetDelta: {producer.offset_delta} timestamp: {producer.timestamp}"
    )


def _first_sequence(producer: ProducerEntry) -> int:
    """Return the first sequence of the last batch: sequences wrap from 2^31-1 to 0."""
    first = producer.last_sequence - producer.offset_delta
    return first if first >= 0 else first + _MOST_SEQUENCE + 1


def transaction_lines(raw: bytes, findings: Findings) -> Iterator[str]:
    """Yield a line for each aborted transaction; a damaged index is a fault after the entries that are whole."""
    try:
        transactions = read_txn_index(raw, file=findings.file, strict=False)
    except LogDirError as error:
        findings.faults.append(error)
        return
    for one in transactions:
        yield (
            f"version: 0 producerId: {one.producer_id} firstOffset: {one.first_offset} "
            f"lastOffset: {one.last_offset} lastStableOffset: {one.last_stable_offset}"
        )
