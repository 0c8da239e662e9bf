"""Decide which transactional batches and markers a round may discard (Kafka's CleanedTransactionMetadata).

Batches come in the order of offsets. Data of an aborted transaction is discarded at once; a marker may be discarded
if no batch of its transaction came before it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.txn_index import AbortedTransaction

ABORT, COMMIT = "ABORT", "COMMIT"


class CleanedTransactions:
    """The state of transactions during one walk through the log.

    Attributes:
        kept: aborted transactions whose marker stays, because some of their data does; the new transaction index.
    """

    def __init__(self) -> None:
        self.kept: list[AbortedTransaction] = []
        self._ahead: list[tuple[int, int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed: set[int] = set()

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that lie ahead; the same one may be added more than once."""
        for transaction in aborted:
            heapq.heappush(self._ahead, (transaction.first_offset, transaction.last_offset, transaction))

    def snapshot(self, before: int) -> CleanedTransactions:
        """Return a copy of the state, with those of the added transactions that begin before an offset."""
        copy = CleanedTransactions()
        copy._ahead = [one for one in self._ahead if one[0] < before]
        heapq.heapify(copy._ahead)
        copy._aborted = dict(self._aborted)
        copy._aborted_with_data = set(self._aborted_with_data)
        copy._committed = set(self._committed)
        return copy

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            transaction = heapq.heappop(self._ahead)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)

    def data(self, header: BatchHeader) -> bool:
        """Note a data batch; return whether it belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def control(self, header: BatchHeader, kind: str | None) -> bool:
        """Note a control batch, ``kind`` being its record's type (``None``: it is empty); return whether it may go."""
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if kind is None:
            return True
        if kind == ABORT:
            transaction = self._aborted.pop(producer_id, None)
            had_data = producer_id in self._aborted_with_data
            self._aborted_with_data.discard(producer_id)
            if transaction is not None and had_data:
                self.kept.append(transaction)
                return False
            return True
        if kind == COMMIT:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        return False
