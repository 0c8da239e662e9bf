"""Read and write producer snapshots (``N.snapshot``) and transaction indexes (``N.txnindex``)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafkaframes.errors import LogDirError
from kafkaframes.wire.checksum import crc32c

_SNAPSHOT_HEADER_STRUCT = struct.Struct(">hIi")  # version, CRC, number of producers
_CRC_INPUT_START = 6  # position of the first byte that the CRC covers
_PRODUCER_ENTRY_STRUCT = struct.Struct(">qhiqiqiq")  # the fields of ProducerEntry
SNAPSHOT_VERSION = 1


class ProducerEntry(NamedTuple):
    """One producer of a snapshot, with the fields in file order.

    Attributes:
        last_sequence: last sequence number of the last data batch; -1 if there is none, for example after a marker of
            transactions version 2.
        last_offset: last offset of the last data batch; -1 if there is no data batch.
        offset_delta: difference between the last and the first offset of the last data batch.
        timestamp: timestamp of the last batch or marker, milliseconds since 1970.
        coordinator_epoch: coordinator epoch of the last marker; -1 if there is no marker.
        current_txn_first_offset: first offset of the open transaction; -1 if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def read_producer_snapshot(raw: bytes, *, file: str | None = None) -> tuple[ProducerEntry, ...]:
    """Read a producer snapshot, and return its producers in the file's order.

    Raises:
        LogDirError: version, CRC, count or size is wrong. Kafka deletes an invalid snapshot and replays the log.
    """
    if len(raw) < _SNAPSHOT_HEADER_STRUCT.size:
        raise LogDirError(f"{len(raw)} bytes are not a producer snapshot", position=len(raw), file=file)
    version, crc, count = _SNAPSHOT_HEADER_STRUCT.unpack_from(raw)
    if version != SNAPSHOT_VERSION:
        raise LogDirError(f"unknown version {version} of a producer snapshot", position=0, file=file)
    actual_crc = crc32c(memoryview(raw)[_CRC_INPUT_START:])
    if actual_crc != crc:
        raise LogDirError(f"the CRC is {actual_crc:#010x}, but the file states {crc:#010x}", position=2, file=file)
    if count < 0 or _SNAPSHOT_HEADER_STRUCT.size + count * _PRODUCER_ENTRY_STRUCT.size != len(raw):
        raise LogDirError(
            f"{len(raw)} bytes are not the size of a snapshot of {count} producers",
            position=_CRC_INPUT_START,
            file=file,
        )
    return tuple(
        ProducerEntry(*fields) for fields in _PRODUCER_ENTRY_STRUCT.iter_unpack(raw[_SNAPSHOT_HEADER_STRUCT.size :])
    )


def write_producer_snapshot(producers: Iterable[ProducerEntry]) -> bytes:
    """Return the content of a producer snapshot, with the producers in the given order."""
    entries = [_PRODUCER_ENTRY_STRUCT.pack(*producer) for producer in producers]
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", SNAPSHOT_VERSION, crc32c(body)) + body


_ABORTED_TRANSACTION_STRUCT = struct.Struct(">hqqqq")
ABORTED_TRANSACTION_BYTES = _ABORTED_TRANSACTION_STRUCT.size
TXN_INDEX_VERSION = 0
_ENTRY_CHECK_STRUCT = struct.Struct(">b17xq8x")  # the first byte of an entry's version, and its last offset


@dataclass(frozen=True, order=True, slots=True)
class AbortedTransaction:
    """One aborted transaction.

    Attributes:
        first_offset: offset of the transaction's first data batch in this partition.
        last_offset: offset of the ABORT marker.
        last_stable_offset: last stable offset after the end of the transaction.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def read_txn_index(
    raw: bytes, *, base_offset: int = 0, file: str | None = None, strict: bool = True
) -> tuple[AbortedTransaction, ...]:
    """Read a transaction index.

    Args:
        base_offset: base offset of the segment; all markers must be at or above it.
        strict: whether to reject a partial entry at the end and decreasing offsets; otherwise all whole entries are
            returned unchanged.

    Raises:
        LogDirError: an entry has an unknown version; or, if ``strict``, the index is malformed. ``position`` is the
            start of the invalid entry.
    """
    whole_bytes = len(raw) - len(raw) % ABORTED_TRANSACTION_BYTES
    if whole_bytes != len(raw) and strict:
        reason = f"{len(raw)} bytes are not a multiple of the entry size, {ABORTED_TRANSACTION_BYTES}"
        raise LogDirError(reason, position=whole_bytes, file=file)
    transactions: list[AbortedTransaction] = []
    for position in range(0, whole_bytes, ABORTED_TRANSACTION_BYTES):
        version, *fields = _ABORTED_TRANSACTION_STRUCT.unpack_from(raw, position)
        if version != TXN_INDEX_VERSION:
            raise LogDirError(f"unknown version {version} of an entry", position=position, file=file)
        transaction = AbortedTransaction(*fields)
        if strict:
            min_last_offset = transactions[-1].last_offset + 1 if transactions else base_offset
            _check_transaction(transaction, min_last_offset, position, file)
        transactions.append(transaction)
    return tuple(transactions)


def passes_sanity_check(raw: bytes, *, base_offset: int) -> bool:
    """Return whether a transaction index passes a broker's check at start (TransactionIndex.sanityCheck).

    The last offset of an entry must not be below the base offset of the segment. The version of an entry must not be
    newer than the known version; Java reads only the first byte of the version, as a signed number. ``read_txn_index``
    checks more.
    """
    whole_bytes = len(raw) - len(raw) % ABORTED_TRANSACTION_BYTES
    versions_and_offsets = _ENTRY_CHECK_STRUCT.iter_unpack(memoryview(raw)[:whole_bytes])
    return all(
        version <= TXN_INDEX_VERSION and last_offset >= base_offset for version, last_offset in versions_and_offsets
    )


def _check_transaction(transaction: AbortedTransaction, min_last_offset: int, position: int, file: str | None) -> None:
    if transaction.last_offset < min_last_offset:
        reason = f"last offset {transaction.last_offset} is below {min_last_offset}"
        raise LogDirError(reason, position=position, file=file)
    if not 0 <= transaction.first_offset <= transaction.last_offset:
        reason = f"first offset {transaction.first_offset} is not below {transaction.last_offset}"
        raise LogDirError(reason, position=position, file=file)


def write_txn_index(transactions: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of a transaction index."""
    return b"".join(
        _ABORTED_TRANSACTION_STRUCT.pack(
            TXN_INDEX_VERSION,
            transaction.producer_id,
            transaction.first_offset,
            transaction.last_offset,
            transaction.last_stable_offset,
        )
        for transaction in transactions
    )
