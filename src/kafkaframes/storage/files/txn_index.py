"""``N.txnindex``: the aborted transactions whose marker lies in the segment (Kafka's TransactionIndex, KIP-98).

An entry is 34 bytes. It lists aborted ones only; a segment without any has no such file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from kafkaframes.errors import LogDirError

_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE_BYTES = _ENTRY.size
VERSION = 0
_CHECKED = struct.Struct(">b17xq8x")  # of an entry: half of its version, and its last offset


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """One aborted transaction.

    Attributes:
        producer_id: whose.
        first_offset: of its first data batch in this partition.
        last_offset: of its ABORT marker.
        last_stable_offset: what it was once this transaction had ended.
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
        raw: the file's bytes.
        base_offset: from the file's name: no marker lies below it.
        file: named in errors.
        strict: refuse a partial entry at the end and offsets out of order; otherwise the whole entries come as they
            are.

    Raises:
        LogDirError: an entry's version is unknown; or strict, and the bytes are no such index. ``position`` is where
            the bad entry begins.
    """
    whole = len(raw) - len(raw) % ENTRY_SIZE_BYTES
    if whole != len(raw) and strict:
        reason = f"{len(raw)} bytes are not whole entries of {ENTRY_SIZE_BYTES}"
        raise LogDirError(reason, position=whole, file=file)
    transactions: list[AbortedTransaction] = []
    for position in range(0, whole, ENTRY_SIZE_BYTES):
        version, *fields = _ENTRY.unpack_from(raw, position)
        if version != VERSION:
            raise LogDirError(f"unknown version {version} of an entry", position=position, file=file)
        transaction = AbortedTransaction(*fields)
        if strict:
            least = transactions[-1].last_offset + 1 if transactions else base_offset
            _check(transaction, least, position, file)
        transactions.append(transaction)
    return tuple(transactions)


def passes_sanity_check(raw: bytes, *, base_offset: int) -> bool:
    """Check what a broker checks when it starts (TransactionIndex.sanityCheck); ``read_txn_index`` checks more.

    No marker lies below the segment, and no version, of which Java reads one byte with a sign, is above the known one.
    """
    whole = len(raw) - len(raw) % ENTRY_SIZE_BYTES
    checked = _CHECKED.iter_unpack(memoryview(raw)[:whole])
    return all(version <= VERSION and last_offset >= base_offset for version, last_offset in checked)


def _check(transaction: AbortedTransaction, least: int, position: int, file: str | None) -> None:
    if transaction.last_offset < least:
        reason = f"last offset {transaction.last_offset} is below {least}"
        raise LogDirError(reason, position=position, file=file)
    if not 0 <= transaction.first_offset <= transaction.last_offset:
        reason = f"first offset {transaction.first_offset} does not lie before {transaction.last_offset}"
        raise LogDirError(reason, position=position, file=file)


def write_txn_index(transactions: Iterable[AbortedTransaction]) -> bytes:
    """Write a transaction index."""
    return b"".join(
        _ENTRY.pack(VERSION, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)
        for one in transactions
    )
