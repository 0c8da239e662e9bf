"""What an older format cannot say, counted by kind: the account of a conversion down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import EncodeError
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.layout import DELETE_HORIZON
from kafkaframes.storage.files.txn_index import AbortedTransaction
from kafkaframes.storage.log.transactions import TransactionState

_NO_TIMESTAMP = -1


class Losses:
    """The losses of one segment.

    Attributes:
        counts: kind -> how many records or batches, as the kind's name says.
        control_records: how many records the control batches held that are not written.
    """

    def __init__(self, *, on_loss: str = "error", aborted: Sequence[AbortedTransaction] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self.control_records = 0
        self._stops = on_loss == "error"
        self._transactions = TransactionState(aborted=tuple(aborted))

    def add(self, window: Decoded, down: npt.NDArray[np.bool_], magics: npt.NDArray[np.int64]) -> None:
        """Count what the batches where ``down`` is true lose in the formats ``magics``.

        Raises:
            EncodeError: something is lost, and ``on_loss`` is ``error``.
        """
        if not down.any():
            return
        found = self._of_batches(window, down) | self._of_records(window, down, magics)
        counts = {kind: int(flags.sum()) for kind, flags in found.items()}
        if self._stops and any(counts.values()):
            kinds = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
            position = int(window.batches.column("position")[int(np.flatnonzero(down)[0])])
            reason = f"the older format cannot say everything: {kinds} here; `on_loss` warn or drop goes on"
            raise EncodeError(reason, position=position)
        self.counts.update({kind: number for kind, number in counts.items() if number})

    def _of_batches(self, window: Decoded, down: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.bool_]]:
        batches, rows = window.batches, window.index.rows
        new = down & batches.is_v2
        control = window.batches.is_control & new
        data = new & ~control
        last = np.full(len(batches), -1, np.int64)
        filled = np.flatnonzero(rows)
        last[filled] = window.index.offsets[window.starts[1:][filled] - 1]
        return {
            "control batches": control,
            "empty batches": data & (rows == 0),
            "batches with a producer": data & (batches.column("producer_id") >= 0),
            "transactional batches": data & window.batches.is_transactional,
            "batches with a leader epoch": data & (batches.column("leader_epoch") >= 0),
            "batches with a delete horizon": data & window.batches.flag(DELETE_HORIZON),
            "batches with offsets behind their last record": data
            & (rows > 0)
            & (batches.column("last_offset") != last),
        }

    def _of_records(
        self, window: Decoded, down: npt.NDArray[np.bool_], magics: npt.NDArray[np.int64]
    ) -> dict[str, npt.NDArray[np.bool_]]:
        data = (down & ~window.batches.is_control)[window.owners]
        without_time = data & (magics[window.owners] == 0)
        aborted = self._transactions.aborted_batches(window.batches)
        return {
            "records with headers": data & (window.index.header_counts > 0),
            "timestamps": without_time & (window.index.timestamps != _NO_TIMESTAMP),
            "aborted records that become visible": data & aborted[window.owners],
        }
